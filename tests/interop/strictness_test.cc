// The comparison of the replay can fail: any byte that our node sends otherwise is found, but for
// its own incarnation and wire handles, which are found when they are not kept.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lnet/base/bytes.h"
#include "tests/interop/matcher.h"
#include "tests/interop/replay.h"

namespace ulnet::interop {
namespace {

// What a peer makes of these bytes where `original` was due; nothing when it cannot be read.
std::optional<Piece> reread(const Piece& original, const Bytes& bytes, const Bytes& hello) {
  PieceReader reader(original.kind == Piece::Kind::kRequest);
  if (original.kind == Piece::Kind::kFrame) {
    reader.add(hello);
    EXPECT_TRUE(reader.next());
  }
  reader.add(bytes);
  return reader.next();
}

// Positions at which a changed byte passes.
std::set<size_t> free_bytes(const Step& step, const Bytes& hello) {
  std::set<size_t> free;
  for (size_t i = 0; i < step.piece.bytes.size(); ++i) {
    Bytes changed = step.piece.bytes;
    changed[i] ^= 0x01;
    const auto piece = reread(step.piece, changed, hello);
    if (piece && !Matcher(false).match(step, *piece)) free.insert(i);
  }
  return free;
}

std::set<size_t> range(size_t begin, size_t count) {
  std::set<size_t> all;
  for (size_t i = begin; i < begin + count; ++i) all.insert(i);
  return all;
}

std::set<size_t> may_differ(const Piece& piece) {
  if (piece.kind == Piece::Kind::kHello) return range(piece.hello.version == 4 ? 56 : 32, 8);
  if (!piece.message || handle_of(piece).is_none()) return {};
  const MessageType type = piece.message->type();
  const bool own = type == MessageType::kPut || type == MessageType::kGet;
  return own ? range(piece.part_at(), 16) : std::set<size_t>{};
}

class Strictness : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(Strictness, EveryByteCountsButThoseThatAreOurOwn) {
  const Script script = script_of(GetParam().first, {GetParam().second});
  std::set<std::string> kinds;
  Bytes hello;
  for (const Step& step : script.steps) {
    if (!step.ours || step.kind != Step::Kind::kPiece) continue;
    if (step.piece.kind == Piece::Kind::kHello) hello = step.piece.bytes;
    EXPECT_EQ(free_bytes(step, hello), may_differ(step.piece)) << step.piece.to_string();
    kinds.insert(step.piece.to_string().substr(0, 3));
  }
  EXPECT_GE(kinds.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Recordings, Strictness,
                         testing::Values(std::pair{"tcp-ping", "10.77.0.1"},
                                         std::pair{"tcp6-ping-discovery", "fd77::1"},
                                         std::pair{"tcp-lst-brw-write-4k-full", "10.77.0.1"},
                                         std::pair{"tcp-lst-brw-write-4k-full", "10.77.0.2"}));

// First two GETs of a node.
class Handles : public testing::Test {
 protected:
  void SetUp() override {
    script_ = script_of("tcp-ping", {"10.77.0.1"});
    for (const Step& step : script_.steps) {
      const bool get = step.ours && step.kind == Step::Kind::kPiece && step.piece.message &&
                       step.piece.message->type() == MessageType::kGet;
      if (get) gets_.push_back(step);
    }
    ASSERT_EQ(gets_.size(), 2U);
  }
  static Piece with_handle(const Piece& piece, uint64_t interface, uint64_t object) {
    Piece changed = piece;
    store_le64(&changed.bytes[piece.part_at()], interface);
    store_le64(&changed.bytes[piece.part_at() + 8], object);
    return changed;
  }

  Script script_;
  std::vector<Step> gets_;
  Matcher matcher_{false};
};

TEST_F(Handles, OfOneStartAreDifferentWithOneInterfaceCookie) {
  EXPECT_FALSE(matcher_.match(gets_[0], with_handle(gets_[0].piece, 70, 1)));
  EXPECT_TRUE(matcher_.match(gets_[1], with_handle(gets_[1].piece, 70, 1))) << "used twice";
  EXPECT_TRUE(matcher_.match(gets_[1], with_handle(gets_[1].piece, 71, 2))) << "another start";
  EXPECT_FALSE(matcher_.match(gets_[1], with_handle(gets_[1].piece, 70, 2)));
}

TEST_F(Handles, ComeBackInWhatThePeerSends) {
  ASSERT_FALSE(matcher_.match(gets_[0], with_handle(gets_[0].piece, 70, 1)));
  size_t replies = 0;
  for (const Step& step : script_.steps) {
    if (step.ours || step.kind != Step::Kind::kPiece || !step.piece.message) continue;
    if (step.piece.message->type() != MessageType::kReply) continue;
    const auto bytes = matcher_.to_send(step.piece);
    // The second GET has not been sent: its REPLY answers nothing.
    ASSERT_EQ(bytes.has_value(), replies++ == 0);
    if (bytes) {
      EXPECT_EQ(load_le64(&(*bytes)[step.piece.part_at()]), 70U);
      EXPECT_EQ(load_le64(&(*bytes)[step.piece.part_at() + 8]), 1U);
    }
  }
  EXPECT_EQ(replies, 2U);
}

TEST(Incarnations, AreKept) {
  const Script script = script_of("tcp-ping", {"10.77.0.1"});
  Matcher matcher(false);
  std::vector<Step> hellos;
  for (const Step& step : script.steps) {
    const bool hello =
        step.ours && step.kind == Step::Kind::kPiece && step.piece.kind == Piece::Kind::kHello;
    if (hello) hellos.push_back(step);
  }
  ASSERT_EQ(hellos.size(), 3U);
  EXPECT_FALSE(matcher.match(hellos[0], hellos[0].piece));
  Bytes changed = hellos[1].piece.bytes;
  changed[32] ^= 0x01;
  EXPECT_TRUE(matcher.match(hellos[1], *reread(hellos[1].piece, changed, {})));
  EXPECT_FALSE(matcher.match(hellos[1], hellos[1].piece));
}

}  // namespace
}  // namespace ulnet::interop
