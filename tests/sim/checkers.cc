#include "tests/sim/checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ulnet::sim {
namespace {

constexpr int32_t kHealthFull = 1000;

// Those of `nids` on `net` have all sent, and none more than `spread` messages more than another.
void check_share(Cluster& cluster, const Node& node, const std::vector<Nid>& nids, NetId net,
                 const std::map<Nid, uint64_t>& before, const std::map<Nid, uint64_t>& after,
                 uint64_t spread, Violations& violations) {
  uint64_t most = 0;
  uint64_t least = UINT64_MAX;
  Nid idle;
  for (const Nid& nid : nids) {
    const auto began = before.find(nid);
    if (nid.net() != net || began == before.end()) continue;
    const auto now = after.find(nid);
    const uint64_t sent = now != after.end() ? now->second - began->second : 0;
    most = std::max(most, sent);
    if (sent < least) {
      least = sent;
      idle = nid;
    }
  }
  if (least <= most && most - least > spread) {
    violations.add(cluster.now(),
                   fmt::format("{}: all rails are well, but {} carried {} messages and another {}",
                               node.spec().name, idle.to_string(), least, most));
  }
}

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
  // Nor can what is on its way to a NID be explained when its node came back without it.
  for (size_t i = 0; i < cluster.size(); ++i) all_known = all_known && !cluster.node(i).nids_vary();
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

std::string sick_ni(Node& node) {
  for (const NetInfo& net : node.core().nets()) {
    if (net.net == NetId::lo()) continue;
    for (const NiInfo& ni : net.nis) {
      if (ni.health < kHealthFull)
        return fmt::format("{}: NI {} has health {}", node.spec().name, ni.nid.to_string(),
                           ni.health);
    }
  }
  for (const PeerInfo& peer : node.core().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      if (ni.health < kHealthFull && ni.stats.received.total() > 0)
        return fmt::format("{}: peer NI {} has health {}", node.spec().name, ni.nid.to_string(),
                           ni.health);
    }
  }
  return {};
}

void check_known(Cluster& cluster, Node& node, const Node& peer, Violations& violations) {
  std::vector<Nid> wanted = peer.nids();
  std::sort(wanted.begin(), wanted.end());
  for (const PeerInfo& info : node.core().peers()) {
    std::vector<Nid> known;
    for (const PeerNiInfo& ni : info.nis) known.push_back(ni.nid);
    std::sort(known.begin(), known.end());
    if (info.multi_rail && known == wanted) return;
  }
  violations.add(cluster.now(), fmt::format("{} does not know {} as a node with all its NIDs",
                                            node.spec().name, peer.spec().name));
}

RailUse rail_use(Node& node) {
  RailUse use;
  for (const NetInfo& net : node.core().nets()) {
    for (const NiInfo& ni : net.nis) {
      use.replies += ni.stats.sent.reply;
      if (ni.health == kHealthFull) use.own[ni.nid] = ni.stats.sent.get;
    }
  }
  for (const PeerInfo& peer : node.core().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      if (ni.health == kHealthFull) use.peers[ni.nid] = ni.stats.sent.get;
    }
  }
  return use;
}

void check_rail_use(Cluster& cluster, Node& node, const Node& peer, const RailUse& before,
                    Violations& violations) {
  const RailUse after = rail_use(node);
  // An answer takes its NI's turn, which another gets: one less here and one more there.
  const uint64_t spread = 1 + 2 * (after.replies - before.replies);
  const std::vector<Nid> own = node.nids();
  const std::vector<Nid> remote = peer.nids();
  std::set<NetId> nets;
  for (const Nid& nid : own) nets.insert(nid.net());
  for (const NetId net : nets) {
    const bool reachable = std::any_of(remote.begin(), remote.end(), [&](const Nid& other) {
      return other.net() == net && before.peers.contains(other);
    });
    if (!reachable) continue;
    check_share(cluster, node, own, net, before.own, after.own, spread, violations);
    check_share(cluster, node, remote, net, before.peers, after.peers, spread, violations);
  }
}

}  // namespace ulnet::sim
