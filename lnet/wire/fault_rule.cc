// The words of fault rules, and what a rule may say. Source: spec lnet-core 10.1.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>

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

// ---------------------------------------------------------------- single fields

Status not_one(std::string_view field, std::string_view wanted, std::string_view word) {
  return invalid(fmt::format("'{}' must be {}, not '{}'", field, wanted, word));
}

// Decimal, or hexadecimal behind 0x.
bool parse_number(std::string_view word, uint32_t max, uint32_t* value) {
  const bool hexadecimal = word.size() > 2 && (word.starts_with("0x") || word.starts_with("0X"));
  if (hexadecimal) word.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), *value, hexadecimal ? 16 : 10);
  return error == std::errc() && end == word.data() + word.size() && *value <= max;
}

Status set_nid(std::string_view field, std::string_view word, Nid* nid) {
  const Result<Nid> parsed = parse_fault_nid(word);
  if (!parsed) return invalid(fmt::format("'{}': {}", field, parsed.error().text()));
  *nid = *parsed;
  return Status::ok();
}

Status set_number(std::string_view field, std::string_view word, uint32_t* number) {
  uint32_t value = 0;
  if (!parse_number(word, kFaultNumberMax, &value) || value == 0)
    return not_one(field, fmt::format("a number from 1 to {}", kFaultNumberMax), word);
  *number = value;
  return Status::ok();
}

Status set_flag(std::string_view field, std::string_view word, bool* flag) {
  const bool on = same_word(word, "true") || word == "1";
  if (!on && !same_word(word, "false") && word != "0") return not_one(field, "true or false", word);
  *flag = on;
  return Status::ok();
}

Status add_portal(std::string_view field, std::string_view word, uint64_t* portals) {
  uint32_t portal = 0;
  if (!parse_number(word, kPortals - 1, &portal))
    return not_one(field, fmt::format("a number from 0 to {}", kPortals - 1), word);
  *portals |= uint64_t{1} << portal;
  return Status::ok();
}

Status add_message(std::string_view field, std::string_view word, uint32_t* messages) {
  for (size_t i = 0; i < kMessageNames.size(); ++i) {
    if (!same_word(word, kMessageNames[i])) continue;
    *messages |= 1U << i;
    return Status::ok();
  }
  return not_one(field, fmt::format("one of {}", fmt::join(kMessageNames, ", ")), word);
}

Status add_health(std::string_view field, std::string_view word, uint32_t* errors) {
  if (same_word(word, kAnyHealthName)) {
    *errors = kFaultAnyHealth;
    return Status::ok();
  }
  for (size_t i = 1; i < kHealthNames.size(); ++i) {
    if (!same_word(word, kHealthNames[i])) continue;
    *errors |= 1U << i;
    return Status::ok();
  }
  return not_one(
      field,
      fmt::format("one of {}, {}", fmt::join(kHealthNames.begin() + 1, kHealthNames.end(), ", "),
                  kAnyHealthName),
      word);
}

std::string word_of(const Nid& nid) {
  if (nid.is_any()) return "*";
  const bool whole_net = nid.size == 0 && nid.address32() == UINT32_MAX;
  return whole_net ? nid.net().to_string() : nid.to_string();
}

std::vector<std::string> names_of(uint32_t bits, std::span<const std::string_view> names) {
  std::vector<std::string> words;
  for (size_t i = 0; i < names.size(); ++i) {
    if ((bits >> i & 1) != 0) words.emplace_back(names[i]);
  }
  return words;
}

}  // namespace

Status validate_fault(const FaultRule& rule) {
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

// ---------------------------------------------------------------- fields

std::span<const std::string_view> fault_fields(FaultKind kind) {
  static constexpr std::array<std::string_view, 10> kDrop = {
      "source",  "dest",      "rate",         "interval", "portal",
      "message", "local_nid", "health_error", "random",   "drop_all"};
  static constexpr std::array<std::string_view, 8> kDelay = {
      "source", "dest", "rate", "interval", "portal", "message", "local_nid", "latency"};
  if (kind == FaultKind::kDrop) return kDrop;
  return kDelay;
}

Status set_fault_field(FaultRule& rule, std::string_view field, std::string_view word) {
  const auto known = fault_fields(rule.kind);
  if (std::find(known.begin(), known.end(), field) == known.end())
    return invalid(fmt::format("a {} rule has no '{}'", to_string(rule.kind), field));
  if (field == "source") return set_nid(field, word, &rule.source);
  if (field == "dest") return set_nid(field, word, &rule.dest);
  if (field == "local_nid") return set_nid(field, word, &rule.local_nid);
  if (field == "rate") return set_number(field, word, &rule.rate);
  if (field == "interval") return set_number(field, word, &rule.interval_s);
  if (field == "latency") return set_number(field, word, &rule.latency_s);
  if (field == "random") return set_flag(field, word, &rule.random);
  if (field == "drop_all") return set_flag(field, word, &rule.drop_all);
  if (field == "message") return add_message(field, word, &rule.messages);
  if (field == "health_error") return add_health(field, word, &rule.health_errors);
  return add_portal(field, word, &rule.portals);
}

std::vector<FaultWords> fault_words(const FaultRule& rule) {
  std::vector<FaultWords> all;
  const auto number = [&all](std::string_view field, uint32_t value) {
    if (value != 0) all.push_back({field, {std::to_string(value)}});
  };
  const auto list = [&all](std::string_view field, std::vector<std::string> words) {
    if (!words.empty()) all.push_back({field, std::move(words), true});
  };
  all.push_back({"source", {word_of(rule.source)}});
  all.push_back({"dest", {word_of(rule.dest)}});
  number("rate", rule.rate);
  number("interval", rule.interval_s);
  std::vector<std::string> portals;
  for (int portal = 0; portal < 64; ++portal) {
    if ((rule.portals >> portal & 1) != 0) portals.push_back(std::to_string(portal));
  }
  list("portal", std::move(portals));
  list("message", names_of(rule.messages, kMessageNames));
  if (!rule.local_nid.is_any()) all.push_back({"local_nid", {word_of(rule.local_nid)}});
  list("health_error", rule.health_errors == kFaultAnyHealth
                           ? std::vector<std::string>{std::string(kAnyHealthName)}
                           : names_of(rule.health_errors, kHealthNames));
  if (rule.random) all.push_back({"random", {"true"}});
  if (rule.drop_all) all.push_back({"drop_all", {"true"}});
  number("latency", rule.latency_s);
  return all;
}

}  // namespace ulnet
