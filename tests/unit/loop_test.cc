// The loop: posts from everywhere, timers, hot sources, with a thread and without.
#include "lnet/loop/loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ulnet {
namespace {

using namespace std::chrono_literals;

TEST(Loop, PostsRunInOrderFromManyThreads) {
  Loop loop({.name = "test"});
  loop.start_thread();
  constexpr int kThreads = 4;
  constexpr int kPosts = 5000;
  std::vector<int> last(kThreads, -1);
  bool ordered = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop.post([&, t, i] {
          ordered &= last[static_cast<size_t>(t)] == i - 1;
          last[static_cast<size_t>(t)] = i;
        });
        if (i % 100 == 0)
          std::this_thread::sleep_for(50us);  // lets the loop fall asleep now and then
      }
    });
  }
  for (auto& thread : threads) thread.join();
  loop.run_sync([&] { EXPECT_TRUE(loop.in_loop()); });
  EXPECT_FALSE(loop.in_loop());
  loop.stop_thread();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(last, std::vector<int>(kThreads, kPosts - 1));
}

TEST(Loop, WhatWasPostedBeforeTheStopRuns) {
  Loop loop({.name = "test"});
  loop.start_thread();
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) loop.post([&] { ++ran; });
  loop.stop_thread();
  EXPECT_EQ(ran, 100);
}

TEST(Loop, TimerThatPostsDoesNotLoseItsTask) {
  Loop loop({.name = "test"});
  loop.start_thread();
  std::atomic<int> ran{0};
  std::unique_ptr<LoopTimer> timer;
  loop.run_sync([&] {
    timer = std::make_unique<LoopTimer>(loop, [&] {
      loop.post([&] {
        if (++ran < 50) timer->set(clock_now() + 1ms);
      });
    });
    timer->set(clock_now());
  });
  const Time end = clock_now() + 5s;
  while (ran < 50 && clock_now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(ran, 50);
  loop.run_sync([&] { timer.reset(); });
  loop.stop_thread();
}

TEST(Loop, TimersFireOnceNeverEarlyAndCanBeMoved) {
  Loop loop({.name = "test"});
  int fired = 0;
  LoopTimer timer(loop, [&] { ++fired; });
  const Time start = clock_now();
  timer.set(start + 1ms);
  timer.set(start + 20ms);
  while (fired == 0 && clock_now() < start + 2s) loop.run_once(5ms);
  EXPECT_EQ(fired, 1);
  EXPECT_GE(clock_now() - start, 20ms);
  timer.set(clock_now() + 1ms);
  timer.cancel();
  const Time quiet = clock_now() + 10ms;
  while (clock_now() < quiet) loop.run_once(2ms);
  EXPECT_EQ(fired, 1);
}

TEST(Loop, RunOnceWaitsNoLongerThanAsked) {
  Loop loop({.name = "test"});
  const Time start = clock_now();
  EXPECT_FALSE(loop.run_once(20ms));
  EXPECT_GE(clock_now() - start, 19ms);
  EXPECT_LT(clock_now() - start, 2s);
  EXPECT_FALSE(loop.run_once(Duration{}));
  loop.post([] {});
  EXPECT_TRUE(loop.run_once(1s));
}

TEST(Loop, WakeEndsAWait) {
  Loop loop({.name = "test"});
  std::thread waker([&] {
    std::this_thread::sleep_for(20ms);
    loop.post([] {});
  });
  const Time start = clock_now();
  while (!loop.run_once(10s)) {
  }
  EXPECT_LT(clock_now() - start, 5s);
  waker.join();
}

class Countdown : public Loop::Source {
 public:
  Countdown(Loop& loop, int polls) : loop_(loop), left_(polls) {}
  bool poll() override {
    ++polled;
    if (--left_ == 0) loop_.remove_source(this);
    return left_ > 0;
  }
  int polled = 0;

 private:
  Loop& loop_;
  int left_;
};

TEST(Loop, SourcesMayRemoveThemselvesAndAreLimited) {
  Loop loop({.name = "test"});
  std::vector<std::unique_ptr<Countdown>> sources;
  for (size_t i = 0; i < Loop::kSourcesMax; ++i) {
    sources.push_back(std::make_unique<Countdown>(loop, static_cast<int>(i + 1)));
    ASSERT_TRUE(loop.add_source(sources.back().get()));
  }
  Countdown surplus(loop, 1);
  EXPECT_FALSE(loop.add_source(&surplus));
  for (int i = 0; i < 40; ++i) loop.run_once(Duration{});
  for (size_t i = 0; i < sources.size(); ++i)
    EXPECT_EQ(sources[i]->polled, static_cast<int>(i + 1));
}

}  // namespace
}  // namespace ulnet
