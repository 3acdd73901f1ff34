// Fault rules between nodes in virtual time: what drops and delays do to messages, health and
// resends. Source: spec lnet-core 7.2, 10.1; decisions D1, D2; cases HL-1, HL-5, HL-15.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using test::CoreWorld;
using test::drops;
using test::health_of;
using test::kPortal;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class FaultTest : public testing::Test {
 protected:
  // One rail each (T1), or two rails on one net (T2s); they have discovered each other.
  void nodes(int rails, const GlobalSettings& global = {},
             const std::function<void(NiSettings&)>& tune = {}) {
    nodes(rails, rails, global, tune);
  }
  void nodes(int a_rails, int b_rails, const GlobalSettings& global,
             const std::function<void(NiSettings&)>& tune = {}) {
    std::vector<std::string> a = {"10.0.1.1@tcp", "10.0.1.11@tcp"};
    std::vector<std::string> b = {"10.0.1.2@tcp", "10.0.1.12@tcp"};
    a.resize(static_cast<size_t>(a_rails));
    b.resize(static_cast<size_t>(b_rails));
    a_ = &world_.add("a", a, tune, global);
    b_ = &world_.add("b", b, tune, global);
    world_.acquaint();
    attach(*b_);
  }
  void attach(CoreWorld::Node& node) { test::open_target(world_, node, target_); }
  MdHandle put(AckRequest ack = AckRequest::kNoAck, uint64_t hdr_data = 0,
               const Nid& source = Nid::any()) {
    const MdHandle md = test::put(
        world_, *a_, {test::nid(to_), std::span(memory_).first(8), ack, source, hdr_data});
    world_.collect();
    return md;
  }
  MdHandle get() {
    const MdHandle md =
        test::get(world_, *a_, {.target = test::nid(to_), .memory = std::span(memory_).first(8)});
    world_.collect();
    return md;
  }

  // One that acts on each message; `change` makes it choosy.
  void drop(CoreWorld::Node& at, const std::function<void(FaultRule&)>& change = {}) {
    FaultRule rule;
    rule.rate = 1;
    if (change) change(rule);
    const Status status = at.core->add_fault(world_.now, rule);
    ASSERT_TRUE(status.is_ok()) << status.text();
  }
  void fail_sends(CoreWorld::Node& at, HealthStatus status, const std::string& source = "*") {
    drop(at, [&](FaultRule& rule) {
      rule.health_errors = 1U << static_cast<uint32_t>(status);
      rule.source = parse_fault_nid(source).value();
    });
  }
  void delay(CoreWorld::Node& at, uint32_t latency_s, uint32_t messages = 0) {
    FaultRule rule;
    rule.kind = FaultKind::kDelay;
    rule.rate = 1;
    rule.latency_s = latency_s;
    rule.messages = messages;
    ASSERT_TRUE(at.core->add_fault(world_.now, rule).is_ok());
  }
  static void remove_all(CoreWorld::Node& at, FaultKind kind, Time now) {
    EXPECT_GT(at.core->del_faults(now, kind, Nid::any(), Nid::any()), 0U);
  }
  static FaultInfo fault(const CoreWorld::Node& at, FaultKind kind) {
    return at.core->faults(kind).at(0);
  }
  static void expect_at_rest(const CoreWorld::Node& node) {
    EXPECT_EQ(node.core->sends_in_progress(), 0U);
    EXPECT_EQ(node.core->receives_in_progress(), 0U);
    for (const NetInfo& net : node.core->nets()) {
      for (const NiInfo& ni : net.nis) {
        EXPECT_EQ(ni.delayed, 0U);
        if (!ni.nid.is_lo()) {
          EXPECT_EQ(ni.tx_credits, ni.tunables.credits);
        }
      }
    }
    for (const PeerInfo& peer : node.core->peers()) {
      for (const PeerNiInfo& ni : peer.nis) {
        EXPECT_EQ(ni.available_tx_credits, ni.max_ni_tx_credits);
        EXPECT_EQ(ni.tx_q_bytes, 0U);
      }
    }
  }
  // Of all events so far: the statuses, and that exactly `mds` of them were the last of their MD.
  std::vector<int> statuses(CoreWorld::Node& node, size_t mds) {
    std::vector<int> statuses;
    size_t last = 0;
    for (const Event& event : world_.events(node)) {
      statuses.push_back(event.status);
      last += event.unlinked ? 1 : 0;
    }
    EXPECT_EQ(last, mds);
    return statuses;
  }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  std::string to_ = "10.0.1.2@tcp";
  uint8_t memory_[64] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint8_t target_[64] = {};
};

