#include "lnet/core/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace ulnet::core {
namespace {

bool covers(const Nid& pattern, const Nid& nid) {
  if (pattern.is_any() || pattern == nid) return true;
  const bool whole_net = pattern.size == 0 && pattern.address32() == UINT32_MAX;
  return whole_net && pattern.net() == nid.net();
}

uint32_t bit_of(MessageType type) {
  return 1U << static_cast<uint32_t>(type);
}

std::optional<uint32_t> portal_of(const Header& header) {
  if (const auto* put = std::get_if<PutPart>(&header.part)) return put->portal;
  if (const auto* get = std::get_if<GetPart>(&header.part)) return get->portal;
  return std::nullopt;
}

// `local_nid`: nullptr where it is not known.
bool fits(const FaultRule& rule, const Header& header, const Nid* local_nid) {
  if (!covers(rule.source, header.source_nid) || !covers(rule.dest, header.dest_nid)) return false;
  if (!rule.local_nid.is_any() && (local_nid == nullptr || !covers(rule.local_nid, *local_nid)))
    return false;
  if (rule.messages != 0 && (rule.messages & bit_of(header.type())) == 0) return false;
  if (rule.portals == 0) return true;
  const std::optional<uint32_t> portal = portal_of(header);
  return portal && *portal < kPortals && (rule.portals >> *portal & 1) != 0;
}

void count(FaultInfo& info, MessageType type) {
  ++info.acted;
  switch (type) {
    case MessageType::kPut:
      ++info.put;
      break;
    case MessageType::kAck:
      ++info.ack;
      break;
    case MessageType::kGet:
      ++info.get;
      break;
    case MessageType::kReply:
      ++info.reply;
      break;
    case MessageType::kHello:
      break;
  }
}

}  // namespace

// ---------------------------------------------------------------- which of them

void FaultSchedule::begin(const FaultRule& rule, Rng& rng, Time now) {
  place_ = 0;
  if (rule.rate != 0) {
    hit_place_ = rule.rate == 2 ? 0 : static_cast<uint32_t>(rng.below(rule.rate));
  } else {
    hit_from_ = now + std::chrono::seconds(rng.below(rule.interval_s));
    window_end_ = now + std::chrono::seconds(rule.interval_s);
  }
}

bool FaultSchedule::hit(const FaultRule& rule, Rng& rng, Time now) {
  return rule.rate != 0 ? hit_by_rate(rule.rate, rng) : hit_by_interval(rule.interval_s, rng, now);
}

bool FaultSchedule::hit_by_rate(uint32_t rate, Rng& rng) {
  const bool hit = place_ == hit_place_;
  if (++place_ == rate) {
    place_ = 0;
    hit_place_ = static_cast<uint32_t>(rng.below(rate));
  }
  return hit;
}

bool FaultSchedule::hit_by_interval(uint32_t interval_s, Rng& rng, Time now) {
  if (now < hit_from_) return false;
  const Duration interval = std::chrono::seconds(interval_s);
  // The window behind the one that `now` is in: in each there is one hit at most.
  Time begin = window_end_;
  if (now >= begin) begin += ((now - begin) / interval + 1) * interval;
  hit_from_ = begin + std::chrono::seconds(rng.below(interval_s));
  window_end_ = begin + interval;
  return true;
}

HealthStatus draw_health_status(uint32_t mask, Rng& rng) {
  if (mask == 0) return static_cast<HealthStatus>(rng.between(1, kFaultHealthMax));
  const int draw = static_cast<int>(std::max<uint64_t>(1, rng.below(kFaultHealthMax + 1)));
  int best = 0;
  for (int number = kFaultHealthMax; number >= 1; --number) {
    if ((mask >> number & 1) == 0) continue;
    if (best == 0 || std::abs(number - draw) < std::abs(best - draw)) best = number;
  }
  return static_cast<HealthStatus>(best);
}

// ---------------------------------------------------------------- by hand

Status FaultRules::add(const FaultRule& rule, Time now) {
  if (Status status = validate_fault(rule); !status.is_ok()) return status;
  std::vector<FaultRuleId>& rules = rules_of(rule.kind);
  if (rules.size() >= kFaultRulesMax)
    return {ENOSPC,
            fmt::format("there are {} {} rules already", rules.size(), to_string(rule.kind))};
  const FaultRuleId id = rules_.insert();
  Rule& added = rules_.at(id);
  added.info.rule = rule;
  // Only PUT and GET name a portal.
  if (rule.portals != 0) {
    const uint32_t requests = kFaultPut | kFaultGet;
    added.info.rule.messages = rule.messages != 0 ? rule.messages & requests : requests;
  }
  added.schedule.begin(rule, rng_, now);
  added.due.id = id;
  added.due.kind = TimerKind::kDelayRule;
  rules.insert(rules.begin(), id);
  return Status::ok();
}

