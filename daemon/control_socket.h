// The listening end of a control socket as a file: made, replaced when its daemon is dead, removed
// at the end.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "lnet/base/unique_fd.h"
#include "ulnet/result.h"

namespace ulnet::daemon {

// Owns the socket and its file. Moves, does not copy.
class ControlSocket {
 public:
  // Binds and listens, mode 0666: who may reach it is decided by the directory. Makes the last
  // directory of the path if it is missing. The file of a daemon that is gone is replaced. Errors
  // name the path: EADDRINUSE another daemon answers there, EEXIST something that is no socket,
  // ENAMETOOLONG,
  //         EACCES, ENOENT.
  static Result<ControlSocket> listen(const std::string& path);
  ControlSocket(ControlSocket&& other) noexcept
      : path_(std::exchange(other.path_, {})),
        fd_(std::move(other.fd_)),
        device_(other.device_),
        inode_(other.inode_) {}
  ControlSocket& operator=(ControlSocket&&) = delete;
  // Removes the file, unless it is not ours any more.
  ~ControlSocket();

  const std::string& path() const { return path_; }
  // Gives the listening, non-blocking fd away; the file stays ours.
  int release_fd() { return fd_.release(); }

 private:
  ControlSocket(std::string path, UniqueFd fd, dev_t device, ino_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}

  std::string path_;  // empty when moved from
  UniqueFd fd_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace ulnet::daemon
