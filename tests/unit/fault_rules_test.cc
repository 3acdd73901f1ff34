// The lists of fault rules: what a rule may say, which messages it fits, which of those it acts on.
// Source: spec lnet-core 10.1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <map>
#include <set>

#include "lnet/core/fault.h"
#include "tests/support/nid.h"

namespace ulnet::core {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint32_t kPortal = 30;

using test::nid;

Header header(MessageType type, uint32_t portal = kPortal) {
  Header h;
  h.source_nid = nid("10.0.0.1@tcp");
  h.dest_nid = nid("10.0.0.2@tcp");
  if (type == MessageType::kPut) h.part = PutPart{WireHandle::none(), 0, 0, portal, 0};
  if (type == MessageType::kGet) h.part = GetPart{WireHandle::none(), 0, portal, 0, 0};
  if (type == MessageType::kAck) h.part = AckPart{};
  if (type == MessageType::kReply) h.part = ReplyPart{};
  return h;
}

class FaultRulesTest : public testing::Test {
 protected:
  static FaultRule drop(uint32_t rate) {
    FaultRule rule;
    rule.rate = rate;
    return rule;
  }
  static FaultRule drop_each_out(uint32_t health_errors) {
    FaultRule rule = drop(1);
    rule.health_errors = health_errors;
    return rule;
  }
  static FaultRule delay(uint32_t latency_s) {
    FaultRule rule;
    rule.kind = FaultKind::kDelay;
    rule.rate = 1;
    rule.latency_s = latency_s;
    return rule;
  }
  void add(const FaultRule& rule) {
    const Status status = rules_.add(rule, now_);
    ASSERT_TRUE(status.is_ok()) << status.text();
  }
  bool received(MessageType type = MessageType::kPut, uint32_t portal = kPortal) {
    return rules_.drops_received(header(type, portal), own_, now_);
  }
  FaultInfo only(FaultKind kind = FaultKind::kDrop) {
    const std::vector<FaultInfo> all = rules_.list(kind);
    EXPECT_EQ(all.size(), 1U);
    return all.front();
  }
  std::vector<uint64_t> released() {
    std::vector<uint64_t> ids;
    while (const auto message = rules_.pop_released()) ids.push_back(message->id);
    return ids;
  }
  void hold(uint64_t id) {
    const FaultRuleId rule = rules_.find_delay(header(MessageType::kPut), now_);
    ASSERT_NE(rule, 0U);
    rules_.hold(rule, {true, id}, now_);
  }
  // Runs the timers that are due at `when`.
  void advance_to(Time when) {
    now_ = when;
    while (const Timer* timer = timers_.pop_due(now_)) rules_.rule_due(timer->id, now_);
  }

