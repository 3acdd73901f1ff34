// Random traffic between all nodes: PUTs with and without ACK, GETs and pings; MDs that come, are
// unlinked at any moment, run full or out of threshold; portals that become lazy and stop being so.
#pragma once

#include "lnet/base/rng.h"
#include "tests/sim/application.h"

namespace ulnet::sim {

class Workload {
 public:
  Workload(Cluster& cluster, Applications& applications, uint64_t seed);

  // `operations` steps from now on, `interval` apart on average.
  void begin(uint32_t operations, Duration interval);
  bool done() const { return left_ == 0; }
  // Lazy portals off, targets gone: what waited for memory may end.
  void wind_up();

 private:
  void step();
  void act(Node& node);
  void put(Node& node);
  void get(Node& node);
  void attach_put_target(Node& node);
  void attach_get_target(Node& node);
  void toggle_lazy(Node& node);
  Nid target_for(const Node& node);
  uint32_t any_size();

  Cluster& cluster_;
  Applications& applications_;
  Rng rng_;
  uint32_t left_ = 0;
  Duration interval_{};
  uint32_t size_max_ = 0;
};

}  // namespace ulnet::sim
