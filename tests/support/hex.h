// Golden bytes as the specifications print them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ulnet::test {

// "00 71 ce ac" to bytes; blanks and newlines are skipped. Anything else than pairs of hexadecimal
// digits throws.
std::vector<uint8_t> hex(std::string_view text);

}  // namespace ulnet::test