  Time now_{1000s};
  const Nid own_ = nid("10.0.0.2@tcp");
  Rng rng_{7};
  TimerHeap timers_;
  FaultRules rules_{rng_, timers_};
};

// ---------------------------------------------------------------- validation

struct BadRule {
  const char* name;
  std::function<void(FaultRule&)> spoil;
  const char* complaint;
};

class FaultCheckTest : public testing::TestWithParam<BadRule> {};

TEST_P(FaultCheckTest, IsRefusedWithTheReason) {
  for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay}) {
    FaultRule rule;
    rule.kind = kind;
    rule.rate = 10;
    if (kind == FaultKind::kDelay) rule.latency_s = 1;
    ASSERT_TRUE(validate_fault(rule).is_ok());
    if (std::string_view(GetParam().name).starts_with("delay") != (kind == FaultKind::kDelay))
      continue;
    GetParam().spoil(rule);
    const Status status = validate_fault(rule);
    EXPECT_EQ(status.code(), EINVAL);
    EXPECT_THAT(status.text(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, FaultCheckTest,
    testing::Values(
        BadRule{"neither", [](FaultRule& r) { r.rate = 0; },
                "rate 0 and interval 0: exactly one of them must be above 0"},
        BadRule{"both", [](FaultRule& r) { r.interval_s = 5; }, "rate 10 and interval 5"},
        BadRule{"drop_all_too",
                [](FaultRule& r) {
                  r.rate = 0;
                  r.drop_all = true;
                },
                "exactly one of them"},
        BadRule{"random_rate", [](FaultRule& r) { r.random = true; }, "random needs an interval"},
        BadRule{"big_rate", [](FaultRule& r) { r.rate = 1U << 31; },
                "rate 2147483648 is above 2147483647"},
        BadRule{"portal_of_ack",
                [](FaultRule& r) {
                  r.portals = 1;
                  r.messages = kFaultAck | kFaultReply;
                },
                "must be for PUT or GET"},
        BadRule{"unknown_message", [](FaultRule& r) { r.messages = 1U << 4; },
                "message types 0x10: there are only 0xf"},
        BadRule{"health_ok", [](FaultRule& r) { r.health_errors = 1; },
                "health errors 0x1: only bits 1 to 10"},
        BadRule{"health_above", [](FaultRule& r) { r.health_errors = 1U << 11; }, "0x800"},
        BadRule{"latency", [](FaultRule& r) { r.latency_s = 1; }, "a drop rule has no latency"},
        BadRule{"delay_without_latency", [](FaultRule& r) { r.latency_s = 0; },
                "a latency of at least 1 second"},
        BadRule{"delay_big_latency", [](FaultRule& r) { r.latency_s = UINT32_MAX; },
                "latency 4294967295 is above"},
        BadRule{"delay_random",
                [](FaultRule& r) {
                  r.rate = 0;
                  r.interval_s = 1;
                  r.random = true;
                },
                "belong to drop rules"},
        BadRule{"delay_drop_all", [](FaultRule& r) { r.drop_all = true; }, "belong to drop rules"},
        BadRule{"delay_health", [](FaultRule& r) { r.health_errors = 2; }, "belong to drop rules"}),
    [](const auto& test) { return test.param.name; });

TEST_F(FaultRulesTest, ThereIsALimit) {
  for (size_t i = 0; i < kFaultRulesMax; ++i) add(drop(10));
  const Status status = rules_.add(drop(10), now_);
  EXPECT_EQ(status.code(), ENOSPC);
  EXPECT_EQ(status.text(), "there are 256 drop rules already");
  add(delay(1));
}

// ---------------------------------------------------------------- words

TEST(FaultWords, NidsAreNetsNidsAndTheStar) {
  EXPECT_TRUE(parse_fault_nid("*")->is_any());
  EXPECT_EQ(*parse_fault_nid("tcp1"), nid("255.255.255.255@tcp1"));
  EXPECT_EQ(*parse_fault_nid("10.0.0.1@tcp1"), nid("10.0.0.1@tcp1"));
  EXPECT_THAT(parse_fault_nid("10.0.0").error().text(), HasSubstr("'10.0.0'"));
  EXPECT_FALSE(parse_fault_nid("").has_value());
}

FaultRule in_words(FaultKind kind, const std::vector<std::pair<const char*, const char*>>& words) {
  FaultRule rule;
  rule.kind = kind;
  for (const auto& [field, word] : words) {
    const Status status = set_fault_field(rule, field, word);
    EXPECT_TRUE(status.is_ok()) << status.text();
  }
  return rule;
}

TEST(FaultWords, MakeARuleAndComeBackFromIt) {
  const FaultRule drop = in_words(FaultKind::kDrop, {{"source", "*"},
                                                     {"dest", "tcp1"},
                                                     {"interval", "60"},
                                                     {"portal", "0"},
                                                     {"portal", "63"},
                                                     {"message", "put"},
                                                     {"message", "GET"},
                                                     {"local_nid", "10.0.0.1@tcp1"},
                                                     {"health_error", "LOCAL_interrupt"},
                                                     {"health_error", "network_timeout"},
                                                     {"random", "true"},
                                                     {"drop_all", "1"}});
  FaultRule wanted;
  wanted.dest = nid("255.255.255.255@tcp1");
  wanted.local_nid = nid("10.0.0.1@tcp1");
  wanted.interval_s = 60;
  wanted.portals = uint64_t{1} << 63 | 1;
  wanted.messages = kFaultPut | kFaultGet;
  wanted.health_errors = 1U << 1 | 1U << 10;
  wanted.random = wanted.drop_all = true;
  EXPECT_EQ(drop, wanted);
  const FaultRule delay = in_words(FaultKind::kDelay, {{"source", "10.0.0.1@tcp"},
                                                       {"dest", "*"},
                                                       {"rate", "0x7"},
                                                       {"message", "ACK"},
                                                       {"message", "reply"},
                                                       {"latency", "3"}});
  EXPECT_EQ(delay.latency_s, 3U);
  EXPECT_EQ(delay.messages, kFaultAck | kFaultReply);
  FaultRule any = wanted;
  any.health_errors = kFaultAnyHealth;
  for (const FaultRule& rule : {drop, delay, any}) {
    FaultRule again;
    again.kind = rule.kind;
    for (const FaultWords& each : fault_words(rule)) {
      for (const std::string& word : each.words)
        EXPECT_TRUE(set_fault_field(again, each.field, word).is_ok()) << each.field << word;
    }
    EXPECT_EQ(again, rule);
  }
}

TEST(FaultWords, AWrongOneIsQuotedWithWhatWouldBeRight) {
  const auto fault = [](std::string_view field, std::string_view word,
                        FaultKind kind = FaultKind::kDrop) {
    FaultRule rule;
    rule.kind = kind;
    const Status status = set_fault_field(rule, field, word);
    EXPECT_EQ(status.code(), EINVAL) << field << ' ' << word;
    FaultRule untouched;
    untouched.kind = kind;
    EXPECT_EQ(rule, untouched);
    return status.text();
  };
  for (const char* word :
       {"0", "-1", "x", "", "0x", "0x-1", "1.5", "2147483648", "99999999999999"}) {
    EXPECT_EQ(fault("rate", word),
              std::string("'rate' must be a number from 1 to 2147483647, not '") + word + "'");
  }
  EXPECT_EQ(fault("portal", "64"), "'portal' must be a number from 0 to 63, not '64'");
  EXPECT_EQ(fault("message", "hello"),
            "'message' must be one of ACK, PUT, GET, REPLY, not 'hello'");
  EXPECT_THAT(fault("health_error", "ok"), HasSubstr("one of local_interrupt, local_dropped,"));
  EXPECT_EQ(fault("random", "maybe"), "'random' must be true or false, not 'maybe'");
  EXPECT_THAT(fault("source", "1.2.3"), HasSubstr("'source': "));
  EXPECT_EQ(fault("latency", "1"), "a drop rule has no 'latency'");
  EXPECT_EQ(fault("drop_all", "1", FaultKind::kDelay), "a delay rule has no 'drop_all'");
}

// ---------------------------------------------------------------- which messages

TEST_F(FaultRulesTest, SourceAndDestinationAreTheHeaders) {
  const auto fits = [&](std::string_view source, std::string_view dest) {
    rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any());
    FaultRule rule = drop(1);
    rule.source = parse_fault_nid(source).value();
    rule.dest = parse_fault_nid(dest).value();
    add(rule);
    return received();
  };
  EXPECT_TRUE(fits("10.0.0.1@tcp", "10.0.0.2@tcp"));
  EXPECT_TRUE(fits("*", "10.0.0.2@tcp"));
  EXPECT_TRUE(fits("10.0.0.1@tcp", "*"));
  EXPECT_TRUE(fits("tcp", "tcp"));
  EXPECT_TRUE(fits("255.255.255.255@tcp", "*"));
  EXPECT_FALSE(fits("tcp1", "*"));
  EXPECT_FALSE(fits("*", "o2ib"));
  EXPECT_FALSE(fits("10.0.0.2@tcp", "*"));
  EXPECT_FALSE(fits("*", "10.0.0.1@tcp"));
  EXPECT_FALSE(fits("10.0.0.1@tcp1", "*"));
}

TEST_F(FaultRulesTest, ANetTakesItsLargeAddressesToo) {
  FaultRule rule = drop(1);
  rule.source = parse_fault_nid("tcp").value();
  add(rule);
  Header large = header(MessageType::kPut);
  large.source_nid = nid("2001:db8::1@tcp");
  EXPECT_TRUE(rules_.drops_received(large, own_, now_));
}

TEST_F(FaultRulesTest, TheLocalNidIsKnownOnTheReceiveSideOnly) {
  FaultRule rule = drop(1);
  rule.local_nid = own_;
  rule.drop_all = true;
  add(rule);
  EXPECT_TRUE(received());
  EXPECT_FALSE(rules_.drops_received(header(MessageType::kPut), nid("10.0.0.3@tcp"), now_));
  EXPECT_FALSE(rules_.drops_sent(header(MessageType::kPut), now_).has_value());
  FaultRule slow = delay(1);
  slow.local_nid = own_;
  add(slow);
  EXPECT_EQ(rules_.find_delay(header(MessageType::kPut), now_), 0U);
}

TEST_F(FaultRulesTest, PortalsLeaveOnlyPutAndGet) {
  FaultRule rule = drop(1);
  rule.portals = uint64_t{1} << kPortal | uint64_t{1} << 63;
  add(rule);
  EXPECT_EQ(only().rule.messages, kFaultPut | kFaultGet);
  EXPECT_TRUE(received(MessageType::kPut));
  EXPECT_TRUE(received(MessageType::kGet, 63));
  EXPECT_FALSE(received(MessageType::kPut, kPortal + 1));
  EXPECT_FALSE(received(MessageType::kPut, 64 + kPortal));
  EXPECT_FALSE(received(MessageType::kAck));
  EXPECT_FALSE(received(MessageType::kReply));
  EXPECT_EQ(only().examined, 2U);
}

TEST_F(FaultRulesTest, EachTypeHasItsBitAndItsCounter) {
  FaultRule rule = drop(1);
  rule.messages = kFaultAck | kFaultReply;
  add(rule);
  EXPECT_TRUE(received(MessageType::kAck));
  EXPECT_TRUE(received(MessageType::kReply));
  EXPECT_FALSE(received(MessageType::kPut));
  EXPECT_FALSE(received(MessageType::kGet));
  rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any());
  add(drop(1));
  for (const auto type : {MessageType::kAck, MessageType::kPut, MessageType::kPut,
                          MessageType::kGet, MessageType::kReply})
    EXPECT_TRUE(received(type));
  const FaultInfo info = only();
  EXPECT_EQ(info.ack, 1U);
  EXPECT_EQ(info.put, 2U);
  EXPECT_EQ(info.get, 1U);
  EXPECT_EQ(info.reply, 1U);
  EXPECT_EQ(info.acted, 5U);
  EXPECT_EQ(info.examined, 5U);
}

