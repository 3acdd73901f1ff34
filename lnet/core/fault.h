// The fault rules of a node at work: which messages they drop, which they hold and for how long.
//
// A delay rule holds its messages in order of arrival. They come out by pop_released(), when their
// time has come (timer kDelayRule) or their rule is removed. Nothing is freed here: whoever put a
// message in decides what becomes of it, and takes it back by forget() should it end before.
//
// Source: spec lnet-core 10.1.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "lnet/base/rng.h"
#include "lnet/base/slab.h"
#include "lnet/core/timers.h"
#include "lnet/lnd.h"
#include "ulnet/fault.h"

namespace ulnet::core {

using FaultRuleId = uint64_t;  // Slab id; 0 is none

// A message that a delay rule holds: a SendId or a ReceiveId.
struct Delayed {
  bool is_send = false;
  uint64_t id = 0;
  friend bool operator==(const Delayed&, const Delayed&) = default;
};

// Which of the messages that fit a rule it acts on.
//
//   rate r        r messages make a group; one of each, at a random place, is hit. With r = 2 the
//                 very first message is.
//   interval i    i seconds make a window; in each the first message behind a random second is hit.
//                 If none comes, the first one after that is, in its window's stead.
class FaultSchedule {
 public:
  void begin(const FaultRule& rule, Rng& rng, Time now);
  // One more message fits.
  bool hit(const FaultRule& rule, Rng& rng, Time now);

 private:
  bool hit_by_rate(uint32_t rate, Rng& rng);
  bool hit_by_interval(uint32_t interval_s, Rng& rng, Time now);

  uint32_t place_ = 0;      // in the group, of the next message
  uint32_t hit_place_ = 0;  // in the group, of the one that is hit
  Time hit_from_{};         // the first message from here on is hit
  Time window_end_{};       // of the window that hit_from_ is in
};

// Draws one of the health statuses that `mask` (FaultRule::health_errors) allows; with 0 any.
HealthStatus draw_health_status(uint32_t mask, Rng& rng);

class FaultRules {
 public:
  // Both are borrowed for life.
  FaultRules(Rng& rng, TimerHeap& timers) : rng_(rng), timers_(timers) {}
  FaultRules(const FaultRules&) = delete;
  FaultRules& operator=(const FaultRules&) = delete;

  // ---- by hand; see Endpoint
  Status add(const FaultRule& rule, Time now);
  size_t remove(FaultKind kind, const Nid& source, const Nid& dest);
  void reset(FaultKind kind, Time now);
  std::vector<FaultInfo> list(FaultKind kind) const;

  // ---- drops
  // Whether a message that came in by `local_nid` is to vanish.
  bool drops_received(const Header& header, const Nid& local_nid, Time now);
  // How a message that is about to go to its driver is to fail.
  std::optional<HealthStatus> drops_sent(const Header& header, Time now);

  // ---- delays
  // The rule that takes the message, or 0.
  FaultRuleId find_delay(const Header& header, Time now);
  // ... and now has it. REQUIRES: the rule is the one just found.
  void hold(FaultRuleId rule, Delayed message, Time now);
  void rule_due(FaultRuleId rule, Time now);
  std::optional<Delayed> pop_released();
  // Does nothing for a message that is not held.
  void forget(Delayed message);

 private:
  struct Held {
    Delayed message;
    Time until{};
  };
  struct Rule {
    FaultInfo info;
    FaultSchedule schedule;
    std::deque<Held> held;  // of a delay rule, the next to go first
    Timer due;              // of the first of them
  };

  std::vector<FaultRuleId>& rules_of(FaultKind kind) {
    return kind == FaultKind::kDrop ? drops_ : delays_;
  }
  bool acts_on(Rule& rule, const Header& header, Time now);
  void arm(Rule& rule);

  Rng& rng_;
  TimerHeap& timers_;
  Slab<Rule> rules_;
  std::vector<FaultRuleId> drops_;  // the newest first
  std::vector<FaultRuleId> delays_;
  std::deque<Delayed> released_;
};

}  // namespace ulnet::core
