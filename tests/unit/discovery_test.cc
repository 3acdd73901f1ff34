// Discovery between nodes in virtual time: who is asked and told, and what waits for it.
// Source: spec lnet-core 4.6, 4.8, 4.9, 4.12; cases DS-3, DS-4, DS-7, DS-9.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/discovery_fixture.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::ElementsAre;

// ---------------------------------------------------------------- the ordinary course (4.9)

TEST_F(DiscoveryTest, FirstContactIsPingPushThenTheMessage) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  EXPECT_EQ(next_send(*a_), "GET 0 sink 272 0 > 10.0.1.2@tcp");
  EXPECT_EQ(a_->sends.size(), 1U);
  const Nid from = a_->sends.front().header.source_nid;
  world_.deliver_one(*a_);
  EXPECT_EQ(next_send(*b_), "REPLY 64 > " + from.to_string());
  world_.deliver_one(*b_);
  EXPECT_EQ(next_send(*a_), "PUT 0 64 > 10.0.1.2@tcp");  // the push, the way the answer came
  EXPECT_EQ(a_->sends.front().header.source_nid, from);
  EXPECT_EQ(a_->sends.size(), 1U);
  world_.deliver_one(*a_);
  EXPECT_EQ(next_send(*b_), "ACK 0 > " + from.to_string());
  world_.deliver_one(*b_);
  EXPECT_EQ(next_send(*b_).substr(0, 8), "PUT 0 64");  // b tells in turn
  world_.collect();
  ASSERT_EQ(a_->sends.size(), 1U);
  EXPECT_EQ(next_send(*a_).substr(0, 8), "PUT 30 8");
  world_.run();
  EXPECT_EQ(state_of(*a_, "10.0.1.2@tcp"), kMultiRail | kDiscovered | kCurrent);
  EXPECT_EQ(state_of(*b_, "10.0.1.1@tcp"), kMultiRail | kDiscovered | kCurrent);
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
  EXPECT_THAT(peer_records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
}

TEST_F(DiscoveryTest, MessagesToAKnownPeerGoAtOnceAndByAllRails) {
  two_rails();
  put(*a_, "10.0.1.12@tcp");
  world_.run();
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
  EXPECT_EQ(ways(*a_, "10.0.1.12@tcp").size(), 2U);
  EXPECT_EQ(ways(*b_, "10.0.1.1@tcp").size(), 2U);
}

TEST_F(DiscoveryTest, ALateListenerGetsEveryMessageThatWaited) {
  two_rails();
  for (int i = 0; i < 100; ++i) put(*a_, i % 2 == 0 ? "10.0.1.2@tcp" : "10.0.1.12@tcp");
  world_.run();
  const std::vector<Event> at_a = world_.events(*a_);
  EXPECT_EQ(at_a.size(), 100U);
  EXPECT_TRUE(std::all_of(at_a.begin(), at_a.end(), [](const Event& e) { return e.status == 0; }));
  EXPECT_EQ(world_.events(*b_).size(), 100U);
}

TEST_F(DiscoveryTest, AFailedPingFailsWhatWaitsAndTheNextMessageAsksAgain) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  put(*a_, "10.0.1.2@tcp");
  world_.collect();
  world_.fail_one(*a_, kRefused);
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].status, -ECONNREFUSED);
  EXPECT_EQ(events[1].status, -ECONNREFUSED);
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  EXPECT_EQ(world_.events(*a_).at(0).status, 0);
}

TEST_F(DiscoveryTest, WaitingCountsInTheBoundOfTheOperation) {
  two_rails();
  put(*a_, "10.0.1.2@tcp", AckRequest::kAck);
  world_.collect();
  world_.advance(60s);
  put(*a_, "10.0.1.2@tcp", AckRequest::kAck);
  lose_one(*a_);              // the ping
  world_.advance(90s - 1ns);  // 150 s, the transaction timeout, from the first
  EXPECT_TRUE(world_.events(*a_).empty());
  world_.advance(1ns);
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 2U);  // the second hears of the ping's end
  for (const Event& event : events) {
    EXPECT_EQ(event.status, -ETIMEDOUT);
    EXPECT_TRUE(event.unlinked);
  }
}

