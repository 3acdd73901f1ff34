#include "tests/interop/peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace ulnet::interop {
namespace {

using test::TcpAddress;

constexpr int kBacklog = 64;
constexpr uint16_t kReservedPortMin = 512;
constexpr int kSendWaitMs = 5000;

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address to_system(const TcpAddress& address) {
  Address result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET, address.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    result.bytes = sizeof *v4;
  } else if (inet_pton(AF_INET6, address.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    result.bytes = sizeof *v6;
  }
  return result;
}

TcpAddress from_system(const sockaddr_storage& storage) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return {text.data(), ntohs(v6.sin6_port)};
}

Failure system_failure(const TcpAddress& address, std::string_view what) {
  const int code = errno;
  return fail(
      code, fmt::format("{} {}: {}: {}", address.address, address.port, what, std::strerror(code)));
}

// A TCP socket bound to `address`.
Result<UniqueFd> bound_socket(const TcpAddress& address) {
  const Address system = to_system(address);
  UniqueFd fd(::socket(system.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::bind(fd.get(), system.get(), system.bytes) != 0) {
    return system_failure(address, "bind");
  }
  return fd;
}

}  // namespace

Status Peers::listen(const TcpAddress& address) {
  if (listeners_.contains(address)) return Status::ok();
  Result<UniqueFd> fd = bound_socket(address);
  if (!fd) return fd.error();
  if (::listen(fd->get(), kBacklog) != 0) return system_failure(address, "listen").value();
  listeners_.emplace(address, std::move(*fd));
  return Status::ok();
}

Result<Link*> Peers::dial(const TcpAddress& from, const TcpAddress& to) {
  TcpAddress source = from;
  // The port of an earlier play may linger; any reserved one will do.
  for (; source.port > kReservedPortMin; --source.port) {
    Result<UniqueFd> fd = bound_socket(source);
    if (!fd) return Failure(fd.error());
    const Address system = to_system(to);
    if (::connect(fd->get(), system.get(), system.bytes) == 0) {
      Link& link = links_.emplace_back(std::move(*fd), false);
      link.own = to;
      link.remote = source;
      return &link;
    }
    if (errno != EADDRNOTAVAIL) break;
  }
  return system_failure(to, "connect");
}

Status Peers::send(Link& link, const Bytes& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count =
        ::send(link.fd.get(), &bytes[sent], bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (errno != EAGAIN) return system_failure(link.own, "send").value();
    pollfd wait{link.fd.get(), POLLOUT, 0};
    if (::poll(&wait, 1, kSendWaitMs) == 0) {
      errno = ETIMEDOUT;
      return system_failure(link.own, "our node does not read").value();
    }
    poll(0);
  }
  return Status::ok();
}

void Peers::end(Link& link, bool reset) {
  if (reset) {
    const linger at_once{1, 0};
    ::setsockopt(link.fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    link.fd.reset();
  } else if (!link.finished) {
    ::shutdown(link.fd.get(), SHUT_WR);
  }
  link.finished = true;
}

void Peers::poll(int milliseconds) {
  std::vector<pollfd> waits;
  for (const auto& [address, fd] : listeners_) waits.push_back({fd.get(), POLLIN, 0});
  const size_t listeners = waits.size();
  std::vector<Link*> readers;
  for (Link& link : links_) {
    if (!link.fd || link.ended) continue;
    readers.push_back(&link);
    waits.push_back({link.fd.get(), POLLIN, 0});
  }
  if (::poll(waits.data(), waits.size(), milliseconds) <= 0) return;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents == 0) continue;
    i < listeners ? accept(waits[i].fd) : read(*readers[i - listeners]);
  }
}

void Peers::accept(int listener) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  UniqueFd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &bytes, SOCK_CLOEXEC));
  if (!fd) return;
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Link& link = links_.emplace_back(std::move(fd), true);
  link.own = from_system(storage);
  bytes = sizeof storage;
  ::getsockname(link.fd.get(), reinterpret_cast<sockaddr*>(&storage), &bytes);
  link.remote = from_system(storage);
}

void Peers::read(Link& link) {
  std::array<uint8_t, 65536> buffer;
  const ssize_t count = ::recv(link.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) {
    link.ended = true;
    link.reset = count < 0;
    arrivals_.push_back({.link = &link, .ended = true});
    return;
  }
  link.received.insert(link.received.end(), buffer.begin(), buffer.begin() + count);
  link.reader.add(std::span(buffer).first(static_cast<size_t>(count)));
  while (auto piece = link.reader.next()) arrivals_.push_back({&link, false, std::move(*piece)});
  if (!link.reader.failure().empty()) {
    failure_ = fmt::format("{} {} to {}: {}", link.own.address, link.own.port, link.remote.address,
                           link.reader.failure());
  }
}

std::optional<Arrival> Peers::next() {
  if (arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.front());
  arrivals_.pop_front();
  return arrival;
}

}  // namespace ulnet::interop
