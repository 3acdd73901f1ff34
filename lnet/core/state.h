// Everything one node's core knows, shared by the parts that decide (Memory, Sender, Receiver,
// Discovery and the other members of Core).
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "lnet/base/rng.h"
#include "lnet/base/slab.h"
#include "lnet/core/backoff.h"
#include "lnet/core/fault.h"
#include "lnet/core/match_table.h"
#include "lnet/core/md.h"
#include "lnet/core/message.h"
#include "lnet/core/net.h"
#include "lnet/core/peer.h"
#include "lnet/core/stats.h"
#include "lnet/core/timers.h"
#include "lnet/lnd.h"
#include "ulnet/settings.h"

namespace ulnet::core {

using Action = std::variant<SendAction, ReceiveAction, LndTimeoutAction>;

struct CoreEvent {
  Event event;
  EventHandler* handler = nullptr;
};

struct State {
  State(const GlobalSettings& global_settings, const LimitSettings& limit_settings, uint64_t cookie,
        uint64_t seed)
      : global(global_settings),
        limits(limit_settings),
        interface_cookie(cookie),
        rng(seed),
        matches(mds),
        faults(rng, timers) {}

  GlobalSettings global;
  LimitSettings limits;
  // Differs at each start: late answers to an earlier life are told by it.
  const uint64_t interface_cookie;
  const Pid pid = kPidLustre;
  bool shutting_down = false;
  bool ping_info_stale = false;  // a published status has changed since it was put up
  Time now = Time::min();        // of the call in progress
  uint64_t selections = 0;       // counts path selections, for round robin
  uint32_t info_sequence = 0;    // of our ping info: counts what it has said

  Rng rng;
  NetTable nets;
  PeerTable peers;
  UdspList udsps;
  NumaDistances numa;
  Slab<Md> mds;
  MatchTable matches;
  Slab<SendMessage> sends;
  Slab<ReceiveMessage> receives;
  TimerHeap timers;
  FaultRules faults;
  CoreStats stats;

  // Outputs: see Core::take_actions(), handled_events(), polled_events().
  std::vector<Action> actions;
  std::vector<CoreEvent> handled_events;  // for MDs with a handler
  std::vector<CoreEvent> polled_events;   // for the others

  // What every command is told once the core shuts down.
  static Status stopping() { return {ESHUTDOWN, "the node is stopping"}; }

  // When a message that `ni` sends or receives from now on is late: LND timeout x (R + 1) + 1, and
  // never more than the transaction timeout (8.5; decisions D5).
  Time message_deadline(const Ni& ni) const {
    const Duration transaction = std::chrono::seconds(global.transaction_timeout_s);
    if (ni.lnd_timeout == Duration::zero()) return now + transaction;
    const Duration attempts = ni.lnd_timeout * (global.retry_count + 1) + std::chrono::seconds(1);
    return now + std::min(attempts, transaction);
  }

  // When to try again what has failed so often in a row (backoff.h).
  Duration backoff(uint32_t failures) {
    return backoff_interval(rng, failures, global.max_recovery_ping_interval_s);
  }
  void note_message_count() {
    const uint64_t alive = sends.size() + receives.size();
    if (alive > stats.msgs_max) stats.msgs_max = alive;
  }
};

}  // namespace ulnet::core
