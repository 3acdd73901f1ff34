// Who is who: records of peers that are merged, renamed, named by the application or by hand.
// Source: spec lnet-core 4.10, 4.11; cases DS-*.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/discovery_fixture.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// ---------------------------------------------------------------- who is who (4.10)

TEST_F(DiscoveryTest, ThePrimaryNidIsTheOneTheNodeNames) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.2.2@tcp1"});
  Ends ends;
  ASSERT_TRUE(a_->core->discover(world_.now, nid("10.0.2.2@tcp1"), false, ends, nullptr).is_ok());
  world_.run();
  run_handlers(*a_);
  EXPECT_THAT(ends.statuses, ElementsAre(0));
  EXPECT_EQ(a_->core->primary_nid(nid("10.0.2.2@tcp1")), nid("10.0.1.2@tcp"));
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.2.2@tcp1"));
}

TEST_F(DiscoveryTest, TwoRecordsOfOneNodeBecomeOneWithAllThatWaited) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  put(*a_, "10.0.1.12@tcp");
  Ends ends;
  ASSERT_TRUE(a_->core->discover(world_.now, nid("10.0.1.12@tcp"), false, ends, nullptr).is_ok());
  EXPECT_EQ(a_->core->peers().size(), 2U);
  world_.run();
  run_handlers(*a_);
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
  EXPECT_THAT(ends.statuses, ElementsAre(0));
  EXPECT_EQ(world_.events(*b_).size(), 2U);
}

TEST_F(DiscoveryTest, ANodeHeardByTwoNidsIsMergedOnItsWordFromBoth) {
  two_rails();
  be_heard_by_both_nids();
  EXPECT_EQ(b_->core->peers().size(), 2U);
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  EXPECT_THAT(peer_records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
}

TEST_F(DiscoveryTest, ANidThatCouldNotAnswerWhoseItIsIsAskedAgain) {
  two_rails();
  be_heard_by_both_nids();
  // Whatever b sends to the second is lost, but for the last.
  int lost = 0;
  const auto run_lossy = [&](int lose) {
    for (bool moved = true; moved;) {
      moved = world_.collect();
      for (CoreWorld::Node* node : {a_, b_}) {
        while (!node->sends.empty()) {
          moved = true;
          if (node == b_ && lost < lose && node->sends.front().next_hop == nid("10.0.1.11@tcp")) {
            ++lost;
            world_.fail_one(*node, kRefused);
          } else {
            world_.deliver_one(*node);
          }
        }
      }
    }
  };
  put(*a_, "10.0.1.2@tcp");
  run_lossy(3);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(b_->core->peers().size(), 2U);
  for (int second = 0; second < 20; ++second) {
    world_.advance(1s);
    run_lossy(3);
  }
  EXPECT_THAT(peer_records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
}

TEST_F(DiscoveryTest, ANodeThatComesBackWithFewerNidsLosesThem) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  b_ = &restart({"10.0.1.2@tcp", "10.0.1.12@tcp"}, {"10.0.1.2@tcp"});
  (void)world_.events(*a_);
  put(*b_, "10.0.1.1@tcp");  // it makes itself known
  world_.run();
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp"));
  EXPECT_THAT(ways(*a_, "10.0.1.2@tcp"),
              UnorderedElementsAre("10.0.1.1@tcp>10.0.1.2@tcp", "10.0.1.11@tcp>10.0.1.2@tcp"));
  for (const Event& event : world_.events(*a_)) EXPECT_EQ(event.status, 0);
}

TEST_F(DiscoveryTest, WhatWaitsForTheCreditsOfANidThatGoesTakesAnotherWay) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  (void)world_.events(*a_);
  for (int i = 0; i < 60; ++i) put(*a_, "10.0.1.2@tcp");
  world_.collect();
  EXPECT_EQ(a_->sends.size(), 16U);  // eight for each NID; the others wait
  b_ = &restart({"10.0.1.2@tcp", "10.0.1.12@tcp"}, {"10.0.1.2@tcp"});
  std::deque<SendAction> in_driver;
  in_driver.swap(a_->sends);
  put(*b_, "10.0.1.1@tcp");
  world_.run();
  for (const SendAction& send : in_driver)
    a_->core->handle_send_done(world_.now, send.id, kRefused);
  world_.run();
  const std::vector<Event> events = world_.events(*a_);
  EXPECT_EQ(events.size(), 61U);  // and one PUT of b's
  for (const Event& event : events) EXPECT_EQ(event.status, 0);
}