// ---------------------------------------------------------------- drops on receive

TEST_F(FaultTest, AReceivedMessageVanishesBeforeAnybodyIsMade) {
  nodes(1);
  drop(*b_);
  put(AckRequest::kAck);
  Header from_stranger = a_->sends.front().header;
  from_stranger.source_nid = test::nid("10.0.1.77@tcp");
  const MessageVerdict verdict =
      b_->core->handle_message(world_.now, {1, from_stranger.source_nid, from_stranger, 77});
  EXPECT_EQ(verdict.kind, MessageVerdict::Kind::kDone);
  EXPECT_TRUE(verdict.dropped);
  EXPECT_THAT(b_->core->peers(), SizeIs(1));  // a
  world_.run();
  EXPECT_EQ(drops(*b_, "fault_rule"), 2U);
  EXPECT_EQ(fault(*b_, FaultKind::kDrop).put, 2U);
  EXPECT_THAT(world_.events(*b_), IsEmpty());
  // A sees a sent message, and in time a lost response.
  EXPECT_THAT(statuses(*a_, 0), ElementsAre(0));
  world_.advance(150s);
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(-ETIMEDOUT));
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, ResponsesAreDroppedByTheirType) {
  nodes(1);
  drop(*a_, [](FaultRule& rule) { rule.messages = kFaultAck; });
  put(AckRequest::kAck);
  get();
  world_.run();
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).ack, 1U);
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 1U);
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(0, 0, 0));  // two SENDs and the REPLY
  EXPECT_THAT(statuses(*b_, 0), ElementsAre(0, 0));
}

TEST_F(FaultTest, AMessageToOurselvesVanishesLikewise) {
  nodes(1);
  attach(*a_);
  drop(*a_, [](FaultRule& rule) { rule.messages = kFaultPut; });
  to_ = "0@lo";
  put();
  world_.run();
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(0));
  EXPECT_EQ(drops(*a_, "fault_rule"), 1U);
}

// ---------------------------------------------------------------- drops on send: health, resends

// HL-1, by a rule instead of a driver.
TEST_F(FaultTest, HealthFallsAndRisesByTheSensitivity) {
  for (const int32_t sensitivity : {100, 500}) {
    SCOPED_TRACE(sensitivity);
    world_ = CoreWorld();
    GlobalSettings global;
    global.health_sensitivity = sensitivity;
    global.retry_count = 0;
    nodes(2, global);
    const Nid rail = test::nid("10.0.1.1@tcp");
    const int failures = sensitivity == 100 ? 4 : 2;
    fail_sends(*a_, HealthStatus::kLocalDropped, "10.0.1.1@tcp");
    for (int i = 1; i <= failures; ++i) {
      put(AckRequest::kNoAck, 0, rail);
      EXPECT_THAT(statuses(*a_, 1), ElementsAre(-EINVAL));
      EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000 - i * sensitivity);
    }
    EXPECT_THAT(a_->sends, IsEmpty());
    EXPECT_EQ(health_of(*a_, "10.0.1.11@tcp"), 1000);
    EXPECT_EQ(a_->core->statistics().local_dropped_count, static_cast<uint64_t>(failures));
    remove_all(*a_, FaultKind::kDrop, world_.now);
    for (int i = failures - 1; i >= -1; --i) {
      put(AckRequest::kNoAck, 0, rail);
      world_.run();
      EXPECT_EQ(health_of(*a_, "10.0.1.1@tcp"), 1000 - std::max(i, 0) * sensitivity);
    }
  }
}

