#include "lnd_tcp/handshake.h"

namespace ulnet::tcp {
namespace {

constexpr uint32_t kTypeNone = static_cast<uint32_t>(ConnType::kNone);
constexpr uint32_t kTypeMax = static_cast<uint32_t>(ConnType::kBulkOut);

}  // namespace

bool comes_from_its_nid(const Hello& hello, const PassiveContext& context) {
  return hello.source_nid == context.source_address;
}

CloseReason judge_passive_hello(const Hello& hello, const PassiveContext& context) {
  const bool ipv6 = context.source_address.is_ipv6();
  if (hello.version != kHelloVersionIpv4 && hello.version != kHelloVersionIpv6) {
    return CloseReason::kHelloVersion;
  }
  const Nid& source = hello.source_nid;
  if (source.is_any() || source.net() != context.ni.net()) return CloseReason::kHelloNid;
  // A large NID fits neither version 3 nor an IPv4 socket.
  if (ipv6 && hello.version == kHelloVersionIpv4) return CloseReason::kHelloNid;
  if (!ipv6 && source.is_ipv6()) return CloseReason::kHelloNid;
  if (hello.dest_nid != context.ni) return CloseReason::kHelloDestination;
  if (hello.source_pid == kPidAny || (hello.source_pid & kPidUserFlag) != 0) {
    return CloseReason::kHelloPid;
  }
  if (hello.type > kTypeMax) return CloseReason::kHelloType;
  if (comes_from_its_nid(hello, context) || context.accept_foreign_address)
    return CloseReason::kNone;
  // A kernel node with both families dials an IPv6 NID under its IPv4 NID (spec 2.1). The
  // privileged port is all that vouches for it, as for every kernel peer.
  if (ipv6 && !source.is_ipv6() && context.privileged_port) return CloseReason::kNone;
  return CloseReason::kHelloAddress;
}

Hello make_answer(const Hello& hello, const Nid& own, uint64_t own_incarnation, ConnType type) {
  Hello answer;
  answer.version = hello.version;
  answer.source_nid = own;
  answer.dest_nid = hello.source_nid;
  answer.source_pid = kPidLustre;
  answer.dest_pid = hello.dest_pid;  // echoes, as a kernel does
  answer.dest_incarnation = hello.dest_incarnation;
  answer.source_incarnation = own_incarnation;
  answer.type = static_cast<uint32_t>(type);
  return answer;
}

Hello make_unknown_version_answer(const Nid& own, uint64_t own_incarnation) {
  Hello answer;
  answer.version = hello_version(own.is_ipv6());
  answer.source_nid = own;
  answer.dest_nid = own;
  answer.source_pid = kPidLustre;
  answer.source_incarnation = own_incarnation;
  answer.type = kTypeNone;
  return answer;
}

CloseReason judge_answer(const Hello& answer, const Dialled& dialled) {
  if (answer.source_nid.is_any()) return CloseReason::kHelloNid;
  if (answer.source_nid != dialled.nid || answer.source_pid != dialled.pid) {
    return CloseReason::kHelloIdentity;
  }
  // We speak one version per address family, so there is nothing to fall back to.
  if (answer.version != dialled.version) return CloseReason::kHelloVersion;
  if (answer.type == kTypeNone) return CloseReason::kRefusedByPeer;
  if (answer.type > kTypeMax || mirror(static_cast<ConnType>(answer.type)) != dialled.type) {
    return CloseReason::kHelloType;
  }
  return CloseReason::kNone;
}

}  // namespace ulnet::tcp
