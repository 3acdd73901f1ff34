#include "lnd_tcp/sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

namespace ulnet::tcp {
namespace {

bool set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

// Before connect and listen: the buffers decide the window scale that the SYN announces.
void set_buffers(int fd, const TcpTunables& tunables) {
  if (tunables.tx_buffer_bytes > 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, tunables.tx_buffer_bytes);
  if (tunables.rx_buffer_bytes > 0) set_option(fd, SOL_SOCKET, SO_RCVBUF, tunables.rx_buffer_bytes);
}

bool set_congestion_control(int fd, const std::string& name) {
  return name.empty() || ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                                      static_cast<socklen_t>(name.size())) == 0;
}

UniqueFd make_socket(const Nid& nid) {
  return UniqueFd(::socket(nid.is_ipv6() ? AF_INET6 : AF_INET,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

Failure bind_failure(int error, const SocketAddress& address) {
  switch (error) {
    case EACCES:
      return fail(
          error,
          fmt::format("listening on {} needs CAP_NET_BIND_SERVICE: ports below 1024 are privileged",
                      address.to_string()));
    case EADDRINUSE:
      return fail(error,
                  fmt::format("{} is in use: is another LNet node, or the kernel's, running here?",
                              address.to_string()));
    case EADDRNOTAVAIL:
      return fail(error, fmt::format("{} is not an address of this host", address.to_string()));
    default:
      return fail(error, fmt::format("cannot listen on {}", address.to_string()));
  }
}

// One attempt from one source port. Returns 0 (connected or under way) or an errno.
int try_dial(const DialOptions& options, const TcpTunables& tunables, uint16_t source_port,
             UniqueFd* fd) {
  *fd = make_socket(options.to);
  if (!*fd) return errno;
  set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // One local port serves connections to many peers.
  if (source_port != 0) set_option(fd->get(), SOL_SOCKET, SO_REUSEPORT, 1);
  set_buffers(fd->get(), tunables);
  if (!set_congestion_control(fd->get(), tunables.tcp_congestion)) return errno;
  if (!options.device.empty()) bind_to_device(fd->get(), options.device);
  const SocketAddress from(options.from, source_port);
  if (source_port == 0) set_option(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (::bind(fd->get(), from.get(), from.length()) != 0) return errno;
  const SocketAddress to(options.to, options.port);
  if (::connect(fd->get(), to.get(), to.length()) != 0 && errno != EINPROGRESS) return errno;
  return 0;
}

}  // namespace

SocketAddress::SocketAddress(const Nid& nid, uint16_t port) {
  if (nid.is_ipv6()) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage_);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    std::memcpy(&in6->sin6_addr, nid.address.data(), 16);
    length_ = sizeof *in6;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&storage_);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    std::memcpy(&in->sin_addr, nid.address.data(), 4);
    length_ = sizeof *in;
  }
}

SocketAddress SocketAddress::local_of(int fd) {
  SocketAddress address;
  if (::getsockname(fd, address.get(), &address.length_) != 0) return {};
  return address;
}

SocketAddress SocketAddress::remote_of(int fd) {
  SocketAddress address;
  if (::getpeername(fd, address.get(), &address.length_) != 0) return {};
  return address;
}

Nid SocketAddress::to_nid(NetId net) const {
  if (storage_.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage_);
    return Nid::from_ipv4(net, ntohl(in->sin_addr.s_addr));
  }
  if (storage_.ss_family != AF_INET6) return Nid::any();
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &in6->sin6_addr, 16);
  if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
    return Nid::from_ipv4(net, static_cast<uint32_t>(bytes[12]) << 24 |
                                   static_cast<uint32_t>(bytes[13]) << 16 |
                                   static_cast<uint32_t>(bytes[14]) << 8 | bytes[15]);
  }
  return Nid::from_ipv6(net, bytes);
}

uint16_t SocketAddress::port() const {
  if (storage_.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (storage_.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

std::string SocketAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage_.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text,
                sizeof text);
    return fmt::format("{}:{}", text, port());
  }
  if (storage_.ss_family != AF_INET6) return "(no address)";
  ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text,
              sizeof text);
  return fmt::format("[{}]:{}", text, port());
}

