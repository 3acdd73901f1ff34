// Who is at the other end of a Unix socket.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "ulnet/result.h"

namespace ulnet::daemon {

// As of the time of its connect().
struct PeerIdentity {
  pid_t pid = 0;
  uid_t uid = 0;
  std::vector<gid_t> groups;  // primary and supplementary

  // Root, the user this process runs as, or a member of `group`.
  bool may_change(std::optional<gid_t> group) const;
};

Result<PeerIdentity> identify_peer(int fd);

// The gid of a group by name; nothing if there is no such group.
std::optional<gid_t> find_group(const char* name);

}  // namespace ulnet::daemon
