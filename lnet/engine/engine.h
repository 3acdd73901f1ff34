// Engine: a Core behind one mutex, with its drivers and the threads that wait for its events.
//
//   application ──> with_core ─┐                       ┌── handle_* <── drivers' loops
//                              v                       v
//                      [mutex: Core decides, nothing else] ──> events ──> handler thread, pollers
//                              │ after unlock
//                              └─> drain_actions: one drainer at a time, actions in order, then
//                              flush of each driver
//
// Under the mutex there is no system call, payload copy, driver call or handler.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lnet/base/log.h"
#include "lnet/base/rng.h"
#include "lnet/core/core.h"
#include "lnet/lnd.h"

namespace ulnet {

class Engine final : public LndHost {
 public:
  // Asks for handle_timer() at that time; replaces an earlier wish. Called without the mutex, from
  // any thread.
  using ArmTimer = std::function<void(Time)>;

  Engine(const Settings& settings, Logger& logger);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Which driver serves a NI. Thread: any, before the core adds the NI. Lifetime: the driver
  // outlives all calls of this.
  void bind_driver(NiId ni, Lnd* driver);
  // REQUIRES (both): before the first message.
  void set_arm_timer(ArmTimer arm) { arm_timer_ = std::move(arm); }
  // Calls of the application leave what they start to the next drain_actions() instead of moving it
  // themselves; `wake` tells whoever calls that.
  void leave_actions_to_poller(std::function<void()> wake) { wake_poller_ = std::move(wake); }

  // Runs `decide(core, now)` under the mutex, and afterwards moves what it caused.
  template <typename Decide>
  auto with_core(Decide decide) {
    auto result = decide_locked(now(), [&](Time now) { return decide(core_, now); });
    if (wake_poller_) {
      wake_poller_();
    } else {
      drain_actions();
    }
    return result;
  }
  // Runs `look(core)` under the mutex. For snapshots.
  template <typename Look>
  auto look(Look look_at) const {
    const std::lock_guard lock(mutex_);
    return look_at(core_);
  }

  void handle_timer();

  // ---- LndHost
  MessageVerdict handle_message(const IncomingMessage& message) override;
  void handle_receive_done(ReceiveId id, const Completion& completion) override;
  void handle_send_done(SendId id, const Completion& completion) override;
  void handle_peer_down(NiId ni, const Nid& peer, Time last_heard) override;
  void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) override;
  void drain_actions() override;
  Time now() const override;
  uint64_t random_below(uint64_t bound) override;

  // ---- events
  // Calls the handlers of what has happened. True if there was any. Thread: one at a time.
  bool run_handlers();
  // Waits for events with handlers. False when stop_waiting() was called and none are left.
  bool wait_for_handlers();
  // Takes events of MDs without a handler; waits for the first until `until`.
  size_t take_events(std::span<Event> out, Time until);
  // Nobody waits any more; what is there can still be taken.
  void stop_waiting();

 private:
  template <typename Decide>
  auto decide_locked(Time now, Decide decide) {
    std::unique_lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(decide(now))>) {
      decide(now);
      after_decision(lock);
    } else {
      auto result = decide(now);
      after_decision(lock);
      return result;
    }
  }
  void after_decision(std::unique_lock<std::mutex>& lock);
  void dispatch(const std::vector<core::Action>& actions);

  Logger& logger_;
  ArmTimer arm_timer_;
  std::function<void()> wake_poller_;

  mutable std::mutex mutex_;
  // ---- guarded by mutex_
  core::Core core_;
  std::vector<Lnd*> drivers_;     // by NiId
  uint64_t drivers_version_ = 0;  // of drivers_
  Time armed_ = kNever;           // what arm_timer_ was last asked for
  bool draining_ = false;
  bool waiting_over_ = false;
  uint32_t handler_waiters_ = 0;
  uint32_t poll_waiters_ = 0;
  size_t polled_taken_ = 0;  // of core_.polled_events()
  // ----
  std::condition_variable handler_events_;
  std::condition_variable poll_events_;

  std::vector<core::Action> batch_;  // the present drainer's
  std::vector<Lnd*> batch_drivers_;  // the present drainer's copy of drivers_
  uint64_t batch_drivers_version_ = 0;
  std::vector<Lnd*> touched_;                   // the present drainer's: drivers to flush
  std::vector<core::CoreEvent> handler_batch_;  // run_handlers'

  std::mutex rng_mutex_;
  Rng rng_;
};

}  // namespace ulnet