Result<UniqueFd> listen_on(const Nid& nid, uint16_t port, int backlog,
                           const TcpTunables& tunables) {
  const SocketAddress address(nid, port);
  UniqueFd fd = make_socket(nid);
  if (!fd) return fail(errno, fmt::format("cannot make a socket for {}", address.to_string()));
  // Old connections in TIME-WAIT must not keep a restarted node from listening. SO_REUSEPORT is
  // left out, so that a second node on the same address is told.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (nid.is_ipv6()) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  set_buffers(fd.get(), tunables);
  if (!set_congestion_control(fd.get(), tunables.tcp_congestion)) {
    return fail(errno, fmt::format("tcp_congestion '{}' is refused by the kernel",
                                   tunables.tcp_congestion));
  }
  if (::bind(fd.get(), address.get(), address.length()) != 0) return bind_failure(errno, address);
  if (::listen(fd.get(), backlog) != 0) return bind_failure(errno, address);
  return fd;
}

Result<UniqueFd> start_dial(const DialOptions& options, const TcpTunables& tunables) {
  const auto failure = [&](int error) {
    return fail(error, fmt::format("cannot connect from {} to {}", options.from.to_string(),
                                   SocketAddress(options.to, options.port).to_string()));
  };
  UniqueFd fd;
  if (!options.privileged) {
    const int error = try_dial(options, tunables, 0, &fd);
    if (error != 0) return failure(error);
    return fd;
  }
  for (uint16_t port = kPrivilegedPortMax; port >= kPrivilegedPortMin; --port) {
    const int error = try_dial(options, tunables, port, &fd);
    if (error == 0) return fd;
    if (error != EADDRINUSE && error != EADDRNOTAVAIL) return failure(error);
    // The address itself may be gone: no port helps then.
    if (error == EADDRNOTAVAIL && SocketAddress::local_of(fd.get()).port() == 0)
      return failure(error);
  }
  return failure(EADDRINUSE);
}

bool can_bind_privileged(const Nid& nid) {
  for (uint16_t port = kPrivilegedPortMax; port >= kPrivilegedPortMin; --port) {
    UniqueFd fd = make_socket(nid);
    if (!fd) return false;
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    const SocketAddress address(nid, port);
    if (::bind(fd.get(), address.get(), address.length()) == 0) return true;
    if (errno != EADDRINUSE) return false;
  }
  return true;  // all taken, by somebody who could
}

Status check_congestion_control(const std::string& name, bool ipv6) {
  const UniqueFd fd(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return Status(errno, "cannot make a socket");
  if (set_congestion_control(fd.get(), name)) return Status::ok();
  return Status(errno == ENOENT ? EINVAL : errno,
                fmt::format("tcp_congestion '{}' is refused by the kernel ({}); see "
                            "/proc/sys/net/ipv4/tcp_available_congestion_control",
                            name, errno_text(errno)));
}

void set_connection_options(int fd, const TcpTunables& tunables, bool ipv6) {
  set_buffers(fd, tunables);
  set_congestion_control(fd, tunables.tcp_congestion);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, tunables.nagle ? 0 : 1);
  const bool keepalive = tunables.keepalive_idle_s > 0 && tunables.keepalive_intvl_s > 0 &&
                         tunables.keepalive_count > 0;
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, keepalive ? 1 : 0);
  if (keepalive) {
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, tunables.keepalive_idle_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, tunables.keepalive_intvl_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, tunables.keepalive_count);
  }
  if (tunables.tos >= 0) {
    set_option(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS, tunables.tos);
  }
}

void bind_to_device(int fd, const std::string& device) {
  // Without the right to it the routing table decides, as for any program.
  (void)::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device.c_str(),
                     static_cast<socklen_t>(device.size() + 1));
}

std::string arrival_device(int fd) {
  // What Linux keeps for IP_PKTOPTIONS of a stream: the device of the segment that made the socket.
  if (!set_option(fd, IPPROTO_IP, IP_PKTINFO, 1)) return {};
  alignas(cmsghdr) char buffer[256];
  socklen_t length = sizeof buffer;
  const bool told = ::getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, buffer, &length) == 0;
  set_option(fd, IPPROTO_IP, IP_PKTINFO, 0);
  if (!told) return {};
  msghdr message{};
  message.msg_control = buffer;
  message.msg_controllen = length;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != IPPROTO_IP || each->cmsg_type != IP_PKTINFO) continue;
    in_pktinfo info;
    std::memcpy(&info, CMSG_DATA(each), sizeof info);
    char name[IF_NAMESIZE];
    if (::if_indextoname(static_cast<unsigned>(info.ipi_ifindex), name) != nullptr) return name;
  }
  return {};
}

uint64_t unacknowledged_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

PathSizes path_sizes(int fd) {
  tcp_info info = {};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return {.path_mtu = info.tcpi_pmtu, .mss = info.tcpi_snd_mss};
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace ulnet::tcp
