// The remote side: peers (nodes), their nets, and their peer NIs. Source: spec lnet-core 5.2
// to 5.4.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lnet/base/flat_index.h"
#include "lnet/base/slab.h"
#include "lnet/core/credits.h"
#include "lnet/core/md.h"
#include "lnet/core/net.h"
#include "lnet/core/stats.h"
#include "lnet/wire/ping_info.h"

namespace ulnet::core {

using PeerId = uint64_t;  // Slab ids; 0 is none
using PeerNiId = uint64_t;

// Bits of Peer::state, as lnetctl shows them (5.3). Bit 12, a failed push, is never set: the push
// is tried again in its own time and holds nothing up.
enum PeerState : uint32_t {
  kPeerMultiRail = 1U << 0,
  kPeerNoDiscovery = 1U << 1,  // it, or we, take no part in discovery
  kPeerRouting = 1U << 2,      // it forwards for others
  kPeerConfigured = 1U << 3,   // by an administrator, whom nobody overrules
  kPeerDiscovered = 1U << 4,
  kPeerRediscover = 1U << 5,  // the last discovery failed, or is out of date
  kPeerDiscovering = 1U << 6,
  kPeerDataPresent = 1U << 7,  // an info of its waits to be merged
  kPeerNidsCurrent = 1U << 8,  // its NIDs are those of its last info
  kPeerPingSent = 1U << 9,
  kPeerPushSent = 1U << 10,
  kPeerPingFailed = 1U << 11,
  kPeerForcePing = 1U << 13,
  kPeerForcePush = 1U << 14,
  kPeerLockedPrimary = 1U << 20,  // its primary NID is the application's name for it
  kPeerBadConfig = 1U << 21,      // what the application says of it is not so
};

struct PeerNi {
  // What path selection compares is kept together, in the first 48 bytes: with many peers it waits
  // for memory more than for anything else.
  Nid nid;
  int32_t health = kHealthMax;
  uint64_t sequence = 0;                // of its last use, for round robin
  uint32_t priority = kLowestPriority;  // by selection policies
  bool up = true;
  bool heard = false;     // something was received from it
  bool disowned = false;  // a locked primary NID that its node has no longer: a name, not a way
  Credits tx_credits{0};

  PeerNiId id = 0;
  PeerId peer = 0;
  std::vector<NiId> preferred_sources;  // local NIs that selection policies prefer to reach it
  // Of a non-multi-rail peer: the local NI it was first met by, which it is always sent to from;
  // 0@lo: none recorded.
  NiId preferred_ni = kLoopbackNi;
  Time last_heard = Time::min();
  uint64_t tx_queue_bytes = 0;  // payload + 72 of messages that hold or wait for a credit
  uint32_t parked = 0;          // its messages on lazy portals
  Timer recovery;               // of its next recovery ping
  uint32_t recovery_pings = 0;  // since something came from it
  MdId recovery_ping = 0;       // the one on its way
  MessageStats stats;
  HealthCounts failures = {};
  FailureCounts failure_kinds = {};
};

struct PeerNet {
  NetId net;
  uint64_t sequence = 0;  // of its last use, for round robin
  std::vector<PeerNiId> nis;
  uint32_t priority = kLowestPriority;  // by selection policies
};

// Who waits for the end of a discovery: gets one event of kind UNLINK with its status.
struct DiscoveryWaiter {
  EventHandler* handler = nullptr;
  void* user_data = nullptr;
};

// What discovery (discovery.h) knows of a peer, and has under way with it.
struct PeerDiscovery {
  std::vector<uint64_t> sends;  // SendIds of messages that wait for its end, oldest first; the id
                                // of one that gave up names nothing
  std::vector<DiscoveryWaiter> waiters;
  MdId ping = 0;  // under way
  MdId push = 0;
  std::optional<PingInfo> info;  // with kPeerDataPresent
  Nid info_source;               // the NID it came from
  bool info_settled = false;     // ... and it is known to be about this peer
  Nid their_primary;             // as the last info has it
  std::vector<Nid> listed;       // all NIDs of the last info that was merged
  uint32_t pushed_sequence = 0;  // of our info on its way to the peer
  uint32_t acked_sequence = 0;   // of our info that the peer has acknowledged
  uint32_t sink_bytes = kPingBufferBytesMin;
  // How the last answer to a ping came; the next push goes back that way. Wildcards: no matter how.
  Nid answer_local;
  Nid answer_remote;
  Nid ask;                   // the next ping goes to exactly this NID; wildcard: to the primary NID
  Nid asked;                 // whose word is wanted, until it has answered
  Timer ask_again;           // not before
  uint32_t asks = 0;         // in a row
  uint32_t bad_answers = 0;  // in a row
  int32_t error = 0;         // of the last ping or push, or of the last discovery
  bool queued = false;       // for Discovery::run
  bool said_goodbye = false;    // the push that tells of our leaving discovery has ended
  Nid name;                     // the application says that the node is the one of this name
  std::vector<PeerId> aliases;  // of a name: peers that the application says are the same node
  Timer push_again;             // while a failed push waits
  uint32_t pushes_failed = 0;   // in a row
};

struct Peer {
  bool is_multi_rail() const { return (state & kPeerMultiRail) != 0; }
  bool is(uint32_t bits) const { return (state & bits) != 0; }
  void set(uint32_t bits) { state |= bits; }
  void clear(uint32_t bits) { state &= ~bits; }

