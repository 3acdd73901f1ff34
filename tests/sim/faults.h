// Random faults. Each seed leaves some kinds out and has others often, so that rare combinations
// get their turn ("swarm testing"); each fault is repaired after a while, all of them by heal().
#pragma once

#include <array>

#include "lnet/base/rng.h"
#include "tests/sim/application.h"

namespace ulnet::sim {

enum class FaultKind : uint8_t {
  kBlackhole,  // one direction between two NIDs
  kPartition,  // a node and all others
  kCut,        // a NIC, silently
  kLinkDown,   // a NIC, and the node sees it
  kRefuse,
  kHide,
  kReset,
  kNiGone,  // a NI is removed from its running node, and added again
  kStall,
  kKill,
  kPowerLoss,
  kRestart,  // as after kill and power loss, now and then with fewer NIs, or in another order
  kClockStep,
  kDropRule,  // the node's own fault injection
  kDelayRule,
};
inline constexpr size_t kFaultKinds = 15;

class Faults {
 public:
  Faults(Cluster& cluster, Applications& applications, uint64_t seed);

  // From now on until `end`.
  void begin(Time end);
  // Repairs everything and starts whoever is down.
  void heal();
  uint64_t count() const { return count_; }

 private:
  void step();
  void inject(FaultKind kind);
  void break_path(FaultKind kind);
  void break_node(FaultKind kind);
  void add_rule(FaultKind kind);
  FaultRule any_rule(ulnet::FaultKind kind);
  static void remove_rules(Node& node, Time now);
  void partition(Node& node, bool on);
  void restart_later(Node& node, Duration downtime);
  std::vector<Nid> some_of(std::vector<Nid> nids);
  Node& any_node();
  Nid any_nid();
  Duration repair_time();

  Cluster& cluster_;
  Applications& applications_;
  Rng rng_;
  std::array<uint32_t, kFaultKinds> weights_ = {};
  uint64_t weight_ = 0;
  uint64_t interval_ms_ = 0;
  uint64_t repair_ms_max_ = 0;
  Time end_ = Time::min();
  uint64_t count_ = 0;
};

}  // namespace ulnet::sim
