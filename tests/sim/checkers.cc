#include "tests/sim/checkers.h"

#include <fmt/format.h>

namespace ulnet::sim {
namespace {

// Messages that wait for an NI credit or are delayed, and so hold a peer credit that the driver
// knows nothing of.
int64_t check_ni_credits(Cluster& cluster, Node& node, Violations& violations) {
  int64_t waiting = 0;
  for (const NetInfo& net : node.core().nets()) {
    if (net.net == NetId::lo()) continue;
    for (const NiInfo& ni : net.nis) {
      const int64_t in_driver = cluster.network().in_driver(ni.nid);
      const int64_t sum = ni.tx_credits + in_driver + ni.waiting + ni.delayed;
      waiting += ni.waiting + ni.delayed;
      if (sum != ni.tunables.credits) {
        violations.add(
            cluster.now(),
            fmt::format("{}: NI {}: {} of {} credits free, {} in the driver, {} waiting, "
                        "{} delayed",
                        node.spec().name, ni.nid.to_string(), ni.tx_credits, ni.tunables.credits,
                        in_driver, ni.waiting, ni.delayed));
      }
    }
  }
  return waiting;
}

}  // namespace

void check_credits(Cluster& cluster, Node& node, Violations& violations) {
  if (!node.running()) return;
  int64_t unexplained = check_ni_credits(cluster, node, violations);
  const std::vector<Nid> nids = node.nids();
  bool all_known = !node.has_lost_nis();
  for (const PeerInfo& peer : node.core().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      // A node that takes a NID back is a new peer NI to us; what a driver has for the old one,
      // which has the same name, counts no more.
      const Node* owner = cluster.owner(ni.nid);
      all_known = all_known && owner != nullptr && !owner->has_lost_nis();
      int64_t in_driver = 0;
      for (const Nid& own : nids) in_driver += cluster.network().in_driver(own, ni.nid);
      const int64_t held = ni.max_ni_tx_credits - ni.available_tx_credits - ni.waiting;
      unexplained -= held - in_driver;
      if (held < in_driver && all_known) {
        violations.add(cluster.now(),
                       fmt::format("{}: peer NI {}: {} credits taken, but {} in the driver",
                                   node.spec().name, ni.nid.to_string(), held, in_driver));
      }
    }
  }
  if (unexplained != 0 && all_known) {
    violations.add(cluster.now(), fmt::format("{}: {} peer credits belong to no message",
                                              node.spec().name, -unexplained));
  }
}

bool at_rest(Cluster& cluster) {
  for (size_t i = 0; i < cluster.size(); ++i) {
    Node& node = cluster.node(i);
    if (!node.running()) continue;
    if (node.core().sends_in_progress() > 0 || node.core().receives_in_progress() > 0) return false;
  }
  return true;
}

void check_at_rest(Cluster& cluster, Node& node, Violations& violations) {
  if (!node.running()) return;
  check_credits(cluster, node, violations);
  const auto wrong = [&](const std::string& what) {
    violations.add(cluster.now(), node.spec().name + ": at rest, but " + what);
  };
  if (const size_t count = node.core().sends_in_progress(); count > 0)
    wrong(fmt::format("{} sends in progress", count));
  if (const size_t count = node.core().receives_in_progress(); count > 0)
    wrong(fmt::format("{} receives in progress", count));
  for (const NetInfo& net : node.core().nets()) {
    for (const NiInfo& ni : net.nis) {
      if (net.net != NetId::lo() && ni.tx_credits != ni.tunables.credits)
        wrong(fmt::format("NI {} has {} of {} credits", ni.nid.to_string(), ni.tx_credits,
                          ni.tunables.credits));
    }
  }
  for (const PeerInfo& peer : node.core().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      if (ni.available_tx_credits != ni.max_ni_tx_credits || ni.tx_q_bytes != 0)
        wrong(fmt::format("peer NI {} has {} of {} credits and {} queued bytes", ni.nid.to_string(),
                          ni.available_tx_credits, ni.max_ni_tx_credits, ni.tx_q_bytes));
    }
  }
}

}  // namespace ulnet::sim
