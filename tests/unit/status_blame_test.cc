// The statuses of sends and receives: whose health each moves, what it counts, and when it moves
// nothing. Source: spec lnet-core 7.1, 7.2; decisions D3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/settings_fixture.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::IsEmpty;
using testing::SizeIs;

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
    header.source_nid = nid(kRailB1);
    header.dest_nid = nid(kRailA1);
    header.source_pid = header.dest_pid = kPidLustre;
    header.payload_bytes = 8;
    PutPart part;
    part.portal = kPortal;
    header.part = part;
    const MessageVerdict verdict =
        a_->core->handle_message(world_.now, {1, nid(kRailB1), header, 1});
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

}  // namespace
}  // namespace ulnet