// ---------------------------------------------------------------- which of those

TEST_F(FaultRulesTest, OneOfEachGroupIsDroppedAtARandomPlace) {
  constexpr uint32_t kRate = 5;
  std::set<uint32_t> places;
  add(drop(kRate));
  for (int group = 0; group < 200; ++group) {
    uint32_t dropped = 0;
    for (uint32_t place = 0; place < kRate; ++place) {
      if (!received()) continue;
      ++dropped;
      places.insert(place);
    }
    EXPECT_EQ(dropped, 1U) << "group " << group;
  }
  EXPECT_EQ(places.size(), kRate);
  EXPECT_EQ(only().examined, 200U * kRate);
  EXPECT_EQ(only().acted, 200U);
}

TEST_F(FaultRulesTest, WithRateTwoTheVeryFirstIsDropped) {
  bool second_of_a_group = false;
  for (int i = 0; i < 50; ++i) {
    add(drop(2));
    EXPECT_TRUE(received());
    EXPECT_FALSE(received());
    second_of_a_group = second_of_a_group || !received();
    // After a reset, too, wherever it was.
    rules_.reset(FaultKind::kDrop, now_);
    EXPECT_EQ(only().examined, 0U);
    EXPECT_TRUE(received());
    rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any());
  }
  EXPECT_TRUE(second_of_a_group) << "only the first group is special";
}

