// The core's Portals-like behaviour between two nodes in virtual time. Source: spec lnet-core
// 3, 5.5, 8.
#include "lnet/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>

#include "lnet/wire/ping_info.h"
#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using test::CoreWorld;
using test::drops;
using test::kPortal;
using testing::ElementsAre;

constexpr uint64_t kBits = 0x1234;

MATCHER_P3(IsEvent, kind, status, unlinked, "") {
  return arg.kind == kind && arg.status == status && arg.unlinked == unlinked;
}

class CoreTest : public testing::Test {
 protected:
  CoreTest() {
    std::iota(source_.begin(), source_.end(), uint8_t{1});
    world_.acquaint();
  }

  MdSpec source(size_t bytes, int32_t threshold) {
    MdSpec md;
    if (bytes > 0) md.fragments = {{source_.data(), bytes}};
    md.threshold = threshold;
    return md;
  }

  MdHandle attach(CoreWorld::Node& node, const MdSpec& md, MeSpec me = {}) {
    if (me.portal == 0) me.portal = kPortal;
    if (me.match_bits == 0) me.match_bits = kBits;
    return node.core->md_attach(world_.now, node.core->me_attach(me).value(), md).value();
  }

  MdSpec target(uint32_t options, int32_t threshold = kThresholdInfinite) {
    MdSpec md;
    md.fragments = {{target_.data(), target_.size()}};
    md.options = options;
    md.threshold = threshold;
    return md;
  }

  Status put(CoreWorld::Node& from, MdHandle md, const Nid& to, AckRequest ack = AckRequest::kAck) {
    PutArgs args;
    args.md = md;
    args.ack = ack;
    args.target = {to, kPidLustre};
    args.portal = kPortal;
    args.match_bits = kBits;
    args.hdr_data = 77;
    return from.core->put(world_.now, args);
  }

  Status get(CoreWorld::Node& from, MdHandle md, const Nid& to, uint32_t offset = 0) {
    GetArgs args;
    args.md = md;
    args.target = {to, kPidLustre};
    args.portal = kPortal;
    args.match_bits = kBits;
    args.offset = offset;
    return from.core->get(world_.now, args);
  }

  CoreWorld world_;
  CoreWorld::Node& a_ = world_.add("a", {"10.0.0.1@tcp"});
  CoreWorld::Node& b_ = world_.add("b", {"10.0.0.2@tcp"});
  const Nid a_nid_ = test::nid("10.0.0.1@tcp");
  const Nid b_nid_ = test::nid("10.0.0.2@tcp");
  std::array<uint8_t, 256> source_{};
  std::array<uint8_t, 256> target_{};
};

// A link may go while the node stops, and a tool may still ask for something.
TEST_F(CoreTest, AStoppedNodeTakesReportsAndRefusesCommands) {
  a_.core->shut_down(world_.now);
  a_.core->handle_ni_fatal(world_.now, 1, true, "no link");
  const std::vector<Nid> nids = {test::nid("10.0.0.7@tcp")};
  PeerSettings peer;
  peer.primary_nid = nids.front();
  EXPECT_EQ(a_.core->add_peer(world_.now, nids).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->configure_peer(world_.now, peer).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->delete_peer(world_.now, b_nid_, {}, false).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->remove_ni(world_.now, 1).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->set_lazy(world_.now, kPortal, true).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->set_global(world_.now, "discovery", 0).code(), ESHUTDOWN);
  EXPECT_EQ(a_.core->bind(source(8, 1)).error().code(), ESHUTDOWN);
  EXPECT_FALSE(world_.collect());
}

TEST_F(CoreTest, AWildcardIsNoTargetAndMakesNoPeer) {
  const size_t peers = a_.core->peers().size();
  const MdHandle md = a_.core->bind(source(8, 2)).value();
  EXPECT_EQ(put(a_, md, Nid::any()).code(), EINVAL);
  EXPECT_EQ(get(a_, md, Nid::any()).code(), EINVAL);
  EXPECT_EQ(a_.core->peers().size(), peers);
  EXPECT_TRUE(put(a_, md, b_nid_).is_ok());
}

