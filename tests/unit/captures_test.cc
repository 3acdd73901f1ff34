// Every recording of real nodes in tests/vectors: all of their bytes decode, and encode to the same
// bytes again.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/wire/header.h"
#include "lnet/wire/ping_info.h"
#include "tests/support/pcap.h"

namespace ulnet {
namespace {

using test::Capture;
using test::Direction;
using test::TcpConnection;
using Bytes = std::span<const uint8_t>;

struct Message {
  Header header;
  std::vector<uint8_t> payload;
};

// What a capture, or all of them, held.
struct Totals {
  size_t connections = 0;
  size_t requests = 0;
  size_t refusals = 0;
  size_t hellos = 0;
  size_t noops = 0;
  size_t ping_infos = 0;
  std::map<MessageType, size_t> messages;

  void add(const Totals& other) {
    connections += other.connections;
    requests += other.requests;
    refusals += other.refusals;
    hellos += other.hellos;
    noops += other.noops;
    ping_infos += other.ping_infos;
    for (const auto& [type, count] : other.messages) messages[type] += count;
  }
  size_t frames() const {
    size_t sum = noops;
    for (const auto& [type, count] : messages) sum += count;
    return sum;
  }
  std::string to_string() const {
    std::string text =
        fmt::format("{} connections, {} requests, {} refusals, {} HELLOs, {} frames ({} NOOP",
                    connections, requests, refusals, hellos, frames(), noops);
    for (const auto& [type, count] : messages) {
      text += fmt::format(", {} {}", count, ulnet::to_string(type));
    }
    return text + fmt::format("), {} ping infos", ping_infos);
  }
};

// Reads one direction of a connection to its end, or to the first byte that is not understood.
class StreamReader {
 public:
  explicit StreamReader(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)), rest_(bytes_) {}
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  void read_as_opener() {
    if (rest_.empty()) return;
    const auto request = tcp::decode_connect_request(rest_);
    if (!request) return stop("request", tcp::to_string(request.error()));
    // Big-endian ones decode, too, but we never write them.
    if (rest_[0] == 0) expect_same(tcp::encode_connect_request(request->value), request->bytes);
    ++totals_.requests;
    take(request->bytes);
    read_hello_and_frames();
  }

  void read_as_listener() {
    const auto refusal = tcp::encode_acceptor_refusal();
    if (rest_.size() == refusal.size() && std::equal(rest_.begin(), rest_.end(), refusal.begin())) {
      ++totals_.refusals;
      return take(refusal.size());
    }
    read_hello_and_frames();
  }

  // "" when all was understood.
  const std::string& stopped() const { return stopped_; }
  const Totals& totals() const { return totals_; }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  void read_hello_and_frames() {
    if (rest_.empty()) return;
    const auto hello = tcp::decode_hello(rest_);
    if (!hello) return stop("HELLO", tcp::to_string(hello.error()));
    // The legacy addresses are read and dropped.
    auto encoded = tcp::encode_hello(hello->value);
    if (hello->value.flipped || hello->bytes != encoded.size()) {
      EXPECT_TRUE(hello->value.flipped || hello->bytes == encoded.size() + 12);
    } else {
      expect_same(encoded, hello->bytes);
    }
    ++totals_.hellos;
    take(hello->bytes);
    const HeaderForm form = hello->value.version == 4 ? HeaderForm::kNid16 : HeaderForm::kNid4;
    while (stopped_.empty() && !rest_.empty()) read_frame(form, hello->value.flipped);
  }

  void read_frame(HeaderForm form, bool flipped) {
    if (rest_.size() < tcp::kFrameHeaderBytes) return stop("frame", "incomplete");
    const auto frame = tcp::decode_frame_header(rest_, flipped);
    if (frame.type != tcp::kFrameNoop && frame.type != tcp::kFrameLnet) {
      return stop("frame", fmt::format("type {:#x}", frame.type));
    }
    std::vector<uint8_t> encoded(tcp::kFrameHeaderBytes);
    tcp::encode_frame_header(frame, encoded);
    expect_same(encoded, encoded.size());
    if (frame.type == tcp::kFrameNoop) {
      ++totals_.noops;
      return take(tcp::kFrameHeaderBytes);
    }
    read_message(form, rest_.subspan(tcp::kFrameHeaderBytes), frame);
  }