size_t FaultRules::remove(FaultKind kind, const Nid& source, const Nid& dest) {
  return std::erase_if(rules_of(kind), [&](FaultRuleId id) {
    Rule& rule = rules_.at(id);
    if (!source.is_any() && source != rule.info.rule.source) return false;
    if (!dest.is_any() && dest != rule.info.rule.dest) return false;
    for (const Held& held : rule.held) released_.push_back(held.message);
    timers_.cancel(rule.due);
    rules_.erase(id);
    return true;
  });
}

void FaultRules::reset(FaultKind kind, Time now) {
  for (const FaultRuleId id : rules_of(kind)) {
    Rule& rule = rules_.at(id);
    rule.info = FaultInfo{.rule = rule.info.rule};
    rule.schedule.begin(rule.info.rule, rng_, now);
  }
}

std::vector<FaultInfo> FaultRules::list(FaultKind kind) const {
  std::vector<FaultInfo> infos;
  for (const FaultRuleId id : kind == FaultKind::kDrop ? drops_ : delays_)
    infos.push_back(rules_.at(id).info);
  return infos;
}

// ---------------------------------------------------------------- drops

bool FaultRules::drops_received(const Header& header, const Nid& local_nid, Time now) {
  for (const FaultRuleId id : drops_) {
    Rule& rule = rules_.at(id);
    const FaultRule& what = rule.info.rule;
    if (what.health_errors != 0 && !what.drop_all) continue;
    if (fits(what, header, &local_nid) && acts_on(rule, header, now)) return true;
  }
  return false;
}

std::optional<HealthStatus> FaultRules::drops_sent(const Header& header, Time now) {
  for (const FaultRuleId id : drops_) {
    Rule& rule = rules_.at(id);
    const FaultRule& what = rule.info.rule;
    if (what.health_errors == 0 && !what.drop_all) continue;
    if (fits(what, header, nullptr) && acts_on(rule, header, now))
      return draw_health_status(what.health_errors, rng_);
  }
  return std::nullopt;
}

bool FaultRules::acts_on(Rule& rule, const Header& header, Time now) {
  const FaultRule& what = rule.info.rule;
  bool hit = what.drop_all;
  if (!hit && what.random) {
    hit = what.interval_s == 1 || rng_.chance(1, 2);
  } else if (!hit) {
    ++rule.info.examined;
    hit = rule.schedule.hit(what, rng_, now);
  }
  if (hit) count(rule.info, header.type());
  return hit;
}

// ---------------------------------------------------------------- delays

FaultRuleId FaultRules::find_delay(const Header& header, Time now) {
  for (const FaultRuleId id : delays_) {
    Rule& rule = rules_.at(id);
    if (fits(rule.info.rule, header, nullptr) && acts_on(rule, header, now)) return id;
  }
  return 0;
}

void FaultRules::hold(FaultRuleId id, Delayed message, Time now) {
  Rule& rule = rules_.at(id);
  rule.held.push_back({message, now + std::chrono::seconds(rule.info.rule.latency_s)});
  arm(rule);
}

void FaultRules::arm(Rule& rule) {
  if (rule.held.empty()) {
    timers_.cancel(rule.due);
  } else {
    timers_.set(rule.due, rule.held.front().until);
  }
}

void FaultRules::rule_due(FaultRuleId id, Time now) {
  Rule& rule = rules_.at(id);
  while (!rule.held.empty() && rule.held.front().until <= now) {
    released_.push_back(rule.held.front().message);
    rule.held.pop_front();
  }
  arm(rule);
}

std::optional<Delayed> FaultRules::pop_released() {
  if (released_.empty()) return std::nullopt;
  const Delayed message = released_.front();
  released_.pop_front();
  return message;
}

void FaultRules::forget(Delayed message) {
  std::erase(released_, message);
  for (const FaultRuleId id : delays_) {
    Rule& rule = rules_.at(id);
    if (std::erase_if(rule.held, [&](const Held& held) { return held.message == message; }) > 0)
      arm(rule);
  }
}

}  // namespace ulnet::core
