#include <fmt/format.h>

#include <limits>

#include "config/blocks.h"

namespace ulnet::config {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int32_t kInterfacesMin = 16;
constexpr int64_t kRetryCountMax = 255;
// A day: far above what anybody sets, far below what overflows when it is multiplied.
constexpr int64_t kTimeoutSecondsMax = 86400;

// lnet_interfaces_max: the kernel takes its default instead of a value below 16, and warns.
Reader max_interfaces(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    int64_t number = 0;
    if (!read_integer(context.report, entry.key, *entry.value, 0, kIntMax, &number)) return;
    if (number < kInterfacesMin) {
      context.report.warn(
          entry.value->place,
          fmt::format("'{}' {} is below {}; the default {} is used", entry.key, number,
                      kInterfacesMin, context.settings.global.max_interfaces));
      return;
    }
    context.settings.global.max_interfaces = static_cast<int32_t>(number);
  };
}

Reader with_place(Place* place, Reader read) {
  return [place, read = std::move(read)](const YamlEntry& entry) {
    *place = entry.value->place;
    read(entry);
  };
}

}  // namespace

void read_global_block(LoadContext& context, const YamlNode& block) {
  Report& report = context.report;
  GlobalSettings& g = context.settings.global;
  const Reader derived = [](const YamlEntry&) {};  // lnd_timeout: exported, follows from the others
  read_map(report, block, "'global'",
           {{"numa_range", integer(report, &g.numa_range, 0, kIntMax)},
            {"max_interfaces", max_interfaces(context)},
            {"max_intf", max_interfaces(context)},
            {"discovery", flag(report, &g.discovery)},
            {"drop_asym_route", flag(report, &g.drop_asym_route)},
            {"retry_count",
             with_place(&context.retry_count, integer(report, &g.retry_count, 0, kRetryCountMax))},
            {"transaction_timeout",
             with_place(&context.transaction_timeout,
                        integer(report, &g.transaction_timeout_s, 1, kTimeoutSecondsMax))},
            {"health_sensitivity", integer(report, &g.health_sensitivity, 0, 1000)},
            {"recovery_interval", integer(report, &g.recovery_interval_s, 1, kIntMax)},
            {"router_sensitivity", integer(report, &g.router_sensitivity, 0, 100)},
            {"lnd_timeout", derived},
            {"response_tracking", integer(report, &g.response_tracking, 0, 3)},
            {"recovery_limit", integer(report, &g.recovery_limit_s, 0, kIntMax)},
            {"max_recovery_ping_interval",
             integer(report, &g.max_recovery_ping_interval_s, 1, kIntMax)}});
}

void read_numa_block(LoadContext& context, const YamlNode& block) {
  read_map(context.report, block, "'numa'",
           {{"range", integer(context.report, &context.settings.global.numa_range, 0, kIntMax)}});
}

void check_timeouts(LoadContext& context) {
  const GlobalSettings& g = context.settings.global;
  const Place place =
      context.transaction_timeout.line > 0 ? context.transaction_timeout : context.retry_count;
  if (g.transaction_timeout_s <= g.retry_count) {
    context.report.error(place,
                         fmt::format("'transaction_timeout' {} must be above 'retry_count' {}",
                                     g.transaction_timeout_s, g.retry_count));
    return;
  }
  const int32_t attempts = g.retry_count + 1;
  const int32_t lnd_timeout_s = g.lnd_timeout_s();
  if (lnd_timeout_s * attempts + 1 > g.transaction_timeout_s) {
    context.report.warn(
        place,
        fmt::format("'transaction_timeout' {} leaves less than a second for each of {} attempts; "
                    "at least {} would do",
                    g.transaction_timeout_s, attempts, attempts + 1));
  }
  for (const auto& [ni, timeout_place] : context.lnd_timeouts) {
    const int32_t asked_s = context.settings.nis[ni].tcp.timeout_s;
    if (asked_s <= lnd_timeout_s) continue;
    context.report.warn(
        timeout_place,
        fmt::format(
            "'timeout' {} x {} attempts + 1 is above 'transaction_timeout' {}; {} is in force",
            asked_s, attempts, g.transaction_timeout_s, lnd_timeout_s));
  }
  for (NiSettings& ni : context.settings.nis) {
    if (ni.tcp.timeout_s > lnd_timeout_s) ni.tcp.timeout_s = lnd_timeout_s;
  }
}

}  // namespace ulnet::config
