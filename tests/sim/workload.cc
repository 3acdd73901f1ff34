#include "tests/sim/workload.h"

namespace ulnet::sim {
namespace {

// Portals: two for PUTs (the second is lazy now and then), one for GETs.
constexpr uint32_t kPutPortal = 1;
constexpr uint32_t kLazyPortal = 2;
constexpr uint32_t kGetPortal = 3;
constexpr uint64_t kMatchBits = 4;  // GET targets have match bits 0..3
constexpr uint32_t kGetTargetBytes = 8192;
// Nobody has it.
constexpr uint32_t kUnknownAddress = 0x0AFF00FF;

}  // namespace

Workload::Workload(Cluster& cluster, Applications& applications, uint64_t seed)
    : cluster_(cluster), applications_(applications), rng_(seed) {
  constexpr uint32_t kSizes[] = {64, 2048, 16384, 262144};
  size_max_ = kSizes[rng_.below(std::size(kSizes))];
}

void Workload::begin(uint32_t operations, Duration interval) {
  left_ = operations;
  interval_ = interval;
  step();
}

void Workload::step() {
  if (left_ == 0) return;
  const auto pause = rng_.below(2 * static_cast<uint64_t>(interval_.count()) + 1);
  cluster_.queue().in(Duration(pause), [this] {
    const uint64_t burst = rng_.chance(1, 8) ? rng_.below(12) : 1;
    for (uint64_t i = 0; i < burst && left_ > 0; ++i, --left_) {
      Node& node = cluster_.node(rng_.below(cluster_.size()));
      if (node.responsive()) act(node);
    }
    step();
  });
}

void Workload::act(Node& node) {
  switch (rng_.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return put(node);
    case 4:
    case 5:
      return get(node);
    case 6:
    case 7:
      return attach_put_target(node);
    case 8:
      return attach_get_target(node);
    case 9:
      return applications_.ping(node, target_for(node), std::chrono::seconds(rng_.between(1, 5)));
    case 10:
      return toggle_lazy(node);
    default:
      applications_.unlink(node, rng_.next());
      return;
  }
}

void Workload::put(Node& node) {
  Applications::PutOptions put;
  put.target = target_for(node);
  put.portal = rng_.chance(1, 3) ? kLazyPortal : kPutPortal;
  put.match_bits = rng_.below(kMatchBits);
  put.bytes = any_size();
  put.fragments = static_cast<uint32_t>(rng_.between(1, 4));
  put.ack = rng_.chance(2, 3);
  if (rng_.chance(1, 4)) put.timeout = std::chrono::milliseconds(rng_.between(10, 9000));
  applications_.put(node, put);
}

void Workload::get(Node& node) {
  Applications::GetOptions get;
  get.target = target_for(node);
  get.portal = kGetPortal;
  get.match_bits = rng_.below(kMatchBits);
  get.bytes = static_cast<uint32_t>(rng_.below(kGetTargetBytes));
  get.offset = static_cast<uint32_t>(rng_.below(kGetTargetBytes));
  if (rng_.chance(1, 4)) get.timeout = std::chrono::milliseconds(rng_.between(10, 9000));
  applications_.get(node, get);
}

void Workload::attach_put_target(Node& node) {
  Applications::TargetOptions target;
  target.portal = rng_.chance(1, 2) ? kLazyPortal : kPutPortal;
  target.match_bits = rng_.below(kMatchBits);
  target.ignore_bits = rng_.chance(1, 2) ? ~uint64_t{0} : 0;
  target.bytes = any_size();
  target.options = kMdPut;
  if (rng_.chance(1, 2)) target.options |= kMdTruncate;
  if (rng_.chance(1, 8)) target.options |= kMdAckDisable;
  if (rng_.chance(1, 3)) {
    target.options |= kMdMaxSize;
    target.max_size = target.bytes / 4;
  }
  target.threshold =
      rng_.chance(1, 3) ? kThresholdInfinite : static_cast<int32_t>(rng_.between(1, 6));
  applications_.attach(node, target);
}

void Workload::attach_get_target(Node& node) {
  Applications::TargetOptions target;
  target.portal = kGetPortal;
  target.match_bits = rng_.below(kMatchBits);
  target.bytes = kGetTargetBytes;
  target.options = kMdGet | kMdManageRemote;
  if (rng_.chance(3, 4)) target.options |= kMdTruncate;
  target.threshold = static_cast<int32_t>(rng_.between(1, 12));
  applications_.attach(node, target);
}

void Workload::toggle_lazy(Node& node) {
  (void)node.core().set_lazy(cluster_.now(), kLazyPortal, rng_.chance(2, 3));
  node.settle();
}

void Workload::wind_up() {
  for (size_t i = 0; i < cluster_.size(); ++i) {
    Node& node = cluster_.node(i);
    if (!node.running()) continue;
    (void)node.core().set_lazy(cluster_.now(), kLazyPortal, false);
    node.settle();
    applications_.unlink_targets(node);
  }
}

// Mostly somebody who can be reached; itself now and then; seldom somebody on a net the node does
// not have, or nobody.
Nid Workload::target_for(const Node& node) {
  const std::vector<Nid> own = node.nids();
  if (rng_.chance(1, 40)) return Nid::from_ipv4(own.front().net(), kUnknownAddress);
  if (rng_.chance(1, 40)) return Nid::lo();
  const std::vector<Nid> nids = cluster_.node(rng_.below(cluster_.size())).nids();
  return nids[rng_.below(nids.size())];
}

// Small sizes and edges are as likely as large ones.
uint32_t Workload::any_size() {
  const uint32_t max = rng_.chance(1, 2) ? size_max_ : 64;
  return static_cast<uint32_t>(rng_.below(max + 1));
}

}  // namespace ulnet::sim
