// The receiving half of a connection, fed with every cut of its byte stream.
#include "lnd_tcp/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lnet/base/rng.h"
#include "tests/support/tcp_stream.h"

namespace ulnet::testing {
namespace {

using tcp::Connection;
using tcp::ConnType;
using ::testing::ElementsAre;

const Nid kA = *Nid::parse("10.0.0.1@tcp");
const Nid kB = *Nid::parse("10.0.0.2@tcp");
const Nid kA6 = *Nid::parse("fd77::1@tcp");
const Nid kB6 = *Nid::parse("fd77::2@tcp");

Bytes passive_opening(const Nid& from, const Nid& to) {
  Bytes bytes = tcp::encode_connect_request({to});
  append(bytes, tcp::encode_hello(make_hello(from, to, ConnType::kControl)));
  return bytes;
}

// One of each: all verdicts, zero-copy cookies, keepalives, a checksum, an empty payload.
Bytes all_frames(const Nid& from, const Nid& to) {
  Bytes bytes;
  append(bytes, put_frame({.wish = Wish::kAll, .payload_bytes = 300, .seed = 3}, from, to));
  append(bytes, noop(0, tcp::kKeepaliveCookie));
  append(bytes, put_frame({.wish = Wish::kDrop, .payload_bytes = 70, .cookie0 = 5}, from, to));
  append(bytes,
         put_frame({.wish = Wish::kHalf, .payload_bytes = 90, .seed = 9, .cookie0 = 6}, from, to));
  append(bytes, noop(0, 0));
  append(bytes, put_frame({.wish = Wish::kWaitThenAll, .payload_bytes = 41, .seed = 4}, from, to));
  append(bytes,
         put_frame({.wish = Wish::kAll, .payload_bytes = 33, .seed = 5, .with_checksum = true},
                   from, to));
  append(bytes, put_frame({.wish = Wish::kDrop, .payload_bytes = 0, .cookie0 = 7}, from, to));
  append(bytes,
         put_frame({.wish = Wish::kAll, .payload_bytes = 8, .seed = 6, .cookie0 = 8, .cookie1 = 1},
                   from, to));
  return bytes;
}

const std::vector<std::string> kAllEvents = {
    "PUT 300", "done 300", "keepalive", "PUT 70", "ack 5", "PUT 90", "ack 6", "done 45", "PUT 41",
    "done 41", "PUT 33",   "done 33",   "PUT 0",  "ack 7", "PUT 8",  "ack 8", "done 8"};

std::vector<std::string> with_prefix(std::vector<std::string> prefix,
                                     const std::vector<std::string>& rest) {
  prefix.insert(prefix.end(), rest.begin(), rest.end());
  return prefix;
}

void expect_at_every_cut(Connection::Role role, const Bytes& stream,
                         const std::vector<std::string>& expected) {
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    StreamReader reader(role);
    reader.feed({stream.data(), cut});
    reader.feed({stream.data() + cut, stream.size() - cut});
    ASSERT_EQ(reader.log, expected) << "cut at " << cut;
    ASSERT_FALSE(reader.connection.mid_frame()) << "cut at " << cut;
  }
  StreamReader bytewise(role);
  for (const uint8_t byte : stream) bytewise.feed({&byte, 1});
  EXPECT_EQ(bytewise.log, expected);
}

TEST(TcpConnection, PassiveTakesItsStreamCutAnywhere) {
  Bytes stream = passive_opening(kA, kB);
  append(stream, all_frames(kA, kB));
  expect_at_every_cut(Connection::Role::kPassive, stream,
                      with_prefix({"request 10.0.0.2@tcp", "hello 10.0.0.1@tcp"}, kAllEvents));
}

TEST(TcpConnection, PassiveVersion4CutAnywhere) {
  Bytes stream = passive_opening(kA6, kB6);
  append(stream, all_frames(kA6, kB6));
  expect_at_every_cut(Connection::Role::kPassive, stream,
                      with_prefix({"request fd77::2@tcp", "hello fd77::1@tcp"}, kAllEvents));
}

TEST(TcpConnection, ActiveTakesAnswerAndFramesCutAnywhere) {
  Bytes stream = tcp::encode_hello(make_hello(kB, kA, ConnType::kControl));
  append(stream, all_frames(kB, kA));
  expect_at_every_cut(Connection::Role::kActive, stream,
                      with_prefix({"hello 10.0.0.2@tcp"}, kAllEvents));
}

TEST(TcpConnection, EndOfStreamIsOrderlyOnlyBetweenFrames) {
  const Bytes opening = passive_opening(kA, kB);
  const Bytes frame = put_frame({.wish = Wish::kAll, .payload_bytes = 50}, kA, kB);
  for (size_t cut = 0; cut <= frame.size(); ++cut) {
    StreamReader reader(Connection::Role::kPassive);
    reader.feed(opening);
    reader.feed({frame.data(), cut});
    EXPECT_EQ(reader.connection.mid_frame(), cut > 0 && cut < frame.size()) << cut;
    reader.end();
    const bool between = cut == 0 || cut == frame.size();
    EXPECT_EQ(reader.log.back(), between ? "closed end_of_stream" : "closed end_in_frame") << cut;
    // A payload that had begun fails, exactly once.
    const auto failed = std::count(reader.log.begin(), reader.log.end(), "failed EIO");
    EXPECT_EQ(failed, cut >= 96 && !between ? 1 : 0) << cut;
  }
}

TEST(TcpConnection, MessageThatWaitsEndsWithItsConnection) {
  Connection connection(Connection::Role::kPassive);
  Bytes stream = passive_opening(kA, kB);
  append(stream, put_frame({.wish = Wish::kAll, .payload_bytes = 50}, kA, kB));
  std::array<iovec, 8> window;
  ASSERT_EQ(connection.window(window), 1u);
  std::memcpy(window[0].iov_base, stream.data(), stream.size());
  connection.handle_bytes(stream.size());
  using Kind = Connection::Event::Kind;
  ASSERT_EQ(connection.poll().kind, Kind::kConnectRequest);
  connection.accept_request();
  ASSERT_EQ(connection.poll().kind, Kind::kHello);
  connection.establish(HeaderForm::kNid4, false);
  ASSERT_EQ(connection.poll().kind, Kind::kMessage);
  MessageVerdict verdict;
  verdict.kind = MessageVerdict::Kind::kWait;
  verdict.id = 4711;
  connection.handle_verdict(verdict);
  EXPECT_TRUE(connection.waits_for(4711));
  EXPECT_EQ(connection.window(window), 0u);
  connection.close(tcp::CloseReason::kShutdown);
  const auto done = connection.poll();
  EXPECT_EQ(done.kind, Kind::kReceiveDone);
  EXPECT_EQ(done.id, 4711u);
  EXPECT_EQ(done.completion.error, ESHUTDOWN);
  EXPECT_EQ(connection.poll().kind, Kind::kClosed);
  EXPECT_EQ(connection.poll().kind, Kind::kNone);
}

// ---------------------------------------------------------------- bad frames (spec 10.3)

struct BadFrame {
  const char* name;
  Bytes bytes;
  std::vector<std::string> expected;
};

Bytes changed32(Bytes bytes, size_t at, uint32_t value) {
  store_le32(bytes.data() + at, value);
  return bytes;
}

std::vector<BadFrame> bad_frames() {
  const Bytes empty = put_frame({.wish = Wish::kDrop}, kA, kB);
  const Bytes full = put_frame({.wish = Wish::kAll, .payload_bytes = 20}, kA, kB);
  return {
      {"frame type", changed32(empty, kFrameTypeAt, 0xEE), {"closed frame_type"}},
      {"frame type, cookie1 unlooked at",
       changed32(noop(0, 9), kFrameTypeAt, 0xC2),
       {"closed frame_type"}},
      {"ACK never asked for", noop(0, 2), {"closed frame_zc_ack"}},
      {"huge range of ACKs", noop(3, ~uint64_t{0}), {"closed frame_zc_ack"}},
      {"ACK on an LNET frame",
       put_frame({.wish = Wish::kDrop, .cookie1 = 5}, kA, kB),
       {"closed frame_zc_ack"}},
      {"keepalive with cookie0 2", noop(2, 1), {"closed frame_keepalive"}},
      {"checksum of a NOOP", noop(0, 1, 0x1234), {"closed frame_checksum"}},
      {"checksum without payload", changed32(empty, 4, 0x1234), {"closed frame_checksum"}},
      {"checksum of the payload",
       put_frame({.wish = Wish::kAll,
                  .payload_bytes = 20,
                  .cookie0 = 9,
                  .with_checksum = true,
                  .wrong_by = 1},
                 kA, kB),
       {"PUT 20", "failed EIO", "closed frame_checksum"}},
      {"LNet type 4", changed32(empty, kLnetTypeAt, 4), {"closed frame_header"}},
      {"LNet type 9", changed32(empty, kLnetTypeAt, 9), {"closed frame_header"}},
      {"ACK with payload", changed32(full, kLnetTypeAt, 0), {"closed frame_header"}},
      {"GET with payload", changed32(full, kLnetTypeAt, 2), {"closed frame_header"}},
      {"PUT of 1 MiB + 1", changed32(full, kLnetPayloadBytesAt, 1048577), {"closed frame_header"}},
      {"PUT of 2^31", changed32(full, kLnetPayloadBytesAt, 0x80000000), {"closed frame_header"}},
      {"REPLY of 2^32 - 1",
       changed32(changed32(full, kLnetTypeAt, 3), kLnetPayloadBytesAt, 0xFFFFFFFF),
       {"closed frame_header"}},
      {"LNet's protocol error",
       put_frame({.wish = Wish::kProtocolError, .payload_bytes = 9}, kA, kB),
       {"PUT 9", "closed frame_verdict"}},
  };
}

TEST(TcpConnection, BadFramesCloseWithTheirReasonWhateverTheCut) {
  for (const BadFrame& bad : bad_frames()) {
    Bytes stream = passive_opening(kA, kB);
    append(stream, put_frame({.wish = Wish::kAll, .payload_bytes = 4, .seed = 1}, kA, kB));
    append(stream, bad.bytes);
    append(stream, put_frame({.wish = Wish::kAll, .payload_bytes = 4, .seed = 1}, kA,
                             kB));  // must not be read
    const auto expected = with_prefix(
        {"request 10.0.0.2@tcp", "hello 10.0.0.1@tcp", "PUT 4", "done 4"}, bad.expected);
    for (size_t cut = 0; cut <= stream.size(); ++cut) {
      StreamReader reader(Connection::Role::kPassive);
      reader.feed({stream.data(), cut});
      reader.feed({stream.data() + cut, stream.size() - cut});
      ASSERT_EQ(reader.log, expected) << bad.name << ", cut at " << cut;
    }
  }
}

TEST(TcpConnection, ChecksumThatCannotBeVerifiedIsNot) {
  Bytes stream = passive_opening(kA, kB);
  append(stream,
         put_frame({.wish = Wish::kHalf, .payload_bytes = 20, .with_checksum = true, .wrong_by = 1},
                   kA, kB));
  append(stream,
         put_frame({.wish = Wish::kDrop, .payload_bytes = 20, .with_checksum = true, .wrong_by = 1},
                   kA, kB));
  append(stream, changed32(put_frame({.wish = Wish::kDrop}, kA, kB), 4, 0xFFFFFFFF));
  StreamReader reader(Connection::Role::kPassive);
  reader.feed(stream);
  EXPECT_THAT(reader.log, ElementsAre("request 10.0.0.2@tcp", "hello 10.0.0.1@tcp", "PUT 20",
                                      "done 10", "PUT 20", "PUT 0"));
}

TEST(TcpConnection, FlippedPeerSwapsFrameHeadersOnly) {
  Connection connection(Connection::Role::kActive);
  StreamReader reader(Connection::Role::kActive);
  Bytes hello = tcp::encode_hello(make_hello(kB, kA, ConnType::kControl));
  // A big-endian sender of the same HELLO: every field swapped, in versions 2 and 3 the NIDs, too.
  for (const auto& [at, size] : std::vector<std::pair<size_t, size_t>>{
           {0, 4}, {4, 4}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 8}, {40, 8}, {48, 4}, {52, 4}}) {
    std::reverse(hello.begin() + static_cast<long>(at),
                 hello.begin() + static_cast<long>(at + size));
  }
  Bytes frame =
      put_frame({.wish = Wish::kAll, .payload_bytes = 12, .seed = 8, .cookie0 = 3}, kB, kA);
  for (const auto& [at, size] :
       std::vector<std::pair<size_t, size_t>>{{0, 4}, {4, 4}, {8, 8}, {16, 8}}) {
    std::reverse(frame.begin() + static_cast<long>(at),
                 frame.begin() + static_cast<long>(at + size));
  }
  reader.feed(hello);
  reader.feed(frame);
  EXPECT_THAT(reader.log, ElementsAre("hello 10.0.0.2@tcp", "PUT 12", "ack 3", "done 12"));
}

