// Local NIs that come and go under the messages that use them.
// Source: spec lnet-core 4.5, 5.1, 5.2; decisions D1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using test::CoreWorld;
using test::kPortal;

const Completion kStopped{
    .error = ESHUTDOWN, .health = HealthStatus::kLocalError, .nothing_posted = true};

class NiLifeTest : public testing::Test {
 protected:
  // Node b has a NID on each of two nets; a on one or both.
  void start(const std::vector<std::string>& nids, int32_t peer_credits = 8, int32_t credits = 256,
             GlobalSettings global = {}) {
    global.discovery = false;  // nothing else is on its way
    const auto tune = [=](NiSettings& ni) {
      ni.tunables.peer_credits = peer_credits;
      ni.tunables.credits = credits;
    };
    a_ = &world_.add("a", nids, tune, global);
    b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.2.2@tcp1"}, {}, global);
    test::open_target(world_, *b_, memory_);
    world_.acquaint();
  }
  void introduce_b(bool multi_rail = true) {
    test::introduce(world_, *a_, {"10.0.1.2@tcp", "10.0.2.2@tcp1"}, multi_rail);
    world_.acquaint();
  }
  void put(std::string_view target = "10.0.1.2@tcp", const Nid& source = Nid::any()) {
    test::put(
        world_, *a_,
        {.target = test::nid(target), .memory = std::span(memory_).first(8), .source = source});
    world_.collect();
  }
  void put_for_an_ack() {
    test::put(world_, *a_,
              {.target = test::nid("10.0.1.2@tcp"),
               .memory = std::span(memory_).first(8),
               .ack = AckRequest::kAck});
    world_.collect();
  }
  Status remove(NiId id) {
    const Status status = a_->core->remove_ni(world_.now, id);
    world_.collect();
    return status;
  }
  // What stops the NI's driver: every send that it has ends.
  void stop_driver(NiId id) {
    std::deque<SendAction> sends;
    sends.swap(a_->sends);
    for (const SendAction& send : sends) {
      if (send.ni == id) {
        a_->core->handle_send_done(world_.now, send.id, kStopped);
      } else {
        a_->sends.push_back(send);
      }
    }
    world_.collect();
  }
  // Statuses of the events so far.
  std::vector<int> statuses() {
    std::vector<int> statuses;
    for (const Event& event : world_.events(*a_)) statuses.push_back(event.status);
    return statuses;
  }
  std::optional<PeerNiInfo> peer_ni(std::string_view nid) { return test::find_peer_ni(*a_, nid); }
  // What a tells of itself, as b sees it when it pings.
  PingInfo info_of_a(std::string_view nid) { return test::ping(world_, *b_, nid); }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

TEST_F(NiLifeTest, ARemovedNiIsNeitherShownNorUsedNorTold) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"});
  const PingInfo before = info_of_a("10.0.1.1@tcp");
  ASSERT_EQ(before.nis.size(), 2U);
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_THAT(a_->core->nids(), testing::ElementsAre(test::nid("10.0.1.11@tcp")));
  for (int i = 0; i < 10; ++i) {
    put();
    ASSERT_EQ(a_->sends.size(), 1U);
    EXPECT_EQ(a_->sends.back().header.source_nid, test::nid("10.0.1.11@tcp"));
    world_.run();
  }
  const PingInfo after = info_of_a("10.0.1.11@tcp");
  ASSERT_EQ(after.nis.size(), 1U);
  EXPECT_EQ(after.nis[0].nid, test::nid("10.0.1.11@tcp"));
  EXPECT_EQ(after.sequence, before.sequence + 1);
}

