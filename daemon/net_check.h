// Kernel settings that would let one NIC of a subnet answer for another, so that two NIs share one
// wire.
//
// Source: decisions D7; Linux ip-sysctl: for each of the three settings the greater of conf/all and
// conf/DEVICE counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulnet/info.h"

namespace ulnet::daemon {

struct NicView {
  std::string device;
  uint32_t address = 0;  // a<<24|b<<16|c<<8|d, as the mask
  uint32_t mask = 0;
  int arp_ignore = 0;  // in force
  int arp_announce = 0;
  int rp_filter = 0;
};

// The NICs behind the tcp NIs, each device and address once. What cannot be read is left out.
std::vector<NicView> look_at_nics(const std::vector<NetInfo>& nets);

// Nothing, or for each subnet with several devices a line that says so and the sysctl commands that
// would help.
std::vector<std::string> shared_subnet_advice(const std::vector<NicView>& nics);

}  // namespace ulnet::daemon