// ---------------------------------------------------------------- staging (decisions D8)

TEST(TcpConnection, BulkPayloadGoesStraightToMemory) {
  StreamReader reader(Connection::Role::kPassive, 1);
  reader.feed(passive_opening(kA, kB));
  const Bytes frame = put_frame({.wish = Wish::kAll, .payload_bytes = 1 << 20, .seed = 2}, kA, kB);
  std::array<iovec, Connection::kWindowFragmentsMax> window;
  ASSERT_EQ(reader.connection.window(window), 1u);
  EXPECT_EQ(window[0].iov_len, Connection::kStagingMin);
  reader.feed({frame.data(), Connection::kStagingMin});
  // All of the rest, and behind it room for the next header.
  ASSERT_EQ(reader.connection.window(window), 2u);
  EXPECT_EQ(window[0].iov_len, frame.size() - Connection::kStagingMin);
  EXPECT_EQ(window[1].iov_len, Connection::kStagingMin);
  reader.feed({frame.data() + Connection::kStagingMin, frame.size() - Connection::kStagingMin});
  EXPECT_EQ(reader.log.back(), "done 1048576");
}

TEST(TcpConnection, StagingGrowsWithSmallFramesAndShrinksWithBulk) {
  StreamReader reader(Connection::Role::kPassive, 1);
  reader.feed(passive_opening(kA, kB));
  Bytes small;
  while (small.size() < 600'000)
    append(small, put_frame({.wish = Wish::kAll, .payload_bytes = 64, .seed = 1}, kA, kB));
  reader.feed(small);
  std::array<iovec, Connection::kWindowFragmentsMax> window;
  ASSERT_EQ(reader.connection.window(window), 1u);
  EXPECT_GE(window[0].iov_len, Connection::kStagingMax - 200);
  reader.feed(put_frame({.wish = Wish::kAll, .payload_bytes = 100'000, .seed = 1}, kA, kB));
  ASSERT_EQ(reader.connection.window(window), 1u);
  EXPECT_LE(window[0].iov_len, Connection::kStagingMin);
}

TEST(TcpConnection, DroppedBulkIsReadInFewCallsAndNotBeyond) {
  StreamReader reader(Connection::Role::kPassive);
  reader.feed(passive_opening(kA, kB));
  const Bytes frame = put_frame({.wish = Wish::kDrop, .payload_bytes = 200'000}, kA, kB);
  reader.feed({frame.data(), 96});
  std::array<iovec, Connection::kWindowFragmentsMax> window;
  size_t left = 200'000;
  const size_t pieces = reader.connection.window(window);
  EXPECT_GT(pieces, 40u);
  for (size_t i = 0; i < pieces; ++i) left -= window[i].iov_len;
  EXPECT_EQ(left, 0u);
  reader.feed({frame.data() + 96, frame.size() - 96});
  reader.feed(put_frame({.wish = Wish::kAll, .payload_bytes = 10, .seed = 1}, kA, kB));
  EXPECT_EQ(reader.log.back(), "done 10");
}

TEST(TcpConnection, RandomStreamsInRandomPieces) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    Bytes stream = passive_opening(kA, kB);
    std::vector<std::string> expected = {"request 10.0.0.2@tcp", "hello 10.0.0.1@tcp"};
    for (int i = 0; i < 12; ++i) {
      FrameSpec spec;
      spec.wish = static_cast<Wish>(rng.below(4));
      spec.payload_bytes =
          static_cast<uint32_t>(rng.chance(1, 3) ? rng.below(40'000) : rng.below(600));
      spec.seed = static_cast<uint8_t>(rng.below(250));
      spec.cookie0 = rng.chance(1, 4) ? rng.below(1000) : 0;
      spec.with_checksum = spec.payload_bytes > 0 && rng.chance(1, 2);
      append(stream, put_frame(spec, kA, kB));
      expected.push_back("PUT " + std::to_string(spec.payload_bytes));
      const uint32_t taken = spec.wish == Wish::kHalf ? spec.payload_bytes / 2 : spec.payload_bytes;
      if (spec.cookie0 != 0) expected.push_back("ack " + std::to_string(spec.cookie0));
      if (spec.wish != Wish::kDrop) expected.push_back("done " + std::to_string(taken));
    }
    StreamReader reader(Connection::Role::kPassive, 1 + rng.below(7));
    std::span<const uint8_t> rest(stream);
    while (!rest.empty()) {
      const size_t n =
          std::min<size_t>(rest.size(), 1 + (rng.chance(1, 2) ? rng.below(50) : rng.below(20'000)));
      reader.feed(rest.first(n));
      rest = rest.subspan(n);
    }
    ASSERT_EQ(reader.log, expected) << "seed " << seed;
  }
}

// ---------------------------------------------------------------- set-up

TEST(TcpConnection, BadOpeningsCloseWithTheirReason) {
  const auto reason_of = [](const Bytes& bytes) {
    StreamReader reader(Connection::Role::kPassive);
    reader.feed(bytes);
    return reader.log.empty() ? std::string("open") : reader.log.back();
  };
  const Bytes request = tcp::encode_connect_request({kB});
  const Bytes hello = tcp::encode_hello(make_hello(kA, kB, ConnType::kControl));
  EXPECT_EQ(reason_of(hello), "closed request_hello");
  EXPECT_EQ(reason_of(changed32(request, 0, 0x20544547)), "closed request_magic");
  EXPECT_EQ(reason_of(changed32(request, 4, 9)), "closed request_version");
  Bytes v2 = tcp::encode_connect_request({kB6});
  v2[8] = 200;  // nid_size
  EXPECT_EQ(reason_of(v2), "closed request_nid");
  const auto with_hello = [&](const Bytes& changed) {
    Bytes all = request;
    append(all, changed);
    return reason_of(all);
  };
  EXPECT_EQ(with_hello(changed32(hello, 0, 0x12345678)), "closed hello_magic");
  EXPECT_EQ(with_hello(changed32(hello, 4, 7)), "closed hello_version");
  EXPECT_EQ(with_hello(changed32(hello, 4, 0)), "closed hello_version");
  EXPECT_EQ(with_hello(changed32(hello, 52, 17)), "closed hello_ip_list");
  EXPECT_EQ(reason_of(Bytes(request.begin(), request.end() - 1)), "open");
}

}  // namespace
}  // namespace ulnet::testing
