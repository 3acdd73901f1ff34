#include "lnet/loop/loop.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <utility>

#include "lnet/base/assert.h"

namespace ulnet {
namespace {

// With hot sources, epoll (for the cold handles) is asked once in so many empty spin rounds.
constexpr uint32_t kRoundsPerPoll = 8;
constexpr Duration kBudgetMin = std::chrono::microseconds(2);

}  // namespace

// Sleeping: `sleeping` is true from just before the last look at `tasks` until the loop is seen to
// run again. A poster that finds it true clears it and sends the one wake-up; a poster that finds
// it false knows the loop will look by itself.
struct Loop::Impl {
  explicit Impl(LoopOptions loop_options) : options(std::move(loop_options)) {}

  LoopOptions options;
  uv_async_t async;
  uv_prepare_t prepare;   // the last look before libuv sleeps
  uv_timer_t wait_timer;  // bounds run_once()
  std::thread thread;
  std::atomic<std::thread::id> thread_id{};
  std::atomic<bool> sleeping{false};
  std::atomic<bool> has_tasks{false};
  bool stop = false;  // loop thread only

  std::mutex mutex;
  std::vector<std::function<void()>> tasks;  // guarded by mutex
  std::vector<std::function<void()>>
      running;  // loop thread: the batch being run, kept for its capacity

  std::array<Source*, kSourcesMax> sources = {};
  size_t source_count = 0;

  Duration budget{};  // of one spin, now in force
  Time last_traffic = Time::min();
  bool did_work = false;  // a task or a timer ran

  bool run_tasks();
  bool poll_sources();
  void learn(Time now);
};

bool Loop::Impl::run_tasks() {
  if (!has_tasks.load(std::memory_order_acquire)) return false;
  {
    const std::lock_guard lock(mutex);
    running.swap(tasks);
    has_tasks.store(false, std::memory_order_relaxed);
  }
  for (auto& task : running) {
    task();
    task = nullptr;  // what it captured goes before the next one runs
  }
  running.clear();
  did_work = true;
  return true;
}

bool Loop::Impl::poll_sources() {
  bool any = false;
  for (size_t i = 0; i < source_count;) {
    Source* const source = sources[i];
    any |= source->poll();
    if (i < source_count && sources[i] == source) ++i;  // else it removed itself
  }
  return any;
}

// Traffic that comes soon after traffic is worth waiting for; sparse traffic halves the budget down
// to nothing.
void Loop::Impl::learn(Time now) {
  if (last_traffic != Time::min() && now - last_traffic <= options.spin_max) {
    budget = options.spin_max;
  } else {
    budget /= 2;
    if (budget < kBudgetMin) budget = Duration{};
  }
  last_traffic = now;
}

Loop::Loop(LoopOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  ULNET_ASSERT(uv_loop_init(&uv_) == 0, "libuv loop: no file descriptors left");
  ULNET_ASSERT(uv_async_init(&uv_, &impl_->async, [](uv_async_t*) {}) == 0, "libuv async handle");
  uv_timer_init(&uv_, &impl_->wait_timer);
  uv_prepare_init(&uv_, &impl_->prepare);
  impl_->prepare.data = impl_.get();
  // A timer that posts runs inside uv_run(), before it sleeps, and its post() sends no wake-up.
  uv_prepare_start(&impl_->prepare, [](uv_prepare_t* prepare) {
    auto* impl = static_cast<Impl*>(prepare->data);
    if (impl->has_tasks.load(std::memory_order_relaxed)) uv_async_send(&impl->async);
  });
}

Loop::~Loop() {
  ULNET_ASSERT(!impl_->thread.joinable(), "a loop is destroyed after stop_thread()");
  impl_->run_tasks();
  uv_close(reinterpret_cast<uv_handle_t*>(&impl_->async), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&impl_->wait_timer), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&impl_->prepare), nullptr);
  while (uv_run(&uv_, UV_RUN_NOWAIT) != 0) impl_->run_tasks();
  ULNET_ASSERT(uv_loop_close(&uv_) == 0, "a handle outlived its loop");
}

void Loop::start_thread() {
  ULNET_ASSERT(!impl_->thread.joinable(), "one thread per loop");
  impl_->stop = false;
  impl_->thread = std::thread([this] {
    impl_->thread_id = std::this_thread::get_id();
    pthread_setname_np(pthread_self(), impl_->options.name.substr(0, 15).c_str());
    while (!impl_->stop) run_once(Duration::max());
    impl_->run_tasks();
  });
  // Until the thread has said who it is, in_loop() would answer for a loop without thread.
  while (impl_->thread_id.load() == std::thread::id()) std::this_thread::yield();
}

void Loop::stop_thread() {
  if (!impl_->thread.joinable()) return;
  ULNET_ASSERT(!in_loop(), "a loop thread cannot join itself");
  post([this] { impl_->stop = true; });
  impl_->thread.join();
  impl_->thread_id = std::thread::id();
}