// HL-5
TEST_F(FaultTest, OverASingleRailThereIsExactlyOneTransmission) {
  nodes(1);
  for (uint32_t status = 1; status <= kFaultHealthMax; ++status) {
    SCOPED_TRACE(health_status_name(status));
    fail_sends(*a_, static_cast<HealthStatus>(status));
    put(AckRequest::kAck);
    EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 1U);
    EXPECT_THAT(a_->sends, IsEmpty());
    EXPECT_THAT(statuses(*a_, 1), ElementsAre(-EINVAL));
    remove_all(*a_, FaultKind::kDrop, world_.now);
  }
  EXPECT_EQ(a_->core->statistics().resend_count, 0U);
  EXPECT_LT(health_of(*a_, "10.0.1.1@tcp"), 1000);
  EXPECT_EQ(health_of(*a_, "10.0.1.2@tcp"), 1000);
  expect_at_rest(*a_);
}

// HL-15
TEST_F(FaultTest, ResendsAreCountedOncePerMessage) {
  GlobalSettings global;
  global.health_sensitivity = 0;  // so that the sick rail stays in use
  nodes(2, global);
  fail_sends(*a_, HealthStatus::kLocalDropped, "10.0.1.1@tcp");
  size_t messages = 0;
  while (fault(*a_, FaultKind::kDrop).acted < 100) {
    put();
    world_.run();
    ASSERT_LT(++messages, 1000U);
  }
  EXPECT_EQ(a_->core->statistics().successful_resends, 100U);
  EXPECT_EQ(a_->core->statistics().failed_resends, 0U);
  EXPECT_THAT(statuses(*a_, messages), testing::Each(0));
  EXPECT_THAT(statuses(*b_, 0), SizeIs(messages));  // no duplicates

  remove_all(*a_, FaultKind::kDrop, world_.now);
  fail_sends(*a_, HealthStatus::kLocalDropped);
  for (int i = 0; i < 10; ++i) put();
  world_.run();
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 30U);  // three attempts each
  EXPECT_EQ(a_->core->statistics().failed_resends, 10U);
  EXPECT_EQ(a_->core->statistics().successful_resends, 100U);
  EXPECT_THAT(statuses(*a_, 10), testing::AllOf(SizeIs(10), testing::Each(-EINVAL)));
  expect_at_rest(*a_);
}

// Table 7.2 says whom a status blames; what is certainly undelivered is resent if the blamed half
// has an alternative, whatever the status (decisions D1: more rows than the kernel's).
struct StatusRow {
  HealthStatus status;
  bool blames_ni;
  bool blames_peer_ni;
};

class FaultStatusTest : public FaultTest, public testing::WithParamInterface<StatusRow> {
 protected:
  // Of the first `count` of these NIDs.
  static int32_t lost_health(const CoreWorld::Node& node, const std::vector<std::string>& nids,
                             int count) {
    int32_t lost = 0;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) lost += 1000 - health_of(node, nids[i]);
    return lost;
  }
  // One message, whose first attempt fails.
  void fail_once(int local_rails, int remote_rails) {
    nodes(local_rails, remote_rails, {});
    drop(*a_, [](FaultRule& rule) {
      rule.rate = 2;  // the first
      rule.health_errors = 1U << static_cast<uint32_t>(GetParam().status);
    });
    put();
  }
};

