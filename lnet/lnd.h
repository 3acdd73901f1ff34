// The seam between LNet and a network driver (LND): actions go down, completions come up.
//
// One LND instance serves all NIs of its type on one node. The host is the engine (real node) or
// the simulator. Who calls what:
//   host -> Lnd:      start_ni, stop_ni, set_lnd_timeout, send, flush, receive, stop.    Never with
//   the host's lock held. Lnd  -> LndHost:  handle_message, handle_receive_done, handle_send_done,
//   handle_peer_down, handle_ni_fatal, then
//                     drain_actions.                                     Never with a lock of the
//                     Lnd's held.
// After one or more handle_* calls, and holding no lock, a driver calls drain_actions() once, so
// that answers to a whole batch of received messages leave together.
//
// Source: spec lnet-core 5.5, 7.2, 11; decisions D1, D8.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "lnet/base/time.h"
#include "lnet/wire/header.h"
#include "ulnet/info.h"
#include "ulnet/settings.h"
#include "ulnet/types.h"

namespace ulnet {

// A local NI: index into the node's NIs, 0 is 0@lo. Never reused while the node lives.
using NiId = uint32_t;
inline constexpr NiId kLoopbackNi = 0;

// Names of one message for its way down and one for its way up. They carry a generation: a late
// completion finds nothing.
using SendId = uint64_t;
using ReceiveId = uint64_t;

// Part of a list of fragments, borrowed.
// Shape:    `bytes` bytes that begin `offset` bytes into the concatenation of `fragments`; offset +
// bytes <= their sum.
//           `fragments` is empty when bytes is 0.
// Lifetime: see the action that carries it.
struct PayloadView {
  std::span<const iovec> fragments;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// Whom a failure blames; the numbering is the spec's (lnet-core 7.2).
enum class HealthStatus : uint8_t {
  kOk = 0,
  kLocalInterrupt = 1,
  kLocalDropped = 2,
  kLocalAborted = 3,
  kLocalNoRoute = 4,
  kLocalError = 5,
  kLocalTimeout = 6,
  kRemoteError = 7,
  kRemoteDropped = 8,
  kRemoteTimeout = 9,
  kNetworkTimeout = 10,
};
std::string_view to_string(HealthStatus status);

// Whether the peer can have the whole message of a failed send (decisions D1).
enum class Delivery : uint8_t {
  kUndelivered,  // provably not: never posted, or partly written on a connection that is now closed
  kUncertain,    // all bytes left, no confirmation
};

// Seed 001's eight kinds of trouble, counted per NI and peer NI beside the health statuses
// (decisions D1).
enum class FailureKind : uint8_t {
  kNone,
  kLocalNiDown,
  kLocalNiUp,
  kLocalNiSendTimeout,
  kPeerNiNoListener,
  kPeerNiAddressError,
  kPeerNiUnreachable,
  kPeerNiConnectError,
  kPeerNiConnectionRejected,
};
inline constexpr size_t kFailureKinds = 9;
std::string_view to_string(FailureKind kind);

// How a send or a receive ended.
// REQUIRES: (error == 0) == (health == kOk).
struct Completion {
  int32_t error = 0;  // 0 or a positive errno
  HealthStatus health = HealthStatus::kOk;
  Delivery delivery = Delivery::kUndelivered;  // of a failed send
  FailureKind kind = FailureKind::kNone;
  bool nothing_posted =
      false;  // of a failed send: no byte ever left (may go over the same pair again)
};

// One message to put on the wire.
// Lifetime: the memory behind `payload` stays valid and unchanged until handle_send_done(id). The
// driver frees nothing.
struct SendAction {
  SendId id = 0;
  NiId ni = 0;   // from this NI ...
  Nid next_hop;  // ... to this peer NI (a gateway's, for a routed message)
  Header header;
  PayloadView payload;     // header.payload_bytes bytes
  Time deadline = kNever;  // give up at this time at the latest
};

// Where the payload of a message goes; what exceeds it is read and thrown away.
// Lifetime: the memory behind `into` belongs to the driver until handle_receive_done(id).
struct ReceiveAction {
  ReceiveId id = 0;
  NiId ni = 0;
  uint64_t driver_cookie = 0;  // IncomingMessage::driver_cookie, returned
  PayloadView into;
};

// The LND timeout of an NI has changed.
struct LndTimeoutAction {
  NiId ni = 0;
  Duration timeout{};
};

// A header that came in.
struct IncomingMessage {
  NiId ni = 0;  // NI it arrived on
  Nid sender;   // the peer NI it came from (last hop)
  Header header;
  uint64_t driver_cookie = 0;  // the driver's name for the place that holds the payload
};

// What LNet wants done with a message.
struct MessageVerdict {
  enum class Kind : uint8_t {
    kDone,     // no payload is wanted (ACK, GET, or dropped): throw header.payload_bytes away; no
               // receive-done follows
    kReceive,  // read the payload into `into` (the rest away), then call handle_receive_done(id)
    kWait,     // LNet has no memory yet: hold the payload, read nothing from this connection until
               // Lnd::receive() names driver_cookie
    kProtocolError,  // close this connection and its siblings; nothing is answered
  };
  Kind kind = Kind::kDone;
  ReceiveId id = 0;      // with kReceive and kWait
  PayloadView into;      // with kReceive
  bool dropped = false;  // with kDone: dropped, for the driver's own counters only
};

// LNet as a driver sees it.
// Thread: any. Calls take the host's lock for a decision and never wait for I/O or the application.
class LndHost {
 public:
  virtual ~LndHost() = default;

