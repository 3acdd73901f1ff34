// One scenario file, read and run. Internal to scenario*.cc: scenario.cc reads and runs,
// scenario_deeds.cc knows what can be done, scenario_expectations.cc what can be expected.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/rpc_clients.h"
#include "tests/sim/scenario_fields.h"
#include "tests/sim/swarm.h"

namespace ulnet::sim {

class Scenario {
 public:
  // Reads everything; what is wrong goes to `errors`, and then run() must not be called. `path` is
  // for messages only.
  Scenario(const config::YamlNode& file, const std::string& path, Errors& errors, uint64_t seed,
           std::FILE* trace_out);

  RunResult run();

 private:
  // What a step does when its time has come.
  using Deed = std::function<void()>;
  using Maker = Deed (Scenario::*)(Fields&);
  struct Step {
    Duration at{};
    Deed deed;
  };
  // Bounds of a figure, both included.
  struct Range {
    int64_t min = 0;
    int64_t max = 0;
  };

  // ---- reading
  void read_nets(const config::YamlNode* nets);
  void read_nodes(const config::YamlNode* nodes, const config::YamlNode* global);
  void read_node(const config::YamlEntry& entry, const GlobalSettings& global);
  void add_group(const std::string& name, const NodeSpec& spec, int64_t count);
  void introduce(Fields& fields, NodeSpec& spec);
  void read_settings(Fields& fields, NodeSpec& spec);
  void read_steps(const config::YamlNode* steps);
  static Maker deed_maker(const std::string& verb);
  static Maker expectation_maker(const std::string& verb);

  // A node or all nodes of a group, by name.
  std::vector<Node*> nodes(Fields& fields, const std::string& key = "node");
  Node* node(Fields& fields, const std::string& key = "node");
  // A NID, known or not; or the first NID of each node of this name.
  std::vector<Nid> targets(Fields& fields, const std::string& key);
  // A NID that a node has, or all NIDs of the nodes of this name.
  std::vector<Nid> known_nids(Fields& fields, const std::string& key);
  Nid known_nid(Fields& fields, const std::string& key);
  // `count`, or `min` and `max`, one of which may be missing.
  Range range(Fields& fields);

  // ---- what can be done
  Deed put(Fields& fields);
  Deed get(Fields& fields);
  Deed ping(Fields& fields);
  Deed attach(Fields& fields);
  Deed lazy(Fields& fields);
  Deed unlink_targets(Fields& fields);
  Deed reset_statistics(Fields& fields);
  Deed rpc_clients(Fields& fields);
  Deed start(Fields& fields);
  Deed stop(Fields& fields);
  Deed kill(Fields& fields) { return crash(fields, Farewell::kKill); }
  Deed power_loss(Fields& fields) { return crash(fields, Farewell::kPowerLoss); }
  Deed crash(Fields& fields, Farewell how);
  Deed stall(Fields& fields);
  Deed clock_step(Fields& fields);
  Deed blackhole(Fields& fields);
  Deed loss(Fields& fields);
  Deed cut(Fields& fields) { return break_nids(fields, &Network::cut); }
  Deed refuse(Fields& fields) { return break_nids(fields, &Network::refuse); }
  Deed hide(Fields& fields) { return break_nids(fields, &Network::hide); }
  Deed break_nids(Fields& fields, void (Network::*how)(const Nid&, bool));
  Deed ni_down(Fields& fields);
  Deed link_down(Fields& fields);
  Deed remove_ni(Fields& fields);
  Deed reset(Fields& fields);
  Deed heal(Fields& fields);
  Deed drop_rule(Fields& fields) { return add_rule(fields, FaultKind::kDrop); }
  Deed delay_rule(Fields& fields) { return add_rule(fields, FaultKind::kDelay); }
  Deed add_rule(Fields& fields, FaultKind kind);
  Deed remove_rules(Fields& fields);
  // Turns a switch on now and, when the file says for how long, off again; as often as it says.
  Deed for_a_while(Fields& fields, std::function<void(bool)> toggle);

  // ---- what can be expected
  Deed expect_outcome(Fields& fields);
  Deed expect_ended(Fields& fields);
  Deed expect_credits(Fields& fields);
  Deed expect_peer_credits(Fields& fields);
  Deed expect_drops(Fields& fields);
  Deed expect_statistic(Fields& fields);
  Deed expect_health(Fields& fields);
  Deed expect_sent(Fields& fields);
  Deed expect_pings(Fields& fields);
  Deed expect_recovering(Fields& fields);
  Deed expect_nids(Fields& fields);
  Deed expect_rate(Fields& fields);
  Deed expect_rest(Fields& fields);
  Deed expect_rules(Fields& fields);
  void expect(int line, const std::string& what, int64_t wanted, int64_t found);
  void expect(int line, const std::string& what, Range wanted, int64_t found);

  const std::string path_;
  Errors& errors_;
  Violations violations_;
  Cluster cluster_;
  std::map<std::string, std::vector<size_t>> by_name_;  // a node, or a group
  std::vector<NodeSpec> specs_;                         // until all are read
  std::optional<Applications> applications_;
  std::optional<RpcClients> rpc_;
  std::vector<Step> steps_;
};

}  // namespace ulnet::sim
