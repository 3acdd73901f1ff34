// What must hold for a node whatever happens: credits are conserved; and for a cluster at rest:
// nothing is left.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/sim/application.h"

namespace ulnet::sim {

// Each NI and each peer NI: free credits and messages that hold one make up the limit. The driver's
// own count of what it holds is the witness, not the core's.
void check_credits(Cluster& cluster, Node& node, Violations& violations);

// No message in the core or the driver, all credits back.
void check_at_rest(Cluster& cluster, Node& node, Violations& violations);

// No message on its way in any core.
bool at_rest(Cluster& cluster);

// Every own NI, and every peer NI something was heard from, is at full health. An empty string, or
// which one is not.
std::string sick_ni(Node& node);

// The node knows the peer as one multi-rail node with exactly the NIDs that it has.
void check_known(Cluster& cluster, Node& node, const Node& peer, Violations& violations);

// How many GETs have left by each own NI and to each peer NI of full health. (One that nothing was
// ever heard from is not pinged, so once it has failed it stays behind its equals.)
struct RailUse {
  std::map<Nid, uint64_t> own;
  std::map<Nid, uint64_t> peers;
  uint64_t replies = 0;  // by all own NIs
};
RailUse rail_use(Node& node);
// On each net that `node` and `peer` share, GETs one after another since `before` have gone by all
// of the node's NIs in turn, and to all of the peer's. A REPLY that it sent meanwhile took a turn.
// REQUIRES: the node knows the peer as multi-rail, all were well before, and the GETs are at least
// twice as many as turns.
void check_rail_use(Cluster& cluster, Node& node, const Node& peer, const RailUse& before,
                    Violations& violations);

}  // namespace ulnet::sim
