// Which address and device a NI is: devices, alias labels and addresses of this host.
//
// Source: spec tcp-lnd 1.5, 6.1 (connections by link speed); cases SL-9.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/settings.h"
#include "ulnet/types.h"

namespace ulnet::tcp {

struct InterfaceAddress {
  std::string label;   // "eth0", or an alias: "eth0:1"
  std::string device;  // "eth0"
  Nid address;         // on net tcp
  bool up = true;      // IFF_UP and a carrier
};

// In the kernel's order. Errors: that of getifaddrs.
Result<std::vector<InterfaceAddress>> list_addresses();

struct ChosenInterface {
  Nid nid;                // on the NI's net
  std::string interface;  // label
  std::string device;
};
// Finds what a NI means. By NID: that address, on the named interface if one is named. By name: the
// first address with exactly that label, IPv4 before IPv6; for a device all of whose addresses have
// other labels, its first one. Errors: ENODEV (no such interface; lists those there are),
// EADDRNOTAVAIL (address not on this host or not on that interface), EINVAL (neither is given, or a
// NID of another net).
Result<ChosenInterface> choose_interface(const std::vector<InterfaceAddress>& addresses,
                                         const NiSettings& settings);

// floor(log2(Gbit/s)) / 2 + 1; 1 for an unknown speed (<= 0).
int32_t conns_per_peer_for_speed(int64_t megabit_per_s);
// From /sys/class/net; -1 when unknown.
int64_t link_speed_megabit(const std::string& device);

}  // namespace ulnet::tcp
