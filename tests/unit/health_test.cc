// Health, resends, recovery pings and the choice of rails, between nodes in virtual time.
// Source: spec lnet-core 6, 7; decisions D1, D2, D3; cases HL-*.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using test::CoreWorld;
using test::health_of;
using test::kPortal;

const Completion kRefused{.error = ECONNREFUSED,
                          .health = HealthStatus::kRemoteDropped,
                          .kind = FailureKind::kPeerNiNoListener,
                          .nothing_posted = true};
const Completion kLocalFault{.error = ENETDOWN, .health = HealthStatus::kLocalDropped};
const Completion kTimedOut{
    .error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout, .nothing_posted = true};
const Completion kConnectionLost{
    .error = EIO, .health = HealthStatus::kLocalError, .nothing_posted = true};

class HealthTest : public testing::Test {
 protected:
  // Two nodes with two rails on one net (T2s); each knows the other as multi-rail.
  void two_rails(const GlobalSettings& global = {}) {
    a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"}, {}, global);
    b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.1.12@tcp"}, {}, global);
    introduce(*a_, {"10.0.1.2@tcp", "10.0.1.12@tcp"});
    introduce(*b_, {"10.0.1.1@tcp", "10.0.1.11@tcp"});
    open_target();
  }
  // One rail each (T1).
  void one_rail() {
    a_ = &world_.add("a", {"10.0.1.1@tcp"});
    b_ = &world_.add("b", {"10.0.1.2@tcp"});
    open_target();
  }
  void introduce(CoreWorld::Node& node, const std::vector<std::string>& nids) {
    test::introduce(world_, node, nids);
  }
  void open_target() {
    world_.acquaint();
    test::open_target(world_, *b_, memory_);
  }
  MdHandle put(AckRequest ack = AckRequest::kNoAck, const Nid& source = Nid::any()) {
    const MdHandle md = test::put(
        world_, *a_, {test::nid("10.0.1.2@tcp"), std::span(memory_).first(8), ack, source});
    world_.collect();
    return md;
  }
  const SendAction& last_send() { return a_->sends.back(); }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

TEST_F(HealthTest, RailsShareEqually) {
  two_rails();
  std::map<std::string, int> by_ni;
  std::map<std::string, int> by_peer_ni;
  for (int i = 0; i < 3000; ++i) {
    put();
    ++by_ni[last_send().header.source_nid.to_string()];
    ++by_peer_ni[last_send().next_hop.to_string()];
    EXPECT_EQ(last_send().header.dest_nid, last_send().next_hop);
    world_.run();
  }
  EXPECT_EQ(by_ni["10.0.1.1@tcp"], 1500);
  EXPECT_EQ(by_ni["10.0.1.11@tcp"], 1500);
  EXPECT_EQ(by_peer_ni["10.0.1.2@tcp"], 1500);
  EXPECT_EQ(by_peer_ni["10.0.1.12@tcp"], 1500);
}

TEST_F(HealthTest, ASingleRailPeerSeesOneSourceNid) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
  GlobalSettings no_discovery;
  no_discovery.discovery = false;
  b_ = &world_.add("b", {"10.0.1.2@tcp"}, {}, no_discovery);
  open_target();
  for (int i = 0; i < 100; ++i) {
    put();
    EXPECT_EQ(last_send().header.source_nid, test::nid("10.0.1.1@tcp"));
    world_.run();
  }
}

