#include "tests/sim/faults.h"

#include <cerrno>

#include "lnet/base/assert.h"

namespace ulnet::sim {

Faults::Faults(Cluster& cluster, Applications& applications, uint64_t seed)
    : cluster_(cluster), applications_(applications), rng_(seed) {
  for (uint32_t& weight : weights_) {
    weight = rng_.chance(1, 2) ? 0 : static_cast<uint32_t>(rng_.between(1, 5));
    weight_ += weight;
  }
  interval_ms_ = static_cast<uint64_t>(rng_.between(200, 8000));
  repair_ms_max_ = static_cast<uint64_t>(rng_.between(100, 25000));
}

void Faults::begin(Time end) {
  end_ = end;
  if (weight_ > 0) step();
}

void Faults::step() {
  cluster_.queue().in(std::chrono::milliseconds(1 + rng_.below(2 * interval_ms_)), [this] {
    if (cluster_.now() >= end_) return;
    uint64_t draw = rng_.below(weight_);
    size_t kind = 0;
    while (draw >= weights_[kind]) draw -= weights_[kind++];
    ++count_;
    cluster_.trace().note(cluster_.now(), "fault", {{"kind", kind}});
    inject(static_cast<FaultKind>(kind));
    step();
  });
}

void Faults::inject(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBlackhole:
    case FaultKind::kCut:
    case FaultKind::kLinkDown:
    case FaultKind::kRefuse:
    case FaultKind::kHide:
    case FaultKind::kReset:
    case FaultKind::kNiGone:
      return break_path(kind);
    case FaultKind::kPartition:
    case FaultKind::kStall:
    case FaultKind::kKill:
    case FaultKind::kPowerLoss:
    case FaultKind::kRestart:
    case FaultKind::kClockStep:
      return break_node(kind);
    case FaultKind::kDropRule:
    case FaultKind::kDelayRule:
      return add_rule(kind);
  }
}

void Faults::break_path(FaultKind kind) {
  Network& network = cluster_.network();
  const Nid nid = any_nid();
  const Nid other = any_nid();
  const auto toggle = [this, kind, nid, other, &network](bool on) {
    switch (kind) {
      case FaultKind::kBlackhole:
        return network.blackhole(nid, other, on);
      case FaultKind::kLinkDown:
        network.cut(nid, on);
        return cluster_.owner(nid)->set_fatal(nid, on);
      case FaultKind::kNiGone:
        return on ? cluster_.owner(nid)->remove_ni(nid) : cluster_.owner(nid)->add_ni(nid);
      case FaultKind::kCut:
        return network.cut(nid, on);
      case FaultKind::kRefuse:
        return network.refuse(nid, on);
      case FaultKind::kHide:
        return network.hide(nid, on);
      default:
        return;
    }
  };
  if (kind == FaultKind::kReset) return network.reset(nid, other);
  toggle(true);
  cluster_.queue().in(repair_time(), [toggle] { toggle(false); });
}

void Faults::break_node(FaultKind kind) {
  Node& node = any_node();
  switch (kind) {
    case FaultKind::kPartition:
      partition(node, true);
      cluster_.queue().in(repair_time(), [this, &node] { partition(node, false); });
      return;
    case FaultKind::kClockStep:
      return node.step_clock(std::chrono::seconds(rng_.between(-1'000'000, 1'000'000)));
    case FaultKind::kStall:
      if (node.running()) node.stall(cluster_.now() + repair_time());
      return;
    case FaultKind::kRestart:
      if (!node.responsive()) return;
      applications_.stop(node);
      return restart_later(node, Duration::zero());
    default:
      if (!node.running()) return;
      applications_.crash(node, kind == FaultKind::kKill ? Farewell::kKill : Farewell::kPowerLoss);
      return restart_later(node, repair_time());
  }
}

void Faults::add_rule(FaultKind kind) {
  Node& node = any_node();
  if (!node.responsive()) return;
  const FaultRule rule =
      any_rule(kind == FaultKind::kDropRule ? ulnet::FaultKind::kDrop : ulnet::FaultKind::kDelay);
  const Status added = node.core().add_fault(cluster_.now(), rule);
  ULNET_ASSERT(added.is_ok() || added.code() == ENOSPC, "a random fault rule");
  node.settle();
  cluster_.queue().in(repair_time(), [this, &node] {
    if (node.responsive()) remove_rules(node, cluster_.now());
  });
}

FaultRule Faults::any_rule(ulnet::FaultKind kind) {
  FaultRule rule;
  rule.kind = kind;
  if (rng_.chance(1, 2)) rule.source = any_nid();
  if (rng_.chance(1, 2)) rule.dest = any_nid();
  if (rng_.chance(1, 4)) rule.messages = static_cast<uint32_t>(rng_.between(1, 15));
  if (rng_.chance(1, 2)) {
    rule.rate = static_cast<uint32_t>(rng_.between(1, 5));
  } else {
    rule.interval_s = static_cast<uint32_t>(rng_.between(1, 5));
  }
  if (kind == ulnet::FaultKind::kDelay) {
    rule.latency_s = static_cast<uint32_t>(rng_.between(1, 10));
    return rule;
  }
  if (rng_.chance(1, 2))
    rule.health_errors = rng_.chance(1, 2) ? kFaultAnyHealth : 1U << rng_.between(1, 10);
  rule.random = rule.interval_s != 0 && rng_.chance(1, 2);
  rule.drop_all = rng_.chance(1, 8);
  return rule;
}

void Faults::remove_rules(Node& node, Time now) {
  for (const auto kind : {ulnet::FaultKind::kDrop, ulnet::FaultKind::kDelay})
    node.core().del_faults(now, kind, Nid::any(), Nid::any());
  node.settle();
}

void Faults::partition(Node& node, bool on) {
  for (const Nid& nid : node.nids()) cluster_.network().cut(nid, on);
}

void Faults::restart_later(Node& node, Duration downtime) {
  std::vector<Nid> nids;
  if (rng_.chance(1, 3)) nids = some_of(node.all_nids());
  cluster_.queue().in(downtime, [&node, nids] {
    if (node.running()) return;
    if (!nids.empty()) node.set_nids(nids);
    node.start();
  });
}

// One or more, in any order.
std::vector<Nid> Faults::some_of(std::vector<Nid> nids) {
  for (size_t i = nids.size(); i > 1; --i) std::swap(nids[i - 1], nids[rng_.below(i)]);
  nids.resize(1 + rng_.below(nids.size()));
  return nids;
}

void Faults::heal() {
  end_ = cluster_.now();
  cluster_.network().heal();
  for (size_t i = 0; i < cluster_.size(); ++i) {
    Node& node = cluster_.node(i);
    if (node.nids() != node.all_nids()) {
      if (node.running()) applications_.stop(node);
      node.set_nids(node.all_nids());
    }
    if (!node.running()) node.start();
    remove_rules(node, cluster_.now());
    for (const Nid& nid : node.nids()) {
      node.add_ni(nid);
      node.set_fatal(nid, false);
    }
  }
}

Node& Faults::any_node() {
  return cluster_.node(rng_.below(cluster_.size()));
}

Nid Faults::any_nid() {
  const std::vector<Nid> nids = any_node().nids();
  return nids[rng_.below(nids.size())];
}

Duration Faults::repair_time() {
  return std::chrono::milliseconds(1 + rng_.below(repair_ms_max_));
}

}  // namespace ulnet::sim
