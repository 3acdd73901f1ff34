#include "daemon/peer_identity.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::daemon {

bool PeerIdentity::may_change(std::optional<gid_t> group) const {
  if (uid == 0 || uid == ::geteuid()) return true;
  return group && std::find(groups.begin(), groups.end(), *group) != groups.end();
}

Result<PeerIdentity> identify_peer(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return fail(errno, fmt::format("SO_PEERCRED: {}", errno_text(errno)));
  }
  PeerIdentity identity{.pid = credentials.pid, .uid = credentials.uid, .groups = {}};
  // The kernel fails the first call with ERANGE and the right size, if there are groups at all.
  bytes = 0;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, nullptr, &bytes) != 0 && errno == ERANGE) {
    identity.groups.resize(bytes / sizeof(gid_t));
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, identity.groups.data(), &bytes) != 0)
      identity.groups.clear();
  }
  identity.groups.push_back(credentials.gid);
  return identity;
}

std::optional<gid_t> find_group(const char* name) {
  std::vector<char> buffer(65536);
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->gr_gid;
}

}  // namespace ulnet::daemon
