// The one place that reads clocks.
#pragma once

#include <cstdint>

#include "lnet/base/time.h"

namespace ulnet {

// CLOCK_MONOTONIC as node time.
Time clock_now();
// The same clock as of the kernel's last tick: up to a few milliseconds behind, never ahead, at a
// quarter of the cost. For what is stamped with every message.
Time clock_now_coarse();
// Nanoseconds of wall-clock time: for cookies and incarnations only, which must differ from those
// of an earlier life.
uint64_t wall_clock_ns();

}  // namespace ulnet