TEST_P(FaultStatusTest, IsResentByTheBlamedHalfsAlternative) {
  const StatusRow& row = GetParam();
  for (const int local : {1, 2}) {
    for (const int remote : {1, 2}) {
      SCOPED_TRACE(testing::Message() << local << " local rails, " << remote << " remote");
      world_ = CoreWorld();
      fail_once(local, remote);
      const bool resent = (row.blames_ni && local == 2) || (row.blames_peer_ni && remote == 2);
      EXPECT_THAT(a_->sends, SizeIs(resent ? 1 : 0));
      EXPECT_EQ(a_->core->statistics().resend_count, resent ? 1U : 0U);
      EXPECT_EQ(lost_health(*a_, {"10.0.1.1@tcp", "10.0.1.11@tcp"}, local),
                row.blames_ni ? 100 : 0);
      EXPECT_EQ(lost_health(*a_, {"10.0.1.2@tcp", "10.0.1.12@tcp"}, remote),
                row.blames_peer_ni && remote == 2 ? 100 : 0);
      if (resent) {
        // Never over the same pair: the half that is blamed, and sick now, is another if it can be.
        const SendAction& again = a_->sends.front();
        if (row.blames_ni && local == 2) {
          EXPECT_EQ(health_of(*a_, again.header.source_nid.to_string()), 1000);
        }
        if (row.blames_peer_ni && remote == 2) {
          EXPECT_EQ(health_of(*a_, again.next_hop.to_string()), 1000);
        }
      }
      world_.run();
      EXPECT_THAT(statuses(*a_, 1), ElementsAre(resent ? 0 : -EINVAL));
      expect_at_rest(*a_);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Statuses, FaultStatusTest,
                         testing::Values(StatusRow{HealthStatus::kLocalInterrupt, true, false},
                                         StatusRow{HealthStatus::kLocalDropped, true, false},
                                         StatusRow{HealthStatus::kLocalAborted, true, false},
                                         StatusRow{HealthStatus::kLocalNoRoute, true, false},
                                         StatusRow{HealthStatus::kLocalError, true, false},
                                         StatusRow{HealthStatus::kLocalTimeout, true, false},
                                         StatusRow{HealthStatus::kRemoteError, false, true},
                                         StatusRow{HealthStatus::kRemoteDropped, false, true},
                                         StatusRow{HealthStatus::kRemoteTimeout, false, true},
                                         StatusRow{HealthStatus::kNetworkTimeout, true, true}),
                         [](const auto& test) {
                           return std::string(to_string(test.param.status));
                         });

TEST_F(FaultTest, ADroppedSendWakesWhoWaitsForItsCredits) {
  nodes(1, {}, [](NiSettings& ni) { ni.tunables.peer_credits = ni.tunables.credits = 1; });
  put();  // in the driver
  std::vector<MdHandle> waiting;
  for (int i = 0; i < 1000; ++i) waiting.push_back(put());
  fail_sends(*a_, HealthStatus::kRemoteDropped);
  world_.run();  // each failure lets the next one fail: one after another, not one in another
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 1000U);
  EXPECT_THAT(statuses(*a_, 1001), SizeIs(1001));
  expect_at_rest(*a_);
}

// ---------------------------------------------------------------- delays on send

TEST_F(FaultTest, DelayedSendsKeepTheirOrderAndTheirCredits) {
  nodes(1);
  delay(*a_, 2);
  for (uint64_t i = 0; i < 5; ++i) put(AckRequest::kNoAck, i);
  world_.run();
  EXPECT_THAT(a_->sends, IsEmpty());
  const NiInfo ni = a_->core->nets().at(1).nis.at(0);
  EXPECT_EQ(ni.delayed, 5U);
  EXPECT_EQ(ni.tx_credits, ni.tunables.credits - 5);
  EXPECT_EQ(a_->core->peers().at(0).nis.at(0).available_tx_credits, 3);
  world_.advance(1999ms);
  EXPECT_FALSE(world_.collect());
  world_.advance(1ms);
  world_.run();
  std::vector<uint64_t> order;
  for (const Event& event : world_.events(*b_)) order.push_back(event.hdr_data);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(statuses(*a_, 5), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(fault(*a_, FaultKind::kDelay).put, 5U);
  expect_at_rest(*a_);
}

TEST_F(FaultTest, ADelayedSendMayThenBeDropped) {
  nodes(1);
  delay(*a_, 1);
  fail_sends(*a_, HealthStatus::kLocalError);
  put();
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 0U);
  world_.advance(1s);
  EXPECT_EQ(fault(*a_, FaultKind::kDrop).acted, 1U);
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(-EINVAL));
  expect_at_rest(*a_);
}

TEST_F(FaultTest, ADelayedSendsDeadlineHolds) {
  nodes(1);
  delay(*a_, 3600);
  put(AckRequest::kAck);
  // The attempt's bound: the LND timeout in force, 49 s, x 3 + 1.
  world_.advance(147s);
  EXPECT_THAT(world_.events(*a_), IsEmpty());
  world_.advance(1s);
  EXPECT_FALSE(world_.collect());
  EXPECT_EQ(drops(*a_, "expired_before_send"), 1U);
  const std::vector<int> ends = statuses(*a_, 1);
  EXPECT_THAT(ends, testing::Each(-ETIMEDOUT));
  EXPECT_FALSE(ends.empty());
  expect_at_rest(*a_);
  world_.advance(2h);  // the rule finds nothing
  EXPECT_THAT(world_.events(*a_), IsEmpty());
}

