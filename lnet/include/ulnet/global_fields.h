// The global settings that have a name in lnetctl (`set NAME VALUE`, the block `global:`), each
// with its range. Coupling between them: lnet/core/global_rules.h. Source: spec config 2.2 and 7,
// spec lnet-core 12.2.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "ulnet/settings.h"

namespace ulnet {

struct GlobalField {
  std::string_view name;
  int64_t low = 0;
  int64_t high = 0;
  // One of the two.
  int32_t GlobalSettings::*number = nullptr;
  bool GlobalSettings::*flag = nullptr;

  constexpr int64_t get(const GlobalSettings& global) const {
    return flag != nullptr ? int64_t{global.*flag} : int64_t{global.*number};
  }
  // REQUIRES: low <= value <= high.
  constexpr void set(GlobalSettings& global, int64_t value) const {
    if (flag != nullptr) {
      global.*flag = value != 0;
    } else {
      global.*number = static_cast<int32_t>(value);
    }
  }
};

namespace detail {
inline constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
// A day: far above what anybody sets, far below what overflows when it is multiplied.
inline constexpr int64_t kTransactionTimeoutMax = 86400;
}  // namespace detail

// In the order of `global show`.
inline constexpr std::array<GlobalField, 12> kGlobalFields = {{
    {"numa_range", 0, detail::kInt32Max, &GlobalSettings::numa_range},
    {"max_interfaces", 16, detail::kInt32Max, &GlobalSettings::max_interfaces},
    {"discovery", 0, 1, nullptr, &GlobalSettings::discovery},
    {"drop_asym_route", 0, 1, nullptr, &GlobalSettings::drop_asym_route},
    {"retry_count", 0, 255, &GlobalSettings::retry_count},
    {"transaction_timeout", 1, detail::kTransactionTimeoutMax,
     &GlobalSettings::transaction_timeout_s},
    {"health_sensitivity", 0, 1000, &GlobalSettings::health_sensitivity},
    {"recovery_interval", 1, detail::kInt32Max, &GlobalSettings::recovery_interval_s},
    {"router_sensitivity", 0, 100, &GlobalSettings::router_sensitivity},
    {"response_tracking", 0, 3, &GlobalSettings::response_tracking},
    {"recovery_limit", 0, detail::kInt32Max, &GlobalSettings::recovery_limit_s},
    {"max_recovery_ping_interval", 1, detail::kInt32Max,
     &GlobalSettings::max_recovery_ping_interval_s},
}};

constexpr const GlobalField* find_global_field(std::string_view name) {
  for (const GlobalField& field : kGlobalFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

}  // namespace ulnet
