#include "tests/bench/measure.h"

#include <fmt/format.h>

#include <cstdio>

namespace ulnet::bench {
namespace {

constexpr std::chrono::duration<double> kWarmUp{0.1};
constexpr std::chrono::duration<double> kMeasure{0.5};

}  // namespace

Result<double> measure_rtt_us(PerfClient& client, uint32_t bytes) {
  const Load load{.bytes = bytes};
  if (const auto warm_up = client.run_for(load, kWarmUp); !warm_up) return Failure(warm_up.error());
  return client.median_us(load, kMeasure);
}

Result<double> measure_rate(PerfClient& client, uint32_t bytes, uint32_t in_flight) {
  const Load load{.bytes = bytes, .in_flight = in_flight};
  if (const auto warm_up = client.run_for(load, kWarmUp); !warm_up) return Failure(warm_up.error());
  const auto outcome = client.run_for(load, kMeasure);
  if (!outcome) return Failure(outcome.error());
  return outcome->operations_per_s();
}

int report_failure(std::string_view what, const Status& status) {
  fmt::print(stderr, "ulnet_perf: {}: {}\n", what, status.to_string());
  return 1;
}

}  // namespace ulnet::bench