// A new peer's first message, too, fixes the NI that it is sent to from (5.4).
TEST_F(HealthTest, ASingleRailPeerIsAnsweredAndSentToByTheNiItWasFirstHeardBy) {
  GlobalSettings global;
  global.discovery = false;
  b_ = &world_.add("b", {"10.0.1.1@tcp", "10.0.1.11@tcp"}, {}, global);
  a_ = &world_.add("a", {"10.0.1.2@tcp"}, {}, global);
  for (const char* nid : {"10.0.1.11@tcp", "10.0.1.1@tcp"}) {
    MdSpec md;
    md.threshold = 1;
    PutArgs args;
    args.md = a_->core->bind(md).value();
    args.ack = AckRequest::kNoAck;
    args.target = {test::nid(nid), kPidLustre};
    args.portal = kPortal;
    ASSERT_TRUE(a_->core->put(world_.now, args).is_ok());
    world_.run();
  }
  std::swap(a_, b_);
  for (int i = 0; i < 4; ++i) {
    put();
    EXPECT_EQ(last_send().header.source_nid, test::nid("10.0.1.11@tcp"));
    world_.run();
  }
}

TEST_F(HealthTest, AGivenSourceIsKeptAndGoesToExactlyTheNidAskedFor) {
  two_rails();
  for (int i = 0; i < 10; ++i) {
    put(AckRequest::kNoAck, test::nid("10.0.1.11@tcp"));
    EXPECT_EQ(last_send().header.source_nid, test::nid("10.0.1.11@tcp"));
    EXPECT_EQ(last_send().next_hop, test::nid("10.0.1.2@tcp"));
    world_.run();
  }
}

// HL-1
TEST_F(HealthTest, HealthRisesAsFastAsItFalls) {
  for (const int32_t sensitivity : {100, 500}) {
    SCOPED_TRACE(sensitivity);
    world_ = CoreWorld();
    GlobalSettings global;
    global.health_sensitivity = sensitivity;
    global.retry_count = 0;
    two_rails(global);
    const int failures = sensitivity == 100 ? 4 : 2;
    for (int i = 0; i < failures; ++i) {
      put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
      world_.fail_one(*a_, kLocalFault);
    }
    EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000 - failures * sensitivity);
    EXPECT_EQ(health_of(*a_, "10.0.1.11@tcp"), 1000);
    for (int i = 0; i < failures; ++i) {
      put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
      EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000 - (failures - i) * sensitivity);
      world_.run();
    }
    EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000);
  }
}

struct BlameRow {
  const char* name;
  Completion completion;
  bool resent;
  bool other_ni;       // the resend leaves by the other local NI
  bool other_peer_ni;  // ... and goes to the other peer NI
  int32_t ni_health;
  int32_t peer_ni_health;
};

class BlameTest : public HealthTest, public testing::WithParamInterface<BlameRow> {};

TEST_P(BlameTest, TheBlamedHalfIsAvoidedAndTheOtherKept) {
  two_rails();
  const BlameRow& row = GetParam();
  put();
  const SendAction first = last_send();
  world_.fail_one(*a_, row.completion);
  world_.collect();
  EXPECT_EQ(health_of(*a_, first.header.source_nid.to_string()), row.ni_health);
  EXPECT_EQ(health_of(*a_, first.next_hop.to_string()), row.peer_ni_health);
  ASSERT_EQ(a_->sends.size(), row.resent ? 1U : 0U);
  if (!row.resent) {
    EXPECT_EQ(world_.events(*a_).size(), 1U);
    return;
  }
  const SendAction second = last_send();
  EXPECT_EQ(second.header.source_nid != first.header.source_nid, row.other_ni);
  EXPECT_EQ(second.next_hop != first.next_hop, row.other_peer_ni);
  world_.run();
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status, 0);
  EXPECT_EQ(a_->core->statistics().resend_count, 1U);
  EXPECT_EQ(a_->core->statistics().successful_resends, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Statuses, BlameTest,
    testing::Values(BlameRow{"local_dropped", kLocalFault, true, true, false, 900, 1000},
                    BlameRow{"remote_dropped", kRefused, true, false, true, 1000, 900},
                    BlameRow{"network_timeout", kTimedOut, true, true, true, 900, 900},
                    BlameRow{"uncertain",
                             {.error = EIO,
                              .health = HealthStatus::kRemoteDropped,
                              .delivery = Delivery::kUncertain},
                             false,
                             false,
                             false,
                             1000,
                             900}),
    [](const auto& test) { return test.param.name; });

