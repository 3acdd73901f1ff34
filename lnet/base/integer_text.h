// Integers as people write them, in files and on command lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ulnet {

// A whole decimal or 0x hexadecimal number with an optional sign. False for anything else: blanks,
// fractions, exponents, what int64_t cannot hold, and "010", eight to some readers and ten to
// others.
bool parse_integer(std::string_view word, int64_t* value);

// "a number from 0 to 1000", or "a number of at least 0" where `high` is no more than what the type
// holds.
std::string range_text(int64_t low, int64_t high);

}  // namespace ulnet
