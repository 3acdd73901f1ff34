// PeerLogic: what one NI knows of one peer (NID and pid): its typed connections, its incarnation,
// and the connect job that completes the set. No socket, clock or randomness: time and chance are
// arguments.
//
// The connect job:
//
//            begin_dial()                    handle_dialled(kOk), set incomplete: kDialNext
//   IDLE ------------------> DIALLING ------------------------------------------------+
//    ^  ^                     |  |  ^-------------------------------------------------+
//    |  |  set complete, or   |  | kRefused: kRetryAt
//    |  +-- kFailed ----------+  v
//    |  (back-off until      DELAYED --begin_dial() once `retry_at` has come--> DIALLING
//    |   not_before)          |
//    +------------------------+ set complete meanwhile
//
// Source: spec tcp-lnd 2.9 to 2.14, 3.8, 5.4 (as 2.17 does it); decisions D6.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/base/time.h"
#include "ulnet/types.h"

namespace ulnet::tcp {

using ConnectionId = uint64_t;

struct PeerSettings {
  Nid own;
  Nid nid;
  Pid pid = kPidLustre;
  int32_t conns_per_peer = 1;
  uint32_t min_bulk_bytes = 1024;
  Duration reconnect_min = std::chrono::seconds(1);
  Duration reconnect_max = std::chrono::seconds(60);
};

class PeerLogic {
 public:
  explicit PeerLogic(const PeerSettings& settings) : settings_(settings) {}

  const PeerSettings& settings() const { return settings_; }

  // ---- the set

  enum class Admission : uint8_t {
    kAccept,
    kRace,       // refuse: our own dial goes on and our NID is higher
    kDuplicate,  // refuse: the set is complete
    kStale,      // refuse, and close all connections: the peer is another life, or speaks another
                 // version
  };
  // An incoming HELLO that calls for a connection of `type` (our name for it). `from_nid_address`:
  // the TCP source is the peer's NID, so it may be the other side of our own dial.
  Admission judge_incoming(ConnType type, uint32_t version, uint64_t incarnation,
                           bool from_nid_address) const;
  // True when an answer shows another life than the one on record.
  bool is_stale(uint32_t version, uint64_t incarnation) const;
  // Also of an answer of type NONE: a refusal carries the true incarnation.
  void record(uint32_t version, uint64_t incarnation);
  void forget_record() { recorded_ = false; }

  void add(ConnectionId id, ConnType type, bool active);
  // No effect when it is not in the set. The last one to go takes the record, and what was learned
  // of refusals, along.
  void remove(ConnectionId id);
  size_t connections() const { return slots_.size(); }
  size_t count(ConnType type) const;

  // ---- the connect job

  // From now on we complete the set ourselves (spec 2.13: a kernel that was dialled never dials
  // back).
  void own_the_set() { owns_set_ = true; }
  bool owns_set() const { return owns_set_; }
  bool job_running() const { return job_ != Job::kIdle; }
  bool set_complete() const { return !missing(); }
  // True when begin_dial() may be called: something is missing, nothing is being dialled, and no
  // wait is in force.
  bool may_dial(Time now) const;
  // The next type to dial. REQUIRES: may_dial(now), or kDialNext.
  ConnType begin_dial();
  // When a delayed job wants to go on; kNever without one.
  Time retry_at() const { return job_ == Job::kDelayed ? retry_at_ : kNever; }
  // Ends a delayed job whose set others have completed.
  void settle();
  void cancel_job() { job_ = Job::kIdle; }

  enum class DialResult : uint8_t {
    kOk,       // add() has been called
    kRefused,  // type NONE
    kStale,    // another incarnation than recorded: everything was closed
    kFailed,
  };
  enum class DialNext : uint8_t { kDialNext, kDone, kRetryAt, kJobFailed };
  // `random` is a draw from [0, 2^16). REQUIRES: a dial is on its way.
  DialNext handle_dialled(DialResult result, Time now, uint32_t random);
  // The wait that the last failure asks for, for log lines and tests: 1, 2, 4 ... s.
  Duration back_off() const { return back_off_; }
  Time not_before() const { return not_before_; }

  // ---- choice (spec 3.8)

  // The connection for a frame of `frame_bytes` in all; none when no type suits.
  std::optional<ConnectionId> choose(uint64_t frame_bytes);
  // For keepalives: the ACK connection, else any that we may use.
  std::optional<ConnectionId> choose_for_keepalive() const;
  // Bytes queued on a connection, as far as they count in the choice.
  void add_pending(ConnectionId id, uint64_t bytes);
  void sub_pending(ConnectionId id, uint64_t bytes);

  // Bulk connections of one type that are accepted whatever our own conns_per_peer; refusals make
  // kernels give up.
  static constexpr size_t kAcceptedPerTypeMin = 8;
  static constexpr uint32_t kRefusalsMax = 3;

 private:
  enum class Job : uint8_t { kIdle, kDialling, kDelayed };
  struct Slot {
    ConnectionId id;
    ConnType type;
    bool active;
    uint64_t pending_bytes = 0;
    uint64_t chosen = 0;  // when it was last chosen, counted in choices
  };

  size_t wanted(ConnType type) const;
  std::optional<ConnType> missing() const;
  bool has_all_types() const;
  Slot* find(ConnectionId id);

  const PeerSettings settings_;
  std::vector<Slot> slots_;  // in order of establishment
  bool owns_set_ = false;
  bool content_ = false;  // refused often enough with all three types there: ask for no more

  bool recorded_ = false;
  uint32_t version_ = 0;
  uint64_t incarnation_ = 0;

  Job job_ = Job::kIdle;
  uint32_t refusals_ = 0;
  Duration back_off_{};
  Time not_before_ = Time::min();
  Time retry_at_ = kNever;
  uint64_t choices_ = 0;
};

}  // namespace ulnet::tcp