// With discovery the peers are told without asking.
TEST_F(NiLifeTest, PeersLearnOfIt) {
  a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
  b_ = &world_.add("b", {"10.0.1.2@tcp"});
  world_.acquaint();
  const auto nids_at_b = [this] {
    std::vector<Nid> nids;
    for (const PeerInfo& peer : b_->core->peers()) {
      for (const PeerNiInfo& ni : peer.nis) nids.push_back(ni.nid);
    }
    return nids;
  };
  ASSERT_EQ(nids_at_b().size(), 2U);
  ASSERT_TRUE(remove(2).is_ok());
  world_.run();
  EXPECT_THAT(nids_at_b(), testing::ElementsAre(test::nid("10.0.1.1@tcp")));
  world_.add_ni(*a_, "10.0.1.11@tcp");
  world_.run();
  EXPECT_EQ(nids_at_b().size(), 2U);
}

TEST_F(NiLifeTest, WhatCannotBeRemovedIsNamed) {
  start({"10.0.1.1@tcp"});
  EXPECT_EQ(remove(0).code(), EINVAL);
  EXPECT_EQ(remove(7).code(), ENOENT);
  EXPECT_TRUE(remove(1).is_ok());
  EXPECT_EQ(remove(1).code(), ENOENT);
}

TEST_F(NiLifeTest, IdsAreNotUsedAgain) {
  start({"10.0.1.1@tcp"});
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_EQ(world_.add_ni(*a_, "10.0.1.1@tcp"), 2U);
  EXPECT_THAT(a_->core->nids(), testing::ElementsAre(test::nid("10.0.1.1@tcp")));
}

// A single-rail peer has a preferred NI, and an NI credit waits for it.
TEST_F(NiLifeTest, MessagesThatWaitForItsCreditsGoByAnotherNi) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"}, 4, 4);
  put();
  const NiId first = a_->sends.front().ni;
  for (int i = 0; i < 9; ++i) put();
  ASSERT_EQ(a_->sends.size(), 4U);
  ASSERT_TRUE(remove(first).is_ok());
  stop_driver(first);
  for (const SendAction& send : a_->sends) EXPECT_NE(send.ni, first);
  world_.run();
  EXPECT_THAT(statuses(), testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(peer_ni("10.0.1.2@tcp")->available_tx_credits, 4);
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
}

// They wait behind NI credits of both NIs; those of the removed one stay in their order.
TEST_F(NiLifeTest, WaitingMessagesKeepTheirOrder) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"}, 2, 2);
  for (int i = 0; i < 8; ++i) put();
  std::vector<SendId> in_driver;
  for (const SendAction& send : a_->sends) in_driver.push_back(send.id);
  ASSERT_EQ(in_driver.size(), 2U);
  const NiId first = a_->sends.front().ni;
  ASSERT_TRUE(remove(first).is_ok());
  std::vector<MdHandle> order;
  for (bool moved = true; moved;) {
    moved = world_.collect();
    if (a_->sends.empty()) continue;
    world_.deliver_one(*a_);
    moved = true;
  }
  for (const Event& event : world_.events(*a_)) order.push_back(event.md);
  ASSERT_EQ(order.size(), 8U);
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LT(order[i - 1].value & 0xFFFFFF, order[i].value & 0xFFFFFF);
}

TEST_F(NiLifeTest, WithoutAnotherNiEachWaitingMessageFailsOnce) {
  start({"10.0.1.1@tcp"}, 2, 2);
  for (int i = 0; i < 6; ++i) put();
  ASSERT_EQ(a_->sends.size(), 2U);
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_THAT(statuses(),
              testing::ElementsAre(-EHOSTUNREACH, -EHOSTUNREACH, -EHOSTUNREACH, -EHOSTUNREACH));
  stop_driver(1);
  EXPECT_EQ(statuses().size(), 2U);
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
  EXPECT_TRUE(a_->sends.empty());
}

