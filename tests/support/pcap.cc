#include "tests/support/pcap.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "lnet/base/bytes.h"

namespace ulnet::test {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kFileHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr uint32_t kMagicMicroseconds = 0xA1B2C3D4;
constexpr uint32_t kMagicNanoseconds = 0xA1B23C4D;
constexpr uint32_t kLinkTypeEthernet = 1;

constexpr size_t kEthernetBytes = 14;
constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
constexpr size_t kIpv4BytesMin = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr uint8_t kProtocolTcp = 6;
constexpr size_t kTcpBytesMin = 20;
constexpr uint8_t kTcpFin = 0x01;
constexpr uint8_t kTcpSyn = 0x02;
constexpr uint8_t kTcpReset = 0x04;
constexpr uint8_t kTcpAck = 0x10;

struct Segment {
  int64_t time_ns = 0;
  TcpAddress source;
  TcpAddress dest;
  uint32_t sequence = 0;
  uint8_t flags = 0;
  Bytes payload;

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

Result<std::vector<uint8_t>> read_file(const std::filesystem::path& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    const int code = errno != 0 ? errno : EIO;
    return fail(code, fmt::format("{}: cannot be opened", path.string()));
  }
  std::vector<uint8_t> bytes;
  std::array<uint8_t, 65536> piece;
  for (;;) {
    const int got = gzread(file.get(), piece.data(), piece.size());
    if (got < 0) return fail(EIO, fmt::format("{}: cannot be read", path.string()));
    if (got == 0) return bytes;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + got);
  }
}

std::string address_text(int family, const uint8_t* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

// REQUIRES: `segment` has its addresses. Fills the rest; false when it is cut short.
bool parse_tcp(Bytes tcp, Segment& segment) {
  if (tcp.size() < kTcpBytesMin) return false;
  const size_t header_bytes = size_t{tcp[12]} / 16 * 4;
  if (header_bytes < kTcpBytesMin || header_bytes > tcp.size()) return false;
  segment.source.port = load_be16(tcp.data());
  segment.dest.port = load_be16(tcp.data() + 2);
  segment.sequence = load_be32(tcp.data() + 4);
  segment.flags = tcp[13];
  segment.payload = tcp.subspan(header_bytes);
  return true;
}

enum class FrameKind : uint8_t { kTcp, kOther, kDamaged };

// Lengths come from the IP header: short frames carry Ethernet padding.
FrameKind parse_frame(Bytes frame, Segment& segment) {
  if (frame.size() < kEthernetBytes) return FrameKind::kOther;
  const uint16_t ether_type = load_be16(frame.data() + 12);
  const Bytes ip = frame.subspan(kEthernetBytes);
  Bytes tcp;
  if (ether_type == kEtherTypeIpv4 && ip.size() >= kIpv4BytesMin && ip[9] == kProtocolTcp) {
    const size_t header_bytes = size_t{ip[0]} % 16 * 4;
    const size_t total_bytes = load_be16(ip.data() + 2);
    if (total_bytes < header_bytes || total_bytes > ip.size()) return FrameKind::kDamaged;
    segment.source.address = address_text(AF_INET, ip.data() + 12);
    segment.dest.address = address_text(AF_INET, ip.data() + 16);
    tcp = ip.subspan(header_bytes, total_bytes - header_bytes);
  } else if (ether_type == kEtherTypeIpv6 && ip.size() >= kIpv6Bytes && ip[6] == kProtocolTcp) {
    const size_t payload_bytes = load_be16(ip.data() + 4);
    if (payload_bytes > ip.size() - kIpv6Bytes) return FrameKind::kDamaged;
    segment.source.address = address_text(AF_INET6, ip.data() + 8);
    segment.dest.address = address_text(AF_INET6, ip.data() + 24);
    tcp = ip.subspan(kIpv6Bytes, payload_bytes);
  } else {
    return FrameKind::kOther;
  }
  return parse_tcp(tcp, segment) ? FrameKind::kTcp : FrameKind::kDamaged;
}

// Puts one direction of a connection in order.
class StreamAssembler {
 public:
  // The sequence number of the first payload byte.
  void start(uint32_t sequence) {
    next_ = sequence;
    started_ = true;
  }
  bool started() const { return started_; }
  // Position in the stream, negative for what lies before the next byte expected.
  int32_t distance(uint32_t sequence) const { return static_cast<int32_t>(sequence - next_); }

  // Takes a segment's payload; gives the bytes that are new and in order now.
  std::vector<uint8_t> add(uint32_t sequence, Bytes payload) {
    if (!started_) start(sequence);
    // Keyed by position from the start, which does not wrap as sequence numbers do.
    const int64_t position = position_ + distance(sequence);
    auto& kept = waiting_[position];
    if (payload.size() > kept.size()) kept.assign(payload.begin(), payload.end());
    std::vector<uint8_t> ready;
    while (!waiting_.empty() && waiting_.begin()->first <= position_) {
      const auto& [begin, bytes] = *waiting_.begin();
      const int64_t end = begin + static_cast<int64_t>(bytes.size());
      if (end > position_) {
        ready.insert(ready.end(), bytes.begin() + (position_ - begin), bytes.end());
        next_ += static_cast<uint32_t>(end - position_);
        position_ = end;
      }
      waiting_.erase(waiting_.begin());
    }
    return ready;
  }

  uint64_t waiting_bytes() const {
    uint64_t sum = 0;
    for (const auto& [position, bytes] : waiting_) sum += bytes.size();
    return sum;
  }

 private:
  bool started_ = false;
  uint32_t next_ = 0;     // sequence number of the byte at position_
  int64_t position_ = 0;  // bytes given out so far
  std::map<int64_t, std::vector<uint8_t>> waiting_;
};

class Assembler {
 public:
  void add(const Segment& segment) {
    Live& live = find_or_open(segment);
    TcpConnection& connection = capture_.connections[live.index];
    const auto direction =
        segment.source == connection.opener ? Direction::kFromOpener : Direction::kToOpener;
    const auto side = static_cast<size_t>(direction);
    StreamAssembler& stream = live.streams[side];
    if (segment.has(kTcpSyn)) {
      if (direction == Direction::kToOpener) connection.answered = true;
      if (!stream.started()) stream.start(segment.sequence + 1);
    }
    if (!segment.payload.empty()) {
      auto bytes = stream.add(segment.sequence, segment.payload);
      if (!bytes.empty())
        connection.chunks.push_back({segment.time_ns, direction, std::move(bytes)});
    }
    note_end(segment, connection.streams[side]);
  }

  Capture finish() {
    for (const auto& [ends, live] : live_) close(live);
    return std::move(capture_);
  }
  Capture& capture() { return capture_; }

 private:
  struct Live {
    size_t index = 0;
    uint32_t initial_sequence = 0;  // of the opener's SYN
    std::array<StreamAssembler, 2> streams;
  };
  using Ends = std::pair<TcpAddress, TcpAddress>;  // the smaller one first

  Live& find_or_open(const Segment& segment) {
    const Ends ends = std::minmax(segment.source, segment.dest);
    const auto found = live_.find(ends);
    const bool opening = segment.has(kTcpSyn) && !segment.has(kTcpAck);
    if (found != live_.end()) {
      // A SYN with another number is a new connection on the same ports, a SYN with the same one a
      // repetition.
      if (!opening || found->second.initial_sequence == segment.sequence) return found->second;
      close(found->second);
      live_.erase(found);
    }
    TcpConnection connection;
    connection.opener = segment.source;
    connection.listener = segment.dest;
    connection.opened = opening;
    connection.open_time_ns = segment.time_ns;
    capture_.connections.push_back(std::move(connection));
    Live live;
    live.index = capture_.connections.size() - 1;
    live.initial_sequence = segment.sequence;
    return live_.emplace(ends, std::move(live)).first->second;
  }

  static void note_end(const Segment& segment, TcpStreamInfo& stream) {
    const bool reset = segment.has(kTcpReset);
    stream.reset |= reset;
    if (stream.end != StreamEnd::kOpen || !(reset || segment.has(kTcpFin))) return;
    stream.end = reset ? StreamEnd::kReset : StreamEnd::kFin;
    stream.end_time_ns = segment.time_ns;
  }

  void close(const Live& live) {
    for (size_t side = 0; side < 2; ++side) {
      capture_.connections[live.index].streams[side].lost_bytes =
          live.streams[side].waiting_bytes();
    }
  }

  Capture capture_;
  std::map<Ends, Live> live_;
};

}  // namespace