TEST_F(CoreTest, PutWithAckDeliversThreeEvents) {
  attach(b_, target(kMdPut, 1));
  const MdHandle md = a_.core->bind(source(100, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.run();

  const std::vector<Event> at_b = world_.events(b_);
  ASSERT_THAT(at_b, ElementsAre(IsEvent(EventKind::kPut, 0, true)));
  EXPECT_EQ(at_b[0].mlength, 100U);
  EXPECT_EQ(at_b[0].rlength, 100U);
  EXPECT_EQ(at_b[0].hdr_data, 77U);
  EXPECT_EQ(at_b[0].match_bits, kBits);
  EXPECT_EQ(at_b[0].portal, kPortal);
  EXPECT_EQ(at_b[0].initiator, (ProcessId{a_nid_, kPidLustre}));
  EXPECT_EQ(at_b[0].source, (ProcessId{a_nid_, kPidLustre}));
  EXPECT_EQ(at_b[0].sender, a_nid_);
  EXPECT_EQ(at_b[0].target, (ProcessId{b_nid_, kPidLustre}));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 100, target_.begin()));

  // On this wire the ACK comes in before the driver reports the PUT as sent.
  const std::vector<Event> at_a = world_.events(a_);
  ASSERT_EQ(at_a.size(), 2U);
  EXPECT_THAT(at_a, testing::UnorderedElementsAre(testing::Field(&Event::kind, EventKind::kSend),
                                                  testing::Field(&Event::kind, EventKind::kAck)));
  EXPECT_FALSE(at_a[0].unlinked);
  EXPECT_TRUE(at_a[1].unlinked);
  for (const Event& event : at_a) {
    EXPECT_EQ(event.status, 0);
    EXPECT_EQ(event.mlength, 100U);
    EXPECT_EQ(event.md, md);
  }
  EXPECT_EQ(a_.core->sends_in_progress(), 0U);
  EXPECT_EQ(a_.core->statistics().rst_alloc, 0U);
}

TEST_F(CoreTest, PutWithoutAckEndsWithItsSend) {
  attach(b_, target(kMdPut, 1));
  const MdHandle md = a_.core->bind(source(10, 1)).value();
  ASSERT_TRUE(put(a_, md, b_nid_, AckRequest::kNoAck).is_ok());
  world_.run();
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, 0, true)));
  EXPECT_EQ(b_.core->statistics().send_count, 0U);
}

TEST_F(CoreTest, AckDisableSendsNoAck) {
  attach(b_, target(kMdPut | kMdAckDisable, 1));
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.run();
  EXPECT_EQ(b_.core->statistics().send_count, 0U);
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, 0, false)));
}

TEST_F(CoreTest, GetFetchesFromRemoteOffset) {
  std::iota(target_.begin(), target_.end(), uint8_t{0});
  attach(b_, target(kMdGet | kMdManageRemote));
  MdSpec sink;
  sink.fragments = {{source_.data(), 10}, {source_.data() + 20, 10}};
  sink.threshold = 2;
  const MdHandle md = a_.core->bind(sink).value();
  ASSERT_TRUE(get(a_, md, b_nid_, 50).is_ok());
  world_.run();

  const std::vector<Event> at_b = world_.events(b_);
  ASSERT_THAT(at_b, ElementsAre(IsEvent(EventKind::kGet, 0, false)));
  EXPECT_EQ(at_b[0].offset, 50U);
  EXPECT_EQ(at_b[0].mlength, 20U);
  const std::vector<Event> at_a = world_.events(a_);
  ASSERT_EQ(at_a.size(), 2U);
  EXPECT_TRUE(at_a[1].unlinked);
  EXPECT_EQ(source_[0], 50);
  EXPECT_EQ(source_[9], 59);
  EXPECT_EQ(source_[10], 11);  // untouched between the fragments
  EXPECT_EQ(source_[20], 60);
}

TEST_F(CoreTest, GetBeyondTheEndIsDroppedNotWrapped) {
  attach(b_, target(kMdGet | kMdManageRemote | kMdTruncate));
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(get(a_, md, b_nid_, 257).is_ok());
  world_.run();
  EXPECT_EQ(drops(b_, "bad_offset"), 1U);
  // Exactly at the end there is space for 0 bytes.
  const MdHandle md2 = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(get(a_, md2, b_nid_, 256).is_ok());
  world_.run();
  const std::vector<Event> at_b = world_.events(b_);
  ASSERT_THAT(at_b, ElementsAre(IsEvent(EventKind::kGet, 0, false)));
  EXPECT_EQ(at_b[0].mlength, 0U);
}

