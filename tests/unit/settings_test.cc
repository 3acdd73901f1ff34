// Settings of a node that runs, health by hand, and bounds that hold, in virtual time.
// Source: spec lnet-core 4.5, 7.1, 7.2, 8; decisions D2, D3, D5; cases HL-6, HL-7, HL-8, HL-16.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "config/show.h"
#include "lnet/base/integer_text.h"
#include "lnet/core/global_rules.h"
#include "lnet/wire/ping_info.h"
#include "tests/support/core_world.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using test::CoreWorld;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kPortal = 30;
constexpr const char* kRailA1 = "10.0.1.1@tcp";
constexpr const char* kRailA2 = "10.0.1.11@tcp";
constexpr const char* kRailB1 = "10.0.1.2@tcp";
constexpr const char* kRailB2 = "10.0.1.12@tcp";

// ---------------------------------------------------------------- the rules, without a node

TEST(IntegerText, OnlyWholeNumbers) {
  int64_t value = 0;
  for (const auto& [word, expected] : std::vector<std::pair<std::string, int64_t>>{
           {"0", 0}, {"1000", 1000}, {"-1", -1}, {"+7", 7}, {"0x10", 16}}) {
    EXPECT_TRUE(parse_integer(word, &value)) << word;
    EXPECT_EQ(value, expected);
  }
  for (const char* word :
       {"", "-", "abc", "1e3", "1.0", "010", " 1", "1 ", "0x", "--1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(word, &value)) << word;
  }
}

// HL-8, for every setting: the limits themselves are taken, one more or less is not, and names the
// range.
TEST(GlobalRules, RangesAreExactAndNamed) {
  GlobalSettings roomy;
  roomy.transaction_timeout_s = 86400;
  for (const GlobalField& field : kGlobalFields) {
    SCOPED_TRACE(field.name);
    for (const int64_t good : {field.low, field.high}) {
      const bool coupled = field.name == "transaction_timeout" && good == field.low;
      if (coupled) roomy.retry_count = 0;
      const auto changed = core::change_global(roomy, field.name, good, {});
      ASSERT_TRUE(changed) << changed.error().text();
      EXPECT_EQ(field.get(*changed), good);
    }
    for (const int64_t bad : {field.low - 1, field.high + 1}) {
      const auto changed = core::change_global(roomy, field.name, bad, {});
      ASSERT_FALSE(changed) << bad;
      EXPECT_EQ(changed.error().code(), EINVAL);
      EXPECT_THAT(changed.error().text(), AllOf(HasSubstr(std::string(field.name)),
                                                HasSubstr(range_text(field.low, field.high)),
                                                HasSubstr("not " + std::to_string(bad))));
    }
  }
  EXPECT_EQ(core::change_global({}, "no_such", 1, {}).error().code(), ENOENT);
}

TEST(GlobalRules, TransactionTimeoutIsAboveRetryCountExactly) {
  GlobalSettings global;
  global.retry_count = 3;
  EXPECT_TRUE(core::change_global(global, "transaction_timeout", 4, {}));
  EXPECT_EQ(core::change_global(global, "transaction_timeout", 3, {}).error().text(),
            "transaction_timeout 3 must be above retry_count 3");
  global.transaction_timeout_s = 4;
  EXPECT_TRUE(core::change_global(global, "retry_count", 3, {}));
  EXPECT_EQ(core::change_global(global, "retry_count", 4, {}).error().text(),
            "retry_count 4 must be below transaction_timeout 4");
}

// Decisions D5, with the numbers of seed 000.
TEST(GlobalRules, AskedForLndTimeoutsMustFit) {
  GlobalSettings fast;
  fast.transaction_timeout_s = 31;
  const std::vector<core::AskedTimeout> asked = {{test::nid("10.0.0.1@tcp"), 4},
                                                 {test::nid("10.0.0.2@tcp"), 10}};
  EXPECT_TRUE(core::change_global(fast, "transaction_timeout", 31, asked));
  EXPECT_TRUE(core::change_global(fast, "retry_count", 1, asked));
  EXPECT_EQ(core::change_global(fast, "transaction_timeout", 30, asked).error().text(),
            "transaction_timeout 30: 3 attempts at the LND timeout 10 of 10.0.0.2@tcp take 31 s; "
            "at least 31 would do");
  EXPECT_EQ(core::change_global(fast, "retry_count", 3, asked).error().text(),
            "retry_count 3: 4 attempts at the LND timeout 10 of 10.0.0.2@tcp take 41 s, "
            "transaction_timeout is 31; at most 2 would do");
  // Broken by a file: what is there already may be said again, and all else can be changed.
  GlobalSettings stock;
  const std::vector<core::AskedTimeout> fifty = {{test::nid("10.0.0.1@tcp"), 50}};
  EXPECT_TRUE(core::change_global(stock, "transaction_timeout", 150, fifty));
  EXPECT_TRUE(core::change_global(stock, "health_sensitivity", 7, fifty));
  EXPECT_TRUE(core::change_global(stock, "transaction_timeout", 151, fifty));
  EXPECT_FALSE(core::change_global(stock, "transaction_timeout", 149, fifty));

  EXPECT_TRUE(core::check_lnd_timeout(fast, 0).is_ok());
  EXPECT_TRUE(core::check_lnd_timeout(fast, 10).is_ok());
  EXPECT_EQ(core::check_lnd_timeout(fast, 11).text(),
            "an LND timeout of 11: 3 attempts take 34 s, transaction_timeout is 31; at most 10 "
            "would do");
  fast.transaction_timeout_s = 3;
  EXPECT_THAT(core::check_lnd_timeout(fast, 1).text(), HasSubstr("only 0, derived, would do"));
}

// ---------------------------------------------------------------- a node that runs

class SettingsTest : public testing::Test {
 protected:
  // Without discovery, so that nothing is on the wire but what a test sends.
  static GlobalSettings quiet(GlobalSettings global = {}) {
    global.discovery = false;
    return global;
  }
  void two_rails(const GlobalSettings& global = {},
                 const std::function<void(NiSettings&)>& tune = {}) {
    a_ = &world_.add("a", {kRailA1, kRailA2}, tune, quiet(global));
    b_ = &world_.add("b", {kRailB1, kRailB2}, {}, quiet());
    introduce(*a_, kRailB1, kRailB2);
    introduce(*b_, kRailA1, kRailA2);
    world_.acquaint();
  }
  void introduce(CoreWorld::Node& node, std::string_view first, std::string_view second,
                 std::optional<int32_t> sensitivity = {}) {
    PeerSettings peer;
    peer.primary_nid = test::nid(first);
    peer.nids = {test::nid(second)};
    peer.health_sensitivity = sensitivity;
    ASSERT_TRUE(node.core->configure_peer(world_.now, peer).is_ok());
  }
  // From the first rail to the first rail.
  void put(AckRequest ack = AckRequest::kNoAck, const Nid& source = test::nid(kRailA1),
           const Nid& target = test::nid(kRailB1)) {
    MdSpec md;
    md.fragments = {{memory_, 8}};
    md.threshold = ack == AckRequest::kAck ? 2 : 1;
    PutArgs args;
    args.md = a_->core->bind(md).value();
    args.ack = ack;
    args.target = {target, kPidLustre};
    args.portal = kPortal;
    args.source = source;
    EXPECT_TRUE(a_->core->put(world_.now, args).is_ok());
    world_.collect();
  }
  Status set(std::string_view name, int64_t value) {
    const Status status = a_->core->set_global(world_.now, name, value);
    world_.collect();
    return status;
  }
  Status set_health(std::string_view nid, int32_t health) {
    return a_->core->change_nis(world_.now, {.nid = test::nid(nid), .net = {}}, {.health = health});
  }
  NiInfo ni(std::string_view nid) {
    for (const NetInfo& net : a_->core->nets()) {
      for (const NiInfo& each : net.nis) {
        if (each.nid == test::nid(nid)) return each;
      }
    }
    ADD_FAILURE() << nid;
    return {};
  }
  PeerNiInfo peer_ni(std::string_view nid) {
    for (const PeerInfo& peer : a_->core->peers()) {
      for (const PeerNiInfo& each : peer.nis) {
        if (each.nid == test::nid(nid)) return each;
      }
    }
    ADD_FAILURE() << nid;
    return {};
  }
  // What a tells b that asks.
  PingInfo asked_info() {
    std::vector<uint8_t> answer(kPingBufferBytesMin);
    MdSpec md;
    md.fragments = {{answer.data(), answer.size()}};
    md.options = kMdTruncate;
    md.threshold = 2;
    GetArgs args;
    args.md = b_->core->bind(md).value();
    args.target = {test::nid(kRailA1), kPidLustre};
    args.match_bits = kPingMatchBits;
    EXPECT_TRUE(b_->core->get(world_.now, args).is_ok());
    world_.run();
    const std::vector<Event> events = world_.events(*b_);
    EXPECT_FALSE(events.empty());
    return decode_ping_info({answer.data(), events.back().mlength}, 16).value();
  }
  uint32_t asked_status(std::string_view nid) {
    for (const PingNi& each : asked_info().nis) {
      if (each.nid == test::nid(nid)) return each.status;
    }
    return 0;
  }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

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
      a_->core->change_nis(world_.now, {.nid = test::nid(kRailA2), .net = {}}, {.lnd_timeout_s = 0})
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
    EXPECT_EQ(a_->core->change_peers(world_.now, test::nid(kRailB1), {.health = bad}).code(),
              EINVAL);
  }
  EXPECT_EQ(ni(kRailA1).health, 1000);
  EXPECT_EQ(set_health("10.9.9.9@tcp", 5).code(), ENOENT);
  EXPECT_EQ(set_health("0@lo", 5).code(), EINVAL);
  EXPECT_EQ(a_->core->change_peers(world_.now, test::nid("10.9.9.9@tcp"), {.health = 5}).code(),
            ENOENT);
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
        if (ni.nid == test::nid(kRailA2)) ni.health_sensitivity = 30;
      },
      quiet(global));
  b_ = &world_.add("b", {kRailB1, kRailB2}, {}, quiet());
  introduce(*a_, kRailB1, kRailB2, 40);
  introduce(*a_, "10.0.1.3@tcp", "10.0.1.13@tcp");
  introduce(*a_, "10.0.2.3@tcp9", "10.0.2.13@tcp9");
  world_.acquaint();
  EXPECT_EQ(ni(kRailA1).health_sensitivity, 20);
  EXPECT_EQ(ni(kRailA2).health_sensitivity, 30);
  EXPECT_EQ(peer_ni(kRailB1).health_sensitivity, 40);
  EXPECT_EQ(peer_ni("10.0.1.3@tcp").health_sensitivity, 20) << "the net's";
  EXPECT_EQ(peer_ni("10.0.2.3@tcp9").health_sensitivity, 10) << "no local net: the global one";

  const Completion timed_out{.error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout};
  put();
  world_.fail_one(*a_, timed_out);
  put(AckRequest::kNoAck, test::nid(kRailA2));
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
                  ->change_nis(world_.now, {.nid = test::nid(kRailA2), .net = {}},
                               {.health_sensitivity = kInheritSensitivity})
                  .is_ok());
  ASSERT_TRUE(a_->core->change_nis(world_.now, tcp, {.health_sensitivity = 50}).is_ok());
  ASSERT_TRUE(a_->core
                  ->change_peers(world_.now, test::nid(kRailB2),
                                 {.health_sensitivity = kInheritSensitivity})
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
    if (ni.nid == test::nid(kRailA2)) ni.tcp.timeout_s = 40;
  });
  ASSERT_TRUE(set_health(kRailA2, 500).is_ok());
  put(AckRequest::kNoAck, test::nid(kRailA2));
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

