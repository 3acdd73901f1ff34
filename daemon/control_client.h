// A client of the control socket that waits for its answers: ulnetctl, tests.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "daemon/control.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::daemon {

class ControlClient {
 public:
  // Errors name the path: ENOENT, ECONNREFUSED (no daemon), EACCES.
  static Result<ControlClient> connect(const std::string& path);

  // Sends one request and waits for its reply.
  // Errors: the command's own; ETIMEDOUT, ECONNRESET the daemon went away, EBADMSG it does not
  // speak the protocol. After
  //         one of these three the connection is of no use any more.
  Reply call(std::string_view command, Json args, std::chrono::milliseconds timeout);

 private:
  ControlClient(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  using Clock = std::chrono::steady_clock;
  Status wait_for(short events, Clock::time_point deadline);
  Status write_all(std::string_view bytes, Clock::time_point deadline);
  Result<std::string> read_line(Clock::time_point deadline);

  UniqueFd fd_;
  std::string path_;
  std::string input_;
  uint64_t next_id_ = 1;
};

}  // namespace ulnet::daemon