TEST_F(CoreTest, TruncateCutsAndWithoutItDrops) {
  MdSpec small = target(kMdPut | kMdTruncate, 1);
  small.fragments[0].iov_len = 8;
  attach(b_, small);
  const MdHandle md = a_.core->bind(source(100, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.run();
  const std::vector<Event> at_b = world_.events(b_);
  ASSERT_EQ(at_b.size(), 1U);
  EXPECT_EQ(at_b[0].mlength, 8U);
  EXPECT_EQ(at_b[0].rlength, 100U);
  const std::vector<Event> at_a = world_.events(a_);
  ASSERT_EQ(at_a.size(), 2U);
  EXPECT_EQ(std::max(at_a[0].mlength, at_a[1].mlength), 100U);  // SEND
  EXPECT_EQ(std::min(at_a[0].mlength, at_a[1].mlength), 8U);    // ACK tells what was taken

  small.options = kMdPut;
  attach(b_, small);
  const MdHandle md2 = a_.core->bind(source(100, 2)).value();
  ASSERT_TRUE(put(a_, md2, b_nid_).is_ok());
  world_.run();
  EXPECT_EQ(drops(b_, "too_long"), 1U);
  EXPECT_TRUE(world_.events(b_).empty());
}

TEST_F(CoreTest, LocallyManagedOffsetAdvancesAndMaxSizeExhausts) {
  MdSpec md = target(kMdPut | kMdMaxSize);
  md.fragments[0].iov_len = 100;
  md.max_size = 30;
  attach(b_, md);
  for (int i = 0; i < 3; ++i) {
    const MdHandle from = a_.core->bind(source(30, 1)).value();
    ASSERT_TRUE(put(a_, from, b_nid_, AckRequest::kNoAck).is_ok());
    world_.run();
  }
  const std::vector<Event> at_b = world_.events(b_);
  ASSERT_EQ(at_b.size(), 3U);
  EXPECT_EQ(at_b[0].offset, 0U);
  EXPECT_EQ(at_b[1].offset, 30U);
  EXPECT_EQ(at_b[2].offset, 60U);
  EXPECT_FALSE(at_b[1].unlinked);
  EXPECT_TRUE(at_b[2].unlinked);  // 90 + 30 > 100
  const MdHandle from = a_.core->bind(source(1, 1)).value();
  ASSERT_TRUE(put(a_, from, b_nid_, AckRequest::kNoAck).is_ok());
  world_.run();
  EXPECT_EQ(drops(b_, "no_match"), 1U);
}

TEST_F(CoreTest, IgnoreBitsListIsSearchedBeforeExactEntries) {
  std::array<uint8_t, 8> wild{};
  MdSpec exact = target(kMdPut, 1);
  attach(b_, exact);
  MdSpec ignoring = exact;
  ignoring.fragments = {{wild.data(), wild.size()}};
  MeSpec me;
  me.ignore_bits = 0xFF;
  attach(b_, ignoring, me);  // attached later, found first
  const MdHandle from = a_.core->bind(source(8, 1)).value();
  ASSERT_TRUE(put(a_, from, b_nid_, AckRequest::kNoAck).is_ok());
  world_.run();
  EXPECT_EQ(wild[0], 1);
  EXPECT_EQ(target_[0], 0);
}

TEST_F(CoreTest, BeforeGoesToTheHeadOfTheList) {
  std::array<uint8_t, 8> first{};
  attach(b_, target(kMdPut, 1));
  MdSpec md = target(kMdPut, 1);
  md.fragments = {{first.data(), first.size()}};
  MeSpec me;
  me.position = MePosition::kBefore;
  attach(b_, md, me);
  const MdHandle from = a_.core->bind(source(8, 1)).value();
  ASSERT_TRUE(put(a_, from, b_nid_, AckRequest::kNoAck).is_ok());
  world_.run();
  EXPECT_EQ(first[0], 1);
}

TEST_F(CoreTest, MatchIdAndOptionsSelect) {
  MeSpec only_c;
  only_c.portal = 31;
  only_c.match_id = {test::nid("10.0.0.3@tcp"), kPidLustre};
  only_c.match_bits = kBits;
  attach(b_, target(kMdPut), only_c);
  const auto send = [&] {
    const MdHandle from = a_.core->bind(source(8, 1)).value();
    PutArgs args;
    args.md = from;
    args.ack = AckRequest::kNoAck;
    args.target = {b_nid_, kPidLustre};
    args.portal = 31;
    args.match_bits = kBits;
    ASSERT_TRUE(a_.core->put(world_.now, args).is_ok());
    world_.run();
  };
  send();
  EXPECT_EQ(drops(b_, "no_match"), 1U);
  MeSpec only_a = only_c;
  only_a.match_id.nid = a_nid_;
  attach(b_, target(kMdGet), only_a);  // GET only: no match for a PUT
  send();
  EXPECT_EQ(drops(b_, "no_match"), 2U);
  attach(b_, target(kMdPut), only_a);
  send();
  EXPECT_EQ(drops(b_, "no_match"), 2U);
  EXPECT_EQ(world_.events(b_).size(), 1U);
}

TEST_F(CoreTest, FirstEntryFixesThePortalType) {
  MeSpec unique;
  unique.portal = 7;
  unique.match_id = {a_nid_, kPidLustre};
  ASSERT_TRUE(b_.core->me_attach(unique).has_value());
  MeSpec wildcard;
  wildcard.portal = 7;
  EXPECT_EQ(b_.core->me_attach(wildcard).error().code(), EPERM);
  wildcard.portal = 64;
  EXPECT_EQ(b_.core->me_attach(wildcard).error().code(), EINVAL);
}

TEST_F(CoreTest, LazyPortalHoldsUntilMemoryComes) {
  ASSERT_TRUE(b_.core->set_lazy(world_.now, kPortal, true).is_ok());
  const MdHandle from = a_.core->bind(source(20, 2)).value();
  ASSERT_TRUE(put(a_, from, b_nid_).is_ok());
  world_.run();
  EXPECT_TRUE(world_.events(b_).empty());
  EXPECT_EQ(b_.held.size(), 1U);
  attach(b_, target(kMdPut, 1));
  world_.run();
  EXPECT_THAT(world_.events(b_), ElementsAre(IsEvent(EventKind::kPut, 0, true)));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 20, target_.begin()));
  EXPECT_EQ(world_.events(a_).size(), 2U);
}