// ---------------------------------------------------------------- statuses and who they blame

struct StatusRow {
  HealthStatus status;
  int32_t ni_loss;
  int32_t peer_ni_loss;
  uint64_t NiInfo::*ni_counter;
  uint64_t PeerNiInfo::*peer_ni_counter;
  uint64_t Statistics::*statistics_counter;
};

constexpr StatusRow kStatuses[] = {
    {HealthStatus::kLocalInterrupt, 100, 0, &NiInfo::interrupts, nullptr,
     &Statistics::local_interrupt_count},
    {HealthStatus::kLocalDropped, 100, 0, &NiInfo::dropped, nullptr,
     &Statistics::local_dropped_count},
    {HealthStatus::kLocalAborted, 100, 0, &NiInfo::aborted, nullptr,
     &Statistics::local_aborted_count},
    {HealthStatus::kLocalNoRoute, 100, 0, &NiInfo::no_route, nullptr,
     &Statistics::local_no_route_count},
    {HealthStatus::kLocalError, 100, 0, &NiInfo::errors, nullptr, &Statistics::local_error_count},
    {HealthStatus::kLocalTimeout, 100, 0, &NiInfo::timeouts, nullptr,
     &Statistics::local_timeout_count},
    {HealthStatus::kRemoteError, 0, 100, nullptr, &PeerNiInfo::errors,
     &Statistics::remote_error_count},
    {HealthStatus::kRemoteDropped, 0, 100, nullptr, &PeerNiInfo::dropped,
     &Statistics::remote_dropped_count},
    {HealthStatus::kRemoteTimeout, 0, 100, nullptr, &PeerNiInfo::timeouts,
     &Statistics::remote_timeout_count},
    {HealthStatus::kNetworkTimeout, 100, 100, nullptr, &PeerNiInfo::network_timeouts,
     &Statistics::network_timeout_count},
};

