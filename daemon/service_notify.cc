#include "daemon/service_notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "lnet/base/unique_fd.h"

namespace ulnet::daemon {

Status notify_service_manager(const char* notify_socket, std::string_view state) {
  if (notify_socket == nullptr || *notify_socket == '\0') return Status::ok();
  const std::string_view path = notify_socket;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Status(ENAMETOOLONG, fmt::format("NOTIFY_SOCKET '{}' is longer than {} bytes", path,
                                            sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                      reinterpret_cast<const sockaddr*>(&address), bytes) < 0) {
    return Status(errno, fmt::format("NOTIFY_SOCKET '{}': {}", path, errno_text(errno)));
  }
  return Status::ok();
}

}  // namespace ulnet::daemon