TEST_F(NiLifeTest, AMessageWithAFixedSourceDoesNotChangeIt) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"}, 1, 1);
  put("10.0.1.2@tcp", test::nid("10.0.1.1@tcp"));
  put("10.0.1.2@tcp", test::nid("10.0.1.1@tcp"));
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_THAT(statuses(), testing::ElementsAre(-EINVAL));
  stop_driver(1);
  EXPECT_THAT(statuses(), testing::ElementsAre(-EINVAL));
  EXPECT_TRUE(a_->sends.empty());
}

// Not when no retry is left; and never what the peer may have.
TEST_F(NiLifeTest, WhatTheDriverGivesBackIsSentAgainOnlyWhereThatIsSafe) {
  GlobalSettings global;
  global.retry_count = 1;
  start({"10.0.1.1@tcp", "10.0.1.11@tcp", "10.0.1.21@tcp"}, 8, 256, global);
  put();
  const NiId first = a_->sends.front().ni;
  ASSERT_TRUE(remove(first).is_ok());
  stop_driver(first);
  ASSERT_EQ(a_->sends.size(), 1U);
  const NiId second = a_->sends.front().ni;
  ASSERT_TRUE(remove(second).is_ok());
  stop_driver(second);
  EXPECT_TRUE(a_->sends.empty());
  EXPECT_THAT(statuses(), testing::ElementsAre(-ESHUTDOWN));
  put();
  const SendAction send = a_->sends.front();
  ASSERT_TRUE(remove(send.ni).is_ok());
  Completion uncertain = kStopped;
  uncertain.delivery = Delivery::kUncertain;
  a_->core->handle_send_done(world_.now, send.id, uncertain);
  EXPECT_THAT(statuses(), testing::ElementsAre(-ESHUTDOWN));
}

TEST_F(NiLifeTest, NobodysHealthSuffers) {
  start({"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  introduce_b();
  put();
  const NiId first = a_->sends.front().ni;
  ASSERT_TRUE(remove(first).is_ok());
  stop_driver(first);
  world_.run();
  EXPECT_THAT(statuses(), testing::ElementsAre(0));
  EXPECT_EQ(peer_ni("10.0.1.2@tcp")->health, 1000);
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->health, 1000);
  EXPECT_EQ(a_->core->statistics().local_error_count, 0U);
}

// 5.2: credits go with the net, and come back with it.
TEST_F(NiLifeTest, PeerNisHaveCreditsWhileTheirNetIsLocal) {
  start({"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  introduce_b();
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->max_ni_tx_credits, 8);
  ASSERT_TRUE(remove(2).is_ok());
  ASSERT_TRUE(peer_ni("10.0.2.2@tcp1"));
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->max_ni_tx_credits, 0);
  EXPECT_EQ(peer_ni("10.0.1.2@tcp")->max_ni_tx_credits, 8);
  for (int i = 0; i < 5; ++i) {
    put("10.0.2.2@tcp1");
    ASSERT_EQ(a_->sends.size(), 1U);
    EXPECT_EQ(a_->sends.front().next_hop, test::nid("10.0.1.2@tcp"));
    world_.run();
  }
  world_.add_ni(*a_, "10.0.2.1@tcp1", [](NiSettings& ni) { ni.tunables.peer_credits = 5; });
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->max_ni_tx_credits, 5);
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->available_tx_credits, 5);
}

TEST_F(NiLifeTest, CreditsThatADriverHoldsComeBackToANewNet) {
  start({"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  introduce_b(false);
  put("10.0.2.2@tcp1");
  put("10.0.2.2@tcp1");
  ASSERT_TRUE(remove(2).is_ok());
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->available_tx_credits, -2);
  world_.add_ni(*a_, "10.0.2.1@tcp1");
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->available_tx_credits, 6);
  stop_driver(2);
  world_.run();
  EXPECT_EQ(peer_ni("10.0.2.2@tcp1")->available_tx_credits, 8);
}

