// Discovery between nodes in virtual time, and of peers that lie: who is asked, told, merged,
// renamed, believed. Source: spec lnet-core 4.8 to 4.12; cases DS-*, SE-3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "tests/support/core_world.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using test::CoreWorld;
using test::nid;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr uint32_t kPortal = 30;
const Completion kRefused{.error = ECONNREFUSED,
                          .health = HealthStatus::kRemoteDropped,
                          .kind = FailureKind::kPeerNiNoListener,
                          .nothing_posted = true};

// The bits of `peer state` (5.3).
constexpr uint32_t kMultiRail = 1, kNoDiscovery = 2, kConfigured = 8, kDiscovered = 16,
                   kCurrent = 256, kLocked = 1U << 20, kBadConfig = 1U << 21;

GlobalSettings discovery(bool on) {
  GlobalSettings global;
  global.discovery = on;
  return global;
}

// Counts how discoveries end.
struct Ends : EventHandler {
  void handle_event(const Event& event) override { statuses.push_back(event.status); }
  std::vector<int32_t> statuses;
};

class DiscoveryTest : public testing::Test {
 protected:
  void open_target(CoreWorld::Node& node) {
    MdSpec md;
    md.fragments = {{memory_, sizeof memory_}};
    md.options = kMdPut | kMdGet | kMdManageRemote | kMdTruncate;
    MeSpec me;
    me.portal = kPortal;
    ASSERT_TRUE(node.core->md_attach(world_.now, node.core->me_attach(me).value(), md).has_value());
  }
  MdHandle put(CoreWorld::Node& from, std::string_view to, AckRequest ack = AckRequest::kNoAck) {
    MdSpec md;
    md.fragments = {{memory_, 8}};
    md.threshold = ack == AckRequest::kAck ? 2 : 1;
    PutArgs args;
    args.md = from.core->bind(md).value();
    args.ack = ack;
    args.target = {nid(to), kPidLustre};
    args.portal = kPortal;
    EXPECT_TRUE(from.core->put(world_.now, args).is_ok());
    return args.md;
  }
  // Sends, runs and tells by which pairs of NIDs `count` PUTs went.
  std::set<std::string> ways(CoreWorld::Node& from, std::string_view to, int count = 40) {
    std::set<std::string> used;
    for (int i = 0; i < count; ++i) {
      put(from, to);
      world_.collect();
      for (const SendAction& send : from.sends) {
        const auto* part = std::get_if<PutPart>(&send.header.part);
        if (part == nullptr || part->portal != kPortal) continue;
        used.insert(send.header.source_nid.to_string() + ">" + send.header.dest_nid.to_string());
      }
      world_.run();
    }
    return used;
  }
  // All bytes leave, and none arrives.
  void lose_one(CoreWorld::Node& node) {
    const SendAction send = node.sends.front();
    node.sends.pop_front();
    node.core->handle_send_done(world_.now, send.id, Completion{});
  }
  void run_handlers(CoreWorld::Node& node) {
    std::vector<core::CoreEvent> events;
    events.swap(node.core->handled_events());
    for (const core::CoreEvent& event : events) event.handler->handle_event(event.event);
  }
  // What a sends next, as "PUT 0 48 > 10.0.1.2@tcp": type, portal (of requests), bytes.
  std::string next_send(CoreWorld::Node& node) {
    world_.collect();
    if (node.sends.empty()) return "nothing";
    const Header& header = node.sends.front().header;
    std::string text;
    if (const auto* put_part = std::get_if<PutPart>(&header.part)) {
      text = "PUT " + std::to_string(put_part->portal);
    } else if (const auto* get = std::get_if<GetPart>(&header.part)) {
      text = "GET " + std::to_string(get->portal) + " sink " + std::to_string(get->sink_length);
    } else {
      text = std::holds_alternative<AckPart>(header.part) ? "ACK" : "REPLY";
    }
    return text + " " + std::to_string(header.payload_bytes) + " > " + header.dest_nid.to_string();
  }
  const PeerInfo* find_peer(const CoreWorld::Node& node, std::string_view with) {
    static PeerInfo found;
    for (const PeerInfo& peer : node.core->peers()) {
      for (const PeerNiInfo& ni : peer.nis) {
        if (ni.nid == nid(with)) return &(found = peer);
      }
    }
    return nullptr;
  }
  // "primary: NID NID ..." of each peer.
  std::vector<std::string> records(const CoreWorld::Node& node) {
    std::vector<std::string> all;
    for (const PeerInfo& peer : node.core->peers()) {
      std::string text = peer.primary_nid.to_string() + ":";
      for (const PeerNiInfo& ni : peer.nis) text += " " + ni.nid.to_string();
      all.push_back(text);
    }
    return all;
  }
  uint32_t state_of(const CoreWorld::Node& node, std::string_view with) {
    const PeerInfo* peer = find_peer(node, with);
    return peer != nullptr ? peer->state : 0;
  }
  void two_rails() {
    a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
    b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.1.12@tcp"});
    open_target(*a_);
    open_target(*b_);
  }
  // The present node of these NIDs is no more; a new one has `nids`.
  CoreWorld::Node& restart(const std::vector<std::string>& old_nids,
                           const std::vector<std::string>& nids, bool discovers = true) {
    world_.unplug(old_nids);
    CoreWorld::Node& node = world_.add("again", nids, {}, discovery(discovers));
    open_target(node);
    return node;
  }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
  EXPECT_THAT(records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
}

TEST_F(DiscoveryTest, MessagesToAKnownPeerGoAtOnceAndByAllRails) {
  two_rails();
  put(*a_, "10.0.1.12@tcp");
  world_.run();
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
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
  b_->core->set_discovery(world_.now, true);
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
    b_->core->set_discovery(world_.now, false);
    put(*a_, "10.0.1.2@tcp");  // on its way meanwhile
    put(*b_, "10.0.1.1@tcp");
    world_.run();
    EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 1U);
    EXPECT_EQ(ways(*b_, "10.0.1.1@tcp").size(), 1U);
    b_->core->set_discovery(world_.now, true);
    put(*a_, "10.0.1.2@tcp");
    put(*b_, "10.0.1.1@tcp");
    world_.run();
    EXPECT_EQ(ways(*a_, "10.0.1.2@tcp").size(), 2U);
    EXPECT_EQ(ways(*b_, "10.0.1.1@tcp").size(), 2U);
  }
  for (CoreWorld::Node* node : {a_, b_}) {
    for (const Event& event : world_.events(*node)) EXPECT_EQ(event.status, 0);
  }
  EXPECT_THAT(records(*a_), testing::Contains("10.0.1.50@tcp: 10.0.1.50@tcp 10.0.1.51@tcp"));
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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.2.2@tcp1"));
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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
  EXPECT_THAT(ends.statuses, ElementsAre(0));
  EXPECT_EQ(world_.events(*b_).size(), 2U);
}

