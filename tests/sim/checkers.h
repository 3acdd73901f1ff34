// What must hold for a node whatever happens: credits are conserved; and for a cluster at rest:
// nothing is left.
#pragma once

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

}  // namespace ulnet::sim