bool Loop::run_once(Duration max_wait) {
  impl_->did_work = false;
  const auto round = [this](bool ask_epoll) {
    traffic_ = false;
    bool any = impl_->run_tasks();
    any |= impl_->poll_sources();
    if (ask_epoll) uv_run(&uv_, UV_RUN_NOWAIT);
    any |= impl_->run_tasks();
    return any || traffic_ || impl_->did_work || impl_->stop;
  };
  const auto finish = [this] {
    if (traffic_) impl_->learn(clock_now());
    return true;
  };
  // A busy loop asks epoll every time: its cold handles must not starve behind the hot ones.
  if (round(true)) return finish();

  const Duration spin = std::min(impl_->budget, max_wait);
  if (spin > Duration{}) {
    const Time end = clock_now() + spin;
    for (uint32_t count = 1;; ++count) {
      sched_yield();  // whoever shares this core may be the one we wait for
      if (round(impl_->source_count == 0 || count % kRoundsPerPoll == 0)) return finish();
      if (clock_now() >= end) break;
    }
  }
  if (max_wait <= Duration{}) return false;

  impl_->sleeping.store(true, std::memory_order_seq_cst);
  if (!impl_->has_tasks.load(std::memory_order_seq_cst)) {
    const bool bounded = max_wait < std::chrono::hours(24);
    if (bounded) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(max_wait);
      uv_update_time(&uv_);
      uv_timer_start(
          &impl_->wait_timer, [](uv_timer_t*) {}, static_cast<uint64_t>(wait.count()), 0);
    }
    uv_run(&uv_, UV_RUN_ONCE);
    if (bounded) uv_timer_stop(&impl_->wait_timer);
  }
  impl_->sleeping.store(false, std::memory_order_relaxed);
  const bool any = impl_->run_tasks() || traffic_ || impl_->did_work;
  if (traffic_) impl_->learn(clock_now());
  return any;
}

void Loop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
    impl_->has_tasks.store(true, std::memory_order_seq_cst);
  }
  wake();
}

void Loop::wake() {
  // A loop that runs (its own thread included) looks at its tasks before it sleeps.
  if (!impl_->sleeping.load(std::memory_order_seq_cst)) return;
  if (impl_->thread_id.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  if (impl_->sleeping.exchange(false)) uv_async_send(&impl_->async);
}

void Loop::run_sync(const std::function<void()>& task) {
  if (in_loop()) {
    task();
    return;
  }
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  post([&] {
    task();
    const std::lock_guard lock(mutex);
    done = true;
    done_changed.notify_one();
  });
  std::unique_lock lock(mutex);
  done_changed.wait(lock, [&] { return done; });
}

bool Loop::in_loop() const {
  const std::thread::id owner = impl_->thread_id.load(std::memory_order_relaxed);
  return owner == std::thread::id() || owner == std::this_thread::get_id();
}

bool Loop::add_source(Source* source) {
  if (impl_->source_count == kSourcesMax) return false;
  impl_->sources[impl_->source_count++] = source;
  return true;
}

void Loop::remove_source(Source* source) {
  auto* const end = impl_->sources.data() + impl_->source_count;
  auto* const found = std::find(impl_->sources.data(), end, source);
  if (found == end) return;
  std::move(found + 1, end, found);
  --impl_->source_count;
}

// ---------------------------------------------------------------- timers

namespace {

// Outlives its LoopTimer until libuv has let go of the handle.
struct TimerBody {
  uv_timer_t handle;
  std::function<void()> task;
};

}  // namespace

LoopTimer::LoopTimer(Loop& loop, std::function<void()> task) {
  auto* body = new TimerBody{{}, std::move(task)};
  uv_timer_init(loop.uv(), &body->handle);
  body->handle.data = &loop;
  handle_ = &body->handle;
}

LoopTimer::~LoopTimer() {
  uv_timer_stop(handle_);
  uv_close(reinterpret_cast<uv_handle_t*>(handle_), [](uv_handle_t* handle) {
    delete reinterpret_cast<TimerBody*>(handle);  // its first member
  });
}

void LoopTimer::set(Time when) {
  uv_update_time(handle_->loop);
  // libuv counts whole milliseconds of the same clock, rounded down: rounding the target up keeps
  // the timer from being early.
  const auto due = std::chrono::ceil<std::chrono::milliseconds>(when.time_since_epoch()).count();
  const auto now = static_cast<int64_t>(uv_now(handle_->loop));
  uv_timer_start(
      handle_,
      [](uv_timer_t* handle) {
        auto* body = reinterpret_cast<TimerBody*>(handle);
        static_cast<Loop*>(handle->data)->impl_->did_work = true;
        body->task();
      },
      static_cast<uint64_t>(std::max<int64_t>(due - now, 0)), 0);
}

void LoopTimer::cancel() {
  uv_timer_stop(handle_);
}

}  // namespace ulnet