TEST_F(DiscoveryTest, ANodeHeardByTwoNidsIsMergedOnItsWordFromBoth) {
  two_rails();
  // Two pings by hand from either NI of a: b knows two strangers.
  for (const char* source : {"10.0.1.1@tcp", "10.0.1.11@tcp"}) {
    MdSpec md;
    md.fragments = {{memory_, 64}};
    md.threshold = 2;
    md.options = kMdTruncate;
    GetArgs get;
    get.md = a_->core->bind(md).value();
    get.target = {nid("10.0.1.2@tcp"), kPidLustre};
    get.match_bits = kPingMatchBits;
    get.source = nid(source);
    ASSERT_TRUE(a_->core->get(world_.now, get).is_ok());
    world_.run();
  }
  EXPECT_EQ(b_->core->peers().size(), 2U);
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  EXPECT_THAT(records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
}

TEST_F(DiscoveryTest, ANodeThatComesBackWithFewerNidsLosesThem) {
  two_rails();
  put(*a_, "10.0.1.2@tcp");
  world_.run();
  b_ = &restart({"10.0.1.2@tcp", "10.0.1.12@tcp"}, {"10.0.1.2@tcp"});
  (void)world_.events(*a_);
  put(*b_, "10.0.1.1@tcp");  // it makes itself known
  world_.run();
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp"));
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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.2.2@tcp1"));
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
  EXPECT_THAT(records(*a_), testing::Contains("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.77@tcp"));
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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.12@tcp: 10.0.1.12@tcp"));
  by_hand.nids = {nid("10.0.1.60@tcp")};
  ASSERT_TRUE(a_->core->configure_peer(world_.now, by_hand).is_ok());
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.12@tcp: 10.0.1.12@tcp 10.0.1.60@tcp"));
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
  EXPECT_THAT(records(*a_), ElementsAre("10.0.1.2@tcp: 10.0.1.2@tcp"));
  EXPECT_TRUE(a_->core->delete_peer(world_.now, primary, {}, false).is_ok());
  EXPECT_THAT(records(*a_), IsEmpty());
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
  EXPECT_EQ(a_->core->peers().size(), 1U);
  for (const PeerNiInfo& ni : a_->core->peers().at(0).nis) {
    EXPECT_EQ(ni.available_tx_credits, ni.max_ni_tx_credits);
    EXPECT_EQ(ni.tx_q_bytes, 0U);
  }
}

// ---------------------------------------------------------------- peers that lie (SE-3)

class LiarTest : public DiscoveryTest {
 protected:
  LiarTest() {
    a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
    b_ = &world_.add("victim", {"10.0.1.2@tcp", "10.0.1.12@tcp"});
    open_target(*b_);
    put(*a_, "10.0.1.2@tcp");
    world_.run();
    (void)world_.events(*a_);
  }
  static PingInfo info(const std::vector<std::string>& nids) {
    PingInfo info;
    info.features = 0x1E;
    for (const std::string& text : nids) info.nis.push_back({nid(text), kNiStatusUp});
    return info;
  }
  // A message from 10.0.1.66@tcp with these bytes.
  void from_liar(const decltype(Header::part)& part, const std::vector<uint8_t>& bytes) {
    Header header;
    header.source_nid = nid("10.0.1.66@tcp");
    header.dest_nid = nid("10.0.1.1@tcp");
    header.source_pid = header.dest_pid = kPidLustre;
    header.part = part;
    header.payload_bytes = static_cast<uint32_t>(bytes.size());
    const MessageVerdict verdict =
        a_->core->handle_message(world_.now, {1, header.source_nid, header, 1});
    if (verdict.kind != MessageVerdict::Kind::kReceive) return;
    const iovec from{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    copy_payload(PayloadView{{&from, 1}, 0, header.payload_bytes}, verdict.into);
    a_->core->handle_receive_done(world_.now, verdict.id, Completion{});
  }
  void push(const std::vector<uint8_t>& bytes) {
    from_liar(PutPart{WireHandle::none(), kPingMatchBits, 0, 0, 0}, bytes);
    serve();
  }
  // Lets the others talk; pings of the liar are answered with `answer_`.
  void serve() {
    for (bool moved = true; moved;) {
      moved = world_.collect();
      while (!a_->sends.empty()) {
        const SendAction send = a_->sends.front();
        moved = true;
        if (send.next_hop != nid("10.0.1.66@tcp")) {
          world_.deliver_one(*a_);
          continue;
        }
        a_->sends.pop_front();
        a_->core->handle_send_done(world_.now, send.id, Completion{});
        if (const auto* get = std::get_if<GetPart>(&send.header.part)) {
          ++pings_;
          std::vector<uint8_t> cut = answer_;
          cut.resize(std::min<size_t>(cut.size(), get->sink_length));
          from_liar(ReplyPart{get->return_md}, cut);
        } else if (const auto* put_part = std::get_if<PutPart>(&send.header.part)) {
          from_liar(AckPart{put_part->ack_md, kPingMatchBits, send.header.payload_bytes}, {});
        }
      }
      while (!b_->sends.empty()) {
        world_.deliver_one(*b_);
        moved = true;
      }
    }
  }
  void expect_the_victim_unharmed() {
    EXPECT_THAT(records(*a_), testing::Contains("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
    EXPECT_EQ(a_->core->primary_nid(nid("10.0.1.12@tcp")), nid("10.0.1.2@tcp"));
    for (const std::string& record : records(*a_)) {
      EXPECT_THAT(record, testing::Not(testing::HasSubstr("10.0.1.1@tcp")));
      EXPECT_THAT(record, testing::Not(testing::HasSubstr("10.0.1.11@tcp")));
      EXPECT_THAT(record, testing::Not(testing::HasSubstr("<?>")));
      EXPECT_THAT(record, testing::Not(testing::HasSubstr("0@lo")));
    }
  }

  std::vector<uint8_t> answer_ = encode_ping_info(info({"10.0.1.66@tcp"}));
  int pings_ = 0;
};

TEST_F(LiarTest, NidsOfOthersAreNotStolen) {
  push(encode_ping_info(info({"10.0.1.66@tcp", "10.0.1.12@tcp", "10.0.1.67@tcp"})));
  expect_the_victim_unharmed();
  EXPECT_THAT(records(*a_), testing::Contains("10.0.1.66@tcp: 10.0.1.66@tcp 10.0.1.67@tcp"));
}

TEST_F(LiarTest, AnothersPrimaryNidIsNotTaken) {
  push(encode_ping_info(info({"10.0.1.2@tcp", "10.0.1.66@tcp"})));
  expect_the_victim_unharmed();
  EXPECT_EQ(a_->core->primary_nid(nid("10.0.1.66@tcp")), nid("10.0.1.66@tcp"));
}

TEST_F(LiarTest, OurOwnNidsAndNobodysAreNotAdopted) {
  push(encode_ping_info(info({"10.0.1.1@tcp", "10.0.1.11@tcp", "10.0.1.66@tcp"})));
  push(encode_ping_info(info({"10.0.1.66@tcp", "10.0.1.11@tcp", "10.0.1.66@tcp"})));
  push(encode_ping_info(info({})));
  expect_the_victim_unharmed();
}

TEST_F(LiarTest, AllFeatureBitsAndUnknownStatesAreHarmless) {
  PingInfo odd = info({"10.0.1.66@tcp", "10.0.1.67@tcp"});
  odd.features = 0xFFFFFF9F;
  odd.nis[1].status = 0x12345678;
  push(encode_ping_info(odd));
  expect_the_victim_unharmed();
  EXPECT_EQ(find_peer(*a_, "10.0.1.67@tcp")->nis.size(), 2U);
}

TEST_F(LiarTest, ConflictsDoNotMakeAStormOfQuestions) {
  for (uint32_t i = 1; i <= 100; ++i) {
    PingInfo lie = info({"10.0.1.66@tcp", "10.0.1.2@tcp"});
    lie.sequence = i;
    push(encode_ping_info(lie));
  }
  expect_the_victim_unharmed();
  const Statistics counts = b_->core->statistics();
  EXPECT_LE(counts.recv_count, 12U);  // first contact and one question
}

TEST_F(DiscoveryTest, ANidThatCouldNotAnswerWhoseItIsIsAskedAgain) {
  two_rails();
  // b hears a by either NID, and knows two strangers.
  for (const char* source : {"10.0.1.1@tcp", "10.0.1.11@tcp"}) {
    MdSpec md;
    md.fragments = {{memory_, 64}};
    md.threshold = 2;
    md.options = kMdTruncate;
    GetArgs get;
    get.md = a_->core->bind(md).value();
    get.target = {nid("10.0.1.2@tcp"), kPidLustre};
    get.match_bits = kPingMatchBits;
    get.source = nid(source);
    ASSERT_TRUE(a_->core->get(world_.now, get).is_ok());
    world_.run();
  }
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
  EXPECT_THAT(records(*b_), ElementsAre("10.0.1.1@tcp: 10.0.1.1@tcp 10.0.1.11@tcp"));
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

TEST_F(LiarTest, NonsenseIsAskedAboutThreeTimes) {
  answer_ = {1, 2, 3};
  put(*a_, "10.0.1.66@tcp");
  serve();
  EXPECT_EQ(pings_, 3);
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status, -EPROTO);
}

TEST_F(LiarTest, ClaimsOfMoreEntriesThanEverComeEnd) {
  answer_ = encode_ping_info(info({"10.0.1.66@tcp"}));
  const uint32_t claimed = 200;
  std::memcpy(&answer_[12], &claimed, sizeof claimed);
  put(*a_, "10.0.1.66@tcp");
  serve();
  EXPECT_LE(pings_, 4);
  EXPECT_EQ(world_.events(*a_).at(0).status, -EPROTO);
  answer_ = encode_ping_info(info({"10.0.1.66@tcp"}));  // it mends its ways
  put(*a_, "10.0.1.66@tcp");
  serve();
  EXPECT_EQ(world_.events(*a_).at(0).status, 0);
}

TEST_F(LiarTest, ANidThatMovedToAnotherNodeFollowsItsOwnWord) {
  // The victim's second NID now answers as the other node.
  world_.unplug({"10.0.1.12@tcp", "10.0.1.2@tcp"});
  CoreWorld::Node& other = world_.add("other", {"10.0.1.3@tcp", "10.0.1.12@tcp"});
  open_target(other);
  put(other, "10.0.1.1@tcp");
  world_.run();
  EXPECT_EQ(a_->core->primary_nid(nid("10.0.1.12@tcp")), nid("10.0.1.3@tcp"));
  EXPECT_THAT(records(*a_), testing::Contains("10.0.1.3@tcp: 10.0.1.3@tcp 10.0.1.12@tcp"));
}

}  // namespace
}  // namespace ulnet
