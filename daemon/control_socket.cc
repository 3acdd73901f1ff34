#include "daemon/control_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ulnet::daemon {
namespace {

constexpr int kBacklog = 64;

Failure fail_at(const std::string& path, int code, std::string_view what) {
  return fail(code, fmt::format("control socket {}: {}: {}", path, what, errno_text(code)));
}

UniqueFd new_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Zero, or why the file in the way must stay.
Status remove_if_stale(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) return Status::ok();  // gone meanwhile
  if (!S_ISSOCK(file.st_mode)) {
    return Status(EEXIST, fmt::format("control socket {}: the file exists and is no socket", path));
  }
  const UniqueFd probe = new_socket();
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(path.c_str());
    return Status::ok();
  }
  return Status(EADDRINUSE, fmt::format("control socket {}: another daemon answers there", path));
}

void make_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) ::mkdir(path.substr(0, slash).c_str(), 0755);
}

}  // namespace

Result<ControlSocket> ControlSocket::listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, fmt::format("control socket '{}': the path must have 1 to {} bytes",
                                          path, sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd = new_socket();
  if (!fd) return fail_at(path, errno, "no socket");
  make_directory(path);
  const auto bind_it = [&] {
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  if (bind_it() != 0) {
    if (errno != EADDRINUSE) return fail_at(path, errno, "cannot be made");
    if (const Status status = remove_if_stale(path, address); !status.is_ok())
      return Failure(status);
    if (bind_it() != 0) return fail_at(path, errno, "cannot be made");
  }
  struct stat file {};
  if (::listen(fd.get(), kBacklog) != 0 || ::chmod(path.c_str(), 0666) != 0 ||
      ::lstat(path.c_str(), &file) != 0) {
    const int code = errno;
    ::unlink(path.c_str());
    return fail_at(path, code, "cannot be set up");
  }
  return ControlSocket(path, std::move(fd), file.st_dev, file.st_ino);
}

ControlSocket::~ControlSocket() {
  struct stat file {};
  if (path_.empty() || ::lstat(path_.c_str(), &file) != 0) return;
  if (file.st_dev == device_ && file.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace ulnet::daemon
