#include "tests/support/hex.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string>

namespace ulnet::test {

std::vector<uint8_t> hex(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ' ' && c != '\n') digits += c;
  }
  if (digits.size() % 2 != 0) throw std::invalid_argument("odd number of hexadecimal digits");
  std::vector<uint8_t> bytes;
  for (size_t at = 0; at < digits.size(); at += 2) {
    uint8_t byte = 0;
    const char* const end = digits.data() + at + 2;
    const auto [stop, error] = std::from_chars(digits.data() + at, end, byte, 16);
    if (error != std::errc() || stop != end) {
      throw std::invalid_argument(fmt::format("'{}' is no byte", digits.substr(at, 2)));
    }
    bytes.push_back(byte);
  }
  return bytes;
}

}  // namespace ulnet::test
