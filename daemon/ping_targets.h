// The NID arguments of `ulnetctl ping`: comma lists, bracket ranges, host names.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet::daemon {

// One thing to ping, or one word that names nothing.
struct PingTarget {
  std::string word;  // as written; of a range or a host name, the NID
  Result<Nid> nid;
};

// IPv4 addresses of a host name, a<<24|b<<16|c<<8|d each. Errors: EHOSTUNREACH with the resolver's
// words.
using Resolve = std::function<Result<std::vector<uint32_t>>(const std::string& name)>;
Resolve system_resolver();

// Splits each argument at its commas (not at those in brackets) and expands it. A word that is no
// NID, no range and no host name becomes a target with an error, so that the others are pinged all
// the same. Errors: E2BIG more than `limit` in all; EINVAL no word at all.
Result<std::vector<PingTarget>> expand_ping_targets(const std::vector<std::string>& arguments,
                                                    size_t limit, const Resolve& resolve);

}  // namespace ulnet::daemon