class StatusTest : public SettingsTest, public testing::WithParamInterface<StatusRow> {
 protected:
  StatusTest() { global_.retry_count = 0; }
  void fail_put(const Completion& completion) {
    put();
    ASSERT_THAT(a_->sends, SizeIs(1));
    world_.fail_one(*a_, completion);
  }
  // A PUT of b that a reads the payload of.
  ReceiveId begin_receive() {
    MdSpec md;
    md.fragments = {{memory_, sizeof memory_}};
    md.options = kMdPut;
    MeSpec me;
    me.portal = kPortal;
    EXPECT_TRUE(a_->core->md_attach(world_.now, a_->core->me_attach(me).value(), md));
    Header header;
    header.source_nid = test::nid(kRailB1);
    header.dest_nid = test::nid(kRailA1);
    header.source_pid = header.dest_pid = kPidLustre;
    header.payload_bytes = 8;
    PutPart part;
    part.portal = kPortal;
    header.part = part;
    const MessageVerdict verdict =
        a_->core->handle_message(world_.now, {1, test::nid(kRailB1), header, 1});
    EXPECT_EQ(verdict.kind, MessageVerdict::Kind::kReceive);
    return verdict.id;
  }
  void expect_untouched() {
    for (const char* nid : {kRailA1, kRailA2}) EXPECT_EQ(ni(nid).health, 1000);
    const Statistics statistics = a_->core->statistics();
    for (const StatusRow& row : kStatuses) {
      EXPECT_EQ(statistics.*row.statistics_counter, 0U) << to_string(row.status);
    }
  }
  Completion completion() const { return {.error = EIO, .health = GetParam().status}; }
  GlobalSettings global_;
};

