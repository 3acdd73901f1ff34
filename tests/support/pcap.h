// Reads a packet capture and gives the TCP connections in it: both byte streams put together again,
// with times.
//
// Understands classic pcap (not pcapng), plain or gzipped, of either byte order and of microseconds
// or nanoseconds; Ethernet, IPv4 and IPv6, TCP. Everything else in the capture is counted and left
// out.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ulnet/result.h"

namespace ulnet::test {

// Which way bytes went. The opener is the side that sent the SYN; without a SYN in the capture, the
// side seen first.
enum class Direction : uint8_t { kFromOpener = 0, kToOpener = 1 };

// How one side ended its stream.
enum class StreamEnd : uint8_t { kOpen, kFin, kReset };

struct TcpAddress {
  std::string address;  // "10.77.0.1", "fd77::1"
  uint16_t port = 0;
  friend auto operator<=>(const TcpAddress&, const TcpAddress&) = default;
};

// New bytes of one stream. Retransmitted bytes do not come again; what came out of order comes when
// its gap closes.
struct Chunk {
  int64_t time_ns = 0;  // of the segment that brought it or closed the gap; since the first frame
  Direction direction = Direction::kFromOpener;
  std::vector<uint8_t> bytes;  // never empty
};

struct TcpStreamInfo {
  StreamEnd end = StreamEnd::kOpen;  // the first of FIN and RST that this side sent
  int64_t end_time_ns = 0;
  bool reset = false;       // it sent an RST, perhaps after its FIN
  uint64_t lost_bytes = 0;  // came behind a gap that never closed
};

struct TcpConnection {
  TcpAddress opener;
  TcpAddress listener;
  bool opened = false;                   // the SYN is in the capture
  bool answered = false;                 // the SYN's answer is, too
  int64_t open_time_ns = 0;              // of the first segment
  std::vector<Chunk> chunks;             // both directions, in the order of the capture
  std::array<TcpStreamInfo, 2> streams;  // by Direction of the sender

  const TcpStreamInfo& stream(Direction direction) const {
    return streams[static_cast<size_t>(direction)];
  }
  // All bytes of one direction, in order.
  std::vector<uint8_t> bytes(Direction direction) const;
};

struct Capture {
  std::vector<TcpConnection> connections;  // in the order of their first segments
  uint64_t frames = 0;
  uint64_t other_frames = 0;    // not TCP
  uint64_t damaged_frames = 0;  // TCP, but shorter than their headers say
};

// Errors: ENOENT or another errno of the file; EPROTO: not a pcap of Ethernet frames, or a record
// is cut short.
Result<Capture> read_capture(const std::filesystem::path& path);

}  // namespace ulnet::test
