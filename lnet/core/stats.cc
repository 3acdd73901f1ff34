#include "lnet/core/stats.h"

#include "lnet/base/assert.h"
#include "ulnet/fault.h"

namespace ulnet {

std::string_view to_string(HealthStatus status) {
  return health_status_name(static_cast<size_t>(status));
}

std::string_view to_string(FailureKind kind) {
  static constexpr std::array<std::string_view, kFailureKinds> kNames = {
      "none",          "local_ni_down", "local_ni_up",   "local_ni_send_timeout", "no_listener",
      "address_error", "unreachable",   "connect_error", "connection_rejected"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace ulnet

namespace ulnet::core {

std::string_view to_string(DropReason reason) {
  static constexpr std::array<std::string_view, kDropReasons> kNames = {"source_wildcard",
                                                                        "source_loopback",
                                                                        "source_is_own",
                                                                        "peer_limit",
                                                                        "not_routing",
                                                                        "portal_out_of_range",
                                                                        "reserved_portal",
                                                                        "no_match",
                                                                        "too_long",
                                                                        "bad_offset",
                                                                        "parked_portal_limit",
                                                                        "parked_peer_limit",
                                                                        "parked_too_long",
                                                                        "lazy_cleared",
                                                                        "other_incarnation",
                                                                        "unknown_md",
                                                                        "md_not_waiting",
                                                                        "wrong_response",
                                                                        "reply_too_long",
                                                                        "fault_rule",
                                                                        "delayed_gone",
                                                                        "shutdown",
                                                                        "expired_before_send"};
  return kNames[static_cast<size_t>(reason)];
}

uint64_t& count_of(TypeCounts& counts, MessageType type) {
  switch (type) {
    case MessageType::kAck:
      return counts.ack;
    case MessageType::kPut:
      return counts.put;
    case MessageType::kGet:
      return counts.get;
    case MessageType::kReply:
      return counts.reply;
    case MessageType::kHello:
      break;
  }
  return counts.hello;
}

std::vector<CounterInfo> named(const FailureCounts& counts) {
  std::vector<CounterInfo> list;
  for (size_t i = 1; i < counts.size(); ++i) {
    list.push_back({std::string(to_string(static_cast<FailureKind>(i))), counts[i]});
  }
  return list;
}

std::vector<CounterInfo> named(const std::array<uint64_t, kDropReasons>& counts) {
  std::vector<CounterInfo> list;
  for (size_t i = 0; i < counts.size(); ++i) {
    list.push_back({std::string(to_string(static_cast<DropReason>(i))), counts[i]});
  }
  return list;
}

}  // namespace ulnet::core
