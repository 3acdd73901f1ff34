#include "config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "config/nearest.h"
#include "lnet/base/integer_text.h"

namespace ulnet::config {
namespace {

std::string lower(std::string_view word) {
  std::string result(word);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

void read_map(Report& report, const YamlNode& map, std::string_view what,
              const std::vector<Field>& fields) {
  if (map.is_null()) return;
  if (!map.is_map()) {
    report.error(map.place,
                 fmt::format("{} must be a map of keys and values, not {}", what, describe(map)));
    return;
  }
  std::map<std::string_view, Place> seen;
  for (const YamlEntry& entry : map.entries) {
    const auto [first, fresh] = seen.emplace(entry.key, entry.place);
    if (!fresh) {
      report.error(entry.place, fmt::format("key '{}' is given twice in {}, first in line {}",
                                            entry.key, what, first->second.line));
      continue;
    }
    const auto known = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field& f) { return f.key == entry.key; });
    if (known != fields.end()) {
      known->read(entry);
      continue;
    }
    std::vector<std::string_view> keys;
    for (const Field& field : fields) keys.push_back(field.key);
    report.warn(entry.place, fmt::format("unknown key '{}' in {} is ignored{}", entry.key, what,
                                         suggestion(entry.key, keys)));
  }
}

bool read_integer(Report& report, std::string_view key, const YamlNode& value, int64_t low,
                  int64_t high, int64_t* into) {
  int64_t number = 0;
  if (!value.is_scalar() || !parse_integer(value.text, &number) || number < low || number > high) {
    report.error(value.place, fmt::format("'{}' must be {}, not {}", key, range_text(low, high),
                                          describe(value)));
    return false;
  }
  *into = number;
  return true;
}

Reader integer(Report& report, int32_t* into, int64_t low, int64_t high) {
  return [&report, into, low, high](const YamlEntry& entry) {
    int64_t number = 0;
    if (read_integer(report, entry.key, *entry.value, low, high, &number))
      *into = static_cast<int32_t>(number);
  };
}

Reader integer(Report& report, std::optional<int32_t>* into, int64_t low, int64_t high) {
  return [&report, into, low, high](const YamlEntry& entry) {
    int64_t number = 0;
    if (read_integer(report, entry.key, *entry.value, low, high, &number))
      *into = static_cast<int32_t>(number);
  };
}

Reader flag(Report& report, bool* into) {
  return [&report, into](const YamlEntry& entry) {
    static constexpr std::array<std::string_view, 5> kTrue = {"1", "true", "yes", "on", "y"};
    static constexpr std::array<std::string_view, 5> kFalse = {"0", "false", "no", "off", "n"};
    const std::string word = lower(entry.value->text);
    if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) {
      *into = true;
    } else if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) {
      *into = false;
    } else {
      report.error(
          entry.value->place,
          fmt::format("'{}' must be 0 or 1 (or false or true, no or yes, off or on), not {}",
                      entry.key, describe(*entry.value)));
    }
  };
}

Reader text(Report& report, std::string* into, size_t bytes_max) {
  return [&report, into, bytes_max](const YamlEntry& entry) {
    if (!entry.value->is_scalar() || entry.value->text.empty()) {
      report.error(entry.value->place,
                   fmt::format("'{}' must be a word, not {}", entry.key, describe(*entry.value)));
    } else if (entry.value->text.size() > bytes_max) {
      report.error(entry.value->place, fmt::format("'{}' is {} bytes long; at most {} are allowed",
                                                   entry.key, entry.value->text.size(), bytes_max));
    } else {
      *into = entry.value->text;
    }
  };
}

}  // namespace ulnet::config
