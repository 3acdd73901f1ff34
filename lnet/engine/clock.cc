#include "lnet/engine/clock.h"

#include <ctime>

namespace ulnet {
namespace {

int64_t read_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Time clock_now() {
  return Time(Duration(read_ns(CLOCK_MONOTONIC)));
}

Time clock_now_coarse() {
  return Time(Duration(read_ns(CLOCK_MONOTONIC_COARSE)));
}

uint64_t wall_clock_ns() {
  return static_cast<uint64_t>(read_ns(CLOCK_REALTIME));
}

}  // namespace ulnet