// ---------------------------------------------------------------- the application's names (4.11)

// DS-1
TEST_F(DiscoveryTest, TheNameTheApplicationUsedStays) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.2.2@tcp1"});
  open_target(*a_);
  open_target(*b_);
  const std::vector<Nid> name = {nid("10.0.2.2@tcp1")};
  ASSERT_TRUE(a_->core->add_peer(world_.now, name).is_ok());
  const auto named = [&] { return a_->core->primary_nid(nid("10.0.1.2@tcp")); };
  EXPECT_EQ(a_->core->primary_nid(name[0]), name[0]);
  world_.run();
  EXPECT_EQ(named(), name[0]);
  EXPECT_EQ(state_of(*a_, "10.0.1.2@tcp"), kMultiRail | kDiscovered | kCurrent | kLocked);

  ASSERT_TRUE(a_->core->delete_peer(world_.now, name[0], {}, false).is_ok());
  EXPECT_EQ(a_->core->primary_nid(name[0]), name[0]);
  put(*a_, "10.0.2.2@tcp1");
  world_.run();
  EXPECT_EQ(named(), name[0]);
  EXPECT_EQ(find_peer(*a_, "10.0.2.2@tcp1")->nis.size(), 2U);

  b_ = &restart({"10.0.1.2@tcp", "10.0.2.2@tcp1"}, {"10.0.2.2@tcp1", "10.0.1.2@tcp"});
  put(*b_, "10.0.1.1@tcp");
  world_.run();
  EXPECT_EQ(named(), name[0]);

  // What only traffic told has no locked name.
  EXPECT_EQ(state_of(*b_, "10.0.1.1@tcp") & kLocked, 0U);
  ASSERT_TRUE(a_->core->delete_peer(world_.now, name[0], {}, true).is_ok());
  EXPECT_EQ(a_->core->peers().size(), 0U);
}

// DS-1: the name is another NID than the one traffic knew it by.
TEST_F(DiscoveryTest, ANameThatComesLateRenames) {
  two_rails();
  put(*b_, "10.0.1.1@tcp");
  world_.run();
  ASSERT_TRUE(a_->core->add_peer(world_.now, std::vector{nid("10.0.1.12@tcp")}).is_ok());
  world_.run();
  EXPECT_EQ(a_->core->primary_nid(nid("10.0.1.2@tcp")), nid("10.0.1.12@tcp"));
  EXPECT_EQ(a_->core->peers().size(), 1U);
  EXPECT_EQ(ways(*a_, "10.0.1.12@tcp").size(), 2U);
}

// DS-2
TEST_F(DiscoveryTest, AWrongNidIsNotGluedOntoANodeThatIsKnown) {
  two_rails();
  CoreWorld::Node& c = world_.add("c", {"10.0.1.3@tcp"});
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  for (const char* wrong : {"10.0.1.99@tcp", "10.0.1.3@tcp"}) {  // nobody's; another node's
    const std::vector<Nid> list = {nid("10.0.1.2@tcp"), nid("10.0.1.12@tcp"), nid(wrong)};
    ASSERT_TRUE(a_->core->add_peer(world_.now, list).is_ok());
    world_.run();
    EXPECT_EQ(find_peer(*a_, "10.0.1.2@tcp")->nis.size(), 2U);
    EXPECT_EQ(state_of(*a_, wrong) & kBadConfig, kBadConfig) << wrong;
  }
  EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 2U);
  EXPECT_EQ(c.core->statistics().drop_count, 0U);
}