TEST_F(CoreTest, AMessageToOneselfDoesNotWaitForEverOnALazyPortal) {
  ASSERT_TRUE(a_.core->set_lazy(world_.now, kPortal, true).is_ok());
  for (const AckRequest ack : {AckRequest::kAck, AckRequest::kNoAck}) {
    const MdHandle from = a_.core->bind(source(20, ack == AckRequest::kAck ? 2 : 1)).value();
    ASSERT_TRUE(put(a_, from, Nid::lo(), ack).is_ok());
    world_.run();
    EXPECT_TRUE(world_.events(a_).empty());
    world_.advance(std::chrono::seconds(150));
    world_.run();
    const std::vector<Event> events = world_.events(a_);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_TRUE(events[0].unlinked);
    EXPECT_EQ(events[0].status, ack == AckRequest::kAck ? -ETIMEDOUT : 0);
  }
  EXPECT_EQ(drops(a_, "parked_too_long"), 2U);
  EXPECT_EQ(a_.core->receives_in_progress(), 0U);
}

TEST_F(CoreTest, ClearingLazyDropsWhatWaits) {
  ASSERT_TRUE(b_.core->set_lazy(world_.now, kPortal, true).is_ok());
  const MdHandle from = a_.core->bind(source(20, 1)).value();
  ASSERT_TRUE(put(a_, from, b_nid_, AckRequest::kNoAck).is_ok());
  world_.run();
  ASSERT_TRUE(b_.core->set_lazy(world_.now, kPortal, false).is_ok());
  world_.run();
  EXPECT_EQ(drops(b_, "lazy_cleared"), 1U);
  EXPECT_EQ(b_.core->receives_in_progress(), 0U);
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, 0, true)));
}

TEST_F(CoreTest, ParkedMessagesAreBoundedForEachPeer) {
  LimitSettings limits;
  limits.parked_per_peer_max = 3;
  CoreWorld::Node& c = world_.add("c", {"10.0.0.3@tcp"}, {}, {}, limits);
  ASSERT_TRUE(c.core->set_lazy(world_.now, kPortal, true).is_ok());
  for (int i = 0; i < 5; ++i) {
    const MdHandle from = a_.core->bind(source(20, 1)).value();
    ASSERT_TRUE(put(a_, from, test::nid("10.0.0.3@tcp"), AckRequest::kNoAck).is_ok());
    world_.run();
  }
  EXPECT_EQ(c.held.size(), 3U);
  EXPECT_EQ(drops(c, "parked_peer_limit"), 2U);
}

