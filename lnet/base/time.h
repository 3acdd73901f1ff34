// Time as a value. The core never reads a clock: `now` comes in as an argument (style: "time is an
// argument").
#pragma once

#include <chrono>
#include <cstdint>

namespace ulnet {

using Duration = std::chrono::nanoseconds;

// Tag of the one time line a node lives on: monotonic, origin unspecified. The engine maps it to
// CLOCK_MONOTONIC, the simulator to its virtual clock.
struct NodeClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<NodeClock, duration>;
  static constexpr bool is_steady = true;
};

using Time = NodeClock::time_point;

inline constexpr Time kNever = Time::max();

}  // namespace ulnet
