// Fault injection: rules that drop or delay some of a node's messages, for tests.
//
// A drop rule without health errors acts on messages that come in: they vanish, the connection
// stays. One with health errors acts on messages that go out: they fail as if the fabric had. A
// delay rule holds messages of both directions for a while.
//
// Source: spec lnet-core 10.1; names as lnetctl's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet {

enum class FaultKind : uint8_t { kDrop, kDelay };

// Bits of FaultRule::messages: 1 << type number on the wire.
inline constexpr uint32_t kFaultAck = 1U << 0;
inline constexpr uint32_t kFaultPut = 1U << 1;
inline constexpr uint32_t kFaultGet = 1U << 2;
inline constexpr uint32_t kFaultReply = 1U << 3;

// FaultRule::health_errors: bit n is health status n (spec lnet-core 7.2), 1..10; or all of them.
inline constexpr uint32_t kFaultHealthMax = 10;
inline constexpr uint32_t kFaultAnyHealth = UINT32_MAX;

inline constexpr uint32_t kFaultNumberMax = INT32_MAX;  // of rate, interval and latency
inline constexpr size_t kFaultRulesMax = 256;           // of each kind

struct FaultRule {
  FaultKind kind = FaultKind::kDrop;

  // ---- which messages. NIDs are those of the header, end to end; a wildcard takes any, the
  // address 255.255.255.255 any of its net.
  Nid source;
  Nid dest;
  Nid local_nid;          // that it came in by; other than a wildcard it never fits a message that
                          // goes out, nor any message of a delay rule
  uint64_t portals = 0;   // bit n: portal n; 0: any. Otherwise only PUT and GET are meant
  uint32_t messages = 0;  // kFault* bits; 0: any

  // ---- how many of them: exactly one of the two is not 0.
  uint32_t rate = 0;        // one of so many, at a random place among them
  uint32_t interval_s = 0;  // one in so many seconds, the first behind a random second of them

  // ---- of a drop rule.
  uint32_t health_errors = 0;
  bool random = false;    // with an interval: each with probability 1/2 (interval 1: each)
  bool drop_all = false;  // each, in both directions, whatever rate, interval and health_errors say

  // ---- of a delay rule.
  uint32_t latency_s = 0;  // how long it holds each

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

// A rule at work.
struct FaultInfo {
  FaultRule rule;
  uint64_t examined = 0;  // messages that fit; not counted with random or drop_all
  uint64_t put = 0, ack = 0, get = 0, reply = 0;  // of those acted on
  uint64_t acted = 0;                             // dropped or delayed, in all
};

// Errors: EINVAL that names the field and what would be right.
Status validate_fault(const FaultRule& rule);

// ---------------------------------------------------------------- words

std::string_view to_string(FaultKind kind);
// "local_dropped" for 2; "ok" for 0. REQUIRES: number <= kFaultHealthMax.
std::string_view health_status_name(size_t number);

// "10.0.0.1@tcp", "tcp1" (every address of that net) or "*". Errors: EINVAL that quotes the text.
Result<Nid> parse_fault_nid(std::string_view text);

// A rule in words, as options of ulnetctl and keys of a configuration file: "source", "dest",
// "rate", "interval", "portal", "message", "local_nid"; of a drop rule also "health_error",
// "random", "drop_all"; of a delay rule "latency".
std::span<const std::string_view> fault_fields(FaultKind kind);
// Sets one field of `rule`; another word for "portal", "message" or "health_error" is added to
// those before. Errors: EINVAL that names the field, quotes the word and says what would be right.
Status set_fault_field(FaultRule& rule, std::string_view field, std::string_view word);

struct FaultWords {
  std::string_view field;
  std::vector<std::string> words;  // one, except for the fields that take several
  bool is_list = false;
};
// The fields of `rule` that say something, in the order of fault_fields().
std::vector<FaultWords> fault_words(const FaultRule& rule);

}  // namespace ulnet
