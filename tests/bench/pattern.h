// Contents that tell where they belong: each 8-byte word depends on a seed and on its place, so
// that a block that is stale, shifted, cut or mixed with another one is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ulnet::bench {

// Writes the pattern of `seed`. A shorter buffer gets a prefix of what a longer one gets.
void fill_pattern(std::span<uint8_t> bytes, uint64_t seed);

// The offset of the first 8-byte word that is not as fill_pattern() writes it.
std::optional<size_t> find_difference(std::span<const uint8_t> bytes, uint64_t seed);

}  // namespace ulnet::bench