TEST_F(NiLifeTest, UnreachablePeersAreForgottenButThoseOfTheConfiguration) {
  start({"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  introduce_b();
  for (const char* nobody : {"10.0.2.9@tcp1", "10.0.1.9@tcp"}) {
    put(nobody);
    for (; !a_->sends.empty(); world_.collect()) world_.fail_one(*a_, kStopped);
  }
  ASSERT_TRUE(peer_ni("10.0.2.9@tcp1"));
  ASSERT_TRUE(remove(2).is_ok());
  EXPECT_FALSE(peer_ni("10.0.2.9@tcp1"));
  EXPECT_TRUE(peer_ni("10.0.1.9@tcp"));
  EXPECT_TRUE(peer_ni("10.0.2.2@tcp1"));
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_FALSE(peer_ni("10.0.1.9@tcp"));
  EXPECT_TRUE(peer_ni("10.0.2.2@tcp1"));
}

TEST_F(NiLifeTest, APeerIsForgottenOnlyWhenNoMessageNamesIt) {
  start({"10.0.1.1@tcp"});
  put();
  put();
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_TRUE(peer_ni("10.0.1.2@tcp"));
  stop_driver(1);
  EXPECT_FALSE(peer_ni("10.0.1.2@tcp"));
  EXPECT_EQ(a_->core->peers().size(), 0U);
}

TEST_F(NiLifeTest, APeerWhoseNetIsBackInTimeIsKept) {
  start({"10.0.1.1@tcp"});
  put();
  ASSERT_TRUE(remove(1).is_ok());
  world_.add_ni(*a_, "10.0.1.1@tcp");
  stop_driver(1);
  EXPECT_TRUE(peer_ni("10.0.1.2@tcp"));
  world_.run();
  EXPECT_THAT(statuses(), testing::ElementsAre(0));
}

// The ping that asks who it is has left, and its answer cannot come any more.
TEST_F(NiLifeTest, WhatWaitsForTheDiscoveryOfAForgottenPeerFailsAtOnce) {
  a_ = &world_.add("a", {"10.0.1.1@tcp"});
  b_ = &world_.add("b", {"10.0.1.2@tcp"});
  put();
  put();
  ASSERT_EQ(a_->sends.size(), 1U);
  const SendAction ping = a_->sends.front();
  a_->sends.clear();
  a_->core->handle_send_done(world_.now, ping.id, {});
  ASSERT_TRUE(remove(1).is_ok());
  EXPECT_THAT(statuses(), testing::ElementsAre(-EHOSTUNREACH, -EHOSTUNREACH));
  EXPECT_EQ(a_->core->peers().size(), 0U);
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
}

// The request is gone with its peer, and must still end.
TEST_F(NiLifeTest, AResponseThatIsLostWithItsPeerEndsInTime) {
  start({"10.0.1.1@tcp"});
  put_for_an_ack();
  const SendAction send = a_->sends.front();
  a_->sends.clear();
  a_->core->handle_send_done(world_.now, send.id, {});
  ASSERT_TRUE(remove(1).is_ok());
  ASSERT_EQ(a_->core->peers().size(), 0U);
  world_.advance(151s);
  EXPECT_THAT(statuses(), testing::ElementsAre(0, -ETIMEDOUT));
}

TEST_F(NiLifeTest, AnAnswerGoesByAnotherNiWhenItsOwnIsGone) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"});
  world_.add_ni(*b_, "10.0.1.12@tcp");
  put_for_an_ack();
  world_.deliver_one(*a_);
  world_.collect();
  ASSERT_EQ(b_->sends.size(), 1U);  // the ACK, in the hands of the driver
  const SendAction ack = b_->sends.front();
  b_->sends.clear();
  ASSERT_TRUE(b_->core->remove_ni(world_.now, ack.ni).is_ok());
  b_->core->handle_send_done(world_.now, ack.id, kStopped);
  world_.collect();
  ASSERT_EQ(b_->sends.size(), 1U);
  EXPECT_EQ(b_->sends.front().header.source_nid, test::nid("10.0.1.12@tcp"));
  world_.run();
  EXPECT_THAT(statuses(), testing::ElementsAre(0, 0));
}

// Between the core's farewell and the driver's, messages still come in.
TEST_F(NiLifeTest, ARemovedNiTakesAnswersButNoRequests) {
  start({"10.0.1.1@tcp"});
  put();
  world_.run();
  ASSERT_TRUE(remove(1).is_ok());
  IncomingMessage message;
  message.ni = 1;
  message.sender = test::nid("10.0.1.2@tcp");
  message.header.source_nid = message.sender;
  message.header.dest_nid = test::nid("10.0.1.1@tcp");
  message.header.part = GetPart{};
  const MessageVerdict verdict = a_->core->handle_message(world_.now, message);
  EXPECT_EQ(verdict.kind, MessageVerdict::Kind::kDone);
  EXPECT_TRUE(verdict.dropped);
  message.ni = a_->core->reserve_ni();
  EXPECT_EQ(a_->core->handle_message(world_.now, message).kind,
            MessageVerdict::Kind::kProtocolError);
}

// The recovery ping of a sick NI that is removed meanwhile.
TEST_F(NiLifeTest, ASickNiIsPingedNoMoreOnceItIsGone) {
  start({"10.0.1.1@tcp", "10.0.1.11@tcp"});
  put();
  const NiId sick = a_->sends.front().ni;
  world_.fail_one(*a_, {.error = ENETDOWN, .health = HealthStatus::kLocalDropped});
  world_.advance(1300ms);
  world_.collect();
  ASSERT_FALSE(a_->sends.empty());
  ASSERT_TRUE(remove(sick).is_ok());
  stop_driver(sick);
  // The ping that is on its way left by the other NI.
  while (!a_->sends.empty())
    world_.fail_one(*a_, {.error = ETIMEDOUT, .health = HealthStatus::kRemoteTimeout});
  world_.advance(100s);
  world_.collect();
  EXPECT_TRUE(a_->sends.empty());
  EXPECT_EQ(a_->core->sends_in_progress(), 0U);
}

TEST_F(NiLifeTest, ANidThatSomebodySeemedToHaveIsOursWithItsNi) {
  start({"10.0.1.1@tcp", "10.0.2.1@tcp1"});
  PeerSettings strangers;
  strangers.primary_nid = test::nid("10.0.1.50@tcp");
  strangers.nids = {test::nid("10.0.1.50@tcp"), test::nid("10.0.1.51@tcp")};
  ASSERT_TRUE(a_->core->configure_peer(world_.now, strangers).is_ok());
  world_.add_ni(*a_, "10.0.1.50@tcp");
  EXPECT_EQ(a_->core->primary_nid(test::nid("10.0.1.51@tcp")), test::nid("10.0.1.51@tcp"));
  world_.add_ni(*a_, "10.0.1.51@tcp");
  for (const PeerInfo& peer : a_->core->peers())
    EXPECT_NE(peer.primary_nid, test::nid("10.0.1.51@tcp"));
}

TEST_F(NiLifeTest, ALinkThatIsDownFromTheStartIsKnown) {
  start({"10.0.1.1@tcp"});
  const NiId id = a_->core->reserve_ni();
  a_->core->handle_ni_fatal(world_.now, id, true, "its link is down");
  NiSettings settings;
  settings.net = test::nid("10.0.1.11@tcp").net();
  ASSERT_TRUE(
      a_->core->add_ni(world_.now, id, settings, {.nid = test::nid("10.0.1.11@tcp")}).is_ok());
  const NiInfo ni = a_->core->nets().back().nis.back();
  EXPECT_FALSE(ni.up);
  EXPECT_EQ(ni.down_reason, "its link is down");
  EXPECT_EQ(info_of_a("10.0.1.1@tcp").nis.back().status, kNiStatusDown);
}

}  // namespace
}  // namespace ulnet
