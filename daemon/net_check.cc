#include "daemon/net_check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace ulnet::daemon {
namespace {

std::optional<int> read_setting(const std::string& device, const char* name) {
  std::ifstream file(fmt::format("/proc/sys/net/ipv4/conf/{}/{}", device, name));
  int value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// What counts for the device; 0 when the kernel does not tell.
int setting_in_force(const std::string& device, const char* name) {
  return std::max(read_setting("all", name).value_or(0), read_setting(device, name).value_or(0));
}

uint32_t ipv4_of(const sockaddr* address) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
}

std::set<uint32_t> tcp_addresses(const std::vector<NetInfo>& nets) {
  std::set<uint32_t> addresses;
  for (const NetInfo& net : nets) {
    if (net.net.type != NetType::kTcp) continue;
    for (const NiInfo& ni : net.nis) {
      if (!ni.nid.is_ipv6()) addresses.insert(ni.nid.address32());
    }
  }
  return addresses;
}

std::string subnet_text(uint32_t subnet, uint32_t mask) {
  return fmt::format("{}.{}.{}.{}/{}", subnet >> 24, subnet >> 16 & 255, subnet >> 8 & 255,
                     subnet & 255, __builtin_popcount(mask));
}

// sysctl takes '/' for a dot that belongs to the name.
std::string sysctl_name(std::string device) {
  std::replace(device.begin(), device.end(), '.', '/');
  return device;
}

void add_commands(const NicView& nic, std::vector<std::string>& commands) {
  const auto set = [&](const char* name, int value) {
    commands.push_back(
        fmt::format("sysctl -w net.ipv4.conf.{}.{}={}", sysctl_name(nic.device), name, value));
  };
  if (nic.arp_ignore < 1) set("arp_ignore", 1);  // answer only for addresses of the asked device
  if (nic.arp_announce < 2) set("arp_announce", 2);  // ask with the address of the asking device
  if (nic.rp_filter == 1)
    set("rp_filter", 2);  // strict filtering drops what comes in by the other device
}

}  // namespace

std::vector<NicView> look_at_nics(const std::vector<NetInfo>& nets) {
  const std::set<uint32_t> wanted = tcp_addresses(nets);
  std::vector<NicView> nics;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return nics;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
        entry->ifa_netmask == nullptr)
      continue;
    const uint32_t address = ipv4_of(entry->ifa_addr);
    if (!wanted.contains(address)) continue;
    std::string device = entry->ifa_name;
    device.erase(std::min(device.find(':'), device.size()));  // "eth0:1" is a label of eth0
    nics.push_back({.device = device,
                    .address = address,
                    .mask = ipv4_of(entry->ifa_netmask),
                    .arp_ignore = setting_in_force(device, "arp_ignore"),
                    .arp_announce = setting_in_force(device, "arp_announce"),
                    .rp_filter = setting_in_force(device, "rp_filter")});
  }
  return nics;
}

std::vector<std::string> shared_subnet_advice(const std::vector<NicView>& nics) {
  std::map<std::pair<uint32_t, uint32_t>, std::map<std::string, const NicView*>> subnets;
  for (const NicView& nic : nics)
    subnets[{nic.address & nic.mask, nic.mask}].emplace(nic.device, &nic);
  std::vector<std::string> advice;
  for (const auto& [subnet, devices] : subnets) {
    if (devices.size() < 2) continue;
    std::vector<std::string_view> names;
    std::vector<std::string> commands;
    for (const auto& [name, nic] : devices) {
      names.push_back(name);
      add_commands(*nic, commands);
    }
    if (commands.empty()) continue;
    advice.push_back(fmt::format(
        "devices {} are on one subnet, {}, and the kernel lets one answer for another; to keep "
        "their traffic apart:",
        fmt::join(names, ", "), subnet_text(subnet.first, subnet.second)));
    advice.insert(advice.end(), commands.begin(), commands.end());
  }
  return advice;
}

}  // namespace ulnet::daemon