TEST_F(DiscoveryTest, WhatIsUnderWayWhenANiGoesStartsAgainByAnother) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.collect();
  const NiId first = a_->sends.front().ni;
  world_.deliver_one(*a_);
  world_.collect();
  world_.deliver_one(*b_);
  world_.collect();
  ASSERT_EQ(a_->sends.front().ni, first);
  lose_one(*a_);  // the push
  ASSERT_TRUE(a_->core->remove_ni(world_.now, first).is_ok());
  world_.run();
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);  // no time has passed
  EXPECT_EQ(events[0].status, 0);
}

TEST_F(DiscoveryTest, WhatWasUnlinkedWhileItWaitedIsNotSent) {
  two_rails();
  const MdHandle md = put(*a_, "10.0.1.2@tcp", AckRequest::kAck);
  EXPECT_TRUE(a_->core->unlink(md).is_ok());
  world_.run();
  EXPECT_TRUE(world_.events(*b_).empty());
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].unlinked);
  EXPECT_EQ(a_->core->statistics().rst_alloc, 0U);
}

TEST_F(DiscoveryTest, TooManyWaitingMessagesAreRefusedNotKept) {
  LimitSettings limits;
  limits.waiting_for_discovery_max = 3;
  a_ = &world_.add("a", {"10.0.1.1@tcp"}, {}, {}, limits);
  b_ = &world_.add("b", {"10.0.1.2@tcp"});
  open_target(*b_);
  for (int i = 0; i < 5; ++i) put(*a_, "10.0.1.2@tcp");
  std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].status, -ENOBUFS);
  world_.run();
  EXPECT_EQ(world_.events(*a_).size(), 3U);
}

TEST_F(DiscoveryTest, WhatEndsBehindTheShutDownStartsNothing) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.collect();
  world_.deliver_one(*a_);  // the ping
  world_.collect();
  world_.deliver_one(*b_);
  ASSERT_EQ(next_send(*a_).substr(0, 8), "PUT 0 64");
  a_->core->shut_down(world_.now);
  world_.fail_one(*a_, {.error = ESHUTDOWN, .health = HealthStatus::kLocalError});
  EXPECT_EQ(next_send(*a_), "nothing");
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
}

TEST_F(DiscoveryTest, ShutDownInTheMiddleEndsEverythingOnce) {
  two_rails();
  put(*a_, "10.0.1.2@tcp", AckRequest::kAck);
  Ends ends;
  ASSERT_TRUE(a_->core->discover(world_.now, nid("10.0.1.2@tcp"), false, ends, nullptr).is_ok());
  world_.collect();
  a_->core->shut_down(world_.now);
  run_handlers(*a_);
  EXPECT_THAT(ends.statuses, ElementsAre(-ESHUTDOWN));
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 2U);  // of the PUT, and of the target
  EXPECT_TRUE(events[0].unlinked);
  EXPECT_TRUE(events[1].unlinked);
  world_.run();
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
}

// ---------------------------------------------------------------- sizes (4.6)

TEST_F(DiscoveryTest, MoreNidsThanFitAreAskedForAgain) {
  std::vector<std::string> many;
  for (int i = 0; i < 60; ++i) many.push_back("10.0.2." + std::to_string(i + 1) + "@tcp");
  a_ = &world_.add("a", {"10.0.1.1@tcp"});
  b_ = &world_.add("b", many);
  open_target(*b_);
  put(*a_, "10.0.2.1@tcp");
  EXPECT_EQ(next_send(*a_), "GET 0 sink 272 0 > 10.0.2.1@tcp");
  world_.deliver_one(*a_);
  world_.collect();
  world_.deliver_one(*b_);
  EXPECT_EQ(next_send(*a_), "GET 0 sink 992 0 > 10.0.2.1@tcp");
  world_.run();
  EXPECT_EQ(find_peer(*a_, "10.0.2.1@tcp")->nis.size(), 60U);
  EXPECT_EQ(state_of(*a_, "10.0.2.1@tcp"), kMultiRail | kDiscovered | kCurrent);
}