TEST_P(StatusTest, MovesExactlyWhatTheTableSays) {
  two_rails(global_);
  fail_put(completion());
  const StatusRow& row = GetParam();
  EXPECT_EQ(ni(kRailA1).health, 1000 - row.ni_loss);
  EXPECT_EQ(peer_ni(kRailB1).health, 1000 - row.peer_ni_loss);
  EXPECT_EQ(ni(kRailA2).health, 1000);
  EXPECT_EQ(peer_ni(kRailB2).health, 1000);
  const Statistics statistics = a_->core->statistics();
  for (const StatusRow& other : kStatuses) {
    const uint64_t expected = other.status == row.status ? 1 : 0;
    SCOPED_TRACE(to_string(other.status));
    EXPECT_EQ(statistics.*other.statistics_counter, expected);
    if (other.ni_counter != nullptr) {
      EXPECT_EQ(ni(kRailA1).*other.ni_counter, expected);
      EXPECT_EQ(ni(kRailA2).*other.ni_counter, 0U);
    }
    if (other.peer_ni_counter != nullptr) {
      EXPECT_EQ(peer_ni(kRailB1).*other.peer_ni_counter, expected);
      EXPECT_EQ(peer_ni(kRailB2).*other.peer_ni_counter, 0U);
    }
  }
}

TEST_P(StatusTest, ASingleRailPeerKeepsItsHealthAndIsCounted) {
  a_ = &world_.add("a", {kRailA1, kRailA2}, {}, quiet(global_));
  b_ = &world_.add("b", {kRailB1}, {}, quiet());
  world_.acquaint();
  fail_put(completion());
  EXPECT_EQ(ni(kRailA1).health, 1000 - GetParam().ni_loss);
  EXPECT_EQ(peer_ni(kRailB1).health, 1000);
  EXPECT_EQ(a_->core->statistics().*GetParam().statistics_counter, 1U);
}

