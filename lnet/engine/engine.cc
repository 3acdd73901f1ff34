#include "lnet/engine/engine.h"

#include <algorithm>

#include "lnet/engine/clock.h"

namespace ulnet {

Engine::Engine(const Settings& settings, Logger& logger)
    : logger_(logger),
      core_(settings.global, settings.limits, wall_clock_ns(), wall_clock_ns()),
      rng_(wall_clock_ns()) {}

void Engine::bind_driver(NiId ni, Lnd* driver) {
  const std::lock_guard lock(mutex_);
  if (drivers_.size() <= ni) drivers_.resize(ni + 1, nullptr);
  drivers_[ni] = driver;
  ++drivers_version_;
}

// Leaves the mutex, then does what the decision asks of the outside: the timer, and whoever waits
// for events.
void Engine::after_decision(std::unique_lock<std::mutex>& lock) {
  const Time next = core_.next_timeout();
  const bool arm = next < armed_;
  if (arm) armed_ = next;
  const bool wake_handlers = handler_waiters_ > 0 && !core_.handled_events().empty();
  const bool wake_pollers = poll_waiters_ > 0 && core_.polled_events().size() > polled_taken_;
  lock.unlock();
  if (arm && arm_timer_) arm_timer_(next);
  if (wake_handlers) handler_events_.notify_one();
  if (wake_pollers) poll_events_.notify_one();
}

void Engine::handle_timer() {
  decide_locked(now(), [this](Time now) {
    armed_ = kNever;
    core_.handle_timeout(now);
  });
  drain_actions();
}

// ---------------------------------------------------------------- LndHost

MessageVerdict Engine::handle_message(const IncomingMessage& message) {
  return decide_locked(clock_now_coarse(),
                       [&](Time now) { return core_.handle_message(now, message); });
}

void Engine::handle_receive_done(ReceiveId id, const Completion& completion) {
  decide_locked(clock_now_coarse(),
                [&](Time now) { core_.handle_receive_done(now, id, completion); });
}

void Engine::handle_send_done(SendId id, const Completion& completion) {
  decide_locked(clock_now_coarse(), [&](Time now) { core_.handle_send_done(now, id, completion); });
}

void Engine::handle_peer_down(NiId ni, const Nid& peer, Time last_heard) {
  logger_.info("peer {} is down: no connection is left", peer.to_string());
  decide_locked(clock_now_coarse(),
                [&](Time now) { core_.handle_peer_down(now, ni, peer, last_heard); });
}

void Engine::handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) {
  const Nid nid = look([ni](const core::Core& core) { return core.nid_of(ni); });
  logger_.warn("NI {} is {}: {}", nid.is_any() ? "that is starting" : nid.to_string(),
               fatal ? "down" : "up again", reason);
  decide_locked(clock_now_coarse(),
                [&](Time now) { core_.handle_ni_fatal(now, ni, fatal, reason); });
}

void Engine::drain_actions() {
  std::unique_lock lock(mutex_);
  if (draining_) return;  // the present drainer sees what was added before it leaves
  draining_ = true;
  while (core_.has_actions()) {
    batch_.clear();
    core_.take_actions(batch_);
    if (batch_drivers_version_ != drivers_version_) {
      batch_drivers_ = drivers_;
      batch_drivers_version_ = drivers_version_;
    }
    lock.unlock();
    dispatch(batch_);
    lock.lock();
  }
  draining_ = false;
}

void Engine::dispatch(const std::vector<core::Action>& actions) {
  touched_.clear();
  for (const core::Action& action : actions) {
    if (const auto* send = std::get_if<SendAction>(&action)) {
      Lnd* driver = batch_drivers_[send->ni];
      driver->send(*send);
      if (std::find(touched_.begin(), touched_.end(), driver) == touched_.end())
        touched_.push_back(driver);
    } else if (const auto* receive = std::get_if<ReceiveAction>(&action)) {
      batch_drivers_[receive->ni]->receive(*receive);
    } else {
      const LndTimeoutAction& change = std::get<LndTimeoutAction>(action);
      batch_drivers_[change.ni]->set_lnd_timeout(change.ni, change.timeout);
    }
  }
  for (Lnd* driver : touched_) driver->flush();
}

Time Engine::now() const {
  return clock_now();
}

uint64_t Engine::random_below(uint64_t bound) {
  const std::lock_guard lock(rng_mutex_);
  return rng_.below(bound);
}

// ---------------------------------------------------------------- events

bool Engine::run_handlers() {
  handler_batch_.clear();
  {
    const std::lock_guard lock(mutex_);
    handler_batch_.swap(core_.handled_events());
  }
  for (const core::CoreEvent& event : handler_batch_) event.handler->handle_event(event.event);
  return !handler_batch_.empty();
}

bool Engine::wait_for_handlers() {
  std::unique_lock lock(mutex_);
  ++handler_waiters_;
  handler_events_.wait(lock, [this] { return waiting_over_ || !core_.handled_events().empty(); });
  --handler_waiters_;
  return !core_.handled_events().empty();
}

size_t Engine::take_events(std::span<Event> out, Time until) {
  std::unique_lock lock(mutex_);
  std::vector<core::CoreEvent>& events = core_.polled_events();
  const auto ready = [&] { return waiting_over_ || events.size() > polled_taken_; };
  if (!ready() && now() < until) {
    ++poll_waiters_;
    if (until == kNever) {
      poll_events_.wait(lock, ready);
    } else {
      poll_events_.wait_until(lock, std::chrono::steady_clock::time_point(until.time_since_epoch()),
                              ready);
    }
    --poll_waiters_;
  }
  const size_t count = std::min(out.size(), events.size() - polled_taken_);
  for (size_t i = 0; i < count; ++i) out[i] = events[polled_taken_ + i].event;
  polled_taken_ += count;
  if (polled_taken_ == events.size()) {
    events.clear();
    polled_taken_ = 0;
  }
  return count;
}

void Engine::stop_waiting() {
  {
    const std::lock_guard lock(mutex_);
    waiting_over_ = true;
  }
  handler_events_.notify_all();
  poll_events_.notify_all();
}

}  // namespace ulnet