TEST_F(DiscoveryTest, APushThatDoesNotFitIsFollowedByAQuestion) {
  std::vector<std::string> many;
  for (int i = 0; i < 199; ++i) many.push_back("2001:db8::" + std::to_string(i + 1) + "@tcp");
  a_ = &world_.add("a", many);
  b_ = &world_.add("b", {"2001:db8::9001@tcp"});
  open_target(*b_);
  put(*a_, "2001:db8::9001@tcp");
  world_.run();
  EXPECT_EQ(find_peer(*b_, "2001:db8::1@tcp")->nis.size(), 199U);
  EXPECT_EQ(world_.events(*a_).size(), 1U);
}

// ---------------------------------------------------------------- on and off (4.12; DS-3, 7, 9)

TEST_F(DiscoveryTest, WithDiscoveryOffHereANewPeerIsPingedOnceAndNotMerged) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"}, {}, discovery(false));
  b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.1.12@tcp"});
  open_target(*b_);
  put(*a_, "10.0.1.2@tcp");
  EXPECT_EQ(next_send(*a_), "GET 0 sink 272 0 > 10.0.1.2@tcp");
  world_.deliver_one(*a_);
  world_.collect();
  world_.deliver_one(*b_);
  EXPECT_EQ(next_send(*a_), "PUT 30 8 > 10.0.1.2@tcp");  // no push
  world_.run();
  EXPECT_EQ(state_of(*a_, "10.0.1.2@tcp"), kNoDiscovery | kDiscovered | kCurrent);
  EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 1U);
}

// DS-7
TEST_F(DiscoveryTest, APeerWithDiscoveryOffSeesOneSteadySourceNid) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
  b_ = &world_.add("b", {"10.0.1.2@tcp"}, {}, discovery(false));
  open_target(*b_);
  EXPECT_EQ(ways(*a_, "10.0.1.2@tcp", 1000).size(), 1U);
  EXPECT_EQ(b_->core->peers().size(), 1U);
  EXPECT_EQ(b_->core->statistics().drop_count, 0U);
  EXPECT_TRUE(b_->core->set_global(world_.now, "discovery", 1).is_ok());
  world_.run();
  EXPECT_EQ(ways(*a_, "10.0.1.2@tcp", 1000).size(), 2U);
  EXPECT_EQ(b_->core->peers().size(), 1U);
}

// DS-3
TEST_F(DiscoveryTest, SwitchingDiscoveryOnALiveNodeIsToldAtOnce) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  const std::vector<Nid> own = {nid("10.0.1.50@tcp"), nid("10.0.1.51@tcp")};
  PeerSettings by_hand;
  by_hand.primary_nid = own[0];
  by_hand.nids = own;
  ASSERT_TRUE(a_->core->configure_peer(world_.now, by_hand).is_ok());
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(b_->core->set_global(world_.now, "discovery", 0).is_ok());
    put(*a_, "10.0.1.2@tcp");  // on its way meanwhile
    put(*b_, "10.0.1.1@tcp");
    world_.run();
    EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 1U);
    EXPECT_EQ(ways(*b_, "10.0.1.1@tcp").size(), 1U);
    EXPECT_TRUE(b_->core->set_global(world_.now, "discovery", 1).is_ok());
    put(*a_, "10.0.1.2@tcp");
    put(*b_, "10.0.1.1@tcp");
    world_.run();
    EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 2U);
    EXPECT_EQ(ways(*b_, "10.0.1.1@tcp").size(), 2U);
  }
  for (CoreWorld::Node* node : {a_, b_}) {
    for (const Event& event : world_.events(*node)) EXPECT_EQ(event.status, 0);
  }
  EXPECT_THAT(peer_records(*a_), testing::Contains("10.0.1.50@tcp: 10.0.1.50@tcp 10.0.1.51@tcp"));
}