// Decisions D2 with health switched off: only the message itself remembers what failed. The other
// NI has a message under way, so its credits alone would send the resend the failed way again.
TEST_F(HealthTest, TheFailedHalfIsRememberedWithoutHealth) {
  GlobalSettings global;
  global.health_sensitivity = 0;
  two_rails(global);
  put();
  const SendAction first = last_send();
  put();
  ASSERT_NE(last_send().ni, first.ni);
  world_.fail_one(*a_, kLocalFault);
  world_.collect();
  ASSERT_EQ(a_->sends.size(), 2U);
  EXPECT_NE(last_send().ni, first.ni);
  EXPECT_EQ(last_send().next_hop, first.next_hop);
  EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000);
}

TEST_F(HealthTest, RetriesEndAndAreCountedOncePerMessage) {
  two_rails();
  for (int i = 0; i < 10; ++i) {
    put();
    for (int attempt = 0; attempt < 3; ++attempt) {
      world_.collect();
      ASSERT_EQ(a_->sends.size(), 1U);
      world_.fail_one(*a_, kRefused);
    }
    world_.collect();
    ASSERT_TRUE(a_->sends.empty());
  }
  EXPECT_EQ(world_.events(*a_).size(), 10U);
  EXPECT_EQ(a_->core->statistics().resend_count, 20U);
  EXPECT_EQ(a_->core->statistics().failed_resends, 10U);
  EXPECT_EQ(a_->core->statistics().successful_resends, 0U);
}

// HL-5
TEST_F(HealthTest, OverTheOnlyPathNothingIsSentAgain) {
  one_rail();
  for (const Completion& failure : {kRefused, kTimedOut, kLocalFault}) {
    put();
    world_.fail_one(*a_, failure);
    world_.collect();
    EXPECT_TRUE(a_->sends.empty());
  }
  EXPECT_EQ(a_->core->statistics().resend_count, 0U);
  EXPECT_LT(health_of(*a_, "10.0.1.1@tcp"), 1000);
  // A single-rail peer's own health tells nothing.
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 1000);
}

// Decisions D1: what was lost unposted with its connection goes over the same pair again.
TEST_F(HealthTest, LostUnpostedWithItsConnectionGoesTheSameWayAgain) {
  one_rail();
  put();
  world_.fail_one(*a_, kConnectionLost);
  world_.collect();
  ASSERT_EQ(a_->sends.size(), 1U);
  world_.run();
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status, 0);
  // Partly written: the peer has a piece of it, and there is no other way.
  put();
  Completion partly = kConnectionLost;
  partly.nothing_posted = false;
  world_.fail_one(*a_, partly);
  world_.collect();
  EXPECT_TRUE(a_->sends.empty());
}

TEST_F(HealthTest, NoAttemptBeginsAfterTheResponseDeadline) {
  two_rails();
  put(AckRequest::kAck);
  world_.advance(150s);
  world_.fail_one(*a_, kRefused);
  world_.collect();
  EXPECT_TRUE(a_->sends.empty());
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].unlinked);
}

// HL-10 and fatal NIs: last choice, but a choice.
TEST_F(HealthTest, AFatalNiIsTheLastChoice) {
  two_rails();
  a_->core->handle_ni_fatal(world_.now, 1, true);
  for (int i = 0; i < 20; ++i) {
    put();
    EXPECT_EQ(last_send().header.source_nid, test::nid("10.0.1.11@tcp"));
    world_.run();
  }
  a_->core->handle_ni_fatal(world_.now, 2, true);
  put();
  world_.run();
  EXPECT_EQ(world_.events(*a_).size(), 21U);
}

TEST_F(HealthTest, TheHealthiestNetIsChosen) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.2.2@tcp1"});
  introduce(*a_, {"10.0.1.2@tcp", "10.0.2.2@tcp1"});
  open_target();
  a_->core->handle_ni_fatal(world_.now, 1, true);
  for (int i = 0; i < 100; ++i) {
    put();
    EXPECT_EQ(last_send().next_hop, test::nid("10.0.2.2@tcp1"));
    world_.run();
  }
}

