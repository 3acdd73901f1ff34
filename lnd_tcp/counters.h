// What the TCP driver counts for each NI, by name; and why connections end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ulnet::tcp {

// Why a connection, or an attempt at one, ended. Each has a counter "closed_NAME" and a word in log
// lines.
enum class CloseReason : uint8_t {
  kNone,
  // Set-up, passive: connect request.
  kRefusedPort,    // source port above 1023 with accept=secure
  kTooManySetups,  // half-open set-ups from one source address
  kSetupTimeout,   // connect request or HELLO not complete in time
  kRequestMagic,
  kRequestHello,  // HELLO where a connect request belongs
  kRequestVersion,
  kRequestNid,         // malformed NID in the request
  kRequestUnknownNid,  // no NI of ours
  // Set-up: HELLO.
  kHelloBadMagic,
  kHelloVersion,
  kHelloNid,  // malformed, wildcard, of another net, or one that does not fit the address family
  kHelloIpList,
  kHelloPid,          // wildcard or user flag
  kHelloAddress,      // source NID differs from the TCP source address
  kHelloDestination,  // destination NID differs from that of the connect request
  kHelloType,
  kHelloIdentity,  // the answer's NID or pid is not what was dialled
  kRaceRefused,    // we refused: our own dial goes on and our NID is higher
  kDuplicateRefused,
  kStaleRefused,   // incarnation or version changed: all connections of the peer closed
  kRefusedByPeer,  // answer of type NONE
  // Frames.
  kFrameType,
  kFrameAck,  // zero-copy ACK that was never asked for
  kFrameKeepalive,
  kFrameChecksum,
  kFrameHeader,  // LNet header that does not decode
  kVerdict,      // LNet calls the message a protocol error
  kEndInFrame,   // end of stream in the middle of a frame
  // Environment.
  kEndOfStream,  // orderly
  kReset,        // a socket error
  kReceiveTimeout,
  kTransmitTimeout,
  kConnectFailed,
  kSibling,       // another connection of the peer failed
  kClosedByNode,  // close_peer
  kAddressGone,   // the NI lost its address
  kShutdown,
  kCount,
};
std::string_view to_string(CloseReason reason);

// True when the end blames somebody, so that siblings close and the peer may be reported down.
constexpr bool is_failure(CloseReason reason) {
  switch (reason) {
    case CloseReason::kNone:
    case CloseReason::kEndOfStream:
    case CloseReason::kStaleRefused:
    case CloseReason::kClosedByNode:
    case CloseReason::kAddressGone:
    case CloseReason::kShutdown:
      return false;
    default:
      return true;
  }
}

enum class Counter : uint8_t {
  kAccepted,            // TCP connections accepted
  kPassiveEstablished,  // ... that became connections of a peer
  kConnects,            // dials begun
  kActiveEstablished,
  kConnectFailures,
  kReconnectBackoffs,
  kRacesLost,         // type NONE received
  kRacesWon,          // type NONE sent because our dial goes on
  kStaleConnections,  // records forgotten because the peer restarted
  kFramesIn,
  kFramesOut,
  kBytesIn,
  kBytesOut,
  kReads,  // system calls
  kWrites,
  kZcAcksSent,
  kKeepalivesSent,
  kKeepalivesReceived,
  kChecksumErrors,
  kMessagesDropped,  // LNet wanted none of the payload
  kSendTimeouts,     // messages that never left in time
  kCount,
};
std::string_view to_string(Counter counter);

// Thread: any.
class Counters {
 public:
  void add(Counter counter, uint64_t n = 1) {
    counts_[static_cast<size_t>(counter)].fetch_add(n, std::memory_order_relaxed);
  }
  void add(CloseReason reason) {
    closes_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t get(Counter counter) const {
    return counts_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  uint64_t get(CloseReason reason) const {
    return closes_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Counter::kCount)> counts_ = {};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(CloseReason::kCount)> closes_ = {};
};

}  // namespace ulnet::tcp
