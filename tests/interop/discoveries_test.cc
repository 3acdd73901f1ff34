// The recordings of discoveries and pushes, chosen by their names: all that they show of it comes
// from the discovery of our node.

#include <fmt/format.h>
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/interop/causes.h"
#include "tests/interop/replay.h"

namespace ulnet::interop {
namespace {

constexpr std::array kPatterns = {"tcp*discover*", "tcp*push*", "tcp46-mixed-discovery",
                                  "tcp6-ping-discovery", "tcp-2.15-pings-2.17"};

// Matched, but not counted here; what they have on one net is played all the same.
struct Exclusion {
  std::string capture;
  std::string why;
};
const std::vector<Exclusion>& exclusions() {
  static const std::vector<Exclusion> kExclusions = {
      {"tcp-router-discover",
       "the discovery is of a node behind a router, and there are no routes"},
      {"tcp-o2ib-router-ping-discover",
       "the discovery is of a node on o2ib, behind a router, and there are no routes"},
  };
  return kExclusions;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool is_chosen(const std::string& name) {
  return std::any_of(kPatterns.begin(), kPatterns.end(),
                     [&](const char* pattern) { return matches(pattern, name); });
}

bool is_excluded(const std::string& name) {
  return std::any_of(exclusions().begin(), exclusions().end(),
                     [&](const Exclusion& exclusion) { return exclusion.capture == name; });
}

struct Sum {
  size_t pieces = 0;
  size_t pings = 0;
  size_t pushes = 0;
};

Sum play_discoveries(const std::string& name) {
  Sum sum;
  for (const PlayReport& report : play_capture(name)) {
    sum.pieces += report.pieces();
    sum.pings += report.own_pings;
    sum.pushes += report.own_pushes;
    EXPECT_FALSE(report.asked.contains(std::string(to_string(Ask::Kind::kRouting)))) << name;
  }
  EXPECT_GT(sum.pings, 0U) << name;
  fmt::print("{}: {} pieces, of them {} pings and {} pushes by our discovery\n", name, sum.pieces,
             sum.pings, sum.pushes);
  return sum;
}

TEST(Discoveries, AreOurNodesOwn) {
  size_t captures = 0;
  Sum total;
  for (const std::string& name : capture_names()) {
    if (!is_chosen(name) || is_excluded(name)) continue;
    const Sum sum = play_discoveries(name);
    ++captures;
    total.pieces += sum.pieces;
    total.pings += sum.pings;
    total.pushes += sum.pushes;
    // Who has discovery off is not pushed to, and does not push.
    EXPECT_EQ(sum.pushes == 0, name == "tcp-discovery-peer-off") << name;
  }
  for (const Exclusion& exclusion : exclusions()) {
    fmt::print("{}: excluded: {}\n", exclusion.capture, exclusion.why);
  }
  fmt::print("{} recordings of discoveries: {} pieces, of them {} pings and {} pushes\n", captures,
             total.pieces, total.pings, total.pushes);
}

TEST(Discoveries, AreChosenByPatternsAndExclusionsThatMatch) {
  const std::vector<std::string> names = capture_names();
  for (const std::string pattern : kPatterns) {
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches(pattern, name) && !is_excluded(name);
    })) << pattern;
  }
  for (const Exclusion& exclusion : exclusions()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), exclusion.capture), 1) << exclusion.capture;
    EXPECT_TRUE(is_chosen(exclusion.capture)) << exclusion.capture;
    EXPECT_NE(exclusion.why, "") << exclusion.capture;
  }
}

}  // namespace
}  // namespace ulnet::interop