// DS-8
TEST_F(DiscoveryTest, ALockedNameThatItsOwnerDroppedIsNotUsed) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.2.2@tcp1"});
  open_target(*a_);
  open_target(*b_);
  ASSERT_TRUE(a_->core->add_peer(world_.now, std::vector{nid("10.0.1.2@tcp")}).is_ok());
  world_.run();
  b_ = &restart({"10.0.1.2@tcp", "10.0.2.2@tcp1"}, {"10.0.2.2@tcp1"});
  put(*b_, "10.0.2.1@tcp1");
  world_.run();
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.2.2@tcp1"));
  EXPECT_THAT(ways(*a_, "10.0.1.2@tcp"), ElementsAre("10.0.2.1@tcp1>10.0.2.2@tcp1"));
  b_ = &restart({"10.0.2.2@tcp1"}, {"10.0.2.2@tcp1", "10.0.1.2@tcp"});
  put(*b_, "10.0.2.1@tcp1");
  world_.run();
  EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 2U);
}

// DS-10
TEST_F(DiscoveryTest, FortyServersWithADeadFirstNidAreUsableAtOnce) {
  a_ = &world_.add("a", {"10.0.1.1@tcp"});
  std::vector<std::vector<Nid>> servers;
  for (int i = 0; i < 40; ++i) {
    const std::string dead = "10.1.0." + std::to_string(i + 1) + "@tcp";
    const std::string live = "10.2.0." + std::to_string(i + 1) + "@tcp";
    open_target(world_.add("server", {live}));
    servers.push_back({nid(dead), nid(live)});
  }
  servers.push_back({nid("10.1.0.200@tcp"), nid("10.2.0.200@tcp")});  // wholly dead
  for (const std::vector<Nid>& list : servers)
    ASSERT_TRUE(a_->core->add_peer(world_.now, list).is_ok());
  std::deque<SendAction> lost;
  for (const std::vector<Nid>& list : servers) put(*a_, list[0].to_string());
  // The dead answer nothing at all: their pings stay in the driver.
  for (bool moved = true; moved;) {
    moved = world_.collect();
    for (size_t i = a_->sends.size(); i > 0; --i) {
      if (world_.owner(a_->sends.front().next_hop) == nullptr) {
        lost.push_back(a_->sends.front());
        a_->sends.pop_front();
      } else {
        world_.deliver_one(*a_);
        moved = true;
      }
    }
    for (int i = 0; i < 40; ++i) {
      CoreWorld::Node& server = *world_.owner(servers[static_cast<size_t>(i)][1]);
      while (!server.sends.empty()) {
        world_.deliver_one(server);
        moved = true;
      }
    }
  }
  EXPECT_EQ(world_.events(*a_).size(), 40U);  // no time has passed
  world_.advance(150s);
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status, -ETIMEDOUT);
}

TEST_F(DiscoveryTest, WithDiscoveryOffNobodyWaitsForServers) {
  a_ = &world_.add("a", {"10.0.1.1@tcp"}, {}, discovery(false));
  ASSERT_TRUE(a_->core->add_peer(world_.now, std::vector{nid("10.1.0.1@tcp"), nid("10.2.0.1@tcp")})
                  .is_ok());
  EXPECT_FALSE(world_.collect());
  EXPECT_EQ(a_->core->primary_nid(nid("10.1.0.1@tcp")), nid("10.1.0.1@tcp"));
}

// DS-12
TEST_F(DiscoveryTest, NidsOnNetsThatAreNotHereAreKeptAside) {
  a_ = &world_.add("a", {"10.0.1.1@tcp"});
  b_ = &world_.add("b", {"10.0.9.1@tcp9", "10.0.8.1@tcp8", "10.0.1.2@tcp"});
  open_target(*b_);
  ASSERT_TRUE(a_->core
                  ->add_peer(world_.now, std::vector{nid("10.0.9.1@tcp9"), nid("10.0.8.1@tcp8"),
                                                     nid("10.0.1.2@tcp")})
                  .is_ok());
  put(*a_, "10.0.9.1@tcp9");
  world_.run();
  EXPECT_EQ(world_.events(*a_).at(0).status, 0);
  EXPECT_EQ(world_.events(*b_).size(), 1U);
  EXPECT_EQ(a_->core->statistics().resend_count, 0U);
}

