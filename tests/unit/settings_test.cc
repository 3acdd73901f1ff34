// Settings of a node that runs, and health by hand, in virtual time.
// Source: spec lnet-core 4.5, 7.1, 7.2, 8; decisions D3, D5; cases HL-6, HL-7, HL-16.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/support/settings_fixture.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// HL-6
TEST_F(SettingsTest, TheOrderOfSettingParametersDoesNotMatter) {
  using Step = std::pair<std::string_view, int64_t>;
  std::vector<Step> steps = {
      {"health_sensitivity", 100}, {"retry_count", 3}, {"transaction_timeout", 40}};
  std::sort(steps.begin(), steps.end());
  int orders = 0;
  do {
    SCOPED_TRACE(fmt::format("{} {} {}", steps[0].first, steps[1].first, steps[2].first));
    world_ = CoreWorld();
    GlobalSettings start;
    start.health_sensitivity = 0;
    two_rails(start);
    for (const auto& [name, value] : steps) EXPECT_TRUE(set(name, value).is_ok()) << name;
    for (const int64_t sensitivity : {100, 0, 100}) {
      EXPECT_TRUE(set("health_sensitivity", sensitivity).is_ok());
      GlobalSettings expected = quiet();
      expected.health_sensitivity = static_cast<int32_t>(sensitivity);
      expected.retry_count = 3;
      expected.transaction_timeout_s = 40;
      EXPECT_EQ(a_->core->global(), expected);
    }
    EXPECT_EQ(a_->core->global().lnd_timeout_s(), 9);
    ++orders;
  } while (std::next_permutation(steps.begin(), steps.end()));
  EXPECT_EQ(orders, 6);
}

// HL-7: 7, then 49, and the driver is told of both.
TEST_F(SettingsTest, TheLndTimeoutInForceIsShownAndTold) {
  two_rails();
  EXPECT_EQ(ni(kRailA1).tcp->timeout_s, 49);
  const NiSelection tcp{.nid = {}, .net = NetId::parse("tcp").value()};
  const auto told = [this] {
    world_.collect();
    std::vector<std::pair<NiId, Duration>> all;
    for (const LndTimeoutAction& action : a_->lnd_timeouts)
      all.emplace_back(action.ni, action.timeout);
    a_->lnd_timeouts.clear();
    return all;
  };
  EXPECT_THAT(told(), IsEmpty());
  ASSERT_TRUE(a_->core->change_nis(world_.now, tcp, {.lnd_timeout_s = 7}).is_ok());
  EXPECT_EQ(ni(kRailA1).tcp->timeout_s, 7);
  EXPECT_EQ(ni(kRailA1).lnd_timeout_asked_s, 7);
  EXPECT_THAT(told(), ElementsAre(std::pair(1U, 7s), std::pair(2U, 7s)));
  ASSERT_TRUE(set("transaction_timeout", 100).is_ok());
  EXPECT_THAT(told(), IsEmpty()) << "an explicit one stays";
  ASSERT_TRUE(
      a_->core->change_nis(world_.now, {.nid = nid(kRailA2), .net = {}}, {.lnd_timeout_s = 0})
          .is_ok());
  EXPECT_THAT(told(), ElementsAre(std::pair(2U, 33s)));
  ASSERT_TRUE(set("retry_count", 0).is_ok());
  EXPECT_THAT(told(), ElementsAre(std::pair(2U, 99s)));
  ASSERT_TRUE(set("transaction_timeout", 150).is_ok());
  ASSERT_TRUE(set("retry_count", 2).is_ok());
  ASSERT_TRUE(a_->core->change_nis(world_.now, tcp, {.lnd_timeout_s = 0}).is_ok());
  EXPECT_EQ(ni(kRailA1).tcp->timeout_s, 49);
  EXPECT_EQ(ni(kRailA1).lnd_timeout_asked_s, 0);
  EXPECT_EQ(ni(kRailA2).tcp->timeout_s, 49);
}