TEST_F(FaultRulesTest, OneInEachWindowIsDroppedBehindARandomSecond) {
  constexpr int kInterval = 4;
  FaultRule rule;
  rule.interval_s = kInterval;
  add(rule);
  const Time begin = now_;
  std::map<int, int> drops_in_window;
  std::set<int> seconds;
  for (int tick = 0; tick < 100 * kInterval * 2; ++tick) {
    now_ = begin + tick * 500ms;
    if (!received()) continue;
    ++drops_in_window[tick / 2 / kInterval];
    EXPECT_EQ(tick % 2, 0) << "the first message behind a whole second";
    seconds.insert(tick / 2 % kInterval);
  }
  EXPECT_EQ(drops_in_window.size(), 100U);
  for (const auto& [window, drops] : drops_in_window) EXPECT_EQ(drops, 1) << "window " << window;
  EXPECT_EQ(seconds.size(), static_cast<size_t>(kInterval));
}

TEST_F(FaultRulesTest, WindowsInWhichNothingCameAreSkipped) {
  FaultRule rule;
  rule.interval_s = 10;
  add(rule);
  now_ += 995s;  // in the middle of window 100
  EXPECT_TRUE(received());
  for (int second = 1; second < 5; ++second) {
    now_ += 1s;
    EXPECT_FALSE(received()) << "this window has had its hit";
  }
  int more = 0;
  for (int second = 0; second < 10; ++second) {
    now_ += 1s;
    more += received() ? 1 : 0;
  }
  EXPECT_EQ(more, 1);
}

