// What the recorded nodes were told, as their notes have it; and what stands in for a peer is what
// the peers of the recordings say.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/interop/causes.h"
#include "tests/interop/replay.h"
#include "tests/interop/stand_in.h"

namespace ulnet::interop {
namespace {

size_t count(const Causes& causes, Ask::Kind kind) {
  return static_cast<size_t>(std::count_if(causes.asks.begin(), causes.asks.end(),
                                           [kind](const Ask& ask) { return ask.kind == kind; }));
}

TEST(Causes, OneDiscoverThreePings) {
  const Causes causes = find_causes(script_of("tcp-discovery-push", {"10.77.0.1", "10.77.1.1"}));
  EXPECT_EQ(causes.failure, "");
  ASSERT_EQ(causes.asks.size(), 4U);
  EXPECT_EQ(causes.asks[0].kind, Ask::Kind::kDiscover);
  EXPECT_FALSE(causes.asks[0].force);
  EXPECT_EQ(count(causes, Ask::Kind::kPing), 3U);
  EXPECT_EQ(causes.own_pings, 1U);
  EXPECT_EQ(causes.own_pushes, 1U);
}

TEST(Causes, WhoIsDiscoveredIsToldNothing) {
  const Causes causes = find_causes(script_of("tcp-discovery-push", {"10.77.0.2", "10.77.1.2"}));
  EXPECT_TRUE(causes.asks.empty());
  EXPECT_EQ(causes.own_pings, 0U);
  EXPECT_EQ(causes.own_pushes, 1U);
}

TEST(Causes, TheFirstMessageOfTheUpperLayerStandsBehindTheDiscovery) {
  const Script script = script_of("tcp-lst-ping", {"10.77.0.1"});
  const Causes causes = find_causes(script);
  ASSERT_EQ(causes.asks.size(), 6U);
  EXPECT_EQ(count(causes, Ask::Kind::kUpperLayer), 6U);
  EXPECT_EQ(causes.own_pings, 1U);
  EXPECT_EQ(causes.own_pushes, 1U);
  EXPECT_TRUE(is_discovery_ping(script.steps[causes.asks[0].first].piece));
  EXPECT_TRUE(is_for_upper_layer(script.steps[causes.asks[0].request].piece));
  for (size_t i = 1; i < causes.asks.size(); ++i) {
    EXPECT_EQ(causes.asks[i].first, causes.asks[i].request);
    EXPECT_GT(causes.asks[i].first, causes.asks[0].request);
  }
}

TEST(Causes, AGatewayIsDiscoveredAgainByForce) {
  const Causes causes = find_causes(script_of("tcp-router-enable", {"10.77.0.1"}));
  ASSERT_GT(causes.asks.size(), 3U);
  for (size_t i = 0; i < causes.asks.size(); ++i) {
    EXPECT_EQ(causes.asks[i].kind, Ask::Kind::kDiscover);
    EXPECT_EQ(causes.asks[i].force, i > 0);
  }
  EXPECT_EQ(causes.own_pushes, causes.asks.size());
}

TEST(Causes, OnlyARouterPushesForARoutingChange) {
  const Causes causes = find_causes(script_of("tcp-router-enable", {"10.77.0.2", "10.77.1.2"}));
  EXPECT_EQ(count(causes, Ask::Kind::kRouting), 2U);
  EXPECT_EQ(causes.asks.size(), 2U);
  EXPECT_EQ(causes.own_pushes, 2U);
}

// The frame of the peer that answers `request`, whose wire handle it echoes.
const Piece& answer_to(const Script& script, const Piece& request) {
  return std::find_if(script.steps.begin(), script.steps.end(),
                      [&](const Step& step) {
                        return !step.ours && step.kind == Step::Kind::kPiece &&
                               step.piece.message && !is_request(step.piece) &&
                               handle_of(step.piece) == handle_of(request);
                      })
      ->piece;
}

TEST(StandIn, SaysWhatTheRecordedPeerSaid) {
  size_t compared = 0;
  for (const auto& [name, address] :
       {std::pair{"tcp-lst-ping", "10.77.0.1"}, std::pair{"tcp6-ping-discovery", "fd77::1"},
        std::pair{"tcp46-mixed-discovery", "10.77.0.1"}}) {
    const test::Capture capture = capture_of(name);
    for (const NodeAddresses& node : find_nodes(capture)) {
      if (!node.contains(address)) continue;
      const Script script = make_script(capture, node, {});
      for (const Step& step : script.steps) {
        if (!step.ours || !(is_discovery_ping(step.piece) || is_push(step.piece))) continue;
        const auto& nids = script.peers[script.connections[step.connection].peer];
        EXPECT_EQ(stand_in_answer(step.piece, nids), answer_to(script, step.piece).bytes)
            << name << ": " << step.piece.to_string();
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 6U);
}

}  // namespace
}  // namespace ulnet::interop
