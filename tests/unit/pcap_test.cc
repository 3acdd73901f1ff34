// The reader of captures, on captures made here.

#include "tests/support/pcap.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "lnet/base/bytes.h"

namespace ulnet::test {
namespace {

constexpr uint8_t kFin = 0x01;
constexpr uint8_t kSyn = 0x02;
constexpr uint8_t kReset = 0x04;
constexpr uint8_t kAck = 0x10;

struct Packet {
  bool from_opener = true;
  uint8_t flags = kAck;
  uint32_t sequence = 0;
  std::string_view payload;
};

// Writes packets of one connection, 10.0.0.1:1023 to 10.0.0.2:988 or fd77::1 to fd77::2, a
// millisecond apart.
class CaptureFile {
 public:
  explicit CaptureFile(bool ipv6 = false, bool big_endian = false)
      : ipv6_(ipv6), big_endian_(big_endian) {
    for (const uint32_t word : {0xA1B2C3D4u, 0x00040002u, 0u, 0u, 65535u, 1u}) put(word);
  }

  void add(const Packet& packet) {
    std::vector<uint8_t> frame(12, 0);
    append_ip(frame, packet);
    append_tcp(frame, packet);
    frame.resize(std::max<size_t>(frame.size(), 60), 0xEE);  // Ethernet pads short frames
    add_frame(frame);
  }
  void add_frame(const std::vector<uint8_t>& frame) {
    put(100);
    put(static_cast<uint32_t>(1000 * frames_++));
    put(static_cast<uint32_t>(frame.size()));
    put(static_cast<uint32_t>(frame.size()));
    bytes_.insert(bytes_.end(), frame.begin(), frame.end());
  }
  std::vector<uint8_t>& bytes() { return bytes_; }

  Result<Capture> read(bool gzipped = false) const {
    const std::string path = testing::TempDir() + "pcap_test." + std::to_string(::getpid());
    const gzFile file = gzopen(path.c_str(), gzipped ? "wb9" : "wbT");
    EXPECT_NE(file, nullptr);
    EXPECT_EQ(gzwrite(file, bytes_.data(), static_cast<unsigned>(bytes_.size())),
              static_cast<int>(bytes_.size()));
    gzclose(file);
    auto capture = read_capture(path);
    std::remove(path.c_str());
    return capture;
  }

 private:
  void put(uint32_t value) {
    std::array<uint8_t, 4> word;
    big_endian_ ? store_be32(word.data(), value) : store_le32(word.data(), value);
    bytes_.insert(bytes_.end(), word.begin(), word.end());
  }

  void append_ip(std::vector<uint8_t>& frame, const Packet& packet) const {
    const auto tcp_bytes = static_cast<uint16_t>(20 + packet.payload.size());
    const uint8_t source = packet.from_opener ? 1 : 2;
    const uint8_t dest = packet.from_opener ? 2 : 1;
    if (ipv6_) {
      std::vector<uint8_t> ip(40, 0);
      ip[0] = 0x60;
      store_be16(&ip[4], tcp_bytes);
      ip[6] = 6;
      ip[8] = ip[24] = 0xFD;
      ip[9] = ip[25] = 0x77;
      ip[23] = source;
      ip[39] = dest;
      frame.insert(frame.end(), {0x86, 0xDD});
      frame.insert(frame.end(), ip.begin(), ip.end());
      return;
    }
    std::vector<uint8_t> ip(20, 0);
    ip[0] = 0x45;
    store_be16(&ip[2], static_cast<uint16_t>(20 + tcp_bytes));
    ip[9] = 6;
    store_be32(&ip[12], 0x0A000000u + source);
    store_be32(&ip[16], 0x0A000000u + dest);
    frame.insert(frame.end(), {0x08, 0x00});
    frame.insert(frame.end(), ip.begin(), ip.end());
  }

  static void append_tcp(std::vector<uint8_t>& frame, const Packet& packet) {
    std::vector<uint8_t> tcp(20, 0);
    store_be16(&tcp[0], packet.from_opener ? 1023 : 988);
    store_be16(&tcp[2], packet.from_opener ? 988 : 1023);
    store_be32(&tcp[4], packet.sequence);
    tcp[12] = 0x50;
    tcp[13] = packet.flags;
    frame.insert(frame.end(), tcp.begin(), tcp.end());
    frame.insert(frame.end(), packet.payload.begin(), packet.payload.end());
  }

