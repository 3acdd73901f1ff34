// One message on its way down (to a driver) or up (from one).
//
// Life of a SendMessage:
//
//   start ─> WAIT_DISCOVERY, if the peer is not known well enough ─> start
//   start ─> path found ─> WAIT_PEER_CREDIT ─> WAIT_NI_CREDIT ─> [DELAYED] ─> IN_DRIVER ─> done
//     │          │              └──────────────────┴────────────────┘             ^
//     │          │         deadline, MD unlinked, shutdown ─> done                │
//     │          └ loopback: no credits ──────────────────────────────────────────┘
//     └ no path ─> done.    Done: credits back, event.
//
// Life of a ReceiveMessage:
//
//   [DELAYED] ──> matched ──> RECEIVING ──> done (event, ACK)
//   lazy portal: PARKED ──> RECEIVING ──> done;  PARKED ──> dropped (portal no longer lazy,
//   connection lost, shutdown); DELAYED ──> dropped (connection lost, shutdown)
//
// DELAYED, of both, is where a delay rule holds it (fault.h).
//
// Source: spec lnet-core 5.5 (order of credits), 3.7 (lazy portals), 10.1 (delay rules).
#pragma once

#include <cstdint>

#include "lnet/core/md.h"
#include "lnet/core/peer.h"
#include "lnet/lnd.h"
#include "ulnet/types.h"

namespace ulnet::core {

struct SendMessage {
  enum class State : uint8_t {
    kNew,
    kWaitDiscovery,
    kWaitPeerCredit,
    kWaitNiCredit,
    kDelayed,
    kInDriver
  };

  SendId id = 0;
  State state = State::kNew;
  bool pinned = false;           // a ping to exactly its NID, and never again: for recovery
  bool awaits_response = false;  // a PUT with ACK or a GET
  NiId ni = kLoopbackNi;
  PeerNiId next_hop = 0;            // 0: loopback, or no path yet
  MdId md = 0;                      // whose operation this is; 0 for an ACK
  Time deadline = kNever;           // of this attempt
  Time response_deadline = kNever;  // no attempt begins or lasts after this
  int32_t resends = 0;
  // Of the attempt that failed last: the half it blames, which another is preferred to, and the
  // half it does not, which is kept while it is as good as any (decisions D2).
  NiId failed_ni = kLoopbackNi;
  NiId keep_ni = kLoopbackNi;
  PeerNiId failed_peer_ni = 0;
  PeerNiId keep_peer_ni = 0;
  uint64_t next_waiting = 0;  // in a Credits queue
  Timer waiting;  // fires at `deadline` while it waits for discovery or credits, or is delayed
  Nid target;     // asked for; header.dest_nid is what came of it
  Nid source;     // asked for; wildcard: choose
  bool is_response =
      false;  // an ACK or REPLY: goes back from `ni`, and to `next_hop` if that is its target
  Header header;
  PayloadView payload;
  Event event;  // what completion tells: SEND, or GET for a REPLY
};

struct ReceiveMessage {
  ReceiveId id = 0;
  bool parked = false;
  Time deadline = kNever;  // a failure after it is nobody's fault
  bool delayed = false;
  Timer held_until;  // of a loopback message, parked or delayed: its sender is bound to an end, too
  NiId ni = kLoopbackNi;
  PeerNiId sender = 0;  // last hop; 0: loopback
  MdId md = 0;
  uint64_t driver_cookie = 0;
  Header header;
  Event event;  // PUT or REPLY
};

}  // namespace ulnet::core
