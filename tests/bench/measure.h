// The figures of ulnet_perf: a short warm-up, then about half a second of measuring.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/bench/perf_client.h"

namespace ulnet::bench {

inline constexpr uint32_t kBulkInFlight = 16;
inline constexpr uint32_t kRateInFlight = 64;

// One PUT with its ACK, one after the other: median in microseconds.
Result<double> measure_rtt_us(PerfClient& client, uint32_t bytes);
// PUTs with ACK, `in_flight` at a time, per second.
Result<double> measure_rate(PerfClient& client, uint32_t bytes, uint32_t in_flight);

// "ulnet_perf: WHAT: text" on standard error; returns the exit status for it.
int report_failure(std::string_view what, const Status& status);

}  // namespace ulnet::bench