  const bool ipv6_;
  const bool big_endian_;
  int64_t frames_ = 0;
  std::vector<uint8_t> bytes_;
};

// A file with a handshake in it: payload of the opener begins at `first`, that of the listener at
// 501.
CaptureFile opened(uint32_t first, bool ipv6 = false, bool big_endian = false) {
  CaptureFile file(ipv6, big_endian);
  file.add({.flags = kSyn, .sequence = first - 1});
  file.add({.from_opener = false, .flags = kSyn | kAck, .sequence = 500});
  return file;
}

std::string text(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string sent(const TcpConnection& connection) {
  return text(connection.bytes(Direction::kFromOpener));
}

TcpConnection only_connection(const CaptureFile& file) {
  const auto capture = file.read();
  EXPECT_TRUE(capture) << capture.error().to_string();
  EXPECT_EQ(capture->connections.size(), 1u);
  return capture->connections.at(0);
}

TEST(Pcap, BothDirectionsWithTimesInOrder) {
  for (const bool ipv6 : {false, true}) {
    for (const bool big_endian : {false, true}) {
      CaptureFile file = opened(101, ipv6, big_endian);
      file.add({.sequence = 101, .payload = "abc"});
      file.add({.from_opener = false, .sequence = 501, .payload = "xy"});
      file.add({.sequence = 104, .payload = "d"});
      const TcpConnection connection = only_connection(file);
      EXPECT_TRUE(connection.opened);
      EXPECT_TRUE(connection.answered);
      EXPECT_EQ(connection.opener.address, ipv6 ? "fd77::1" : "10.0.0.1");
      EXPECT_EQ(connection.opener.port, 1023);
      EXPECT_EQ(connection.listener.address, ipv6 ? "fd77::2" : "10.0.0.2");
      EXPECT_EQ(connection.listener.port, 988);
      ASSERT_EQ(connection.chunks.size(), 3u);
      EXPECT_EQ(text(connection.chunks[0].bytes), "abc");
      EXPECT_EQ(connection.chunks[0].time_ns, 2'000'000);
      EXPECT_EQ(text(connection.chunks[1].bytes), "xy");
      EXPECT_EQ(connection.chunks[1].direction, Direction::kToOpener);
      EXPECT_EQ(connection.chunks[2].time_ns, 4'000'000);
      EXPECT_EQ(sent(connection), "abcd");
    }
  }
}

TEST(Pcap, RetransmissionsComeOnce) {
  CaptureFile file = opened(101);
  file.add({.flags = kSyn, .sequence = 100});
  file.add({.sequence = 101, .payload = "abc"});
  file.add({.sequence = 101, .payload = "abc"});
  file.add({.sequence = 102, .payload = "bcde"});  // overlaps
  file.add({.sequence = 105, .payload = "e"});     // a keepalive probe repeats the last byte
  const TcpConnection connection = only_connection(file);
  EXPECT_EQ(sent(connection), "abcde");
  EXPECT_EQ(connection.chunks.size(), 2u);
}

TEST(Pcap, OutOfOrderSegmentsWaitForTheGapToClose) {
  CaptureFile file = opened(101);
  file.add({.sequence = 107, .payload = "gh"});
  file.add({.sequence = 104, .payload = "def"});
  file.add({.sequence = 104, .payload = "d"});  // a shorter copy takes nothing away
  file.add({.sequence = 101, .payload = "abc"});
  const TcpConnection connection = only_connection(file);
  ASSERT_EQ(connection.chunks.size(), 1u);
  EXPECT_EQ(sent(connection), "abcdefgh");
  EXPECT_EQ(connection.chunks[0].time_ns, 5'000'000);
  EXPECT_EQ(connection.stream(Direction::kFromOpener).lost_bytes, 0u);
}

TEST(Pcap, BytesBehindAGapThatStaysOpenAreCounted) {
  CaptureFile file = opened(101);
  file.add({.sequence = 101, .payload = "abc"});
  file.add({.sequence = 105, .payload = "efg"});
  const TcpConnection connection = only_connection(file);
  EXPECT_EQ(sent(connection), "abc");
  EXPECT_EQ(connection.stream(Direction::kFromOpener).lost_bytes, 3u);
}

TEST(Pcap, SequenceNumbersWrap) {
  CaptureFile file = opened(0xFFFFFFFE);
  file.add({.sequence = 2, .payload = "ef"});
  file.add({.sequence = 0xFFFFFFFE, .payload = "abcd"});
  file.add({.sequence = 0, .payload = "cdefg"});
  EXPECT_EQ(sent(only_connection(file)), "abcdefg");
}

TEST(Pcap, EndsAreThoseOfEachSide) {
  CaptureFile file = opened(101);
  file.add({.flags = kFin | kAck, .sequence = 101});
  file.add({.from_opener = false, .flags = kReset, .sequence = 501});
  file.add({.flags = kReset, .sequence = 102});
  const TcpConnection connection = only_connection(file);
  EXPECT_EQ(connection.stream(Direction::kFromOpener).end, StreamEnd::kFin);
  EXPECT_EQ(connection.stream(Direction::kFromOpener).end_time_ns, 2'000'000);
  EXPECT_TRUE(connection.stream(Direction::kFromOpener).reset);
  EXPECT_EQ(connection.stream(Direction::kToOpener).end, StreamEnd::kReset);
  EXPECT_EQ(only_connection(opened(101)).stream(Direction::kFromOpener).end, StreamEnd::kOpen);
}

TEST(Pcap, PortsUsedAgainAreAnotherConnection) {
  CaptureFile file = opened(101);
  file.add({.sequence = 101, .payload = "first"});
  file.add({.flags = kSyn, .sequence = 9000});
  file.add({.sequence = 9001, .payload = "second"});
  const auto capture = file.read();
  ASSERT_TRUE(capture);
  ASSERT_EQ(capture->connections.size(), 2u);
  EXPECT_EQ(sent(capture->connections[0]), "first");
  EXPECT_EQ(sent(capture->connections[1]), "second");
  EXPECT_FALSE(capture->connections[1].answered);
}

TEST(Pcap, WithoutASynTheFirstSideSeenIsTheOpener) {
  CaptureFile file;
  file.add({.from_opener = false, .sequence = 7, .payload = "x"});
  const TcpConnection connection = only_connection(file);
  EXPECT_FALSE(connection.opened);
  EXPECT_EQ(connection.opener.port, 988);
  EXPECT_EQ(sent(connection), "x");
}

TEST(Pcap, GzippedReadsTheSame) {
  CaptureFile file = opened(101);
  file.add({.sequence = 101, .payload = "abc"});
  const auto capture = file.read(true);
  ASSERT_TRUE(capture);
  EXPECT_EQ(sent(capture->connections.at(0)), "abc");
}

TEST(Pcap, OtherFramesAreCounted) {
  CaptureFile file = opened(101);
  file.add_frame(std::vector<uint8_t>(60, 0xFF));
  file.add_frame({1, 2, 3});
  const auto capture = file.read();
  ASSERT_TRUE(capture);
  EXPECT_EQ(capture->frames, 4u);
  EXPECT_EQ(capture->other_frames, 2u);
}

TEST(Pcap, TcpFramesShorterThanTheirHeadersSayAreCounted) {
  CaptureFile file;
  file.add({.sequence = 7, .payload = std::string_view("payload that is longer than padding")});
  file.bytes().pop_back();
  const size_t record = 24;  // behind the file header
  store_le32(&file.bytes()[record + 8], load_le32(&file.bytes()[record + 8]) - 1);
  const auto capture = file.read();
  ASSERT_TRUE(capture) << capture.error().to_string();
  EXPECT_EQ(capture->damaged_frames, 1u);
  EXPECT_TRUE(capture->connections.empty());
}

TEST(Pcap, DamagedFilesAreRefused) {
  EXPECT_EQ(read_capture("/nonexistent/x.pcap").error().code(), ENOENT);
  CaptureFile no_magic = opened(101);
  no_magic.bytes()[0] = 0;
  EXPECT_EQ(no_magic.read().error().code(), EPROTO);
  CaptureFile no_ethernet = opened(101);
  no_ethernet.bytes()[20] = 113;
  EXPECT_EQ(no_ethernet.read().error().code(), EPROTO);
  CaptureFile cut = opened(101);
  cut.bytes().pop_back();
  EXPECT_EQ(cut.read().error().code(), EPROTO);
  CaptureFile tiny;
  tiny.bytes().resize(23);
  EXPECT_EQ(tiny.read().error().code(), EPROTO);
}

}  // namespace
}  // namespace ulnet::test
