// What `show` commands answer, as trees with lnetctl's keys in lnetctl's order. dump.h prints them;
// --json is the tree.
//
// `level` is that of `-v`: 0 plain, 1 statistics and tunables, 2 by message type and health, 3 peer
// state, 4 everything. Source: spec config 8, recorded lnetctl output.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ulnet/fault.h"
#include "ulnet/info.h"
#include "ulnet/settings.h"
#include "ulnet/status.h"

namespace ulnet::config {

using Json = nlohmann::ordered_json;

struct ShowOptions {
  int level = 0;
  bool own_keys = false;  // what only ulnet knows, under the key `ulnet` behind lnetctl's keys
};

inline constexpr int kShowLevelMax = 4;

// {"net": [...]}.
Json show_nets(const std::vector<NetInfo>& nets, const ShowOptions& options);
// {"peer": [...]}; an empty object when there is none, as lnetctl then prints nothing.
Json show_peers(const std::vector<PeerInfo>& peers, const ShowOptions& options);
// {"peer list": [...]}; likewise.
Json list_peers(const std::vector<PeerInfo>& peers);
// {"statistics": {...}}, with own_keys also the drops by reason.
Json show_statistics(const Statistics& statistics, bool own_keys);
// {"global": {...}}.
Json show_global(const GlobalSettings& global);
// The same with the bounds that follow, in seconds, under `ulnet`: `operation_bound` of a GET, an
// acknowledged PUT and all attempts of any message together; of each NI the LND timeout in force,
// where it comes from, and `attempt_bound` of one attempt to send.
Json show_global(const GlobalSettings& global, const std::vector<NetInfo>& nets);
// {"fault": [...]}; an empty object when there is none. With own_keys each rule in words, too, as a
// configuration file takes it.
Json show_faults(const std::vector<FaultInfo>& faults, bool own_keys);
// An element of the list `ping:`.
Json show_ping(const PingResult& result);
// A discovered peer, in the same words.
Json show_ping(const PeerInfo& peer);

}  // namespace ulnet::config