TEST_F(SettingsTest, AFilesLndTimeoutIsClampedUntilThereIsRoom) {
  two_rails({}, [](NiSettings& ni) { ni.tcp.timeout_s = 50; });
  EXPECT_EQ(ni(kRailA1).lnd_timeout_s, 49);
  EXPECT_EQ(ni(kRailA1).lnd_timeout_asked_s, 50);
  EXPECT_FALSE(set("transaction_timeout", 140).is_ok());
  EXPECT_EQ(a_->core->global(), quiet());
  ASSERT_TRUE(set("transaction_timeout", 151).is_ok());
  EXPECT_EQ(ni(kRailA1).lnd_timeout_s, 50);
  ASSERT_THAT(a_->lnd_timeouts, SizeIs(2));
  EXPECT_EQ(a_->lnd_timeouts[0].timeout, 50s);
}

TEST_F(SettingsTest, WhatIsUnderWayKeepsItsDeadline) {
  two_rails();
  put(AckRequest::kAck);
  world_.run();  // b drops it: nothing is posted there
  ASSERT_TRUE(set("transaction_timeout", 10).is_ok());
  world_.advance(149s);
  world_.events(*a_);
  EXPECT_EQ(a_->core->statistics().response_timeout_count, 0U);
  world_.advance(1s);
  EXPECT_EQ(a_->core->statistics().response_timeout_count, 1U);
}

// HL-16
TEST_F(SettingsTest, HealthByHandMovesTheStatusAndTellsWhoAsks) {
  two_rails();
  const uint32_t sequence = asked_info().sequence;
  struct Step {
    int32_t health;
    bool up;
  };
  for (const Step& step : {Step{500, true},
                           {0, false},
                           {500, false},
                           {999, false},
                           {1000, true},
                           {500, true},
                           {0, false},
                           {1000, true}}) {
    SCOPED_TRACE(step.health);
    ASSERT_TRUE(set_health(kRailA2, step.health).is_ok());
    EXPECT_EQ(ni(kRailA2).health, step.health);
    EXPECT_EQ(ni(kRailA2).up, step.up);
    EXPECT_EQ(asked_status(kRailA2), step.up ? kNiStatusUp : kNiStatusDown);
    EXPECT_EQ(asked_status(kRailA1), kNiStatusUp);
    EXPECT_EQ(asked_info().sequence, sequence) << "in place";
  }
  a_->core->handle_ni_fatal(world_.now, 2, true);
  EXPECT_FALSE(ni(kRailA2).up);
  EXPECT_EQ(asked_status(kRailA2), kNiStatusDown) << "a lost link, whatever the health";
}

// HL-8
TEST_F(SettingsTest, HealthByHandIsChecked) {
  two_rails();
  for (const int32_t bad : {-1, 1001}) {
    const Status status = set_health(kRailA1, bad);
    EXPECT_EQ(status.code(), EINVAL);
    EXPECT_EQ(status.text(), fmt::format("health must be a number from 0 to 1000, not {}", bad));
    EXPECT_EQ(a_->core->change_peers(world_.now, nid(kRailB1), {.health = bad}).code(), EINVAL);
  }
  EXPECT_EQ(ni(kRailA1).health, 1000);
  EXPECT_EQ(set_health("10.9.9.9@tcp", 5).code(), ENOENT);
  EXPECT_EQ(set_health("0@lo", 5).code(), EINVAL);
  EXPECT_EQ(a_->core->change_peers(world_.now, nid("10.9.9.9@tcp"), {.health = 5}).code(), ENOENT);
  // One wrong value, and nothing is changed.
  EXPECT_FALSE(
      a_->core->change_nis(world_.now, {}, {.health = 5, .health_sensitivity = 1001}).is_ok());
  EXPECT_EQ(ni(kRailA1).health, 1000);
  ASSERT_TRUE(a_->core->change_nis(world_.now, {}, {.health = 5}).is_ok());
  EXPECT_EQ(ni(kRailA1).health, 5);
  EXPECT_EQ(ni(kRailA2).health, 5);
  ASSERT_TRUE(a_->core->change_peers(world_.now, std::nullopt, {.health = 6}).is_ok());
  EXPECT_EQ(peer_ni(kRailB1).health, 6);
  EXPECT_EQ(peer_ni(kRailB2).health, 6);
}

