// System calls on TCP sockets, with errno turned into values; and socket addresses as NIDs.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "lnet/base/unique_fd.h"
#include "ulnet/result.h"
#include "ulnet/settings.h"
#include "ulnet/types.h"

namespace ulnet::tcp {

inline constexpr uint16_t kPrivilegedPortMax =
    1023;  // the highest a kernel dials from; it trusts 1..1023
inline constexpr uint16_t kPrivilegedPortMin = 512;  // the lowest it dials from

class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const Nid& nid, uint16_t port);
  static SocketAddress local_of(int fd);  // family AF_UNSPEC when the socket is gone
  static SocketAddress remote_of(int fd);

  // The address as a NID on `net`; a v4-mapped IPv6 address counts as IPv4. The wildcard for other
  // families.
  Nid to_nid(NetId net) const;
  uint16_t port() const;
  // "10.0.0.1:988", "[fd77::1]:988".
  std::string to_string() const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  socklen_t* length_pointer() { return &length_; }
  bool is_ipv6() const { return storage_.ss_family == AF_INET6; }

 private:
  sockaddr_storage storage_ = {};
  socklen_t length_ = sizeof(sockaddr_storage);
};

// A listening, non-blocking socket on exactly this address. Errors: those of Lnd::start_ni, naming
// address and port.
Result<UniqueFd> listen_on(const Nid& nid, uint16_t port, int backlog, const TcpTunables& tunables);

struct DialOptions {
  Nid from;
  Nid to;
  uint16_t port = 988;
  std::string device;      // bind to it, when not empty and allowed
  bool privileged = true;  // source ports 1023 down to 512; else an ephemeral one
};
// Starts a non-blocking connect. Errors: the errno of what failed; EADDRINUSE when all privileged
// ports are taken.
Result<UniqueFd> start_dial(const DialOptions& options, const TcpTunables& tunables);

// Whether ports below 1024 can be bound here.
bool can_bind_privileged(const Nid& nid);
// ENOENT-like trouble of `name` as TCP_CONGESTION, or ok.
Status check_congestion_control(const std::string& name, bool ipv6);

// Options of an established connection (spec 5.3, 7.2).
void set_connection_options(int fd, const TcpTunables& tunables, bool ipv6);
void bind_to_device(int fd, const std::string& device);
// The device by which an accepted IPv4 connection came; empty when the kernel does not tell, as for
// IPv6.
std::string arrival_device(int fd);

// Bytes that the peer's TCP has not acknowledged; 0 when the socket is gone.
uint64_t unacknowledged_bytes(int fd);
// How our TCP cuts what it sends, in bytes; zeroes when the socket is gone.
struct PathSizes {
  uint32_t path_mtu = 0;
  uint32_t mss = 0;
};
PathSizes path_sizes(int fd);
// The pending error of the socket, and clears it.
int take_socket_error(int fd);

}  // namespace ulnet::tcp
