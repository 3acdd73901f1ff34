// Causes: what made the recorded node send its requests. Our node is told no more than the recorded
// one was: to discover, to ping, or a message of the upper layer; what follows from it must come by
// itself. Source: spec lnet-core 4.8, 4.9.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/interop/script.h"

namespace ulnet::interop {

// One thing that the recorded node was told to do.
struct Ask {
  enum class Kind : uint8_t {
    kUpperLayer,  // a PUT or GET, on any portal but 0
    kPing,        // `lnetctl ping`
    kDiscover,    // `lnetctl discover`, or a check of its gateway
    kRouting,     // `lnetctl set routing`, of which a push tells; ours does not forward yet
  };
  Kind kind = Kind::kUpperLayer;
  bool force = false;  // kDiscover: of a peer that is known, as the check of a gateway is
  size_t request = 0;  // the step that shows it: the message itself, or the GET of the discovery
  size_t first = 0;    // the first step that it causes, at most `request`: the upper layer's first
                       // message to a peer waits behind the discovery's GET
};

std::string_view to_string(Ask::Kind kind);

struct Causes {
  std::vector<Ask> asks;  // in the order of `first`
  size_t own_pings = 0;   // GETs of a discovery, asked for directly or not
  size_t own_pushes = 0;  // pushes that must come by themselves
  std::string failure;    // a GET of ping info that is nobody's, or ""
};

Causes find_causes(const Script& script);

// A GET of ping info by a discovery: its sink is the least one, as no recorded info is longer.
bool is_discovery_ping(const Piece& piece);

}  // namespace ulnet::interop
