// The daemon's end of the control socket: clients, their limits, and who may do what.
//
// Who may do what: whoever can connect may read. Only root, the daemon's own user, and members of
// the group named in the options may change anything; the kernel says who a client is (SO_PEERCRED,
// SO_PEERGROUPS), at the time it connects.
//
// A client's connection ends when
//   - half a request stands for longer than `half_request_timeout`,
//   - it takes longer than `write_timeout` to read a reply,
//   - it has asked nothing for `idle_timeout`,
//   - a request is longer than kRequestBytesMax (after an answer), or the daemon stops.
// At most kRequestsPerClientMax requests of one client are under way; meanwhile no more are read
// from it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "daemon/commands.h"
#include "daemon/control_socket.h"
#include "lnet/base/log.h"

namespace ulnet::daemon {

struct ControlServerOptions {
  size_t clients_max = 64;     // more are told so and closed
  std::optional<gid_t> group;  // its members may change things
  std::chrono::milliseconds half_request_timeout{10'000};
  std::chrono::milliseconds write_timeout{30'000};
  std::chrono::milliseconds idle_timeout{600'000};
};

inline constexpr int kRequestsPerClientMax = 16;

class ControlServer {
 public:
  // Serves `socket` from a thread of its own, with all signals blocked.
  // Lifetime: `commands` and `logger` must outlive this. Replies that come after this is gone are
  // dropped. Errors: those of libuv.
  static Result<std::unique_ptr<ControlServer>> start(ControlSocket socket,
                                                      const ControlServerOptions& options,
                                                      Commands& commands, Logger& logger);
  // Closes every client, ends the thread and removes the socket file.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ulnet::daemon
