// The blocks of a configuration file, one reader each. Internal to config/.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "config/fields.h"
#include "config/report.h"
#include "config/yaml.h"
#include "ulnet/settings.h"

namespace ulnet::config {

// What the readers share while one file is loaded.
struct LoadContext {
  explicit LoadContext(std::string file) : report(std::move(file)) {}

  Report report;
  Settings settings;

  // Keys that only `show` prints: skipped, and told about once.
  std::optional<YamlEntry> first_skipped;
  size_t skipped = 0;
  Reader skip();

  // Keys that are kept and have no effect: told about once.
  std::optional<YamlEntry> first_without_effect;

  bool too_many_nis = false;  // told already

  // Where `transaction_timeout`, `retry_count` and each NI's `timeout` stand, if the file gives
  // them.
  Place transaction_timeout;
  Place retry_count;
  struct LndTimeout {
    size_t ni = 0;  // index into settings.nis
    Place place;
  };
  std::vector<LndTimeout> lnd_timeouts;
};

// `net:`. Source: spec config 9.1 and 9.2.
void read_net_block(LoadContext& context, const YamlNode& block);
// `global:` and the older `numa:`. Source: spec config 2.2 and 8.6.
void read_global_block(LoadContext& context, const YamlNode& block);
void read_numa_block(LoadContext& context, const YamlNode& block);
// `peer:`. Source: spec config 9.1; cases CF-10.
void read_peer_block(LoadContext& context, const YamlNode& block);
// `fault:`, lists `drop:` and `delay:` of rules in the words of ulnetctl's options; our own.
void read_fault_block(LoadContext& context, const YamlNode& block);
// `ulnet:`, our own.
void read_ulnet_block(LoadContext& context, const YamlNode& block);

// What can be judged only when all blocks are read: transaction_timeout against retry_count, and T
// >= LND x (R + 1) + 1. The settings keep the LND timeout that was asked for; the node puts the
// longest that fits in force (decisions D5).
void check_timeouts(LoadContext& context);

}  // namespace ulnet::config
