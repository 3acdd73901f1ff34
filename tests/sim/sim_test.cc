// The simulator watches the core; here the simulator is watched: that it is deterministic, that its
// checkers find planted bugs, and that scenarios hold or fail as they should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/sim/saboteur.h"
#include "tests/sim/scenario.h"
#include "tests/sim/swarm.h"

namespace ulnet::sim {
namespace {

TEST(Sim, SameSeedSameTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RunResult first = run_swarm({.seed = seed});
    const RunResult second = run_swarm({.seed = seed});
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.entries, second.entries) << "seed " << seed;
    EXPECT_GT(first.delivered, 0U) << "seed " << seed;
  }
}

TEST(Sim, AnotherSeedAnotherTrace) {
  EXPECT_NE(run_swarm({.seed = 1}).hash, run_swarm({.seed = 2}).hash);
}

// Checkers of what never happens find nothing.
TEST(Sim, TheSwarmResendsRecoversAndLoses) {
  RunResult sum;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const RunResult result = run_swarm({.seed = seed});
    sum.totals += result.totals;
    sum.lost += result.lost;
  }
  EXPECT_GT(sum.totals.resends, 50U);
  EXPECT_GT(sum.totals.resends_that_helped, 10U);
  EXPECT_GT(sum.totals.recovery_pings, 1000U);
  EXPECT_GT(sum.totals.lost_responses, 1000U);
  EXPECT_GT(sum.lost, 100U);
}

// ---------------------------------------------------------------- planted bugs

RunResult run_with(Sabotage sabotage, uint64_t seed) {
  SwarmOptions options{.seed = seed};
  options.decorate = [sabotage](LndHost& inner) { return make_saboteur(inner, sabotage, 3); };
  return run_swarm(options);
}

RunResult run_with(ListenerSabotage sabotage, uint64_t seed) {
  SwarmOptions options{.seed = seed};
  options.decorate_listener = make_listener_saboteur(sabotage, 3);
  return run_swarm(options);
}

// What the checkers say of the first of a few seeds in which the bug shows; the same seeds pass
// without it.
template <typename AnySabotage>
std::string complaint(AnySabotage sabotage) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    EXPECT_TRUE(run_swarm({.seed = seed}).violations.empty()) << "seed " << seed;
    const RunResult result = run_with(sabotage, seed);
    if (!result.violations.empty()) return result.violations.front();
  }
  return "nothing";
}

TEST(SimCheckers, NameALostCompletion) {
  EXPECT_THAT(complaint(Sabotage::kDropCompletion), testing::HasSubstr("credits"));
}

TEST(SimCheckers, NameAWrongByte) {
  EXPECT_THAT(complaint(Sabotage::kWrongByte), testing::HasSubstr("byte 0 is wrong"));
}

TEST(SimCheckers, NameAnNiThatDoesNotGetWell) {
  EXPECT_THAT(
      complaint(Sabotage::kDeafToPings),
      testing::ContainsRegex("long after all faults are healed node[0-9]: .*NI .* has health"));
}

TEST(SimCheckers, NameARailThatIsNotUsedAgain) {
  EXPECT_THAT(complaint(Sabotage::kStaysFatal), testing::HasSubstr("all rails are well, but"));
}

TEST(SimCheckers, NameALostLastEvent) {
  EXPECT_THAT(complaint(ListenerSabotage::kLoseLastEvent), testing::HasSubstr("no last event"));
}

TEST(SimCheckers, NameAnEventAfterTheLast) {
  EXPECT_THAT(complaint(ListenerSabotage::kEventAfterTheLast),
              testing::HasSubstr("which has had its last event"));
}

TEST(SimCheckers, NameADuplicate) {
  EXPECT_THAT(complaint(Sabotage::kDuplicateMessage), testing::HasSubstr("landed twice"));
}

TEST(SimCheckersDeathTest, TheCoreRefusesASecondCompletion) {
  EXPECT_DEATH(run_with(Sabotage::kDoubleCompletion, 1),
               "a driver completed a send that it does not have");
}

