// The words of fault rules, and what a rule may say. Source: spec lnet-core 10.1.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string>

#include "ulnet/fault.h"

namespace ulnet {
namespace {

constexpr std::array<std::string_view, kFaultHealthMax + 1> kHealthNames = {"ok",
                                                                            "local_interrupt",
                                                                            "local_dropped",
                                                                            "local_aborted",
                                                                            "local_no_route",
                                                                            "local_error",
                                                                            "local_timeout",
                                                                            "remote_error",
                                                                            "remote_dropped",
                                                                            "remote_timeout",
                                                                            "network_timeout"};
constexpr std::string_view kAnyHealthName = "random";
// By type number on the wire.
constexpr std::array<std::string_view, 4> kMessageNames = {"ACK", "PUT", "GET", "REPLY"};

constexpr uint32_t kAllMessages = kFaultAck | kFaultPut | kFaultGet | kFaultReply;
constexpr uint32_t kHealthBits = ((1U << (kFaultHealthMax + 1)) - 1) & ~1U;

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

Status invalid(std::string text) {
  return {EINVAL, std::move(text)};
}

Status check_number(std::string_view name, uint32_t value) {
  if (value <= kFaultNumberMax) return Status::ok();
  return invalid(fmt::format("{} {} is above {}", name, value, kFaultNumberMax));
}

Status check_kind(const FaultRule& rule) {
  if (rule.kind == FaultKind::kDrop) {
    if (rule.latency_s != 0) return invalid("a drop rule has no latency");
    if (rule.random && rule.interval_s == 0) return invalid("random needs an interval");
    if (rule.health_errors != kFaultAnyHealth && (rule.health_errors & ~kHealthBits) != 0)
      return invalid(fmt::format("health errors {:#x}: only bits 1 to {} stand for one",
                                 rule.health_errors, kFaultHealthMax));
    return Status::ok();
  }
  if (rule.latency_s == 0) return invalid("a delay rule needs a latency of at least 1 second");
  if (rule.random || rule.drop_all || rule.health_errors != 0)
    return invalid("random, drop_all and health errors belong to drop rules");
  return Status::ok();
}

}  // namespace

Status check(const FaultRule& rule) {
  if ((rule.rate != 0) == (rule.interval_s != 0)) {
    return invalid(fmt::format("rate {} and interval {}: exactly one of them must be above 0",
                               rule.rate, rule.interval_s));
  }
  for (const auto& [name, value] : {std::pair<std::string_view, uint32_t>{"rate", rule.rate},
                                    {"interval", rule.interval_s},
                                    {"latency", rule.latency_s}}) {
    if (Status status = check_number(name, value); !status.is_ok()) return status;
  }
  if ((rule.messages & ~kAllMessages) != 0)
    return invalid(
        fmt::format("message types {:#x}: there are only {:#x}", rule.messages, kAllMessages));
  if (rule.portals != 0 && rule.messages != 0 && (rule.messages & (kFaultPut | kFaultGet)) == 0)
    return invalid("a rule for portals must be for PUT or GET: no other message names one");
  return check_kind(rule);
}

// ---------------------------------------------------------------- words

std::string_view to_string(FaultKind kind) {
  return kind == FaultKind::kDrop ? "drop" : "delay";
}

std::string_view health_status_name(size_t number) {
  return kHealthNames[number];
}

Result<Nid> parse_fault_nid(std::string_view text) {
  if (text == "*") return Nid::any();
  if (const Result<NetId> net = NetId::parse(text); net) return Nid::from_ipv4(*net, UINT32_MAX);
  const Result<Nid> nid = Nid::parse(text);
  if (nid) return nid;
  return fail(EINVAL, fmt::format("{}; a net or '*' would do, too", nid.error().text()));
}

Result<uint32_t> parse_fault_message(std::string_view word) {
  for (size_t i = 0; i < kMessageNames.size(); ++i) {
    if (same_word(word, kMessageNames[i])) return 1U << i;
  }
  return fail(EINVAL, fmt::format("'{}' is no message; there are {}", word,
                                  fmt::join(kMessageNames, ", ")));
}

Result<uint32_t> parse_fault_health(std::string_view word) {
  if (same_word(word, kAnyHealthName)) return kFaultAnyHealth;
  for (size_t i = 1; i < kHealthNames.size(); ++i) {
    if (same_word(word, kHealthNames[i])) return 1U << i;
  }
  return fail(EINVAL, fmt::format("'{}' is no health error; there are {} and {}", word,
                                  fmt::join(kHealthNames.begin() + 1, kHealthNames.end(), ", "),
                                  kAnyHealthName));
}

}  // namespace ulnet