class RecoveryTest : public HealthTest {
 protected:
  // b sends a something from its NID `source`.
  void send_from_b(const char* source, uint32_t portal, uint64_t match_bits) {
    MdSpec md;
    md.threshold = 1;
    PutArgs args;
    args.md = b_->core->bind(md).value();
    args.ack = AckRequest::kNoAck;
    args.target = {test::nid("10.0.1.1@tcp"), kPidLustre};
    args.source = test::nid(source);
    args.portal = portal;
    args.match_bits = match_bits;
    ASSERT_TRUE(b_->core->put(world_.now, args).is_ok());
  }
  void hear_b_from(const char* source) {
    send_from_b(source, kReservedPortal, kPingMatchBits);
    world_.run();
  }
  // Times of the recovery pings that a sends to `nid` within `span`, none of which is delivered.
  std::vector<double> ping_times(const Nid& nid, Duration span, Duration step = 100ms) {
    std::vector<double> times;
    const Time start = world_.now;
    while (world_.now - start < span) {
      world_.advance(step);
      world_.collect();
      while (!a_->sends.empty()) {
        if (a_->sends.front().next_hop == nid)
          times.push_back(std::chrono::duration<double>(world_.now - start).count());
        world_.fail_one(*a_, kTimedOut);
      }
    }
    return times;
  }
};

// HL-2
TEST_F(RecoveryTest, PingsOfASilentPeerDoubleUpToTheCap) {
  GlobalSettings global;
  global.max_recovery_ping_interval_s = 16;
  two_rails(global);
  hear_b_from("10.0.1.2@tcp");
  put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
  world_.fail_one(*a_, {.error = EIO, .health = HealthStatus::kRemoteError});
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 900);

  const std::vector<double> times = ping_times(test::nid("10.0.1.2@tcp"), 120s);
  ASSERT_GE(times.size(), 8U);
  double expected = 1;
  double previous = 0;
  for (const double time : times) {
    EXPECT_GE(time - previous, expected - 0.11);
    EXPECT_LE(time - previous, expected * 1.25 + 0.11);
    previous = time;
    expected = std::min(16.0, expected * 2);
  }
}

// HL-2: a message from the peer ends its back-off at once, not after the long interval that was
// planned while it was silent; a message to it does not.
TEST_F(RecoveryTest, AMessageFromThePeerResetsItsBackOff) {
  two_rails();
  const Nid sick = test::nid("10.0.1.2@tcp");
  hear_b_from("10.0.1.2@tcp");
  for (int i = 0; i < 10; ++i) {
    put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
    world_.fail_one(*a_, {.error = EIO, .health = HealthStatus::kRemoteError});
  }
  EXPECT_GE(ping_times(sick, 100s).size(), 5U);
  put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
  world_.run();
  EXPECT_LE(ping_times(sick, 30s).size(), 1U);
  hear_b_from("10.0.1.2@tcp");
  const std::vector<double> times = ping_times(sick, 20s);
  ASSERT_GE(times.size(), 3U);
  EXPECT_LE(times.front(), 1.35);
}

TEST_F(RecoveryTest, OneAnswerAfterAnotherBringsAPeerNiBack) {
  two_rails();
  hear_b_from("10.0.1.2@tcp");
  for (int i = 0; i < 3; ++i) {
    put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
    world_.fail_one(*a_, {.error = EIO, .health = HealthStatus::kRemoteError});
  }
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 700);
  for (int i = 0; i < 200; ++i) {
    world_.advance(100ms);
    world_.run();  // the pings are answered
  }
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 1000);
  EXPECT_EQ(a_->core->statistics().rst_alloc, 0U);
  world_.advance(1000s);
  world_.collect();
  EXPECT_TRUE(a_->sends.empty());  // well again: no more pings
}

