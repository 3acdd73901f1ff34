#include "lnet/core/peer.h"

#include "lnet/base/assert.h"

namespace ulnet::core {

PeerNi* PeerTable::find(const Nid& nid) {
  const auto it = by_nid_.find(nid);
  return it != by_nid_.end() ? nis_.find(it->second) : nullptr;
}

PeerNi& PeerTable::create(const Nid& nid, int32_t credits, bool by_traffic) {
  ULNET_ASSERT(!by_nid_.contains(nid), "a second peer NI with one NID");
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
  ULNET_ASSERT(!by_nid_.contains(nid), "a second peer NI with one NID");
  const PeerNiId ni_id = nis_.insert();
  PeerNi& ni = nis_.at(ni_id);
  ni.id = ni_id;
  ni.peer = peer_id;
  ni.nid = nid;
  ni.tx_credits = Credits(credits);
  by_nid_[nid] = ni_id;

  Peer& peer = peers_.at(peer_id);
  for (PeerNet& net : peer.nets) {
    if (net.net == nid.net()) {
      net.nis.push_back(ni_id);
      return ni;
    }
  }
  peer.nets.push_back(PeerNet{nid.net(), 0, {ni_id}});
  return ni;
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
