// Counters of the core: messages, failures, and one for each reason of a drop.
// Source: spec lnet-core 10.3, 14.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lnet/lnd.h"
#include "ulnet/info.h"

namespace ulnet::core {

enum class DropReason : uint8_t {
  kSourceWildcard,  // no usable source NID
  kSourceLoopback,  // 0@lo as source on a real NI
  kSourceIsOwn,     // our own NID as source, from another node
  kPeerLimit,       // no room for another peer that only traffic creates
  kNotRouting,      // for another node, and we do not forward
  kPortalOutOfRange,
  kReservedPortal,     // portal 0 without the reserved match bits
  kNoMatch,            // no match entry takes it
  kTooLong,            // matched, but does not fit and may not be truncated
  kBadOffset,          // remote offset beyond the MD
  kParkedPortalLimit,  // a lazy portal holds as many as it may
  kParkedPeerLimit,    // ... for this peer
  kParkedTooLong,      // a loopback message outlived its bound on a lazy portal
  kLazyCleared,        // waited on a portal that is not lazy any more
  kOtherIncarnation,   // response to an earlier life of this node
  kUnknownMd,          // response for an MD that is gone
  kMdNotWaiting,       // response for an MD that is exhausted or attached to an ME
  kWrongResponse,      // ACK of what was no PUT, REPLY to what was no GET
  kReplyTooLong,
  kFaultRule,    // a drop rule said so
  kDelayedGone,  // its connection died while a delay rule held it
  kShutdown,
  kExpiredBeforeSend,  // its deadline passed while it waited for credits
};
inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kExpiredBeforeSend) + 1;
std::string_view to_string(DropReason reason);

// By HealthStatus, of failed attempts.
using HealthCounts = std::array<uint64_t, 11>;
using FailureCounts = std::array<uint64_t, kFailureKinds>;

uint64_t& count_of(TypeCounts& counts, MessageType type);
std::vector<CounterInfo> named(const FailureCounts& counts);
std::vector<CounterInfo> named(const std::array<uint64_t, kDropReasons>& counts);

// Node-wide.
struct CoreStats {
  uint64_t msgs_max = 0;
  uint64_t send_count = 0, recv_count = 0, drop_count = 0, response_timeout_count = 0;
  uint64_t send_length = 0, recv_length = 0, drop_length = 0;
  uint64_t pushes_received = 0;
  uint64_t resend_count = 0, failed_resends = 0, successful_resends = 0;
  uint64_t recovery_pings = 0;
  HealthCounts health = {};
  std::array<uint64_t, kDropReasons> drops = {};
};

}  // namespace ulnet::core
