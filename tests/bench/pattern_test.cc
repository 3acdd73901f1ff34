#include "tests/bench/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ulnet::bench {
namespace {

std::vector<uint8_t> pattern(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> block(bytes);
  fill_pattern(block, seed);
  return block;
}

TEST(Pattern, IsFoundIntactAtEveryLength) {
  for (size_t bytes = 0; bytes < 100; ++bytes)
    EXPECT_FALSE(find_difference(pattern(bytes, 7), 7)) << bytes;
  EXPECT_FALSE(find_difference(pattern(1 << 20, 7), 7));
}

TEST(Pattern, EachWrongByteIsFoundAtItsWord) {
  for (size_t at : {size_t{0}, size_t{7}, size_t{8}, size_t{4095}, size_t{4096}, size_t{9999}}) {
    std::vector<uint8_t> block = pattern(10000, 7);
    block[at] ^= 0x10;
    EXPECT_EQ(find_difference(block, 7), at / 8 * 8) << at;
  }
}

TEST(Pattern, AStaleBlockIsFoundAtOnce) {
  for (uint64_t seed = 0; seed < 1000; ++seed)
    EXPECT_EQ(find_difference(pattern(64, seed), seed + 1), 0U) << seed;
}

TEST(Pattern, AShiftedBlockIsFound) {
  std::vector<uint8_t> block = pattern(8192, 7);
  std::rotate(block.begin(), block.begin() + 8, block.end());
  EXPECT_EQ(find_difference(block, 7), 0U);
}

TEST(Pattern, AShorterBlockIsAPrefix) {
  const std::vector<uint8_t> longer = pattern(4096, 7), shorter = pattern(1000, 7);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

}  // namespace
}  // namespace ulnet::bench
