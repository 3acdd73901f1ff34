#include "lnet/core/ni_life.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::core {

Status NiLife::add_ni(NiId id, const NiSettings& settings, const NiStarted& started) {
  if (Status status = state_.nets.add_ni(id, settings, started); !status.is_ok()) return status;
  membership_.becomes_own(started.nid);
  const NetId net = started.nid.net();
  const bool new_net = state_.nets.nis_of(net).size() == 1;
  if (new_net) set_peer_credits(net, state_.nets.peer_credits(net));
  return Status::ok();
}

Status NiLife::remove_ni(NiId id) {
  if (id == kLoopbackNi) return {EINVAL, "0@lo is always there"};
  if (id >= state_.nets.ni_count() || !state_.nets.ni(id).is_active())
    return {ENOENT, fmt::format("there is no NI {}", id)};
  Ni& ni = state_.nets.ni(id);
  const NetId net = ni.nid.net();
  state_.nets.remove_ni(id);
  state_.timers.cancel(ni.recovery);
  state_.peers.nis().for_each([id](PeerNiId, PeerNi& peer_ni) {
    if (peer_ni.preferred_ni == id) peer_ni.preferred_ni = kLoopbackNi;
  });
  // First: what waits for credits does so no longer when they go.
  sender_.leave_ni(id);
  if (!state_.nets.is_local_net(net)) {
    set_peer_credits(net, 0);
    forget_due_ = true;
  }
  return Status::ok();
}

void NiLife::set_peer_credits(NetId net, int32_t credits) {
  state_.peers.nis().for_each([&](PeerNiId, PeerNi& peer_ni) {
    if (peer_ni.nid.net() == net) peer_ni.tx_credits.set_limit(credits);
  });
}

bool NiLife::forget_idle_unreachable_peers() {
  forget_due_ = false;
  bool any = false;
  const std::vector<PeerId> in_use = peers_in_use();
  const std::vector<PeerId> all = state_.peers.order();  // which forget() changes
  for (const PeerId id : all) {
    Peer& peer = state_.peers.peer(id);
    if (!is_unreachable(peer)) continue;
    if (std::binary_search(in_use.begin(), in_use.end(), id)) {
      forget_due_ = true;
    } else {
      membership_.forget(peer);
      any = true;
    }
  }
  // What waited for one of them makes it known again, before it fails.
  forget_due_ |= any;
  return any;
}

bool NiLife::is_unreachable(const Peer& peer) const {
  if (peer.is(kPeerConfigured | kPeerLockedPrimary)) return false;
  return std::none_of(peer.nets.begin(), peer.nets.end(),
                      [this](const PeerNet& net) { return state_.nets.is_local_net(net.net); });
}

// Those that a message is on its way to or from; in order, each once.
std::vector<PeerId> NiLife::peers_in_use() const {
  std::vector<PeerId> in_use;
  const auto note = [&](const PeerNi* ni) {
    if (ni != nullptr) in_use.push_back(ni->peer);
  };
  state_.sends.for_each(
      [&](SendId, const SendMessage& message) { note(state_.peers.find_ni(message.next_hop)); });
  state_.receives.for_each([&](ReceiveId, const ReceiveMessage& message) {
    note(state_.peers.find_ni(message.sender));
  });
  std::sort(in_use.begin(), in_use.end());
  in_use.erase(std::unique(in_use.begin(), in_use.end()), in_use.end());
  return in_use;
}

}  // namespace ulnet::core