// ---------------------------------------------------------------- peers by hand

TEST_F(DiscoveryTest, WhatAnAdministratorSaidIsNotOverruled) {
  two_rails();
  PeerSettings by_hand;
  by_hand.primary_nid = nid("10.0.1.2@tcp");
  by_hand.nids = {nid("10.0.1.2@tcp"), nid("10.0.1.77@tcp")};
  ASSERT_TRUE(a_->core->configure_peer(world_.now, by_hand).is_ok());
  put(*b_, "10.0.1.1@tcp");
  world_.run();
  EXPECT_EQ(find_peer(*a_, "10.0.1.77@tcp")->nis.size(), 2U);
  EXPECT_THAT(peer_records(*a_), testing::Contains("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.77@tcp"));
  EXPECT_EQ(state_of(*a_, "10.0.1.77@tcp") & (kConfigured | kDiscovered),
            kConfigured | kDiscovered);
}

TEST_F(DiscoveryTest, PeerAddExtendsAndTakesFromDiscovery) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  PeerSettings by_hand;
  by_hand.primary_nid = nid("10.0.1.12@tcp");
  ASSERT_TRUE(a_->core->configure_peer(world_.now, by_hand).is_ok());
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.12@tcp: 10.0.1.12@tcp"));
  by_hand.nids = {nid("10.0.1.60@tcp")};
  ASSERT_TRUE(a_->core->configure_peer(world_.now, by_hand).is_ok());
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.12@tcp: 10.0.1.12@tcp 10.0.1.60@tcp"));
}

TEST_F(DiscoveryTest, PeerDelRulesAreTheTools) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  const Nid primary = nid("10.0.1.2@tcp");
  const Nid other = nid("10.0.1.12@tcp");
  EXPECT_EQ(a_->core->delete_peer(world_.now, other, {}, false).code(), ENOENT);
  EXPECT_EQ(a_->core->delete_peer(world_.now, nid("10.9.9.9@tcp"), {}, false).code(), ENOENT);
  EXPECT_EQ(a_->core->delete_peer(world_.now, primary, std::vector{primary}, false).code(), EBUSY);
  EXPECT_EQ(
      a_->core->delete_peer(world_.now, primary, std::vector{nid("10.9.9.9@tcp")}, false).code(),
      ENOENT);
  EXPECT_TRUE(a_->core->delete_peer(world_.now, primary, std::vector{other}, false).is_ok());
  EXPECT_THAT(peer_records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp"));
  EXPECT_TRUE(a_->core->delete_peer(world_.now, primary, {}, false).is_ok());
  EXPECT_THAT(peer_records(*a_), IsEmpty());
}

TEST_F(DiscoveryTest, APeerDeletedUnderTrafficLosesNothing) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  for (int i = 0; i < 40; ++i) put(*a_, "10.0.1.2@tcp", AckRequest::kAck);
  world_.collect();
  ASSERT_TRUE(a_->core->delete_peer(world_.now, nid("10.0.1.2@tcp"), {}, false).is_ok());
  world_.run();
  const std::vector<Event> events = world_.events(*a_);
  EXPECT_EQ(events.size(), 81U);
  for (const Event& event : events) EXPECT_EQ(event.status, 0);
  const std::vector<PeerInfo> peers = a_->core->peers();
  ASSERT_EQ(peers.size(), 1U);
  for (const PeerNiInfo& ni : peers[0].nis) {
    EXPECT_EQ(ni.available_tx_credits, ni.max_ni_tx_credits);
    EXPECT_EQ(ni.tx_q_bytes, 0U);
  }
}

}  // namespace
}  // namespace ulnet
