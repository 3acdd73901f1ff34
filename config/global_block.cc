#include <fmt/format.h>

#include <limits>

#include "config/blocks.h"
#include "ulnet/global_fields.h"

namespace ulnet::config {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kInterfacesMin = find_global_field("max_interfaces")->low;

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

Reader reader_of(LoadContext& context, const GlobalField& field) {
  GlobalSettings& global = context.settings.global;
  if (field.name == "max_interfaces") return max_interfaces(context);
  if (field.flag != nullptr) return flag(context.report, &(global.*field.flag));
  const Reader read = integer(context.report, &(global.*field.number), field.low, field.high);
  if (field.name == "retry_count") return with_place(&context.retry_count, read);
  if (field.name == "transaction_timeout") return with_place(&context.transaction_timeout, read);
  return read;
}

}  // namespace

void read_global_block(LoadContext& context, const YamlNode& block) {
  const Reader derived = [](const YamlEntry&) {};  // exported, follows from the others
  std::vector<Field> fields = {
      {"max_intf", max_interfaces(context)}, {"lnd_timeout", derived}, {"ulnet", context.skip()}};
  for (const GlobalField& field : kGlobalFields)
    fields.push_back({field.name, reader_of(context, field)});
  read_map(context.report, block, "'global'", fields);
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
}

}  // namespace ulnet::config
