// YAML text to Settings. ulnet::load_settings() in ulnet/endpoint.h is load_text() on a file.
//
// Accepted: every file that `lnetctl export` of 2.15 and later writes, and what people write by
// hand; see spec config 9.
//   net, global, numa, ulnet                  are read here.
//   peer, route, routing, buffers, udsp, ...  are known and not yet in effect: a warning says so,
//   with the line. what only `show` prints                   is skipped with one warning for the
//   whole file.
// Lists may or may not be indented, keys quoted, maps in flow style; anchors, aliases and `<<`
// work; JSON is YAML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ulnet/settings.h"

namespace ulnet::config {

struct Loaded {
  Settings settings;  // to be used only when `errors` is empty
  std::vector<std::string>
      errors;  // "FILE:LINE:COLUMN: TEXT" each, in file order; all of them, not the first
  std::vector<std::string> warnings;  // likewise
};

// `file` is the name that messages give.
Loaded load_text(std::string_view text, const std::string& file);

// Longer files are refused; 20,000 routes need a twentieth of it.
inline constexpr size_t kFileBytesMax = 16 << 20;

}  // namespace ulnet::config
