#include "lnet/core/global_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/base/integer_text.h"
#include "lnet/core/net.h"

namespace ulnet::core {
namespace {

int64_t transaction_timeout_for(int64_t lnd_timeout_s, int64_t retry_count) {
  return lnd_timeout_s * (retry_count + 1) + 1;
}

Status check_attempts(const GlobalSettings& global, std::string_view name, const AskedTimeout& at) {
  const int64_t wanted_s = transaction_timeout_for(at.timeout_s, global.retry_count);
  if (wanted_s <= global.transaction_timeout_s) return Status::ok();
  const std::string reason =
      fmt::format("{} attempts at the LND timeout {} of {} take {} s", global.retry_count + 1,
                  at.timeout_s, at.nid.to_string(), wanted_s);
  if (name != "retry_count") {
    return {EINVAL, fmt::format("{} {}: {}; at least {} would do", name,
                                global.transaction_timeout_s, reason, wanted_s)};
  }
  const int64_t retries = (global.transaction_timeout_s - 1) / at.timeout_s - 1;
  return {EINVAL, fmt::format("{} {}: {}, transaction_timeout is {}; {}", name, global.retry_count,
                              reason, global.transaction_timeout_s,
                              retries >= 0 ? fmt::format("at most {} would do", retries)
                                           : "no value would do, the LND timeout must come down")};
}

Status check_coupling(const GlobalSettings& global, std::string_view name) {
  if (global.transaction_timeout_s > global.retry_count) return Status::ok();
  if (name == "retry_count") {
    return {EINVAL, fmt::format("{} {} must be below transaction_timeout {}", name,
                                global.retry_count, global.transaction_timeout_s)};
  }
  return {EINVAL, fmt::format("{} {} must be above retry_count {}", name,
                              global.transaction_timeout_s, global.retry_count)};
}

}  // namespace

Result<GlobalSettings> change_global(const GlobalSettings& global, std::string_view name,
                                     int64_t value, std::span<const AskedTimeout> asked) {
  const GlobalField* field = find_global_field(name);
  if (field == nullptr) return fail(ENOENT, fmt::format("there is no setting '{}'", name));
  if (value < field->low || value > field->high) {
    return fail(EINVAL, fmt::format("{} must be {}, not {}", name,
                                    range_text(field->low, field->high), value));
  }
  GlobalSettings changed = global;
  field->set(changed, value);
  if (changed == global) return changed;
  if (changed.transaction_timeout_s == global.transaction_timeout_s &&
      changed.retry_count == global.retry_count) {
    return changed;
  }
  if (Status status = check_coupling(changed, name); !status.is_ok()) return Failure(status);
  const auto longest = std::max_element(
      asked.begin(), asked.end(),
      [](const AskedTimeout& a, const AskedTimeout& b) { return a.timeout_s < b.timeout_s; });
  if (longest != asked.end()) {
    if (Status status = check_attempts(changed, name, *longest); !status.is_ok())
      return Failure(status);
  }
  return changed;
}

Status check_lnd_timeout(const GlobalSettings& global, int32_t timeout_s) {
  if (timeout_s < 0)
    return {EINVAL, fmt::format("the LND timeout must be 0, derived, or more, not {}", timeout_s)};
  const int64_t wanted_s = transaction_timeout_for(timeout_s, global.retry_count);
  if (timeout_s == 0 || wanted_s <= global.transaction_timeout_s) return Status::ok();
  const int32_t longest_s = (global.transaction_timeout_s - 1) / (global.retry_count + 1);
  return {EINVAL,
          fmt::format("an LND timeout of {}: {} attempts take {} s, transaction_timeout is {}; {}",
                      timeout_s, global.retry_count + 1, wanted_s, global.transaction_timeout_s,
                      longest_s > 0 ? fmt::format("at most {} would do", longest_s)
                                    : "only 0, derived, would do")};
}

Status check_health_value(std::string_view name, int32_t value) {
  if (value >= 0 && value <= kHealthMax) return Status::ok();
  return {EINVAL, fmt::format("{} must be {}, not {}", name, range_text(0, kHealthMax), value)};
}

}  // namespace ulnet::core