  virtual MessageVerdict handle_message(const IncomingMessage& message) = 0;
  // Exactly once for each kReceive verdict and each Lnd::receive(); also when the connection died
  // half way (error != 0). A kWait message whose connection dies before Lnd::receive() is reported
  // here, too, with its id.
  virtual void handle_receive_done(ReceiveId id, const Completion& completion) = 0;
  // Exactly once for each Lnd::send(), even after stop(). Error 0: all bytes were taken by the
  // fabric.
  virtual void handle_send_done(SendId id, const Completion& completion) = 0;
  // No connection to this peer NI is left and the last one ended in failure, or a connect job
  // failed (tcp-lnd 5.6).
  virtual void handle_peer_down(NiId ni, const Nid& peer, Time last_heard) = 0;
  // Link or address of an NI lost (fatal) or back.
  virtual void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) = 0;
  // See the head of this file.
  virtual void drain_actions() = 0;

  // The node's time: monotonic.
  virtual Time now() const = 0;
  // Randomness for back-off and jitter; thread-safe.
  virtual uint64_t random_below(uint64_t bound) = 0;
};

// What start_ni found out.
struct NiStarted {
  Nid nid;
  std::string interface;       // device or alias that carries the address
  int32_t conns_per_peer = 1;  // in force
  Duration lnd_timeout{};      // in force until set_lnd_timeout(); zero: the driver has none
};

// A driver.
class Lnd {
 public:
  virtual ~Lnd() = default;

  virtual NetType type() const = 0;

  // Brings one NI up: finds its address, listens. Errors: ENODEV no such interface, EADDRNOTAVAIL
  // the address is not on this host, EADDRINUSE (names address and port), EACCES (port below 1024
  // without the right), EINVAL. A failed start leaves nothing behind.
  virtual Result<NiStarted> start_ni(NiId ni, const NiSettings& settings) = 0;
  // From now on peers are accepted; called once, when every NI that was started is known to the
  // host. Until then they wait in the listeners' backlogs.
  virtual void open() = 0;
  // Ends one NI: completes its sends with ESHUTDOWN and closes its connections. Waits until that is
  // done.
  virtual void stop_ni(NiId ni) = 0;

  // From now on connects, and transfers without progress, are given up after `timeout` on this NI;
  // what waits already may keep its old limit. Ignored for an NI that is gone. Thread: as send().
  virtual void set_lnd_timeout(NiId ni, Duration timeout) = 0;

  // Starts sending one message and returns without waiting. May only queue: flush() makes it move.
  // Order:  messages for one (ni, next_hop) are queued in call order; the wire keeps order within
  // one connection. Errors: exactly one handle_send_done follows, even after stop(); it may come
  // before this returns. Thread: any; one caller at a time for one node.
  virtual void send(const SendAction& send) = 0;
  // Everything queued by send() so far starts to move. Called once behind a batch of send() calls,
  // from the same thread; the driver may write idle connections from here.
  virtual void flush() = 0;

  // Answers a kWait verdict. With into.bytes == 0 the payload is thrown away; handle_receive_done()
  // follows all the same.
  virtual void receive(const ReceiveAction& receive) = 0;

  // Closes all connections to one peer NI, with its sends failing; `reason` for the log.
  virtual void close_peer(NiId ni, const Nid& peer, std::string_view reason) = 0;

  // Stops everything: every send and receive is completed (ESHUTDOWN) before it returns; sockets
  // are closed. Messages already completed OK still reach the peer if it reads within `grace`.
  virtual void stop(Duration grace) = 0;

  // The driver's own counters and connections, for `net show -v` and `peer show -v`.
  virtual std::vector<CounterInfo> counters(NiId ni) const = 0;
  virtual std::vector<ConnectionInfo> connections(NiId ni, const Nid& peer) const = 0;
};

}  // namespace ulnet