// DS-9
TEST_F(DiscoveryTest, AnyMixOfSettingsWorksAndMakesOneRecordPerNode) {
  for (const bool a_discovers : {false, true}) {
    for (const bool b_discovers : {false, true}) {
      for (const bool from_a : {false, true}) {
        SCOPED_TRACE(testing::Message() << a_discovers << b_discovers << from_a);
        world_ = CoreWorld();
        const std::vector<std::string> b_nids = {"10.0.1.2@tcp", "10.0.1.12@tcp"};
        a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"}, {}, discovery(a_discovers));
        b_ = &world_.add("b", b_nids, {}, discovery(b_discovers));
        open_target(*a_);
        open_target(*b_);
        for (int life = 0; life < 2; ++life) {
          CoreWorld::Node& first = from_a ? *a_ : *b_;
          put(first, from_a ? "10.0.1.2@tcp" : "10.0.1.1@tcp");
          world_.run();
          ways(*a_, "10.0.1.2@tcp", 10);
          ways(*b_, "10.0.1.1@tcp", 10);
          EXPECT_EQ(a_->core->peers().size(), 1U);
          EXPECT_EQ(b_->core->peers().size(), 1U);
          for (CoreWorld::Node* node : {a_, b_}) {
            const std::vector<Event> events = world_.events(*node);
            EXPECT_GE(events.size(), 20U);
            for (const Event& event : events) EXPECT_EQ(event.status, 0);
          }
          b_ = &restart(b_nids, b_nids, b_discovers);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- pushes (DS-4)

TEST_F(DiscoveryTest, OnePushAtATimeAndThenOneWithTheNewestState) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  for (int flap = 0; flap < 20; ++flap) {
    b_->core->handle_ni_fatal(world_.now, 2, flap % 2 == 0);
    world_.collect();
    EXPECT_EQ(b_->sends.size(), 1U);  // the first one; the others wait for its ACK
  }
  put(*b_, "10.0.1.1@tcp");  // known well enough meanwhile
  world_.collect();
  EXPECT_EQ(b_->sends.size(), 2U);
  const uint64_t before = b_->core->nets().at(1).nis.at(0).stats.sent.put +
                          b_->core->nets().at(1).nis.at(1).stats.sent.put;
  world_.run();
  const uint64_t after = b_->core->nets().at(1).nis.at(0).stats.sent.put +
                         b_->core->nets().at(1).nis.at(1).stats.sent.put;
  EXPECT_EQ(after - before, 3U);  // two pushes, one message
  // The last flap left it up: 10 times down were told as one.
  EXPECT_EQ(find_peer(*a_, "10.0.1.12@tcp")->nis.at(1).up, std::optional<bool>());
}

TEST_F(DiscoveryTest, APushThatFailsIsTriedAgainAndHoldsNothingUp) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  (void)world_.events(*b_);
  b_->core->handle_ni_fatal(world_.now, 2, true);
  for (int attempt = 0; attempt < 3; ++attempt) {  // the push, and its resends
    world_.collect();
    ASSERT_FALSE(b_->sends.empty());
    world_.fail_one(*b_, kRefused);
  }
  EXPECT_EQ(next_send(*b_), "nothing");
  put(*b_, "10.0.1.1@tcp");
  world_.run();
  EXPECT_EQ(world_.events(*b_).at(0).status, 0);
  world_.advance(1300ms);
  world_.collect();
  EXPECT_TRUE(std::any_of(b_->sends.begin(), b_->sends.end(), [](const SendAction& send) {
    const auto* push = std::get_if<PutPart>(&send.header.part);
    return push != nullptr && push->portal == kReservedPortal;
  }));
}

// HL-16
TEST_F(DiscoveryTest, AStatusChangedByHandIsToldAtOnce) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  ASSERT_TRUE(
      b_->core->change_nis(world_.now, {.nid = nid("10.0.1.12@tcp")}, {.health = 0}).is_ok());
  world_.run();
  EXPECT_EQ(find_peer(*a_, "10.0.1.12@tcp")->nis.at(1).health, 900);  // DOWN is one remote failure
  ASSERT_TRUE(
      b_->core->change_nis(world_.now, {.nid = nid("10.0.1.12@tcp")}, {.health = 500}).is_ok());
  EXPECT_FALSE(world_.collect());  // nothing to tell
}

}  // namespace
}  // namespace ulnet
