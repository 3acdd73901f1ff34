#include "lnd_tcp/interfaces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

namespace ulnet::tcp {
namespace {

constexpr NetId kTcp{NetType::kTcp, 0};

bool same_address(const Nid& a, const Nid& b) {
  return a.size == b.size && a.address == b.address;
}

bool is_ipv4_loopback(const Nid& nid) {
  return !nid.is_ipv6() && nid.address[0] == 127;
}

Nid on_net(Nid nid, NetId net) {
  nid.number_be = {static_cast<uint8_t>(net.number >> 8), static_cast<uint8_t>(net.number)};
  return nid;
}

Failure no_such_interface(const std::vector<InterfaceAddress>& addresses, const std::string& name) {
  std::vector<std::string> labels;
  for (const InterfaceAddress& address : addresses) {
    if (std::find(labels.begin(), labels.end(), address.label) == labels.end())
      labels.push_back(address.label);
  }
  return fail(ENODEV, fmt::format("interface '{}' has no address or does not exist; there are: {}",
                                  name, fmt::join(labels, ", ")));
}

Result<ChosenInterface> choose_by_nid(const std::vector<InterfaceAddress>& addresses,
                                      const NiSettings& settings) {
  const Nid& nid = *settings.nid;
  if (nid.net() != settings.net) {
    return fail(EINVAL,
                fmt::format("NID {} is not on net {}", nid.to_string(), settings.net.to_string()));
  }
  for (const InterfaceAddress& address : addresses) {
    const bool named = settings.interface.empty() || settings.interface == address.label ||
                       settings.interface == address.device;
    // All of 127/8 is local to lo, whatever is listed.
    const bool here = same_address(address.address, nid) ||
                      (is_ipv4_loopback(nid) && is_ipv4_loopback(address.address));
    if (named && here) return ChosenInterface{nid, address.label, address.device};
  }
  return fail(EADDRNOTAVAIL,
              settings.interface.empty()
                  ? fmt::format("the address of NID {} is not on this host", nid.to_string())
                  : fmt::format("the address of NID {} is not on interface '{}'", nid.to_string(),
                                settings.interface));
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_addresses() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return fail(errno, "cannot list the addresses of this host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(head, ::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* each = head; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    InterfaceAddress entry;
    entry.label = each->ifa_name;
    entry.device = entry.label.substr(0, entry.label.find(':'));
    entry.up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_RUNNING) != 0;
    if (each->ifa_addr->sa_family == AF_INET) {
      sockaddr_in in;
      std::memcpy(&in, each->ifa_addr, sizeof in);
      entry.address = Nid::from_ipv4(kTcp, ntohl(in.sin_addr.s_addr));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 in6;
      std::memcpy(&in6, each->ifa_addr, sizeof in6);
      if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr)) continue;  // means nothing on another host
      std::array<uint8_t, 16> bytes;
      std::memcpy(bytes.data(), &in6.sin6_addr, bytes.size());
      entry.address = Nid::from_ipv6(kTcp, bytes);
    } else {
      continue;
    }
    addresses.push_back(std::move(entry));
  }
  return addresses;
}

Result<ChosenInterface> choose_interface(const std::vector<InterfaceAddress>& addresses,
                                         const NiSettings& settings) {
  if (settings.nid) return choose_by_nid(addresses, settings);
  if (settings.interface.empty()) {
    return fail(EINVAL, fmt::format("a NI of net {} needs an interface or a NID",
                                    settings.net.to_string()));
  }
  const InterfaceAddress* best = nullptr;
  int best_rank = 0;
  for (const InterfaceAddress& address : addresses) {
    // Labels compare whole: eth0:1 is neither eth0 nor eth0:10.
    const int named = address.label == settings.interface    ? 2
                      : address.device == settings.interface ? 1
                                                             : 0;
    if (named == 0) continue;
    const int rank = address.address.is_ipv6() ? named : named + 2;
    if (rank > best_rank) {
      best = &address;
      best_rank = rank;
    }
  }
  if (best == nullptr) return no_such_interface(addresses, settings.interface);
  return ChosenInterface{on_net(best->address, settings.net), best->label, best->device};
}

int32_t conns_per_peer_for_speed(int64_t megabit_per_s) {
  int64_t gigabit = std::max<int64_t>(megabit_per_s, 1000) / 1000;
  int32_t log2 = 0;
  while (gigabit > 1) {
    gigabit /= 2;
    ++log2;
  }
  return megabit_per_s <= 0 ? 1 : log2 / 2 + 1;
}

int64_t link_speed_megabit(const std::string& device) {
  std::ifstream file("/sys/class/net/" + device + "/speed");
  int64_t speed = -1;
  return file >> speed ? speed : -1;
}

}  // namespace ulnet::tcp
