#include "daemon/control_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ulnet::daemon {

Result<ControlClient> ControlClient::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, fmt::format("socket path '{}' must have 1 to {} bytes", path,
                                          sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail(errno, fmt::format("no socket: {}", errno_text(errno)));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int code = errno;
    return fail(code, fmt::format("no ulnetd answers on {}: {}", path, errno_text(code)));
  }
  return ControlClient(std::move(fd), path);
}

Reply ControlClient::call(std::string_view command, Json args, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const uint64_t id = next_id_++;
  const std::string request = format_request({id, std::string(command), std::move(args)});
  // A daemon that refuses the connection says why and closes: its words count more than our EPIPE.
  const Status sent = write_all(request, deadline);
  for (;;) {
    const Result<std::string> line = read_line(deadline);
    if (!line) return Failure(sent.is_ok() ? line.error() : sent);
    Result<NumberedReply> reply = parse_reply(*line);
    if (!reply) return fail(EBADMSG, fmt::format("{}: {}", path_, reply.error().text()));
    if (reply->id == id || reply->id == 0) return std::move(reply->reply);
  }
}

Status ControlClient::wait_for(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return Status(ETIMEDOUT, fmt::format("the daemon at {} does not answer in time", path_));
    pollfd poll{.fd = fd_.get(), .events = events, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready > 0) return Status::ok();
    if (ready < 0 && errno != EINTR)
      return Status(errno, fmt::format("poll: {}", errno_text(errno)));
  }
}

Status ControlClient::write_all(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    if (Status status = wait_for(POLLOUT, deadline); !status.is_ok()) return status;
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0)
      return Status(errno, fmt::format("the daemon at {} went away: {}", path_, errno_text(errno)));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return Status::ok();
}

Result<std::string> ControlClient::read_line(Clock::time_point deadline) {
  size_t searched = 0;
  for (;;) {
    const size_t end = input_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    searched = input_.size();
    if (searched > kReplyBytesMax)
      return fail(EMSGSIZE, fmt::format("{}: a reply without end", path_));
    if (const Status status = wait_for(POLLIN, deadline); !status.is_ok()) return Failure(status);
    char chunk[65536];
    const ssize_t bytes = ::recv(fd_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes <= 0) {
      const int code = bytes == 0 ? ECONNRESET : errno;
      return fail(code, fmt::format("the daemon at {} went away: {}", path_, errno_text(code)));
    }
    input_.append(chunk, static_cast<size_t>(bytes));
  }
}

}  // namespace ulnet::daemon
