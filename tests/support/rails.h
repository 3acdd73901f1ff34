// A core's state with NIs and peers, for tests of path selection alone: no messages, no wire.
#pragma once

#include <string_view>
#include <vector>

#include "lnet/base/assert.h"
#include "lnet/core/path_selection.h"

namespace ulnet::test {

class Rails {
 public:
  explicit Rails(const GlobalSettings& global = {}) : state_(global, LimitSettings{}, 1, 1) {}

  core::Ni& add_ni(std::string_view nid, int32_t credits = 256) {
    NiSettings settings;
    settings.nid = Nid::parse(nid).value();
    settings.net = settings.nid->net();
    settings.tunables.credits = credits;
    const NiId id = state_.nets.reserve_ni();
    ULNET_ASSERT(state_.nets.add_ni(id, settings, {.nid = *settings.nid}).is_ok(), "a test's NI");
    return state_.nets.ni(id);
  }
  // One peer with these NIDs, the first is its primary.
  core::Peer& add_peer(const std::vector<std::string_view>& nids, bool multi_rail = true) {
    const core::PeerId peer = state_.peers.create(Nid::parse(nids.front()).value(), 8, false).peer;
    for (size_t i = 1; i < nids.size(); ++i) state_.peers.add(peer, Nid::parse(nids[i]).value(), 8);
    if (multi_rail) state_.peers.make_multi_rail(state_.peers.peer(peer));
    return state_.peers.peer(peer);
  }

  core::State& state() { return state_; }
  core::Ni& ni(std::string_view nid) { return *state_.nets.find_ni(Nid::parse(nid).value()); }
  core::PeerNi& peer_ni(std::string_view nid) {
    return *state_.peers.find(Nid::parse(nid).value());
  }
  core::PeerNet& peer_net(std::string_view nid) {
    const core::PeerNi& ni = peer_ni(nid);
    for (core::PeerNet& net : state_.peers.peer(ni.peer).nets)
      if (net.net == ni.nid.net()) return net;
    return state_.peers.peer(ni.peer).nets.front();
  }

 private:
  core::State state_;
};

}  // namespace ulnet::test
