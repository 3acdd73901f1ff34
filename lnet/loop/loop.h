// Loop: one libuv loop with either its own thread or the application's, timers, cross-thread posts
// and an adaptive spin.
//
// Spin: while traffic flows a loop polls its hot sources for a budget of microseconds before it
// sleeps in the kernel; the budget in force grows with traffic and shrinks to nothing without, so
// an idle node costs no CPU (decisions D8).
#pragma once

#include <uv.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lnet/base/time.h"
#include "lnet/engine/clock.h"

namespace ulnet {

struct LoopOptions {
  std::string name = "ulnet";  // thread name, at most 15 characters
  Duration spin_max = std::chrono::microseconds(50);
};

class Loop {
 public:
  // A source that is worth asking directly while the loop spins, instead of by epoll: a busy
  // connection.
  class Source {
   public:
    virtual ~Source() = default;
    // Does what can be done without waiting. True if anything was done.
    virtual bool poll() = 0;
  };

  explicit Loop(LoopOptions options);
  // REQUIRES: every handle and timer on it is closed; the thread is stopped.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs in an own thread until stop_thread().
  void start_thread();
  // Waits for the thread. What was posted before runs before it ends.
  void stop_thread();
  // Without a thread: does what is ready, and waits at most `max_wait` for something when nothing
  // is (spinning first). True if anything was done. Thread: one at a time.
  bool run_once(Duration max_wait);

  // Runs `task` on the loop, in order of posting. Thread: any. Wakes a sleeping loop.
  void post(std::function<void()> task);
  // Runs `task` on the loop and waits until it has; at once when this is the loop's thread, or when
  // the loop has no thread.
  void run_sync(const std::function<void()>& task);
  // True on the loop's own thread; always true for a loop without thread (its user serialises).
  bool in_loop() const;
  // Makes a sleeping run_once or thread look again. Thread: any.
  void wake();

  // Hot sources, asked in order while spinning. False when there are kSourcesMax already: then
  // epoll is cheaper than asking each, and the source stays with it. remove_source() is allowed
  // from within Source::poll(). Thread: in_loop.
  bool add_source(Source* source);
  void remove_source(Source* source);
  static constexpr size_t kSourcesMax = 8;
  // Called by whoever made progress, so that the spin budget grows. Thread: in_loop.
  void note_traffic() { traffic_ = true; }

  // For libuv handles. Thread: in_loop.
  uv_loop_t* uv() { return &uv_; }

 private:
  friend class LoopTimer;
  struct Impl;
  uv_loop_t uv_;
  bool traffic_ = false;
  std::unique_ptr<Impl> impl_;
};

// A one-shot timer on a loop. Thread: in_loop, destructor included.
class LoopTimer {
 public:
  LoopTimer(Loop& loop, std::function<void()> task);
  ~LoopTimer();
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;
  // Fires once at `when` (at once if past); replaces an earlier setting. Resolution is a
  // millisecond, never early.
  void set(Time when);
  void cancel();

 private:
  uv_timer_t* handle_;
};

}  // namespace ulnet
