// The rules a HELLO must meet, as pure functions: what the passive side accepts, and what an answer
// means.
//
// Source: spec tcp-lnd 2.8, 2.14, 10.2 (the stricter column).
#pragma once

#include "lnd_tcp/counters.h"
#include "lnd_tcp/wire.h"
#include "ulnet/types.h"

namespace ulnet::tcp {

inline constexpr uint32_t kHelloVersionIpv4 = 3;
inline constexpr uint32_t kHelloVersionIpv6 = 4;
constexpr uint32_t hello_version(bool ipv6) {
  return ipv6 ? kHelloVersionIpv6 : kHelloVersionIpv4;
}

struct PassiveContext {
  Nid ni;                       // the NI that the connect request named
  Nid source_address;           // the TCP source address, as a NID on the NI's net
  bool privileged_port = true;  // TCP source port up to 1023
  bool accept_foreign_address = false;
};

// kNone when the HELLO is good. With kHelloVersion the peer gets unknown_version_answer(), else
// nothing.
CloseReason judge_passive_hello(const Hello& hello, const PassiveContext& context);

// True when the HELLO comes from where its NID says, so that it may meet our own dial (race rule).
bool comes_from_its_nid(const Hello& hello, const PassiveContext& context);

// Type `type` of the same version, to whoever sent `hello`.
Hello make_answer(const Hello& hello, const Nid& own, uint64_t own_incarnation, ConnType type);
// What is told to a HELLO of a version we do not speak.
Hello make_unknown_version_answer(const Nid& own, uint64_t own_incarnation);

struct Dialled {
  Nid nid;
  Pid pid = kPidLustre;
  uint32_t version = kHelloVersionIpv4;
  ConnType type = ConnType::kControl;
};
// kNone when the connection stands, kRefusedByPeer when the answer is NONE, else a protocol error.
CloseReason judge_answer(const Hello& answer, const Dialled& dialled);

}  // namespace ulnet::tcp
