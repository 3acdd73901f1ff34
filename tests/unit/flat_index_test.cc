// FlatIndex against a naive twin.
#include "lnet/base/flat_index.h"

#include <gtest/gtest.h>

#include <map>

#include "lnet/base/rng.h"

namespace ulnet {
namespace {

TEST(FlatIndex, FindsNothingInNothing) {
  const FlatIndex index;
  EXPECT_EQ(index.find(0, [](uint64_t) { return true; }), 0U);
}

// Few hashes, so that runs are long, wrap around and are full of strangers; ids that share one.
TEST(FlatIndex, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    FlatIndex index;
    std::map<uint64_t, uint64_t> hash_of;
    const uint64_t hashes = rng.chance(1, 2) ? 5 : 40;
    const uint64_t ids = 30;
    for (int step = 0; step < 500; ++step) {
      const uint64_t id = 1 + rng.below(ids);
      const auto known = hash_of.find(id);
      if (known == hash_of.end()) {
        const uint64_t hash = rng.below(hashes) + (rng.chance(1, 2) ? 12 : uint64_t{1} << 40);
        index.insert(hash, id);
        hash_of[id] = hash;
      } else if (rng.chance(2, 3)) {
        index.erase(known->second, id);
        hash_of.erase(known);
      }
      ASSERT_EQ(index.size(), hash_of.size());
      for (uint64_t each = 1; each <= ids; ++each) {
        const auto there = hash_of.find(each);
        const uint64_t hash = there != hash_of.end() ? there->second : 12;
        const auto is_it = [&](uint64_t candidate) {
          EXPECT_EQ(hash_of.at(candidate), hash);
          return candidate == each;
        };
        ASSERT_EQ(index.find(hash, is_it), there != hash_of.end() ? each : 0) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ulnet
