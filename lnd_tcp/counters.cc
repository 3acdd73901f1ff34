#include "lnd_tcp/counters.h"

namespace ulnet::tcp {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(CloseReason::kCount)> kReasonNames = {
    "none",
    "refused_port",
    "too_many_setups",
    "setup_timeout",
    "request_magic",
    "request_hello",
    "request_version",
    "request_nid",
    "request_unknown_nid",
    "hello_magic",
    "hello_version",
    "hello_nid",
    "hello_ip_list",
    "hello_pid",
    "hello_address",
    "hello_destination",
    "hello_type",
    "hello_identity",
    "race_refused",
    "duplicate_refused",
    "stale_refused",
    "refused_by_peer",
    "frame_type",
    "frame_zc_ack",
    "frame_keepalive",
    "frame_checksum",
    "frame_header",
    "frame_verdict",
    "end_in_frame",
    "end_of_stream",
    "reset",
    "receive_timeout",
    "transmit_timeout",
    "connect_failed",
    "sibling_failed",
    "closed_by_node",
    "address_gone",
    "shutdown"};
static_assert(kReasonNames.back() == "shutdown");

constexpr std::array<std::string_view, static_cast<size_t>(Counter::kCount)> kCounterNames = {
    "accepted",
    "passive_established",
    "connects",
    "active_established",
    "connect_failures",
    "reconnect_backoffs",
    "races_lost",
    "races_won",
    "stale_connections",
    "frames_in",
    "frames_out",
    "bytes_in",
    "bytes_out",
    "reads",
    "writes",
    "zc_acks_sent",
    "keepalives_sent",
    "keepalives_received",
    "checksum_errors",
    "messages_dropped",
    "send_timeouts"};
static_assert(kCounterNames.back() == "send_timeouts");

}  // namespace

std::string_view to_string(CloseReason reason) {
  return kReasonNames[static_cast<size_t>(reason)];
}
std::string_view to_string(Counter counter) {
  return kCounterNames[static_cast<size_t>(counter)];
}

}  // namespace ulnet::tcp
