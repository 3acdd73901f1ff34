#include "lnet/core/peer.h"

#include <algorithm>

#include "lnet/base/assert.h"

namespace ulnet::core {

PeerNi* PeerTable::find(const Nid& nid) {
  return nis_.find(
      by_nid_.find(std::hash<Nid>()(nid), [&](PeerNiId id) { return nis_.at(id).nid == nid; }));
}

PeerNi& PeerTable::create(const Nid& nid, int32_t credits, bool by_traffic) {
  ULNET_ASSERT(find(nid) == nullptr, "a second peer NI with one NID");
  const PeerId peer_id = peers_.insert();
  Peer& peer = peers_.at(peer_id);
  peer.id = peer_id;
  peer.primary_nid = nid;
  peer.by_traffic = by_traffic;
  order_.push_back(peer_id);
  if (by_traffic) ++by_traffic_count_;
  return add(peer_id, nid, credits);
}

PeerNi& PeerTable::add(PeerId peer_id, const Nid& nid, int32_t credits) {
  ULNET_ASSERT(find(nid) == nullptr, "a second peer NI with one NID");
  const PeerNiId ni_id = nis_.insert();
  PeerNi& ni = nis_.at(ni_id);
  ni.id = ni_id;
  ni.peer = peer_id;
  ni.nid = nid;
  ni.tx_credits = Credits(credits);
  by_nid_.insert(std::hash<Nid>()(nid), ni_id);

  enlist(peers_.at(peer_id), ni);
  return ni;
}

void PeerTable::enlist(Peer& peer, PeerNi& ni) {
  ni.peer = peer.id;
  auto net = std::find_if(peer.nets.begin(), peer.nets.end(),
                          [&](const PeerNet& each) { return each.net == ni.nid.net(); });
  if (net == peer.nets.end()) net = peer.nets.insert(net, PeerNet{.net = ni.nid.net()});
  net->nis.push_back(ni.id);
  if (enlisted_) enlisted_(ni, *net);
}

void PeerTable::delist(Peer& peer, const PeerNi& ni) {
  const auto net = std::find_if(peer.nets.begin(), peer.nets.end(),
                                [&](const PeerNet& each) { return each.net == ni.nid.net(); });
  std::erase(net->nis, ni.id);
  if (net->nis.empty()) peer.nets.erase(net);
}

void PeerTable::move(PeerNi& ni, Peer& peer) {
  delist(peers_.at(ni.peer), ni);
  // Turns are counted by each peer for itself: an old peer's count would leave the NI without one
  // until the new peer has caught up.
  ni.sequence = 0;
  enlist(peer, ni);
}

void PeerTable::remove(PeerNi& ni) {
  ULNET_ASSERT(!ni.recovery.is_set(), "a peer NI that is gone would be pinged");
  delist(peers_.at(ni.peer), ni);
  by_nid_.erase(std::hash<Nid>()(ni.nid), ni.id);
  nis_.erase(ni.id);
}

void PeerTable::remove(Peer& peer) {
  ULNET_ASSERT(peer.nets.empty(), "a peer goes after its NIDs");
  ULNET_ASSERT(!peer.discovery.push_again.is_set() && !peer.discovery.ask_again.is_set(),
               "a peer that is gone would be told or asked something");
  forget_traffic(peer);
  std::erase(order_, peer.id);
  peers_.erase(peer.id);
}

void PeerTable::forget_traffic(Peer& peer) {
  if (peer.by_traffic) --by_traffic_count_;
  peer.by_traffic = false;
}

void PeerTable::put_first(Peer& peer, const Nid& nid) {
  const auto net = std::find_if(peer.nets.begin(), peer.nets.end(),
                                [&](const PeerNet& each) { return each.net == nid.net(); });
  const auto ni = std::find_if(net->nis.begin(), net->nis.end(),
                               [&](PeerNiId id) { return nis_.at(id).nid == nid; });
  std::rotate(net->nis.begin(), ni, ni + 1);
  std::rotate(peer.nets.begin(), net, net + 1);
}

void PeerTable::make_multi_rail(Peer& peer) {
  peer.set(kPeerMultiRail);
  for (const PeerNet& net : peer.nets) {
    for (const PeerNiId ni : net.nis) nis_.at(ni).preferred_ni = kLoopbackNi;
  }
}

std::vector<PeerNiId> PeerTable::nis_of(const Peer& peer) const {
  std::vector<PeerNiId> all;
  for (const PeerNet& net : peer.nets) all.insert(all.end(), net.nis.begin(), net.nis.end());
  return all;
}

size_t PeerTable::ni_count(PeerId id) const {
  size_t count = 0;
  for (const PeerNet& net : peers_.at(id).nets) count += net.nis.size();
  return count;
}

Nid PeerTable::primary_of(const Nid& nid) const {
  const PeerNi* ni = find(nid);
  return ni != nullptr ? peers_.find(ni->peer)->primary_nid : nid;
}

}  // namespace ulnet::core