// 4.5: traffic alone.
TEST_F(SettingsTest, TheStatusFollowsHealthThatTrafficMoves) {
  GlobalSettings global;
  global.health_sensitivity = 500;
  global.retry_count = 0;
  two_rails(global);
  const Completion local_fault{.error = ENETDOWN, .health = HealthStatus::kLocalDropped};
  put();
  world_.fail_one(*a_, local_fault);
  EXPECT_EQ(asked_status(kRailA1), kNiStatusUp) << "500";
  ASSERT_TRUE(set_health(kRailA1, 500).is_ok());  // what b asked has raised it
  put();
  world_.fail_one(*a_, local_fault);
  EXPECT_EQ(ni(kRailA1).health, 0);
  EXPECT_FALSE(ni(kRailA1).up);
  put();
  world_.run();
  EXPECT_EQ(ni(kRailA1).health, 500);
  EXPECT_FALSE(ni(kRailA1).up);
  put();
  world_.run();
  EXPECT_EQ(ni(kRailA1).health, 1000);
  EXPECT_TRUE(ni(kRailA1).up);
  EXPECT_EQ(asked_status(kRailA1), kNiStatusUp);
}

// Decisions D3: the nearest override wins, for loss and gain.
TEST_F(SettingsTest, SensitivityOfNetNiAndPeer) {
  GlobalSettings global;
  global.health_sensitivity = 10;
  global.retry_count = 0;
  a_ = &world_.add(
      "a", {kRailA1, kRailA2},
      [](NiSettings& ni) {
        ni.tunables.health_sensitivity = 20;
        if (ni.nid == nid(kRailA2)) ni.health_sensitivity = 30;
      },
      quiet(global));
  b_ = &world_.add("b", {kRailB1, kRailB2}, {}, quiet());
  introduce(world_, *a_, {kRailB1, kRailB2}, true, 40);
  introduce(world_, *a_, {"10.0.1.3@tcp", "10.0.1.13@tcp"});
  introduce(world_, *a_, {"10.0.2.3@tcp9", "10.0.2.13@tcp9"});
  world_.acquaint();
  EXPECT_EQ(ni(kRailA1).health_sensitivity, 20);
  EXPECT_EQ(ni(kRailA2).health_sensitivity, 30);
  EXPECT_EQ(peer_ni(kRailB1).health_sensitivity, 40);
  const PeerInfo b = a_->core->find_peer(nid(kRailB2)).value();
  EXPECT_EQ(b.own_health_sensitivity, 40);
  EXPECT_EQ(b.nis.at(1).health_sensitivity, 40);
  EXPECT_EQ(peer_ni("10.0.1.3@tcp").health_sensitivity, 20) << "the net's";
  EXPECT_EQ(peer_ni("10.0.2.3@tcp9").health_sensitivity, 10) << "no local net: the global one";

  const Completion timed_out{.error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout};
  put();
  world_.fail_one(*a_, timed_out);
  put(AckRequest::kNoAck, nid(kRailA2));
  world_.fail_one(*a_, timed_out);
  EXPECT_EQ(ni(kRailA1).health, 980);
  EXPECT_EQ(ni(kRailA2).health, 970);
  EXPECT_EQ(peer_ni(kRailB1).health, 920);
  put();
  world_.run();
  EXPECT_EQ(ni(kRailA1).health, 1000);

  // At run time: the NI's and the peer's go, the net's changes.
  const NiSelection tcp{.nid = {}, .net = NetId::parse("tcp").value()};
  ASSERT_TRUE(a_->core
                  ->change_nis(world_.now, {.nid = nid(kRailA2), .net = {}},
                               {.health_sensitivity = kInheritSensitivity})
                  .is_ok());
  ASSERT_TRUE(a_->core->change_nis(world_.now, tcp, {.health_sensitivity = 50}).is_ok());
  ASSERT_TRUE(
      a_->core->change_peers(world_.now, nid(kRailB2), {.health_sensitivity = kInheritSensitivity})
          .is_ok());
  for (const char* nid : {kRailA1, kRailA2}) EXPECT_EQ(ni(nid).health_sensitivity, 50);
  EXPECT_EQ(peer_ni(kRailB1).health_sensitivity, 50);
  ASSERT_TRUE(
      a_->core->change_nis(world_.now, tcp, {.health_sensitivity = kInheritSensitivity}).is_ok());
  EXPECT_EQ(ni(kRailA1).health_sensitivity, 10);
  EXPECT_EQ(a_->core->change_nis(world_.now, tcp, {.health_sensitivity = -2}).code(), EINVAL);
}

