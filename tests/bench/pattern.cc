#include "tests/bench/pattern.h"

#include <algorithm>
#include <cstring>

namespace ulnet::bench {
namespace {

constexpr size_t kWordBytes = 8;
constexpr size_t kChunkWords = 512;             // compared without a branch, then looked at once
constexpr uint64_t kStep = 0x9E3779B97F4A7C15;  // odd: no two words of a block are equal

// The finaliser of splitmix64: neighbouring seeds give unrelated first words.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

// Bits that differ in `words` whole words from `at` on, whose first one should be `first`.
uint64_t differing_bits(const uint8_t* at, size_t words, uint64_t first) {
  uint64_t differing = 0;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, at + i * kWordBytes, kWordBytes);
    differing |= word ^ (first + i * kStep);
  }
  return differing;
}

}  // namespace

void fill_pattern(std::span<uint8_t> bytes, uint64_t seed) {
  if (bytes.empty()) return;  // memcpy takes no null pointer, not even for nothing
  const uint64_t first = mix(seed);
  const size_t words = bytes.size() / kWordBytes;
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = first + i * kStep;
    std::memcpy(bytes.data() + i * kWordBytes, &word, kWordBytes);
  }
  const uint64_t last = first + words * kStep;
  std::memcpy(bytes.data() + words * kWordBytes, &last, bytes.size() % kWordBytes);
}

std::optional<size_t> find_difference(std::span<const uint8_t> bytes, uint64_t seed) {
  if (bytes.empty()) return std::nullopt;
  const uint64_t first = mix(seed);
  const size_t words = bytes.size() / kWordBytes;
  for (size_t begin = 0; begin < words; begin += kChunkWords) {
    const size_t end = std::min(begin + kChunkWords, words);
    if (differing_bits(bytes.data() + begin * kWordBytes, end - begin, first + begin * kStep) == 0)
      continue;
    for (size_t i = begin; i < end; ++i) {
      if (differing_bits(bytes.data() + i * kWordBytes, 1, first + i * kStep) != 0)
        return i * kWordBytes;
    }
  }
  const uint64_t last = first + words * kStep;
  if (std::memcmp(bytes.data() + words * kWordBytes, &last, bytes.size() % kWordBytes) != 0)
    return words * kWordBytes;
  return std::nullopt;
}

}  // namespace ulnet::bench
