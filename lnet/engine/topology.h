// The machine's NUMA nodes: how far apart they are, and where an interface or memory is.
//
// Read once, when a node starts. On a machine with one NUMA node nothing is told and nothing looked
// up. Source: spec lnet-core 6.5.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <string>
#include <vector>

#include "lnet/core/numa.h"
#include "ulnet/result.h"

namespace ulnet {

class Topology {
 public:
  // This machine's. What cannot be read is not known, with no error.
  Topology();
  // That of a machine described in hwloc's XML, whose memory is out of reach. Errors: EINVAL.
  static Result<Topology> from_xml(const std::string& xml);
  ~Topology();
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;

  // Without nodes when there are fewer than two.
  const core::NumaDistances& distances() const { return distances_; }
  // Of a device or an alias ("eth0:1"); of what is stacked on others (bond, VLAN) the node of one
  // of them. `net_folder` lists the interfaces as Linux does.
  core::NumaNode node_of_interface(const std::string& interface,
                                   const std::string& net_folder = "/sys/class/net") const;
  // Of the first page, which stands for the rest: one system call, and unknown if it was never
  // touched.
  core::NumaNode node_of_memory(const std::vector<iovec>& fragments) const;

 private:
  class Machine;
  explicit Topology(std::unique_ptr<Machine> machine);
  std::unique_ptr<Machine> machine_;
  core::NumaDistances distances_;
};

}  // namespace ulnet