  // What path selection reads, as in PeerNi.
  uint64_t sends = 0;  // counts selections, for round robin
  std::vector<PeerNet> nets;
  uint32_t state = 0;  // PeerState bits

  bool by_traffic = false;  // nobody but incoming messages made it
  PeerId id = 0;
  Nid primary_nid;
  std::optional<int32_t> health_sensitivity;  // of all its NIs
  PeerDiscovery discovery;
};

class PeerTable {
 public:
  // Called with each peer NI that is new to a peer, and its net, which may be new, too.
  using Enlisted = std::function<void(PeerNi&, PeerNet&)>;
  void set_enlisted(Enlisted enlisted) { enlisted_ = std::move(enlisted); }

  PeerNi* find(const Nid& nid);
  const PeerNi* find(const Nid& nid) const { return const_cast<PeerTable*>(this)->find(nid); }
  PeerNi& ni(PeerNiId id) { return nis_.at(id); }
  const PeerNi& ni(PeerNiId id) const { return nis_.at(id); }
  PeerNi* find_ni(PeerNiId id) { return nis_.find(id); }
  const PeerNi* find_ni(PeerNiId id) const { return nis_.find(id); }
  Peer* find_peer(PeerId id) { return peers_.find(id); }
  // Many are about to be looked at: their memory is asked for at once, not one after the other.
  void prefetch(const PeerNet& net) const {
    for (const PeerNiId id : net.nis) nis_.prefetch(id);
  }
  Peer& peer(PeerId id) { return peers_.at(id); }
  const Peer& peer(PeerId id) const { return peers_.at(id); }

  // A new peer with this one NID. REQUIRES: find(nid) == nullptr.
  // `credits`: peer_credits of the local net it is on; 0 when that net is not local.
  PeerNi& create(const Nid& nid, int32_t credits, bool by_traffic);

  // Another NID of this peer. REQUIRES: find(nid) == nullptr.
  PeerNi& add(PeerId peer, const Nid& nid, int32_t credits);
  // Makes a peer NI that belongs to another peer one of `peer`, with all that is known of it.
  void move(PeerNi& ni, Peer& peer);
  // The peer NI is gone; messages that name it find nothing. REQUIRES: its timer is not set.
  void remove(PeerNi& ni);
  // REQUIRES: it has no peer NI left, and none of its timers is set.
  void remove(Peer& peer);
  // Puts the NID, which must be the peer's, in front of all others. A name that is the peer's
  // primary NID stays that while it is locked.
  void put_first(Peer& peer, const Nid& nid);
  // Its peer NIs, in order.
  std::vector<PeerNiId> nis_of(const Peer& peer) const;
  // From now on any of its NIs may be sent to, and from any of ours: it is no longer tied to the
  // one it was first met by (5.4).
  void make_multi_rail(Peer& peer);
  // How many NIDs the peer has.
  size_t ni_count(PeerId peer) const;

  // Primary NID of the peer that owns `nid`; `nid` itself when nobody knows it.
  Nid primary_of(const Nid& nid) const;

  // Discovery or a person knows it now.
  void forget_traffic(Peer& peer);
  size_t by_traffic_count() const { return by_traffic_count_; }
  const std::vector<PeerId>& order() const { return order_; }  // of creation
  Slab<PeerNi>& nis() { return nis_; }

 private:
  void enlist(Peer& peer, PeerNi& ni);
  void delist(Peer& peer, const PeerNi& ni);

  Slab<Peer> peers_;
  Slab<PeerNi> nis_;
  FlatIndex by_nid_;
  std::vector<PeerId> order_;
  size_t by_traffic_count_ = 0;
  Enlisted enlisted_;
};

}  // namespace ulnet::core