TEST_P(StatusTest, NothingMovesWithAnErrnoThatDisagrees) {
  two_rails(global_);
  fail_put({.error = 0, .health = GetParam().status});
  expect_untouched();
  // A success that is none does not raise either.
  ASSERT_TRUE(set_health(kRailA1, 500).is_ok());
  fail_put({.error = 0, .health = GetParam().status});
  EXPECT_EQ(ni(kRailA1).health, 500);
}

TEST_P(StatusTest, NothingMovesAfterTheDeadline) {
  two_rails(global_);
  put();
  world_.advance(151s);
  world_.fail_one(*a_, completion());
  expect_untouched();
  EXPECT_THAT(world_.events(*a_), SizeIs(1)) << "it ends all the same";
}

TEST_P(StatusTest, NothingMovesOnLoopback) {
  two_rails(global_);
  put(AckRequest::kNoAck, Nid::any(), Nid::lo());
  ASSERT_THAT(a_->sends, SizeIs(1));
  world_.fail_one(*a_, completion());
  expect_untouched();
}

TEST_P(StatusTest, NothingMovesWhileTheNodeStops) {
  two_rails(global_);
  put();
  a_->core->shut_down(world_.now);
  world_.fail_one(*a_, completion());
  expect_untouched();
}

// "For a message that failed while being received the local NI and the sender are blamed."
TEST_P(StatusTest, AFailedReceiveBlamesLikewise) {
  two_rails(global_);
  const ReceiveId id = begin_receive();
  a_->core->handle_receive_done(world_.now, id, completion());
  EXPECT_EQ(ni(kRailA1).health, 1000 - GetParam().ni_loss);
  EXPECT_EQ(peer_ni(kRailB1).health, 1000 - GetParam().peer_ni_loss);
  EXPECT_EQ(a_->core->statistics().*GetParam().statistics_counter, 1U);
  world_.collect();
  EXPECT_THAT(a_->sends, IsEmpty());
}

TEST_P(StatusTest, AReceiveThatFailsLateBlamesNobody) {
  two_rails(global_);
  const ReceiveId id = begin_receive();
  world_.advance(151s);
  a_->core->handle_receive_done(world_.now, id, completion());
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Ten, StatusTest, testing::ValuesIn(kStatuses), [](const auto& test) {
  return std::string(to_string(test.param.status));
});

TEST_F(StatusTest, AnErrnoWithoutAStatusIsNobodysFault) {
  two_rails(global_);
  fail_put({.error = EIO, .health = HealthStatus::kOk});
  expect_untouched();
  EXPECT_THAT(world_.events(*a_), SizeIs(1));
}

// Seed 001's eight kinds, counted at both ends of the pair.
TEST_F(StatusTest, TheKindsOfSeedOneAreCountedPerInterface) {
  two_rails(global_);
  for (size_t kind = 1; kind < kFailureKinds; ++kind) {
    fail_put({.error = EIO,
              .health = HealthStatus::kLocalDropped,
              .kind = static_cast<FailureKind>(kind)});
  }
  for (const auto& counters : {ni(kRailA1).failures, peer_ni(kRailB1).failures}) {
    EXPECT_THAT(counters, SizeIs(kFailureKinds - 1));
    for (const CounterInfo& counter : counters) EXPECT_EQ(counter.value, 1U) << counter.name;
  }
  for (const CounterInfo& counter : ni(kRailA2).failures) EXPECT_EQ(counter.value, 0U);
  a_->core->handle_ni_fatal(world_.now, 2, true);
  a_->core->handle_ni_fatal(world_.now, 2, false);
  uint64_t sum = 0;
  for (const CounterInfo& counter : ni(kRailA2).failures) sum += counter.value;
  EXPECT_EQ(sum, 2U) << "down and up, of the device itself";
}

// ---------------------------------------------------------------- bounds

struct BoundRow {
  const char* name;
  int32_t transaction_timeout_s;
  int32_t retry_count;
  int32_t asked_s;
  int32_t lnd_timeout_s;  // in force
  int32_t attempt_bound_s;
};

