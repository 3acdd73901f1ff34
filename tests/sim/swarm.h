// One seed, one run: a random cluster with random traffic and random faults, then peace, in which
// everything must come to rest and every node must reach every other.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/rpc_clients.h"

namespace ulnet::sim {

struct RunResult {
  uint64_t hash = 0;
  uint64_t entries = 0;  // of the trace
  uint64_t operations = 0;
  uint64_t events = 0;
  uint64_t delivered = 0;
  uint64_t lost = 0;
  uint64_t faults = 0;
  NodeTotals totals;                  // of all nodes
  std::vector<RpcSecond> rpc_series;  // of a scenario with RPC clients
  Duration virtual_time{};
  std::vector<std::string> violations;
};

struct SwarmOptions {
  uint64_t seed = 1;
  std::FILE* trace_out = nullptr;
  // These plant a bug, below the core and above it.
  Node::Decorate decorate;
  Cluster::DecorateListener decorate_listener;
};

RunResult run_swarm(const SwarmOptions& options);

// A cluster of `nodes` nodes with `rails` NIs each on one net, each with a PUT every ten seconds to
// a neighbour, for `duration` of virtual time.
RunResult run_scale(uint32_t nodes, uint32_t rails, Duration duration);

// Resident memory of this process now, in MiB; 0 where the system does not tell.
uint64_t resident_mib();

}  // namespace ulnet::sim