// Sensitivity 0: nothing moves, nobody is pinged; back to 100, recovery goes on.
TEST_F(SettingsTest, HealthOffAndOnAgain) {
  two_rails();
  ASSERT_TRUE(set("health_sensitivity", 0).is_ok());
  ASSERT_TRUE(set_health(kRailA2, 500).is_ok());
  for (int i = 0; i < 100; ++i) {
    world_.advance(1s);
    world_.run();
  }
  EXPECT_EQ(ni(kRailA2).ping_count, 0U);
  EXPECT_EQ(ni(kRailA2).health, 500);
  ASSERT_TRUE(set("health_sensitivity", 100).is_ok());
  for (int i = 0; i < 40; ++i) {
    world_.advance(1s);
    world_.run();
  }
  EXPECT_EQ(ni(kRailA2).health, 1000);
}

// The entry of a removed NI stays in the table, and nothing that is set counts for it or reaches
// it.
TEST_F(SettingsTest, ANiThatIsGoneIsLeftAlone) {
  two_rails({}, [](NiSettings& ni) {
    if (ni.nid == nid(kRailA2)) ni.tcp.timeout_s = 40;
  });
  ASSERT_TRUE(set_health(kRailA2, 500).is_ok());
  put(AckRequest::kNoAck, nid(kRailA2));
  ASSERT_THAT(a_->sends, SizeIs(1));
  const SendId last = a_->sends.front().id;
  a_->sends.clear();
  EXPECT_FALSE(set("transaction_timeout", 100).is_ok());
  ASSERT_TRUE(a_->core->remove_ni(world_.now, 2).is_ok());
  EXPECT_TRUE(set("transaction_timeout", 100).is_ok())
      << "its LND timeout forbids nothing any more";
  ASSERT_THAT(a_->lnd_timeouts, SizeIs(1));
  EXPECT_EQ(a_->lnd_timeouts[0].ni, 1U);
  EXPECT_EQ(set_health(kRailA2, 1000).code(), ENOENT);
  a_->core->handle_send_done(world_.now, last, Completion{});  // its driver is a little late
  for (int i = 0; i < 60; ++i) {
    world_.advance(1s);
    world_.collect();
    EXPECT_THAT(a_->sends, IsEmpty()) << "nobody pings it";
    a_->sends.clear();
  }
}

// HL-2: whoever waits for a far ping does not keep waiting when the cap comes down.
TEST_F(SettingsTest, ALowerCapOfPingsCountsAtOnce) {
  two_rails();
  ASSERT_TRUE(set_health(kRailA2, 0).is_ok());
  const auto pings_within = [&](Duration span) {
    size_t pings = 0;
    for (const Time end = world_.now + span; world_.now < end;) {
      world_.advance(1s);
      world_.collect();
      for (; !a_->sends.empty(); ++pings) {
        world_.fail_one(*a_, {.error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout});
      }
    }
    return pings;
  };
  EXPECT_GT(pings_within(600s), 6U);
  ASSERT_TRUE(set("max_recovery_ping_interval", 2).is_ok());
  EXPECT_GE(pings_within(100s), 100 / 2.5 - 2);
}

}  // namespace
}  // namespace ulnet