TEST_F(CoreTest, LostResponseEndsWithTimeoutAtTheTransactionTimeout) {
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(
      put(a_, md, b_nid_).is_ok());  // nothing is attached at b: dropped, never acknowledged
  world_.run();
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, 0, false)));
  world_.advance(std::chrono::seconds(150) - std::chrono::nanoseconds(1));
  EXPECT_TRUE(world_.events(a_).empty());
  world_.advance(std::chrono::nanoseconds(1));
  const std::vector<Event> late = world_.events(a_);
  ASSERT_THAT(late, ElementsAre(IsEvent(EventKind::kUnlink, -ETIMEDOUT, true)));
  EXPECT_EQ(late[0].missing, MissingResponse::kAck);
  EXPECT_EQ(a_.core->statistics().response_timeout_count, 1U);
  EXPECT_EQ(a_.core->unlink(md).code(), ENOENT);
}

TEST_F(CoreTest, LostReplySaysSo) {
  MdSpec sink = source(10, 2);
  const MdHandle md = a_.core->bind(sink).value();
  ASSERT_TRUE(get(a_, md, b_nid_).is_ok());
  world_.run();
  world_.advance(std::chrono::seconds(150));
  const std::vector<Event> events = world_.events(a_);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].status, -ETIMEDOUT);
  EXPECT_EQ(events[1].missing, MissingResponse::kReply);
}

TEST_F(CoreTest, FailedSendIsTheLastEventOfItsMd) {
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.collect();
  world_.fail_one(a_, {.error = ECONNREFUSED,
                       .health = HealthStatus::kRemoteDropped,
                       .kind = FailureKind::kPeerNiNoListener});
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, -ECONNREFUSED, true)));
  EXPECT_EQ(a_.core->statistics().remote_dropped_count, 1U);
  EXPECT_EQ(a_.core->statistics().rst_alloc, 0U);
}

TEST_F(CoreTest, NoRouteArrivesAsAnEvent) {
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(put(a_, md, test::nid("10.9.0.1@tcp9")).is_ok());
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, -EHOSTUNREACH, true)));
  EXPECT_EQ(a_.core->statistics().remote_error_count, 0U);  // never committed: nobody is blamed
}

TEST_F(CoreTest, SourceMustBeLocal) {
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  PutArgs args;
  args.md = md;
  args.target = {b_nid_, kPidLustre};
  args.source = b_nid_;
  ASSERT_TRUE(a_.core->put(world_.now, args).is_ok());
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, -EINVAL, true)));
}

TEST_F(CoreTest, PeerCreditsBoundWhatTheDriverHasAndWaitersGoInOrder) {
  attach(b_, target(kMdPut | kMdTruncate | kMdManageRemote));
  for (uint64_t i = 0; i < 20; ++i) {
    PutArgs args;
    args.md = a_.core->bind(source(10, 1)).value();
    args.ack = AckRequest::kNoAck;
    args.target = {b_nid_, kPidLustre};
    args.portal = kPortal;
    args.match_bits = kBits;
    args.hdr_data = i;
    ASSERT_TRUE(a_.core->put(world_.now, args).is_ok());
  }
  world_.collect();
  EXPECT_EQ(a_.sends.size(), 8U);  // peer_credits
  const PeerNiInfo waiting = a_.core->peers().at(0).nis.at(0);
  EXPECT_EQ(waiting.available_tx_credits, -12);
  EXPECT_EQ(waiting.min_tx_credits, -12);
  EXPECT_EQ(waiting.waiting, 12U);
  EXPECT_EQ(waiting.tx_q_bytes, 20U * (10 + 72));
  world_.run();
  std::vector<uint64_t> order;
  for (const Event& event : world_.events(b_)) order.push_back(event.hdr_data);
  std::vector<uint64_t> expected(20);
  std::iota(expected.begin(), expected.end(), uint64_t{0});
  EXPECT_EQ(order, expected);
  EXPECT_EQ(a_.core->peers().at(0).nis.at(0).available_tx_credits, 8);
  EXPECT_EQ(a_.core->peers().at(0).nis.at(0).tx_q_bytes, 0U);
}

