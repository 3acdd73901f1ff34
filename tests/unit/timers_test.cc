// The timer heap against a naive twin.
#include "lnet/core/timers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lnet/base/rng.h"

namespace ulnet::core {
namespace {

TEST(TimerHeap, AgreesWithASortedListUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    TimerHeap heap;
    std::vector<Timer> timers(64);
    Time now{};
    for (int step = 0; step < 2000; ++step) {
      Timer& timer = timers[rng.below(timers.size())];
      if (rng.chance(2, 3)) {
        heap.set(timer, now + Duration(rng.between(0, 1000)));
      } else {
        heap.cancel(timer);
      }
      Time earliest = kNever;
      for (const Timer& each : timers) {
        if (each.is_set()) earliest = std::min(earliest, each.when);
      }
      ASSERT_EQ(heap.next(), earliest) << "seed " << seed << " step " << step;
      if (rng.chance(1, 10)) {
        now += Duration(rng.between(0, 200));
        while (const Timer* due = heap.pop_due(now)) {
          ASSERT_LE(due->when, now);
          ASSERT_FALSE(due->is_set());
        }
        for (const Timer& each : timers) ASSERT_TRUE(!each.is_set() || each.when > now);
      }
    }
  }
}

}  // namespace
}  // namespace ulnet::core