TEST_F(FaultTest, AnUnlinkedMdOfADelayedSendEndsOnceWithoutTheWire) {
  nodes(1);
  delay(*a_, 2);
  const MdHandle md = put(AckRequest::kAck);
  ASSERT_TRUE(a_->core->unlink(md).is_ok());
  world_.advance(2s);
  EXPECT_FALSE(world_.collect());
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(-ECANCELED));
  expect_at_rest(*a_);
}

TEST_F(FaultTest, RemovingTheRuleLetsEverythingGoOn) {
  nodes(1);
  delay(*a_, 1000, kFaultPut | kFaultGet);
  delay(*b_, 1000, kFaultReply);  // of b's own
  put(AckRequest::kAck);
  get();
  world_.run();
  EXPECT_THAT(world_.events(*a_), IsEmpty());
  remove_all(*a_, FaultKind::kDelay, world_.now);
  world_.run();
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(0, 0, 0));  // two SENDs and the ACK
  remove_all(*b_, FaultKind::kDelay, world_.now);
  world_.run();
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(0));  // the REPLY
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, ADelayedSendLeavesByAnotherNiWhenItsOwnIsRemoved) {
  nodes(2);
  delay(*a_, 2, kFaultPut);
  for (int i = 0; i < 4; ++i) put();
  ASSERT_EQ(a_->core->nets().at(1).nis.at(0).delayed, 2U);
  ASSERT_TRUE(a_->core->remove_ni(world_.now, 1).is_ok());
  world_.advance(2s);
  world_.collect();
  size_t puts = 0;
  for (const SendAction& send : a_->sends) {
    EXPECT_NE(send.ni, 1U);
    const auto* part = std::get_if<PutPart>(&send.header.part);
    puts += part != nullptr && part->portal == kPortal ? 1 : 0;
  }
  EXPECT_EQ(puts, 4U);
  world_.run();
  EXPECT_THAT(statuses(*a_, 4), ElementsAre(0, 0, 0, 0));
  remove_all(*a_, FaultKind::kDelay, world_.now);
  world_.run();
  expect_at_rest(*a_);
}

// ---------------------------------------------------------------- delays on receive