TEST_F(FaultRulesTest, RandomDropsHalfAndCountsNoExamined) {
  FaultRule rule;
  rule.interval_s = 2;
  rule.random = true;
  add(rule);
  int dropped = 0;
  for (int i = 0; i < 10000; ++i) dropped += received() ? 1 : 0;
  EXPECT_NEAR(dropped, 5000, 300);
  EXPECT_EQ(only().examined, 0U);
  EXPECT_EQ(only().acted, static_cast<uint64_t>(dropped));
}

TEST_F(FaultRulesTest, RandomWithIntervalOneDropsEach) {
  FaultRule rule;
  rule.interval_s = 1;
  rule.random = true;
  add(rule);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(received());
}

TEST_F(FaultRulesTest, TheSameSeedMakesTheSameChoices) {
  const auto choices = [](uint64_t seed) {
    Rng rng(seed);
    TimerHeap timers;
    FaultRules rules(rng, timers);
    EXPECT_TRUE(rules.add(drop(7), Time(0s)).is_ok());
    std::vector<bool> dropped;
    for (int i = 0; i < 100; ++i)
      dropped.push_back(rules.drops_received(header(MessageType::kPut), Nid::any(), Time(0s)));
    return dropped;
  };
  EXPECT_EQ(choices(1), choices(1));
  EXPECT_NE(choices(1), choices(2));
}

// ---------------------------------------------------------------- sides

TEST_F(FaultRulesTest, HealthErrorsDecideTheSide) {
  add(drop(1));
  EXPECT_TRUE(received());
  EXPECT_FALSE(rules_.drops_sent(header(MessageType::kPut), now_).has_value());
  EXPECT_EQ(only().examined, 1U);  // not tried on the other side
  rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any());
  add(drop_each_out(1U << 8));
  EXPECT_FALSE(received());
  EXPECT_EQ(rules_.drops_sent(header(MessageType::kPut), now_), HealthStatus::kRemoteDropped);
  EXPECT_EQ(only().examined, 1U);
}

