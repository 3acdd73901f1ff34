#include "lnet/base/integer_text.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace ulnet {

bool parse_integer(std::string_view word, int64_t* value) {
  bool negative = false;
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) {
    negative = word[0] == '-';
    word.remove_prefix(1);
  }
  int base = 10;
  if (word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X')) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word[0] == '0') {
    return false;
  }
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), magnitude, base);
  if (error != std::errc() || end != word.data() + word.size()) return false;
  if (magnitude > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
  *value = negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

std::string range_text(int64_t low, int64_t high) {
  if (high >= std::numeric_limits<int32_t>::max())
    return fmt::format("a number of at least {}", low);
  return fmt::format("a number from {} to {}", low, high);
}

}  // namespace ulnet