std::vector<uint8_t> TcpConnection::bytes(Direction direction) const {
  std::vector<uint8_t> all;
  for (const Chunk& chunk : chunks) {
    if (chunk.direction == direction) all.insert(all.end(), chunk.bytes.begin(), chunk.bytes.end());
  }
  return all;
}

Result<Capture> read_capture(const std::filesystem::path& path) {
  const auto file = read_file(path);
  if (!file) return tl::unexpected(file.error());
  const Bytes bytes(*file);
  const auto bad = [&](std::string_view why) {
    return fail(EPROTO, fmt::format("{}: {}", path.string(), why));
  };
  if (bytes.size() < kFileHeaderBytes) return bad("shorter than a pcap header");
  const uint32_t magic = load_le32(bytes.data());
  const bool flipped =
      magic == byte_swap(kMagicMicroseconds) || magic == byte_swap(kMagicNanoseconds);
  const auto u32 = [&](size_t offset) {
    return flipped ? load_be32(&bytes[offset]) : load_le32(&bytes[offset]);
  };
  const bool nanoseconds = u32(0) == kMagicNanoseconds;
  if (u32(0) != kMagicMicroseconds && !nanoseconds) return bad("not a pcap file");
  if (u32(20) != kLinkTypeEthernet) return bad("not of Ethernet frames");

  Assembler assembler;
  std::optional<int64_t> first_ns;
  for (size_t at = kFileHeaderBytes; at < bytes.size();) {
    if (bytes.size() - at < kRecordHeaderBytes) return bad("record header cut short");
    const int64_t time_ns =
        int64_t{u32(at)} * 1'000'000'000 + int64_t{u32(at + 4)} * (nanoseconds ? 1 : 1000);
    const size_t captured_bytes = u32(at + 8);
    at += kRecordHeaderBytes;
    if (bytes.size() - at < captured_bytes) return bad("record cut short");
    if (!first_ns) first_ns = time_ns;
    Segment segment;
    segment.time_ns = time_ns - *first_ns;
    ++assembler.capture().frames;
    switch (parse_frame(bytes.subspan(at, captured_bytes), segment)) {
      case FrameKind::kTcp:
        assembler.add(segment);
        break;
      case FrameKind::kOther:
        ++assembler.capture().other_frames;
        break;
      case FrameKind::kDamaged:
        ++assembler.capture().damaged_frames;
        break;
    }
    at += captured_bytes;
  }
  return assembler.finish();
}

}  // namespace ulnet::test
