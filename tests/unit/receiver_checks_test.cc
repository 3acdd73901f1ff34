// What the core does with headers that are wrong for it, row by row. Source: spec
// lnet-core 14.1, 14.2.
#include <gtest/gtest.h>

#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using Kind = MessageVerdict::Kind;

class ReceiverChecks : public testing::Test {
 protected:
  Header header(const Nid& dest, decltype(Header::part) part, uint32_t payload_bytes = 0) {
    Header header;
    header.dest_nid = dest;
    header.source_nid = peer_;
    header.dest_pid = header.source_pid = kPidLustre;
    header.payload_bytes = payload_bytes;
    header.part = part;
    return header;
  }
  MessageVerdict arrive(const Header& header, Nid sender = {}) {
    return node_.core->handle_message(world_.now, {1, sender.is_any() ? peer_ : sender, header, 0});
  }
  uint64_t drops(std::string_view reason) { return test::drops(node_, reason); }
  // REQUIRES: the message is dropped for that reason.
  void expect_drop(const Header& header, std::string_view reason, Nid sender = {}) {
    const uint64_t before = drops(reason);
    const MessageVerdict verdict = arrive(header, sender);
    EXPECT_EQ(verdict.kind, Kind::kDone) << reason;
    EXPECT_TRUE(verdict.dropped) << reason;
    EXPECT_EQ(drops(reason), before + 1) << reason;
  }