// ---------------------------------------------------------------- scenarios

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_SCENARIOS)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Scenarios, AllHold) {
  const auto files = scenario_files();
  ASSERT_GE(files.size(), 20U) << "in " << ULNET_SCENARIOS;
  for (const auto& file : files) {
    const auto result = run_scenario(file);
    ASSERT_TRUE(result.has_value()) << result.error().text();
    EXPECT_THAT(result->violations, testing::IsEmpty()) << file;
    // The large ones are left to their single run.
    if (result->operations > 10'000) continue;
    EXPECT_EQ(run_scenario(file)->hash, result->hash) << file;
  }
}

class ScenarioText : public testing::Test {
 protected:
  void SetUp() override { path_ = testing::TempDir() + "scenario.yaml"; }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<RunResult> run(const std::string& steps) {
    std::ofstream(path_) << "nodes:\n  a: {nids: [10.0.0.1@tcp]}\n  b: {nids: [10.0.0.2@tcp]}\n"
                         << "steps:\n"
                         << steps;
    return run_scenario(path_);
  }

  std::string path_;
};

TEST_F(ScenarioText, AnExpectationThatDoesNotHoldIsNamed) {
  const auto result =
      run("  - {at: 0, do: ping, name: p, node: a, to: 10.0.0.2@tcp}\n"
          "  - {at: 1, expect: outcome, name: p, status: ETIMEDOUT}\n"
          "  - {expect: outcome, name: q}\n"
          "  - {expect: credits, nid: 10.0.0.1@tcp, free: 255}\n"
          "  - {expect: drops, node: a, reason: no_such_reason, count: 0}\n");
  ASSERT_TRUE(result.has_value()) << result.error().text();
  EXPECT_THAT(
      result->violations,
      testing::ElementsAre(
          testing::HasSubstr("line 6: 'p' ended after 0.0"),
          testing::HasSubstr("line 7: operations 'q' that have ended: expected 1, found 0"),
          testing::HasSubstr("line 8: free credits of 10.0.0.1@tcp: expected 255, found 256"),
          testing::HasSubstr("line 9: drops of a for no_such_reason: expected 0, found -1")));
}

TEST_F(ScenarioText, AFigureOutsideItsBoundsIsNamed) {
  const auto result =
      run("  - {at: 0, do: ping, name: p, node: a, to: b}\n"
          "  - {at: 1, expect: ended, name: p, max: 0}\n"
          "  - {expect: statistic, node: a, name: send_count, min: 2, max: 9}\n"
          "  - {expect: sent, node: a, nid: 10.0.0.2@tcp, type: get, count: 2}\n"
          "  - {expect: health, node: a, nid: 10.0.0.2@tcp, max: 999}\n"
          "  - {expect: health, node: a, nid: 10.0.0.9@tcp, min: 0}\n"
          "  - {expect: nids, node: a, peer: 10.0.0.2@tcp, nids: [10.0.0.2@tcp, 10.0.0.3@tcp]}\n"
          "  - {expect: rate, from: 0, to: 10, min: 1}\n");
  ASSERT_TRUE(result.has_value()) << result.error().text();
  EXPECT_THAT(
      result->violations,
      testing::ElementsAre(
          testing::HasSubstr("line 6: operations 'p' that have ended with ok: expected at most 0"),
          testing::HasSubstr("line 7: send_count of a: expected at least 2, found 1"),
          testing::HasSubstr("line 8: get messages of a by 10.0.0.2@tcp: expected 2, found 1"),
          testing::HasSubstr("line 9: health of 10.0.0.2@tcp for a: expected at most 999"),
          testing::HasSubstr("line 10: health of 10.0.0.9@tcp for a: expected at least 0"),
          testing::HasSubstr("line 11: a sees peer 10.0.0.2@tcp with [10.0.0.2@tcp], not ["),
          testing::HasSubstr("line 12: requests per second from 0 s to 10 s: expected at least")));
}

TEST_F(ScenarioText, MistakesAreNamedWithTheirLines) {
  const auto result =
      run("  - {at: 2, do: ping, name: p, node: x, to: 10.0.0.2@tcp}\n"
          "  - {at: 1, do: dance}\n"
          "  - {do: put, node: a, to: nowhere@, bytes: few, name: p, colour: red}\n"
          "  - {do: cut, nid: a, times: 2}\n"
          "  - {expect: statistic, node: a, name: size, count: 1}\n"
          "  - {do: start, node: a, nids: [10.0.0.2@tcp]}\n");
  ASSERT_FALSE(result.has_value());
  for (const char* text :
       {":8: what happens several times needs 'for'", ":9: name: no statistic 'size'",
        ":10: nids: '10.0.0.2@tcp' is none of this node", ":5: node: no node 'x'",
        ":6: steps must be in order of time", ":6: nobody can do 'dance'",
        ":7: to: ", ":7: bytes: 'few' is no whole number", ":7: 'colour' has no meaning here"}) {
    EXPECT_THAT(result.error().text(), testing::HasSubstr(text));
  }
}

TEST_F(ScenarioText, MistakesOfANodeAreNamed) {
  std::ofstream(path_) << "global: {retry_count: many}\n"
                       << "nodes:\n"
                       << "  a: {nids: [10.0.0.1@tcp], knows: [b, c]}\n"
                       << "  b: {nids: [10.0.0.2@tcp], peer: [{primary nid: nothing@}]}\n"
                       << "  d: {nids: [10.1.0.1@tcp], count: 0}\n"
                       << "steps: []\n";
  const auto result = run_scenario(path_);
  ASSERT_FALSE(result.has_value());
  for (const char* text : {":1:", "'retry_count'", ":4:", "primary nid", ":5: count: 1 to 10000"})
    EXPECT_THAT(result.error().text(), testing::HasSubstr(text));
}

TEST_F(ScenarioText, AGroupHasItsNodesNumbered) {
  std::ofstream(path_) << "nodes:\n"
                       << "  a: {nids: [10.0.0.1@tcp]}\n"
                       << "  g: {nids: [10.1.0.9@tcp], count: 3}\n"
                       << "steps:\n"
                       << "  - {at: 0, do: ping, name: p, node: g, to: a}\n"
                       << "  - {do: ping, name: q, node: g3, to: 10.1.0.10@tcp}\n"
                       << "  - {at: 1, expect: outcome, name: p, count: 3}\n"
                       << "  - {expect: outcome, name: q}\n";
  const auto result = run_scenario(path_);
  ASSERT_TRUE(result.has_value()) << result.error().text();
  EXPECT_THAT(result->violations, testing::IsEmpty());
}

TEST_F(ScenarioText, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(run_scenario("no-such.yaml").error().text(), "no-such.yaml: cannot be read");
}

// ---------------------------------------------------------------- scale

TEST(SimScale, AThousandNodesForTenMinutes) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = run_scale(1000, 4, std::chrono::minutes(10));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("1000 nodes with 4 NIs, 10 virtual minutes: %.1f s, %llu MiB, %llu messages\n",
              took.count(), static_cast<unsigned long long>(resident_mib()),
              static_cast<unsigned long long>(result.delivered));
  EXPECT_THAT(result.violations, testing::IsEmpty());
  // A PUT every ten seconds and its ACK, from each; and what discovery of eight neighbours takes.
  EXPECT_GE(result.delivered, 1000U * 60 * 2);
  EXPECT_LE(result.delivered, 1000U * (60 * 2 + 2 * 8 * 6));
}

}  // namespace
}  // namespace ulnet::sim