TEST_F(FaultTest, DelayedMessagesStayWithTheDriverAndKeepTheirOrder) {
  nodes(1);
  delay(*b_, 3, kFaultPut);
  for (uint64_t i = 0; i < 4; ++i) put(AckRequest::kNoAck, i);
  world_.run();
  EXPECT_EQ(b_->core->receives_in_progress(), 4U);
  EXPECT_THAT(b_->held, SizeIs(4));
  EXPECT_THAT(world_.events(*b_), IsEmpty());
  world_.advance(3s);
  world_.run();
  std::vector<uint64_t> order;
  for (const Event& event : world_.events(*b_)) order.push_back(event.hdr_data);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(target_[7], 8);
  EXPECT_EQ(fault(*b_, FaultKind::kDelay).acted, 4U);
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, EachTypeGoesOnAfterItsDelay) {
  nodes(1);
  delay(*a_, 1, kFaultAck | kFaultReply);
  delay(*b_, 1, kFaultPut | kFaultGet);
  const MdHandle empty = a_->core->bind({.threshold = 2}).value();
  ASSERT_TRUE(a_->core
                  ->put(world_.now,
                        {.md = empty, .target = {test::nid(to_), kPidLustre}, .portal = kPortal})
                  .is_ok());
  put(AckRequest::kAck);
  get();
  for (int i = 0; i < 5; ++i) {
    world_.run();
    world_.advance(1s);
  }
  world_.run();
  EXPECT_THAT(statuses(*a_, 3), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(statuses(*b_, 0), ElementsAre(0, 0, 0));
  EXPECT_EQ(fault(*a_, FaultKind::kDelay).acted, 3U);
  EXPECT_EQ(fault(*b_, FaultKind::kDelay).acted, 3U);
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, AfterItsDelayAMessageMayBeDroppedOrParked) {
  nodes(1);
  delay(*b_, 1);
  world_.collect();
  ASSERT_TRUE(b_->core->set_lazy(world_.now, kPortal + 1, true).is_ok());
  for (const uint32_t portal : {kPortal + 1, kPortal + 2}) {
    MdSpec md;
    md.fragments = {{memory_, 8}};
    md.threshold = 1;
    ASSERT_TRUE(a_->core
                    ->put(world_.now, {.md = a_->core->bind(md).value(),
                                       .ack = AckRequest::kNoAck,
                                       .target = {test::nid(to_), kPidLustre},
                                       .portal = portal})
                    .is_ok());
  }
  world_.run();
  world_.advance(1s);
  world_.run();
  EXPECT_EQ(drops(*b_, "no_match"), 1U);
  EXPECT_EQ(b_->core->receives_in_progress(), 1U);
  ASSERT_TRUE(b_->core->set_lazy(world_.now, kPortal + 1, false).is_ok());
  world_.run();
  EXPECT_EQ(drops(*b_, "lazy_cleared") + drops(*b_, "no_match"), 2U);
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, ADelayedMessageWhoseConnectionDiesIsDroppedOnce) {
  nodes(1);
  delay(*b_, 5);
  put();
  const Header header = a_->sends.front().header;
  const MessageVerdict verdict =
      b_->core->handle_message(world_.now, {1, header.source_nid, header, 77});
  ASSERT_EQ(verdict.kind, MessageVerdict::Kind::kWait);
  b_->core->handle_receive_done(world_.now, verdict.id,
                                {.error = ECONNRESET, .health = HealthStatus::kRemoteError});
  EXPECT_EQ(drops(*b_, "delayed_gone"), 1U);
  EXPECT_EQ(b_->core->receives_in_progress(), 0U);
  world_.advance(10s);
  EXPECT_FALSE(world_.collect());
  EXPECT_THAT(world_.events(*b_), IsEmpty());
}

TEST_F(FaultTest, ADelayedResponseToAnUnlinkedMdIsDropped) {
  nodes(1);
  delay(*a_, 5, kFaultReply);
  const MdHandle md = get();
  world_.run();
  ASSERT_TRUE(a_->core->unlink(md).is_ok());
  EXPECT_THAT(statuses(*a_, 1), ElementsAre(0, 0));  // SEND, UNLINK
  world_.advance(5s);
  world_.run();
  EXPECT_EQ(drops(*a_, "unknown_md"), 1U);
  EXPECT_THAT(world_.events(*a_), IsEmpty());
  expect_at_rest(*a_);
  expect_at_rest(*b_);
}

TEST_F(FaultTest, ADelayedMessageToOurselvesEndsByItsSendersBound) {
  nodes(1);
  attach(*a_);
  delay(*a_, 3600);
  to_ = "0@lo";
  put(AckRequest::kAck);
  get();
  world_.run();
  EXPECT_EQ(a_->core->receives_in_progress(), 2U);
  world_.advance(150s);
  world_.run();
  EXPECT_EQ(drops(*a_, "parked_too_long"), 2U);
  EXPECT_THAT(statuses(*a_, 2), testing::Each(-ETIMEDOUT));
  expect_at_rest(*a_);
}

// ---------------------------------------------------------------- shutdown

TEST_F(FaultTest, AtShutdownWhatIsDelayedEndsOnce) {
  nodes(1);
  delay(*a_, 1000, kFaultPut);
  delay(*b_, 1000, kFaultGet);
  put(AckRequest::kAck);
  get();
  world_.run();
  EXPECT_EQ(a_->core->nets().at(1).nis.at(0).delayed, 1U);
  EXPECT_EQ(b_->core->receives_in_progress(), 1U);
  b_->core->shut_down(world_.now);
  world_.run();
  EXPECT_EQ(drops(*b_, "shutdown"), 1U);
  a_->core->shut_down(world_.now);
  world_.run();
  const std::vector<int> ends = statuses(*a_, 2);
  EXPECT_THAT(ends, testing::Contains(-ESHUTDOWN));
  EXPECT_EQ(a_->core->add_fault(world_.now, {.rate = 1}).code(), ESHUTDOWN);
  expect_at_rest(*a_);
  expect_at_rest(*b_);
  world_.advance(2000s);
  EXPECT_THAT(world_.events(*a_), IsEmpty());
}

}  // namespace
}  // namespace ulnet