  test::CoreWorld world_;
  test::CoreWorld::Node& node_ =
      world_.add("n", {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1"});
  const Nid mine_ = test::nid("10.0.0.1@tcp");
  const Nid peer_ = test::nid("10.0.0.2@tcp");
  const PutPart put_{WireHandle::none(), 1, 0, 30, 0};
};

TEST_F(ReceiverChecks, Row4DestinationOnOurNetButNotUsIsAProtocolError) {
  EXPECT_EQ(arrive(header(test::nid("10.0.0.77@tcp"), put_)).kind, Kind::kProtocolError);
}

TEST_F(ReceiverChecks, Row5AnotherNidOfOursIsAProtocolError) {
  EXPECT_EQ(arrive(header(test::nid("10.0.0.11@tcp"), put_)).kind, Kind::kProtocolError);
  EXPECT_EQ(arrive(header(test::nid("10.1.0.1@tcp1"), put_)).kind, Kind::kProtocolError);
}

TEST_F(ReceiverChecks, Row7ElsewhereIsDroppedWhileWeDoNotRoute) {
  expect_drop(header(test::nid("10.9.0.1@tcp9"), put_, 100), "not_routing");
}

TEST_F(ReceiverChecks, SourceMustBeARealForeignNid) {
  Header bad = header(mine_, put_);
  bad.source_nid = Nid::any();
  expect_drop(bad, "source_wildcard");
  bad.source_nid = Nid::lo();
  expect_drop(bad, "source_loopback");
  bad.source_nid = test::nid("10.1.0.1@tcp1");
  expect_drop(bad, "source_is_own");
}

TEST_F(ReceiverChecks, PeersThatTrafficMakesAreBounded) {
  LimitSettings limits;
  limits.peers_by_traffic_max = 3;
  test::CoreWorld::Node& small = world_.add("s", {"10.0.0.5@tcp"}, {}, {}, limits);
  for (uint32_t i = 0; i < 10; ++i) {
    Header from = header(test::nid("10.0.0.5@tcp"), put_);
    from.source_nid = Nid::from_ipv4({NetType::kTcp, 0}, 0x0A000100 + i);
    (void)small.core->handle_message(world_.now, {1, from.source_nid, from, 0});
  }
  EXPECT_EQ(small.core->peers().size(), 3U);
}

TEST_F(ReceiverChecks, PortalOutOfRange) {
  PutPart put = put_;
  put.portal = 64;
  expect_drop(header(mine_, put), "portal_out_of_range");
  put.portal = 0xFFFFFFFF;
  expect_drop(header(mine_, put), "portal_out_of_range");
  GetPart get;
  get.portal = 64;
  expect_drop(header(mine_, get), "portal_out_of_range");
}

TEST_F(ReceiverChecks, GetOnALazyPortalThatNeverHadAnEntryIsDropped) {
  ASSERT_TRUE(node_.core->set_lazy(world_.now, 40, true).is_ok());
  GetPart get;
  get.portal = 40;
  expect_drop(header(mine_, get), "no_match");
}

TEST_F(ReceiverChecks, ResponsesWithForeignOrUnknownHandles) {
  AckPart ack{WireHandle{1, 2}, 0, 0};
  expect_drop(header(mine_, ack), "other_incarnation");
  expect_drop(header(mine_, ReplyPart{WireHandle{1, 2}}, 10), "other_incarnation");
}

TEST_F(ReceiverChecks, ResponseOfTheWrongTypeOrToAPassiveMd) {
  std::array<uint8_t, 64> memory{};
  MdSpec md;
  md.fragments = {{memory.data(), memory.size()}};
  md.threshold = 10;
  const MdHandle bound = node_.core->bind(md).value();
  PutArgs args;
  args.md = bound;
  args.target = {peer_, kPidLustre};
  ASSERT_TRUE(node_.core->put(world_.now, args).is_ok());
  world_.collect();
  ASSERT_EQ(node_.sends.size(), 1U);
  const WireHandle handle = std::get<PutPart>(node_.sends.front().header.part).ack_md;
  expect_drop(header(mine_, ReplyPart{handle}, 10), "wrong_response");
  EXPECT_EQ(arrive(header(mine_, AckPart{handle, 0, 64})).kind, Kind::kDone);
  expect_drop(header(mine_, AckPart{handle, 0, 64}), "wrong_response");  // a second one

  md.options = kMdPut;
  MeSpec me;
  me.portal = 30;
  const MdHandle passive =
      node_.core->md_attach(world_.now, node_.core->me_attach(me).value(), md).value();
  expect_drop(header(mine_, AckPart{WireHandle{handle.interface_cookie, passive.value}, 0, 0}),
              "md_not_waiting");
  ASSERT_TRUE(node_.core->unlink(passive).is_ok());
  expect_drop(header(mine_, AckPart{WireHandle{handle.interface_cookie, passive.value}, 0, 0}),
              "unknown_md");
}

TEST_F(ReceiverChecks, ReplyLongerThanTheMdIsCutOrDropped) {
  std::array<uint8_t, 64> memory{};
  for (const bool truncate : {false, true}) {
    MdSpec md;
    md.fragments = {{memory.data(), memory.size()}};
    md.threshold = 2;
    md.options = truncate ? uint32_t{kMdTruncate} : 0U;
    GetArgs args;
    args.md = node_.core->bind(md).value();
    args.target = {peer_, kPidLustre};
    ASSERT_TRUE(node_.core->get(world_.now, args).is_ok());
    world_.collect();
    const WireHandle handle = std::get<GetPart>(node_.sends.back().header.part).return_md;
    const Header reply = header(mine_, ReplyPart{handle}, 100);
    if (!truncate) {
      expect_drop(reply, "reply_too_long");
      continue;
    }
    const MessageVerdict verdict = arrive(reply);
    EXPECT_EQ(verdict.kind, Kind::kReceive);
    EXPECT_EQ(verdict.into.bytes, 64U);
  }
}

TEST_F(ReceiverChecks, AckLengthIsBoundedByWhatWasSent) {
  std::array<uint8_t, 64> memory{};
  MdSpec md;
  md.fragments = {{memory.data(), memory.size()}};
  md.threshold = 2;
  PutArgs args;
  args.md = node_.core->bind(md).value();
  args.target = {peer_, kPidLustre};
  ASSERT_TRUE(node_.core->put(world_.now, args).is_ok());
  world_.collect();
  const WireHandle handle = std::get<PutPart>(node_.sends.front().header.part).ack_md;
  (void)arrive(header(mine_, AckPart{handle, 0, 0xFFFFFFFF}));
  const std::vector<Event> events = world_.events(node_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].mlength, 64U);
}

TEST_F(ReceiverChecks, FailedReceiveIsReportedAndNotAcknowledged) {
  std::array<uint8_t, 64> memory{};
  MdSpec md;
  md.fragments = {{memory.data(), memory.size()}};
  md.options = kMdPut;
  md.threshold = 1;
  MeSpec me;
  me.portal = 30;
  me.match_bits = 1;
  ASSERT_TRUE(node_.core->md_attach(world_.now, node_.core->me_attach(me).value(), md).has_value());
  PutPart put = put_;
  put.ack_md = WireHandle{5, 6};
  const MessageVerdict verdict = arrive(header(mine_, put, 64));
  ASSERT_EQ(verdict.kind, Kind::kReceive);
  node_.core->handle_receive_done(world_.now, verdict.id,
                                  {.error = EIO, .health = HealthStatus::kRemoteError});
  const std::vector<Event> events = world_.events(node_);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].status, -EIO);
  EXPECT_TRUE(events[0].unlinked);
  EXPECT_FALSE(node_.core->has_actions());
  EXPECT_EQ(node_.core->peers().at(0).nis.at(0).errors, 1U);
}

}  // namespace
}  // namespace ulnet
