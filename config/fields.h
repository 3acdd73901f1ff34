// Reading a YAML map by a table of its keys, and the values that occur in it.
//
// A table row is a key and what to do with its value. Everything that can be wrong with a value is
// reported with its place, its key and what would be right; the setting then keeps its default, so
// that one pass finds all errors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/report.h"
#include "config/yaml.h"

namespace ulnet::config {

using Reader = std::function<void(const YamlEntry&)>;

struct Field {
  std::string_view key;
  Reader read;
};

// Calls the reader of each key of `map`. `what` names the map in messages ("'tunables'"). A null is
// an empty map; another kind and a key written twice are errors, an unknown key is a warning with
// the nearest known one.
void read_map(Report& report, const YamlNode& map, std::string_view what,
              const std::vector<Field>& fields);

// An integer within low..high: decimal or 0x hexadecimal. `into` and `report` are borrowed for the
// life of the reader.
Reader integer(Report& report, int32_t* into, int64_t low, int64_t high);
Reader integer(Report& report, std::optional<int32_t>* into, int64_t low, int64_t high);
// 1, true, yes, on, y or their opposites, in any case.
Reader flag(Report& report, bool* into);
// A scalar of at most `bytes_max` bytes.
Reader text(Report& report, std::string* into, size_t bytes_max);

// The integer a scalar spells; reports and gives nothing when it is none or outside low..high.
bool read_integer(Report& report, std::string_view key, const YamlNode& value, int64_t low,
                  int64_t high, int64_t* into);

}  // namespace ulnet::config
