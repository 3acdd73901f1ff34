// Peers that lie in what they tell of themselves harm nobody else. Source: spec lnet-core 4.10;
// case SE-3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/discovery_fixture.h"

namespace ulnet {
namespace {

using namespace test;

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
    EXPECT_THAT(peer_records(*a_), testing::Contains("10.0.1.2@tcp: 10.0.1.2@tcp 10.0.1.12@tcp"));
    EXPECT_EQ(a_->core->primary_nid(nid("10.0.1.12@tcp")), nid("10.0.1.2@tcp"));
    for (const std::string& record : peer_records(*a_)) {
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
  EXPECT_THAT(peer_records(*a_), testing::Contains("10.0.1.66@tcp: 10.0.1.66@tcp 10.0.1.67@tcp"));
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
  EXPECT_THAT(peer_records(*a_), testing::Contains("10.0.1.3@tcp: 10.0.1.3@tcp 10.0.1.12@tcp"));
}

}  // namespace
}  // namespace ulnet