TEST_F(FaultRulesTest, DropAllActsOnBothSidesAndIgnoresTheRate) {
  for (const uint32_t mask : {0U, 1U << 3}) {
    FaultRule rule = drop(1000);
    rule.drop_all = true;
    rule.health_errors = mask;
    add(rule);
    std::map<HealthStatus, int> statuses;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(received());
      const auto status = rules_.drops_sent(header(MessageType::kPut), now_);
      ASSERT_TRUE(status.has_value());
      ++statuses[*status];
    }
    EXPECT_EQ(only().examined, 0U);
    EXPECT_EQ(only().acted, 2000U);
    if (mask == 0) {
      EXPECT_EQ(statuses.size(), kFaultHealthMax);
      EXPECT_FALSE(statuses.contains(HealthStatus::kOk));
      for (const auto& [status, count] : statuses) EXPECT_NEAR(count, 100, 50);
    } else {
      EXPECT_EQ(statuses, (std::map<HealthStatus, int>{{HealthStatus::kLocalAborted, 1000}}));
    }
    rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any());
  }
}

// Draws 0 (as 1) to 10 and takes the nearest that is allowed, the higher of two.
TEST(FaultHealth, TheNearestAllowedStatusIsTaken) {
  Rng rng(3);
  const auto counts = [&rng](uint32_t mask) {
    std::map<int, int> drawn;
    for (int i = 0; i < 11000; ++i) ++drawn[static_cast<int>(draw_health_status(mask, rng))];
    return drawn;
  };
  const auto any = counts(kFaultAnyHealth);
  ASSERT_EQ(any.size(), 10U);
  EXPECT_NEAR(any.at(1), 2000, 200);  // a drawn 0, too
  for (int status = 2; status <= 10; ++status) EXPECT_NEAR(any.at(status), 1000, 150) << status;
  // 0..4 are nearer to 3 or as near as to 7: the higher wins at 5.
  const auto two = counts(1U << 3 | 1U << 7);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NEAR(two.at(3), 5000, 300);
  EXPECT_NEAR(two.at(7), 6000, 300);
}

// ---------------------------------------------------------------- lists

TEST_F(FaultRulesTest, TheNewestIsTriedFirstAndEachThatFitsCounts) {
  FaultRule first = drop(1);
  first.source = nid("10.0.0.1@tcp");
  add(first);
  add(drop(2));  // tried before it: hits the first of two
  EXPECT_TRUE(received());
  std::vector<FaultInfo> all = rules_.list(FaultKind::kDrop);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].rule.rate, 2U);
  EXPECT_EQ(all[0].acted, 1U);
  EXPECT_EQ(all[1].examined, 0U);  // not reached
  EXPECT_TRUE(received());         // the second of the group: passed on to the older rule
  all = rules_.list(FaultKind::kDrop);
  EXPECT_EQ(all[0].examined, 2U);
  EXPECT_EQ(all[0].acted, 1U);
  EXPECT_EQ(all[1].examined, 1U);
  EXPECT_EQ(all[1].acted, 1U);
}