class BoundTest : public SettingsTest, public testing::WithParamInterface<BoundRow> {
 protected:
  void start(int32_t peer_credits = 8) {
    GlobalSettings global;
    global.transaction_timeout_s = GetParam().transaction_timeout_s;
    global.retry_count = GetParam().retry_count;
    two_rails(global, [&](NiSettings& ni) {
      ni.tcp.timeout_s = GetParam().asked_s;
      ni.tunables.peer_credits = peer_credits;
    });
    const auto shown = config::show_global(a_->core->global(), a_->core->nets())["global"]["ulnet"];
    operation_bound_ = std::chrono::seconds(shown["operation_bound"].get<int>());
    attempt_bound_ = std::chrono::seconds(shown["lnd_timeouts"][0]["attempt_bound"].get<int>());
    EXPECT_EQ(shown["lnd_timeouts"][0]["in_force"], GetParam().lnd_timeout_s);
  }
  // The one event that ends it comes at `bound`, and not before.
  void expect_end_at(Duration bound, int32_t status) {
    world_.advance(bound - 1ns);
    for (const Event& event : world_.events(*a_)) EXPECT_FALSE(event.unlinked);
    world_.advance(1ns);
    const std::vector<Event> events = world_.events(*a_);
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_TRUE(events[0].unlinked);
    EXPECT_EQ(events[0].status, status);
  }
  void get() {
    MdSpec md;
    md.fragments = {{memory_, sizeof memory_}};
    md.threshold = 2;
    GetArgs args;
    args.md = a_->core->bind(md).value();
    args.target = {test::nid(kRailB1), kPidLustre};
    args.portal = kPortal;
    ASSERT_TRUE(a_->core->get(world_.now, args).is_ok());
    swallow();
  }
  // Every message is taken by the wire and never answered.
  void swallow() {
    world_.collect();
    while (!a_->sends.empty()) {
      const SendId id = a_->sends.front().id;
      a_->sends.pop_front();
      a_->core->handle_send_done(world_.now, id, Completion{});
    }
  }
  Duration operation_bound_{};
  Duration attempt_bound_{};
};

TEST_P(BoundTest, TheNumbers) {
  start();
  EXPECT_EQ(operation_bound_, std::chrono::seconds(GetParam().transaction_timeout_s));
  EXPECT_EQ(attempt_bound_, std::chrono::seconds(GetParam().attempt_bound_s));
}

TEST_P(BoundTest, AGetOfASilentPeer) {
  start();
  get();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AGetThatWaitsForDiscovery) {
  start();
  ASSERT_TRUE(set("discovery", 1).is_ok());
  get();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AnAcknowledgedPutToASilentPeer) {
  start();
  put(AckRequest::kAck);
  swallow();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AMessageThatNeverGetsItsCredit) {
  start(1);
  put();
  ASSERT_THAT(a_->sends, SizeIs(1));  // and there it stays
  put();
  expect_end_at(attempt_bound_, -ETIMEDOUT);
}

// The driver gives each attempt up at its LND timeout, so that the next one has its time, too.
TEST_P(BoundTest, AllAttemptsOfAMessageTogether) {
  start();
  ASSERT_TRUE(set("health_sensitivity", 0).is_ok());  // no recovery pings in between
  const Time begin = world_.now;
  put(AckRequest::kNoAck, Nid::any());
  int32_t attempts = 0;
  while (world_.collect() || !a_->sends.empty()) {
    ASSERT_THAT(a_->sends, SizeIs(1));
    const SendAction send = a_->sends.front();
    const Duration patience = std::min(send.deadline - world_.now,
                                       Duration(std::chrono::seconds(GetParam().lnd_timeout_s)));
    world_.advance(patience);
    world_.fail_one(
        *a_, {.error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout, .nothing_posted = true});
    ++attempts;
  }
  EXPECT_LE(world_.now - begin, operation_bound_);
  EXPECT_EQ(attempts, std::min(GetParam().retry_count + 1,
                               (GetParam().transaction_timeout_s + GetParam().lnd_timeout_s - 1) /
                                   GetParam().lnd_timeout_s));
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].status, -ETIMEDOUT);
}

INSTANTIATE_TEST_SUITE_P(Settings, BoundTest,
                         testing::Values(BoundRow{"seed_000", 31, 2, 10, 10, 31},
                                         BoundRow{"aries", 61, 0, 60, 60, 61},
                                         BoundRow{"defaults", 150, 2, 0, 49, 148},
                                         BoundRow{"stock_export", 150, 2, 50, 49, 148},
                                         BoundRow{"short_lnd_timeout", 150, 2, 7, 7, 22},
                                         BoundRow{"no_retries", 50, 0, 0, 49, 50},
                                         BoundRow{"many_retries", 100, 9, 0, 9, 91},
                                         BoundRow{"tight", 4, 3, 0, 1, 4},
                                         BoundRow{"least", 1, 0, 0, 1, 1}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ulnet