TEST_F(CoreTest, NiCreditsBoundAllPeersTogether) {
  CoreWorld::Node& c =
      world_.add("c", {"10.0.0.3@tcp"}, [](NiSettings& ni) { ni.tunables.credits = 3; });
  world_.acquaint();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(
        put(c, c.core->bind(source(1, 1)).value(), i % 2 == 0 ? a_nid_ : b_nid_, AckRequest::kNoAck)
            .is_ok());
  }
  world_.collect();
  EXPECT_EQ(c.sends.size(), 3U);
  EXPECT_EQ(c.core->nets().at(1).nis.at(0).tx_credits, -1);
  world_.run();
  EXPECT_EQ(c.core->nets().at(1).nis.at(0).tx_credits, 3);
  EXPECT_EQ(world_.events(c).size(), 4U);
}

TEST_F(CoreTest, WaitingMessageExpiresWithoutTheWire) {
  for (int i = 0; i < 9; ++i)
    ASSERT_TRUE(put(a_, a_.core->bind(source(1, 2)).value(), b_nid_).is_ok());
  world_.collect();  // eight in the driver's hands, which never completes them
  world_.advance(std::chrono::seconds(150));
  int expired_waiting = 0;
  for (const Event& event : world_.events(a_)) {
    if (event.kind == EventKind::kSend && event.status == -ETIMEDOUT && event.unlinked)
      ++expired_waiting;
  }
  EXPECT_EQ(expired_waiting, 1);
  EXPECT_EQ(drops(a_, "expired_before_send"), 1U);
  EXPECT_EQ(a_.core->sends_in_progress(), 8U);
}

TEST_F(CoreTest, UnlinkOfAnIdleMdGivesUnlinkAtOnce) {
  const MdHandle md = attach(b_, target(kMdPut));
  ASSERT_TRUE(b_.core->unlink(md).is_ok());
  EXPECT_THAT(world_.events(b_), ElementsAre(IsEvent(EventKind::kUnlink, 0, true)));
  EXPECT_EQ(b_.core->unlink(md).code(), ENOENT);
}

TEST_F(CoreTest, UnlinkWhileTheDriverHasItWaitsForTheDriver) {
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.collect();
  ASSERT_TRUE(a_.core->unlink(md).is_ok());
  EXPECT_TRUE(world_.events(a_).empty());
  world_.run();
  EXPECT_THAT(world_.events(a_), ElementsAre(IsEvent(EventKind::kSend, -ETIMEDOUT, true)));
}

TEST_F(CoreTest, UnlinkedWhileWaitingForCreditsIsNeverSent) {
  attach(b_, target(kMdPut | kMdTruncate | kMdManageRemote));
  std::vector<MdHandle> mds;
  for (int i = 0; i < 9; ++i) {
    mds.push_back(a_.core->bind(source(1, 1)).value());
    ASSERT_TRUE(put(a_, mds.back(), b_nid_, AckRequest::kNoAck).is_ok());
  }
  ASSERT_TRUE(a_.core->unlink(mds.back()).is_ok());
  world_.run();
  EXPECT_EQ(world_.events(b_).size(), 8U);
  const std::vector<Event> at_a = world_.events(a_);
  ASSERT_EQ(at_a.size(), 9U);
  EXPECT_THAT(at_a, testing::Contains(IsEvent(EventKind::kSend, -ECANCELED, true)).Times(1));
}

TEST_F(CoreTest, LateAckFindsNothing) {
  attach(b_, target(kMdPut));
  const MdHandle md = a_.core->bind(source(10, 2)).value();
  ASSERT_TRUE(put(a_, md, b_nid_).is_ok());
  world_.collect();
  world_.deliver_one(a_);
  world_.collect();  // b's ACK is down, not delivered yet
  world_.advance(std::chrono::seconds(150));
  world_.run();
  EXPECT_EQ(drops(a_, "unknown_md"), 1U);
}

TEST_F(CoreTest, LoopbackUsesNoCreditsAndNoPeers) {
  attach(a_, target(kMdPut, 2));
  for (const Nid& self : {Nid::lo(), a_nid_}) {
    ASSERT_TRUE(put(a_, a_.core->bind(source(10, 2)).value(), self).is_ok());
    world_.run();
    const std::vector<Event> events = world_.events(a_);
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0].kind, EventKind::kPut);
    EXPECT_EQ(events[0].initiator.nid, Nid::lo());
  }
  EXPECT_EQ(a_.core->peers().size(), 1U);  // b, from the start
  EXPECT_EQ(a_.core->nets().at(0).nis.at(0).stats.sent.put, 2U);
  EXPECT_EQ(a_.core->nets().at(1).nis.at(0).stats.sent.put, 0U);
}

