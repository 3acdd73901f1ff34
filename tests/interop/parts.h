// Parts: how each recording is played.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/interop/script.h"

namespace ulnet::interop {

// What is not played, or played in another way than whole and as recorded; with the reason. A node
// may have several parts: each is played.
struct Part {
  std::string capture;
  std::string node;       // an address of the node that is played; empty: every node
  std::string why;        // printed
  bool left_out = false;  // nothing is played
  ScriptLimits limits;
  std::vector<std::string> nids;  // when the recording does not tell
  int32_t conns_per_peer = 1;
  int32_t keepalive_s = 30;
  bool router = false;
  bool stops = false;
  bool discovery = true;
  std::vector<std::string> pinged;
  std::string more_discovery;  // see PlayOptions
};

// Every recording or node that is not played whole and as recorded.
const std::vector<Part>& parts();

bool concerns(const Part& part, const std::string& capture, const NodeAddresses& node);

}  // namespace ulnet::interop