  void read_message(HeaderForm form, Bytes message, const tcp::FrameHeader& frame) {
    const auto header = decode_header(form, message);
    if (!header) return stop("LNet header", ulnet::to_string(header.error()));
    const size_t form_bytes = header_bytes(form);
    std::vector<uint8_t> encoded(form_bytes);
    encode_header(form, *header, encoded);
    EXPECT_TRUE(std::equal(encoded.begin(), encoded.end(), message.begin()));
    if (message.size() - form_bytes < header->payload_bytes) return stop("payload", "incomplete");

    const Bytes payload = message.subspan(form_bytes, header->payload_bytes);
    if (frame.checksum != 0) {
      EXPECT_EQ(frame.checksum, tcp::checksum(tcp::kChecksumSeed, payload));
    }
    messages_.push_back({*header, {payload.begin(), payload.end()}});
    ++totals_.messages[header->type()];
    take(tcp::kFrameHeaderBytes + form_bytes + payload.size());
  }

  void expect_same(Bytes encoded, size_t count) {
    EXPECT_EQ(std::vector<uint8_t>(encoded.begin(), encoded.end()),
              std::vector<uint8_t>(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count)));
  }
  void take(size_t count) { rest_ = rest_.subspan(count); }
  void stop(std::string_view what, std::string_view why) {
    stopped_ = fmt::format("{} bytes left: {}: {}", rest_.size(), what, why);
  }

  const std::vector<uint8_t> bytes_;
  Bytes rest_;
  std::string stopped_;
  Totals totals_;
  std::vector<Message> messages_;
};

// Which messages carry ping info: PUTs to the reserved portal, and REPLYs to GETs from there.
class PingInfoCheck {
 public:
  void learn_gets(const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      const auto* get = std::get_if<GetPart>(&message.header.part);
      if (get != nullptr && get->portal == kReservedPortal && get->match_bits == kPingMatchBits) {
        pings_[{get->return_md.interface_cookie, get->return_md.object_cookie}] = get->sink_length;
      }
    }
  }
  // Gives how many there were.
  size_t check(const std::vector<Message>& messages) const {
    size_t count = 0;
    for (const Message& message : messages) {
      if (!carries_info(message.header)) continue;
      ++count;
      const auto info = decode_ping_info(message.payload, 200);
      EXPECT_TRUE(info) << to_string(info.error().error);
      if (info) {
        EXPECT_EQ(encode_ping_info(*info), message.payload);
      }
    }
    return count;
  }

 private:
  bool carries_info(const Header& header) const {
    if (const auto* put = std::get_if<PutPart>(&header.part)) {
      return put->portal == kReservedPortal && put->match_bits == kPingMatchBits;
    }
    const auto* reply = std::get_if<ReplyPart>(&header.part);
    return reply != nullptr &&
           pings_.contains({reply->md.interface_cookie, reply->md.object_cookie});
  }

  std::map<std::pair<uint64_t, uint64_t>, uint32_t> pings_;
};

struct CaptureReading {
  Totals totals;
  // "10.0.0.1:1023 > 10.0.0.2:988: 4 bytes left: ..."
  std::vector<std::string> stops;
};

std::string end_name(const test::TcpAddress& address) {
  return fmt::format("{}:{}", address.address, address.port);
}

