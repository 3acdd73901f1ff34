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
  const PeerNiId ni_id = nis_.insert();
  PeerNi& ni = nis_.at(ni_id);
  ni.id = ni_id;
  ni.peer = peer_id;
  ni.nid = nid;
  ni.tx_credits = Credits(credits);

  Peer& peer = peers_.at(peer_id);
  peer.id = peer_id;
  peer.primary_nid = nid;
  peer.by_traffic = by_traffic;
  peer.nets.push_back(PeerNet{nid.net(), {ni_id}});

  by_nid_[nid] = ni_id;
  order_.push_back(peer_id);
  if (by_traffic) ++by_traffic_count_;
  return ni;
}

Nid PeerTable::primary_of(const Nid& nid) const {
  const PeerNi* ni = find(nid);
  return ni != nullptr ? peers_.find(ni->peer)->primary_nid : nid;
}

}  // namespace ulnet::core
