// What one NI decides about one peer: types to dial, races, refusals, back-off, incarnations,
// choice of connection; and the rules a HELLO must meet.
#include "lnd_tcp/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lnd_tcp/handshake.h"

namespace ulnet::testing {
namespace {

using namespace std::chrono_literals;
using tcp::CloseReason;
using tcp::ConnType;
using tcp::PeerLogic;
using Admission = PeerLogic::Admission;
using Next = PeerLogic::DialNext;
using Result = PeerLogic::DialResult;

const Nid kLow = *Nid::parse("10.0.0.1@tcp");
const Nid kHigh = *Nid::parse("10.0.0.2@tcp");
constexpr Time kStart{Duration(1h)};
constexpr uint32_t kRandomMax = 0xFFFF;

PeerLogic make_peer(const Nid& own, const Nid& peer, int32_t conns_per_peer = 1) {
  return PeerLogic({.own = own, .nid = peer, .conns_per_peer = conns_per_peer});
}

std::vector<ConnType> dial_all(PeerLogic& peer) {
  std::vector<ConnType> types;
  uint64_t id = 0;
  Next next = peer.may_dial(kStart) ? Next::kDialNext : Next::kDone;
  while (next == Next::kDialNext) {
    types.push_back(peer.begin_dial());
    peer.record(3, 5);
    peer.add(++id, types.back(), true);
    next = peer.handle_dialled(Result::kOk, kStart, 0);
  }
  EXPECT_EQ(next, Next::kDone);
  return types;
}

TEST(TcpPeer, DialsControlThenBulkInTurns) {
  const auto C = ConnType::kControl, I = ConnType::kBulkIn, O = ConnType::kBulkOut;
  PeerLogic one = make_peer(kLow, kHigh);
  EXPECT_EQ(dial_all(one), (std::vector{C, I, O}));
  PeerLogic three = make_peer(kLow, kHigh, 3);
  EXPECT_EQ(dial_all(three), (std::vector{C, I, O, I, O, I, O}));
  EXPECT_FALSE(three.may_dial(kStart));
}

TEST(TcpPeer, IncomingConnectionsCountTowardsTheSet) {
  PeerLogic peer = make_peer(kLow, kHigh);
  peer.add(1, ConnType::kControl, false);
  peer.add(2, ConnType::kBulkIn, false);
  EXPECT_EQ(peer.begin_dial(), ConnType::kBulkOut);
}

TEST(TcpPeer, HigherNidWinsTheRace) {
  for (const bool we_are_higher : {false, true}) {
    PeerLogic peer = we_are_higher ? make_peer(kHigh, kLow) : make_peer(kLow, kHigh);
    EXPECT_EQ(peer.judge_incoming(ConnType::kControl, 3, 5, true), Admission::kAccept)
        << "no dial goes on";
    peer.begin_dial();
    EXPECT_EQ(peer.judge_incoming(ConnType::kControl, 3, 5, true),
              we_are_higher ? Admission::kRace : Admission::kAccept);
    EXPECT_EQ(peer.judge_incoming(ConnType::kControl, 3, 5, false), Admission::kAccept)
        << "another address than the NID's is no race";
  }
}

TEST(TcpPeer, LoserOfARaceRetriesAfterASecondOrMore) {
  for (const uint32_t random : {0U, kRandomMax}) {
    PeerLogic peer = make_peer(kLow, kHigh);
    peer.begin_dial();
    EXPECT_EQ(peer.handle_dialled(Result::kRefused, kStart, random), Next::kRetryAt);
    EXPECT_GE(peer.retry_at(), kStart + 1s);
    EXPECT_LE(peer.retry_at(), kStart + 1500ms);
    EXPECT_FALSE(peer.may_dial(kStart + 999ms));
    EXPECT_TRUE(peer.may_dial(peer.retry_at()));
    // The winner's set arrives: nothing is left to dial.
    peer.add(1, ConnType::kControl, false);
    peer.add(2, ConnType::kBulkIn, false);
    peer.add(3, ConnType::kBulkOut, false);
    peer.settle();
    EXPECT_FALSE(peer.job_running());
  }
}

TEST(TcpPeer, ThirdRefusalEndsTheJob) {
  PeerLogic peer = make_peer(kLow, kHigh, 2);
  for (int i = 0; i < 2; ++i) {
    peer.begin_dial();
    EXPECT_EQ(peer.handle_dialled(Result::kRefused, kStart, 0), Next::kRetryAt);
  }
  peer.begin_dial();
  EXPECT_EQ(peer.handle_dialled(Result::kRefused, kStart, 0), Next::kJobFailed);

  // With all three types there it is content instead, until the last connection is gone.
  peer.add(1, ConnType::kControl, true);
  peer.add(2, ConnType::kBulkIn, true);
  peer.add(3, ConnType::kBulkOut, true);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(peer.may_dial(kStart + 10s * i));
    peer.begin_dial();
    EXPECT_EQ(peer.handle_dialled(Result::kRefused, kStart, 0),
              i < 2 ? Next::kRetryAt : Next::kDone);
  }
  EXPECT_TRUE(peer.set_complete());
  for (uint64_t id = 1; id <= 3; ++id) peer.remove(id);
  EXPECT_FALSE(peer.set_complete());
}

TEST(TcpPeer, BackOffDoublesToItsCeilingAndSuccessResetsIt) {
  PeerLogic peer = make_peer(kLow, kHigh);
  Time now = kStart;
  for (const int64_t seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    ASSERT_TRUE(peer.may_dial(now));
    peer.begin_dial();
    EXPECT_EQ(peer.handle_dialled(Result::kFailed, now, seconds % 2 == 0 ? 0 : kRandomMax),
              Next::kJobFailed);
    EXPECT_EQ(peer.back_off(), std::chrono::seconds(seconds));
    // Spread between half and all of it.
    const Duration wait = peer.not_before() - now;
    EXPECT_GE(wait, std::chrono::seconds(seconds) / 2);
    EXPECT_LE(wait, std::chrono::seconds(seconds));
    EXPECT_FALSE(peer.may_dial(peer.not_before() - 1ns));
    now = peer.not_before();
  }
  peer.add(1, ConnType::kBulkIn, false);
  EXPECT_EQ(peer.back_off(), 0s);
  EXPECT_TRUE(peer.may_dial(now));
}

TEST(TcpPeer, AnotherIncarnationOrVersionIsStale) {
  PeerLogic peer = make_peer(kLow, kHigh);
  EXPECT_FALSE(peer.is_stale(3, 5));
  peer.record(3, 5);
  peer.add(1, ConnType::kControl, false);
  EXPECT_FALSE(peer.is_stale(3, 5));
  EXPECT_EQ(peer.judge_incoming(ConnType::kBulkIn, 3, 6, true), Admission::kStale);
  EXPECT_EQ(peer.judge_incoming(ConnType::kBulkIn, 4, 5, true), Admission::kStale);
  peer.remove(1);  // the last one takes the record along
  EXPECT_EQ(peer.judge_incoming(ConnType::kBulkIn, 3, 6, true), Admission::kAccept);
}

TEST(TcpPeer, StaleAnswersAreDialledAgainAtOnce) {
  PeerLogic peer = make_peer(kLow, kHigh);
  peer.begin_dial();
  EXPECT_EQ(peer.handle_dialled(Result::kStale, kStart, 0), Next::kDialNext);
}

TEST(TcpPeer, AcceptsManyOfAType) {
  PeerLogic peer = make_peer(kLow, kHigh, 1);
  for (uint64_t id = 1; id <= PeerLogic::kAcceptedPerTypeMin; ++id) {
    ASSERT_EQ(peer.judge_incoming(ConnType::kBulkIn, 3, 5, true), Admission::kAccept);
    peer.add(id, ConnType::kBulkIn, false);
  }
  EXPECT_EQ(peer.judge_incoming(ConnType::kBulkIn, 3, 5, true), Admission::kDuplicate);
}

TEST(TcpPeer, LateRaceDoesNotDoubleAType) {
  PeerLogic winner = make_peer(kHigh, kLow);
  dial_all(winner);
  EXPECT_EQ(winner.judge_incoming(ConnType::kControl, 3, 5, true), Admission::kDuplicate);
  PeerLogic loser = make_peer(kLow, kHigh);
  dial_all(loser);
  EXPECT_EQ(loser.judge_incoming(ConnType::kControl, 3, 5, true), Admission::kAccept);
}

// ---------------------------------------------------------------- choice

TEST(TcpPeer, SizeChoosesTheType) {
  PeerLogic peer = make_peer(kLow, kHigh);
  EXPECT_EQ(peer.choose(100), std::nullopt);
  peer.add(1, ConnType::kBulkIn, true);
  peer.add(2, ConnType::kAny, false);
  EXPECT_EQ(peer.choose(100), std::nullopt) << "neither our BULK_IN nor ANY carries messages";
  peer.add(3, ConnType::kControl, true);
  EXPECT_EQ(peer.choose(1023), 3u);
  EXPECT_EQ(peer.choose(1024), 3u) << "fallback";
  peer.add(4, ConnType::kBulkOut, true);
  EXPECT_EQ(peer.choose(1023), 3u);
  EXPECT_EQ(peer.choose(1024), 4u);
  EXPECT_EQ(peer.choose_for_keepalive(), 1u);
}

TEST(TcpPeer, FewestPendingBytesThenInTurns) {
  PeerLogic peer = make_peer(kLow, kHigh, 2);
  peer.add(1, ConnType::kBulkOut, true);
  peer.add(2, ConnType::kBulkOut, true);
  EXPECT_EQ(peer.choose(5000), 1u);
  EXPECT_EQ(peer.choose(5000), 2u);
  EXPECT_EQ(peer.choose(5000), 1u);
  peer.add_pending(2, 100);
  EXPECT_EQ(peer.choose(5000), 1u);
  EXPECT_EQ(peer.choose(5000), 1u);
  peer.add_pending(1, 101);
  EXPECT_EQ(peer.choose(5000), 2u);
  peer.sub_pending(1, 101);
  EXPECT_EQ(peer.choose(5000), 1u);
}

// ---------------------------------------------------------------- HELLO rules (spec 10.2)

tcp::Hello good_hello() {
  tcp::Hello hello;
  hello.source_nid = kLow;
  hello.dest_nid = kHigh;
  hello.source_pid = kPidLustre;
  hello.source_incarnation = 5;
  hello.type = 1;
  return hello;
}

TEST(TcpHello, PassiveRules) {
  const tcp::PassiveContext context{.ni = kHigh, .source_address = kLow};
  const auto judge = [&](auto change) {
    tcp::Hello hello = good_hello();
    change(hello);
    return tcp::judge_passive_hello(hello, context);
  };
  EXPECT_EQ(judge([](auto&) {}), CloseReason::kNone);
  EXPECT_EQ(judge([](auto& h) { h.type = 0; }), CloseReason::kNone);
  EXPECT_EQ(judge([](auto& h) { h.type = 3; }), CloseReason::kNone);
  EXPECT_EQ(judge([](auto& h) { h.type = 4; }), CloseReason::kHelloType);
  EXPECT_EQ(judge([](auto& h) { h.type = 0xFFFFFFFF; }), CloseReason::kHelloType);
  EXPECT_EQ(judge([](auto& h) { h.version = 2; }), CloseReason::kHelloVersion);
  EXPECT_EQ(judge([](auto& h) { h.version = 4; }), CloseReason::kNone)
      << "an IPv4 NID in its large form";
  EXPECT_EQ(judge([](auto& h) { h.source_nid = Nid::any(); }), CloseReason::kHelloNid);
  EXPECT_EQ(judge([](auto& h) { h.source_nid = *Nid::parse("10.0.0.1@tcp1"); }),
            CloseReason::kHelloNid);
  EXPECT_EQ(judge([](auto& h) { h.source_nid = *Nid::parse("10.0.0.1@o2ib"); }),
            CloseReason::kHelloNid);
  EXPECT_EQ(judge([](auto& h) { h.source_nid = *Nid::parse("10.0.0.9@tcp"); }),
            CloseReason::kHelloAddress);
  EXPECT_EQ(judge([](auto& h) { h.source_pid = kPidAny; }), CloseReason::kHelloPid);
  EXPECT_EQ(judge([](auto& h) { h.source_pid = kPidUserFlag | 5; }), CloseReason::kHelloPid);
  EXPECT_EQ(judge([](auto& h) { h.source_pid = 99; }), CloseReason::kNone);
  EXPECT_EQ(judge([](auto& h) { h.dest_nid = kLow; }), CloseReason::kHelloDestination);
  EXPECT_EQ(judge([](auto& h) { h.dest_incarnation = 99; }), CloseReason::kNone);
}

TEST(TcpHello, ForeignAddressesByConsentOrFromBothFamilies) {
  tcp::Hello hello = good_hello();
  tcp::PassiveContext context{.ni = kHigh, .source_address = *Nid::parse("10.0.0.9@tcp")};
  EXPECT_EQ(tcp::judge_passive_hello(hello, context), CloseReason::kHelloAddress);
  context.accept_foreign_address = true;
  EXPECT_EQ(tcp::judge_passive_hello(hello, context), CloseReason::kNone);
  EXPECT_FALSE(tcp::comes_from_its_nid(hello, context));

  // A node of both families dials an IPv6 NID under its IPv4 NID (capture tcp46-mixed-to-v4only).
  const Nid own6 = *Nid::parse("fd77::2@tcp");
  tcp::PassiveContext six{.ni = own6, .source_address = *Nid::parse("fd77::1@tcp")};
  hello.dest_nid = own6;
  EXPECT_EQ(tcp::judge_passive_hello(hello, six), CloseReason::kHelloNid)
      << "version 3 does not fit an IPv6 socket";
  hello.version = 4;
  EXPECT_EQ(tcp::judge_passive_hello(hello, six), CloseReason::kNone);
  six.privileged_port = false;
  EXPECT_EQ(tcp::judge_passive_hello(hello, six), CloseReason::kHelloAddress);
}

TEST(TcpHello, AnswerRules) {
  const tcp::Dialled dialled{.nid = kLow, .version = 3, .type = ConnType::kBulkIn};
  tcp::Hello answer = good_hello();
  answer.type = 3;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kNone);
  answer.type = 2;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kHelloType);
  answer.type = 0xFFFFFFFF;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kRefusedByPeer);
  answer.version = 4;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kHelloVersion);
  answer = good_hello();
  answer.source_pid = 1;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kHelloIdentity);
  answer = good_hello();
  answer.source_nid = kHigh;
  EXPECT_EQ(tcp::judge_answer(answer, dialled), CloseReason::kHelloIdentity);
}

}  // namespace
}  // namespace ulnet::testing
