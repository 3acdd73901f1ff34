// Back-off of what a node retries on its own: intervals that double up to a cap, each with a random
// spread so that nodes that failed together do not come back together. Source: decisions D3, D6;
// seed 003; spec lnet-core 7.6.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lnet/base/rng.h"
#include "lnet/base/time.h"

namespace ulnet::core {

// 1, 2, 4, ... s by `failures` in a row, at most `cap_s` (>= 1), plus up to a quarter at random.
inline Duration backoff_interval(Rng& rng, uint32_t failures, int32_t cap_s) {
  const auto cap = static_cast<uint64_t>(std::max(1, cap_s));
  const uint64_t plain = failures < 32 ? std::min(uint64_t{1} << failures, cap) : cap;
  const Duration base = std::chrono::seconds(plain);
  return base +
         Duration(static_cast<int64_t>(rng.below(static_cast<uint64_t>(base.count()) / 4 + 1)));
}

}  // namespace ulnet::core
