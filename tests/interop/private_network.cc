#include "tests/interop/private_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "lnet/base/unique_fd.h"

namespace ulnet::interop {
namespace {

constexpr char kDevice[] = "lo";
constexpr uint16_t kDiscardPort = 9;
constexpr auto kRouteWait = std::chrono::seconds(2);

Status system_error(std::string_view what) {
  return {errno, std::string(what)};
}

Status bring_up() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket");
  ifreq request{};
  std::memcpy(request.ifr_name, kDevice, sizeof kDevice);
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return system_error("lo up");
  return Status::ok();
}

// RTM_NEWADDR and not SIOCSIFADDR: that one would name each further address "lo:1".
struct AddressRequest {
  nlmsghdr header{};
  ifaddrmsg message{};
  std::array<char, 64> attributes{};
};

void add_attribute(AddressRequest& request, uint16_t type, const void* value, size_t bytes) {
  auto* attribute = reinterpret_cast<rtattr*>(reinterpret_cast<char*>(&request) +
                                              NLMSG_ALIGN(request.header.nlmsg_len));
  attribute->rta_type = type;
  attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes));
  std::memcpy(RTA_DATA(attribute), value, bytes);
  request.header.nlmsg_len =
      static_cast<uint32_t>(NLMSG_ALIGN(request.header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

Status add_address(int netlink, const std::string& text) {
  const bool ipv6 = text.find(':') != std::string::npos;
  const int family = ipv6 ? AF_INET6 : AF_INET;
  const size_t bytes = ipv6 ? 16 : 4;
  std::array<uint8_t, 16> address{};
  if (inet_pton(family, text.c_str(), address.data()) != 1) {
    return {EINVAL, fmt::format("'{}' is no address", text)};
  }
  AddressRequest request;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(ifaddrmsg));
  request.header.nlmsg_type = RTM_NEWADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  request.message.ifa_family = static_cast<uint8_t>(family);
  request.message.ifa_prefixlen = static_cast<uint8_t>(bytes * 8);
  request.message.ifa_flags = ipv6 ? IFA_F_NODAD : 0;
  request.message.ifa_index = if_nametoindex(kDevice);
  add_attribute(request, IFA_LOCAL, address.data(), bytes);
  add_attribute(request, IFA_ADDRESS, address.data(), bytes);
  if (::send(netlink, &request, request.header.nlmsg_len, 0) < 0) return system_error(text);

  struct {
    nlmsghdr header;
    nlmsgerr error;
    std::array<char, 512> rest;
  } answer{};
  if (::recv(netlink, &answer, sizeof answer, 0) < 0) return system_error(text);
  if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error != 0) {
    errno = -answer.error.error;
    return system_error(text);
  }
  return Status::ok();
}

// IPv6 routes come a little later than their addresses.
Status wait_for_route(const std::string& text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(kDiscardPort);
  if (inet_pton(AF_INET6, text.c_str(), &address.sin6_addr) != 1) return Status::ok();
  const UniqueFd probe(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto until = std::chrono::steady_clock::now() + kRouteWait;
  // Sends nothing: connecting a datagram socket only looks for the route.
  while (::connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    if (std::chrono::steady_clock::now() > until) return system_error(text);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Status::ok();
}

}  // namespace

Status enter_private_network(const std::set<std::string>& addresses) {
  if (::unshare(CLONE_NEWNET) != 0) return system_error("a network namespace of our own");
  if (Status status = bring_up(); !status.is_ok()) return status;
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink) return system_error("netlink");
  for (const std::string& address : addresses) {
    if (Status status = add_address(netlink.get(), address); !status.is_ok()) return status;
  }
  for (const std::string& address : addresses) {
    if (Status status = wait_for_route(address); !status.is_ok()) return status;
  }
  return Status::ok();
}

}  // namespace ulnet::interop
