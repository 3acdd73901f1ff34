// Scenarios: a cluster, and what happens in it when, as a YAML file that a person can read. Its
// format is described in tests/sim/scenarios/README.md.
#pragma once

#include <cstdio>
#include <string>

#include "tests/sim/swarm.h"
#include "ulnet/result.h"

namespace ulnet::sim {

// Runs a file. Errors: all that is wrong with the file itself, with "FILE:LINE: "; an expectation
// that does not hold is a violation, with its line.
Result<RunResult> run_scenario(const std::string& path, std::FILE* trace_out = nullptr);

}  // namespace ulnet::sim