CaptureReading read_all(const Capture& capture) {
  CaptureReading reading;
  std::deque<StreamReader> readers;
  PingInfoCheck ping_infos;
  for (const TcpConnection& connection : capture.connections) {
    ++reading.totals.connections;
    for (const Direction direction : {Direction::kFromOpener, Direction::kToOpener}) {
      const bool opener = direction == Direction::kFromOpener;
      StreamReader& reader = readers.emplace_back(connection.bytes(direction));
      opener ? reader.read_as_opener() : reader.read_as_listener();
      const auto& from = opener ? connection.opener : connection.listener;
      const auto& to = opener ? connection.listener : connection.opener;
      const std::string name = fmt::format("{} > {}", end_name(from), end_name(to));
      if (!reader.stopped().empty()) reading.stops.push_back(name + ": " + reader.stopped());
      const uint64_t lost_bytes = connection.stream(direction).lost_bytes;
      if (lost_bytes > 0) {
        reading.stops.push_back(fmt::format("{}: {} bytes behind a gap", name, lost_bytes));
      }
      reading.totals.add(reader.totals());
      ping_infos.learn_gets(reader.messages());
    }
  }
  for (const StreamReader& reader : readers) {
    reading.totals.ping_infos += ping_infos.check(reader.messages());
  }
  return reading;
}

// ---------------------------------------------------------------- the captures

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_VECTORS_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".pcap.gz")) names.push_back(name.substr(0, name.size() - 8));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Capture capture_of(const std::string& name) {
  auto capture = test::read_capture(std::filesystem::path(ULNET_VECTORS_DIR) / (name + ".pcap.gz"));
  EXPECT_TRUE(capture) << capture.error().to_string();
  return capture ? std::move(*capture) : Capture{};
}

// What is not understood, and rightly so. All else is.
const std::vector<std::string>& expected_stops(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> kStops = {
      // Openings that are wrong on purpose, and the answer to a version 1 HELLO.
      {"tcp-host-probes",
       {"10.77.0.254:998 > 10.77.0.1:988: 18 bytes left: request: unknown magic",
        "10.77.0.254:997 > 10.77.0.1:988: 16 bytes left: request: unknown version",
        "10.77.0.254:994 > 10.77.0.1:988: 56 bytes left: HELLO: unknown version",
        "10.77.0.254:993 > 10.77.0.1:988: 56 bytes left: HELLO: unknown magic",
        "10.77.0.254:987 > 10.77.0.1:988: 72 bytes left: HELLO: unknown version",
        "10.77.0.1:988 > 10.77.0.254:987: 72 bytes left: HELLO: unknown version",
        "10.77.0.254:984 > 10.77.0.1:988: 24 bytes left: frame: type 0xee",
        "10.77.0.254:983 > 10.77.0.1:988: 96 bytes left: LNet header: unknown message type"}},
      // Its frames from 0.06 to 3.85 s were taken out; the last two PUTs on CONTROL lie behind that
      // gap.
      {"tcp-link-cut", {"10.77.0.1:1023 > 10.77.0.2:988: 512 bytes behind a gap"}},
  };
  static const std::vector<std::string> kNone;
  const auto found = kStops.find(name);
  return found == kStops.end() ? kNone : found->second;
}

class CaptureTest : public testing::TestWithParam<std::string> {};

TEST_P(CaptureTest, EveryByteDecodesAndEncodesAgain) {
  const Capture capture = capture_of(GetParam());
  EXPECT_GT(capture.frames, 0u);
  EXPECT_EQ(capture.damaged_frames, 0u);
  const CaptureReading reading = read_all(capture);
  EXPECT_EQ(reading.stops, expected_stops(GetParam()));
  fmt::print("{}: {}\n", GetParam(), reading.totals.to_string());
}

INSTANTIATE_TEST_SUITE_P(All, CaptureTest, testing::ValuesIn(capture_names()),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name;
                         });

// The numbers are those of the listings that another program made of the same recordings. (They
// count the request of version 9 and the HELLO of version 7 in tcp-host-probes, and not the
// big-endian pair there: the sums agree.)
TEST(Captures, NothingIsOverlooked) {
  Totals totals;
  for (const std::string& name : capture_names()) totals.add(read_all(capture_of(name)).totals);
  EXPECT_EQ(totals.to_string(),
            "199 connections, 195 requests, 1 refusals, 381 HELLOs, 971 frames (35 NOOP, 119 ACK, "
            "536 PUT, 141 GET, 140 REPLY), 230 ping infos");
}

}  // namespace
}  // namespace ulnet