// HL-2: any message counts, also one that nobody wants.
TEST_F(RecoveryTest, WhatAgedOutIsPingedAgainWhenAnythingComesFromIt) {
  GlobalSettings global;
  global.recovery_limit_s = 5;
  two_rails(global);
  const char* const name = "10.0.1.2@tcp";
  const Nid rail = test::nid(name);
  put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
  world_.fail_one(*a_, {.error = EIO, .health = HealthStatus::kRemoteError});
  EXPECT_FALSE(ping_times(rail, 20s).empty());
  EXPECT_THAT(ping_times(rail, 1000s, 1s), testing::IsEmpty());
  send_from_b(name, 17, 0);  // where nothing waits
  world_.collect();
  world_.deliver_one(*b_);
  EXPECT_EQ(a_->core->statistics().drop_count, 1U);
  EXPECT_FALSE(ping_times(rail, 3s).empty());
}

// HL-3
TEST_F(RecoveryTest, WhatWasNeverHeardIsNeverPinged) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
  introduce(*a_, {"10.0.1.50@tcp", "10.0.1.51@tcp"});
  MdSpec md;
  md.threshold = 1;
  PutArgs args;
  args.md = a_->core->bind(md).value();
  args.ack = AckRequest::kNoAck;
  args.target = {test::nid("10.0.1.50@tcp"), kPidLustre};
  ASSERT_TRUE(a_->core->put(world_.now, args).is_ok());
  for (int attempt = 0; attempt < 3; ++attempt) {
    world_.collect();
    world_.fail_one(*a_, kRefused);
  }
  EXPECT_THAT(ping_times(test::nid("10.0.1.50@tcp"), 1000s, 1s), testing::IsEmpty());
  EXPECT_THAT(ping_times(test::nid("10.0.1.51@tcp"), 1000s, 1s), testing::IsEmpty());
}

TEST_F(RecoveryTest, ASickLocalNiPingsItselfThroughTheWireAndRecovers) {
  two_rails();
  for (int i = 0; i < 4; ++i) {
    put(AckRequest::kNoAck, test::nid("10.0.1.1@tcp"));
    world_.fail_one(*a_, kLocalFault);
  }
  EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 600);
  world_.advance(1500ms);
  world_.collect();
  ASSERT_EQ(a_->sends.size(), 1U);
  EXPECT_EQ(a_->sends.front().next_hop, test::nid("10.0.1.1@tcp"));
  EXPECT_NE(a_->sends.front().ni, kLoopbackNi);
  for (int i = 0; i < 100; ++i) {
    world_.run();
    world_.advance(100ms);
  }
  EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000);
}

TEST_F(HealthTest, ALostResponseCountsAgainstTheNextHop) {
  two_rails();
  put(AckRequest::kAck, test::nid("10.0.1.1@tcp"));
  a_->sends.clear();  // swallowed by the wire, as a driver that has written it all would tell
  // The driver still holds it; the response's deadline comes first.
  world_.advance(150s);
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 900);
}

TEST_F(HealthTest, PeersByHandAreCheckedAndNamed) {
  one_rail();
  introduce(*a_, {"10.0.1.7@tcp", "10.0.1.8@tcp"});
  PeerSettings again;
  again.primary_nid = test::nid("10.0.1.9@tcp");
  again.nids = {test::nid("10.0.1.8@tcp")};
  const Status taken = a_->core->configure_peer(world_.now, again);
  EXPECT_EQ(taken.code(), EEXIST);
  EXPECT_THAT(taken.text(), testing::HasSubstr("10.0.1.8@tcp belongs to peer 10.0.1.7@tcp"));
  again.nids = {Nid::lo()};
  EXPECT_EQ(a_->core->configure_peer(world_.now, again).code(), EINVAL);
  const PeerInfo peer = a_->core->peers().at(1);
  EXPECT_TRUE(peer.multi_rail);
  EXPECT_EQ(peer.state, 9U);
  EXPECT_EQ(peer.nis.size(), 2U);
}

}  // namespace
}  // namespace ulnet