TEST_F(FaultRulesTest, RemovingGoesBySourceAndDestination) {
  const auto add_from_to = [&](std::string_view source, std::string_view dest) {
    FaultRule rule = drop(1);
    rule.source = parse_fault_nid(source).value();
    rule.dest = parse_fault_nid(dest).value();
    add(rule);
  };
  add_from_to("10.0.0.1@tcp", "10.0.0.2@tcp");
  add_from_to("10.0.0.1@tcp", "*");
  add_from_to("10.0.0.3@tcp", "10.0.0.2@tcp");
  add_from_to("tcp", "tcp");
  add(delay(1));
  EXPECT_EQ(rules_.remove(FaultKind::kDrop, nid("10.0.0.9@tcp"), Nid::any()), 0U);
  EXPECT_EQ(rules_.remove(FaultKind::kDrop, nid("10.0.0.3@tcp"), nid("10.0.0.2@tcp")), 1U);
  EXPECT_EQ(rules_.remove(FaultKind::kDrop, nid("10.0.0.1@tcp"), Nid::any()), 2U);
  EXPECT_EQ(rules_.remove(FaultKind::kDrop, Nid::any(), Nid::any()), 1U);
  EXPECT_TRUE(rules_.list(FaultKind::kDrop).empty());
  EXPECT_EQ(rules_.list(FaultKind::kDelay).size(), 1U);
  EXPECT_FALSE(received());
}

TEST_F(FaultRulesTest, ResetZeroesTheCountersOfItsKind) {
  add(drop(1));
  add(delay(1));
  EXPECT_TRUE(received());
  hold(1);
  rules_.reset(FaultKind::kDrop, now_);
  EXPECT_EQ(only().acted, 0U);
  EXPECT_EQ(only().put, 0U);
  EXPECT_EQ(only().rule.rate, 1U);
  EXPECT_EQ(only(FaultKind::kDelay).acted, 1U);
}

// ---------------------------------------------------------------- delays

TEST_F(FaultRulesTest, HeldMessagesComeOutInOrderAtTheirTimes) {
  add(delay(3));
  const Time begin = now_;
  for (uint64_t id = 1; id <= 20; ++id) hold(id);  // all at once
  now_ += 1s;
  hold(21);
  EXPECT_EQ(timers_.next(), begin + 3s);
  advance_to(begin + 2999ms);
  EXPECT_TRUE(released().empty());
  advance_to(begin + 3s);
  const std::vector<uint64_t> first = released();
  ASSERT_EQ(first.size(), 20U);
  for (uint64_t id = 1; id <= 20; ++id) EXPECT_EQ(first[id - 1], id);
  advance_to(begin + 4s);
  EXPECT_THAT(released(), testing::ElementsAre(21));
  EXPECT_EQ(timers_.size(), 0U);
}

TEST_F(FaultRulesTest, ARemovedRuleLetsGoAtOnce) {
  add(delay(1000));
  hold(1);
  hold(2);
  EXPECT_EQ(rules_.remove(FaultKind::kDelay, Nid::any(), Nid::any()), 1U);
  EXPECT_THAT(released(), testing::ElementsAre(1, 2));
  EXPECT_EQ(timers_.size(), 0U);
}

TEST_F(FaultRulesTest, AForgottenMessageDoesNotComeOut) {
  add(delay(1));
  const Time begin = now_;
  hold(1);
  now_ += 500ms;
  hold(2);
  rules_.forget({true, 1});
  EXPECT_EQ(timers_.next(), begin + 1500ms);
  rules_.forget({false, 2});  // another message of the same number
  advance_to(begin + 2s);
  EXPECT_THAT(released(), testing::ElementsAre(2));
  // Between its release and its turn.
  hold(3);
  hold(4);
  advance_to(now_ + 1s);
  rules_.forget({true, 3});
  EXPECT_THAT(released(), testing::ElementsAre(4));
  hold(5);
  rules_.forget({true, 5});
  EXPECT_EQ(timers_.size(), 0U);
}

TEST_F(FaultRulesTest, TheFirstRuleThatActsHoldsTheMessage) {
  add(delay(5));
  FaultRule every_other = delay(1);
  every_other.rate = 2;
  add(every_other);
  const Time begin = now_;
  hold(1);  // first of two: by the newer rule
  hold(2);  // second: by the older
  advance_to(begin + 1s);
  EXPECT_THAT(released(), testing::ElementsAre(1));
  advance_to(begin + 5s);
  EXPECT_THAT(released(), testing::ElementsAre(2));
}

}  // namespace
}  // namespace ulnet::core