TEST_F(CoreTest, PingIsAnsweredAndSaysWhatTheNodeIs) {
  std::array<uint8_t, 272> reply{};
  MdSpec sink;
  sink.fragments = {{reply.data(), reply.size()}};
  sink.options = kMdTruncate;
  sink.threshold = 2;
  GetArgs args;
  args.md = a_.core->bind(sink).value();
  args.target = {b_nid_, kPidLustre};
  args.match_bits = kPingMatchBits;
  ASSERT_TRUE(a_.core->get(world_.now, args).is_ok());
  world_.run();
  const std::vector<Event> events = world_.events(a_);
  ASSERT_EQ(events.size(), 2U);
  const auto info = decode_ping_info({reply.data(), 48}, 200);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->features, 0x1EU);
  EXPECT_EQ(info->sequence, 2U);  // 1 was the info with 0@lo alone
  EXPECT_EQ(info->primary_nid(), b_nid_);
  EXPECT_TRUE(world_.events(b_).empty());  // the core's own memory: no event for the application
}

TEST_F(CoreTest, EveryPushIsTakenAndAcknowledged) {
  for (int i = 0; i < 5; ++i) {
    PutArgs args;
    args.md = a_.core->bind(source(100, 2)).value();
    args.target = {b_nid_, kPidLustre};
    args.match_bits = kPingMatchBits;
    ASSERT_TRUE(a_.core->put(world_.now, args).is_ok());
  }
  world_.run();
  int acks = 0;
  for (const Event& event : world_.events(a_))
    acks += event.kind == EventKind::kAck && event.mlength == 100 ? 1 : 0;
  EXPECT_EQ(acks, 5);
}

TEST_F(CoreTest, ReservedPortalRefusesOtherBits) {
  PutArgs args;
  args.md = a_.core->bind(source(100, 1)).value();
  args.ack = AckRequest::kNoAck;
  args.target = {b_nid_, kPidLustre};
  args.match_bits = 5;
  ASSERT_TRUE(a_.core->put(world_.now, args).is_ok());
  world_.run();
  EXPECT_EQ(drops(b_, "reserved_portal"), 1U);
}

TEST_F(CoreTest, ShutdownEndsEverythingExactlyOnce) {
  attach(b_, target(kMdPut));
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(put(a_, a_.core->bind(source(1, 2)).value(), b_nid_).is_ok());
  (void)a_.core->bind(source(1, 2)).value();
  world_.collect();
  a_.core->shut_down(world_.now);
  while (!a_.sends.empty()) {
    world_.fail_one(a_, {.error = ESHUTDOWN, .health = HealthStatus::kLocalError});
  }
  int unlinked = 0;
  for (const Event& event : world_.events(a_)) unlinked += event.unlinked ? 1 : 0;
  EXPECT_EQ(unlinked, 21);
  EXPECT_EQ(a_.core->sends_in_progress(), 0U);
  EXPECT_EQ(a_.core->bind(source(1, 1)).error().code(), ESHUTDOWN);
}

TEST_F(CoreTest, BadMdsAreRefusedWithTheFieldNamed) {
  const auto refused = [&](MdSpec md, std::string_view word) {
    const Result<MdHandle> result = a_.core->bind(md);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), EINVAL);
    EXPECT_THAT(result.error().text(), testing::HasSubstr(word));
  };
  MdSpec md;
  md.fragments = {{source_.data(), kPayloadBytesMax + 1}};
  refused(md, "1048577");
  // A sum of fragments that exceeds (SE-1).
  md.fragments = {{source_.data(), kPayloadBytesMax}, {source_.data(), 1}};
  refused(md, "1048577");
  md.fragments.assign(257, {source_.data(), 1});
  refused(md, "257 fragments");
  md.fragments = {{nullptr, 1}};
  refused(md, "null");
  md = source(10, 0);
  refused(md, "threshold 0");
  md = source(10, 1);
  md.options = kMdPut;
  refused(md, "bound MD");
  md.options = kMdMaxSize;
  md.max_size = 11;
  refused(md, "max_size 11");
}

}  // namespace
}  // namespace ulnet
