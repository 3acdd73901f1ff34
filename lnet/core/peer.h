// The remote side: peers (nodes), their nets, and their peer NIs. Source: spec lnet-core 5.2
// to 5.4.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lnet/base/slab.h"
#include "lnet/core/credits.h"
#include "lnet/core/net.h"
#include "lnet/core/stats.h"

namespace ulnet::core {

using PeerId = uint64_t;  // Slab ids; 0 is none
using PeerNiId = uint64_t;

// Bits of Peer::state, as lnetctl shows them (5.3).
enum PeerState : uint32_t {
  kPeerMultiRail = 1U << 0,
  kPeerNoDiscovery = 1U << 1,
  kPeerConfigured = 1U << 3,
};

struct PeerNi {
  PeerNiId id = 0;
  PeerId peer = 0;
  Nid nid;
  bool up = true;
  bool heard = false;  // something was received from it
  Time last_heard = Time::min();
  Credits tx_credits{0};
  uint64_t tx_queue_bytes = 0;  // payload + 72 of messages that hold or wait for a credit
  uint32_t parked = 0;          // its messages on lazy portals
  uint64_t sequence = 0;        // of its last use, for round robin
  int32_t health = kHealthMax;
  NiId preferred_ni =
      kLoopbackNi;  // of a non-multi-rail peer: the local NI to use; 0@lo: none recorded
  Timer recovery;   // of its next recovery ping
  uint32_t recovery_pings = 0;    // since something came from it
  bool recovery_pending = false;  // one is on its way
  MessageStats stats;
  HealthCounts failures = {};
  FailureCounts failure_kinds = {};
};

struct PeerNet {
  NetId net;
  uint64_t sequence = 0;  // of its last use, for round robin
  std::vector<PeerNiId> nis;
};

struct Peer {
  bool is_multi_rail() const { return (state & kPeerMultiRail) != 0; }

  PeerId id = 0;
  Nid primary_nid;
  uint32_t state = 0;       // PeerState bits
  bool by_traffic = false;  // nobody but incoming messages made it
  uint64_t sends = 0;       // counts selections, for round robin
  std::vector<PeerNet> nets;
};

class PeerTable {
 public:
  PeerNi* find(const Nid& nid);
  const PeerNi* find(const Nid& nid) const { return const_cast<PeerTable*>(this)->find(nid); }
  PeerNi& ni(PeerNiId id) { return nis_.at(id); }
  const PeerNi& ni(PeerNiId id) const { return nis_.at(id); }
  PeerNi* find_ni(PeerNiId id) { return nis_.find(id); }
  Peer& peer(PeerId id) { return peers_.at(id); }
  const Peer& peer(PeerId id) const { return peers_.at(id); }

  // A new peer with this one NID. REQUIRES: find(nid) == nullptr.
  // `credits`: peer_credits of the local net it is on; 0 when that net is not local.
  PeerNi& create(const Nid& nid, int32_t credits, bool by_traffic);

  // Another NID of this peer. REQUIRES: find(nid) == nullptr.
  PeerNi& add(PeerId peer, const Nid& nid, int32_t credits);
  // How many NIDs the peer has.
  size_t ni_count(PeerId peer) const;

  // Primary NID of the peer that owns `nid`; `nid` itself when nobody knows it.
  Nid primary_of(const Nid& nid) const;

  size_t by_traffic_count() const { return by_traffic_count_; }
  const std::vector<PeerId>& order() const { return order_; }  // of creation
  Slab<PeerNi>& nis() { return nis_; }

 private:
  Slab<Peer> peers_;
  Slab<PeerNi> nis_;
  std::unordered_map<Nid, PeerNiId> by_nid_;  // looked up, never walked
  std::vector<PeerId> order_;
  size_t by_traffic_count_ = 0;
};

}  // namespace ulnet::core
