#include "lnet/engine/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "lnet/base/assert.h"

namespace ulnet {

using core::kNoNumaNode;
using core::NumaDistances;
using core::NumaNode;

namespace {

// The firmware's own numbers for itself and others where it has no table.
constexpr uint32_t kLocalDistance = 10;
constexpr uint32_t kRemoteDistance = 20;
constexpr int kStackedMax = 4;  // VLAN on bond on NIC is 3

NumaNode node_of_device(const std::filesystem::path& interface, int levels_left) {
  if (std::ifstream file(interface / "device" / "numa_node"); file) {
    NumaNode node = kNoNumaNode;
    file >> node;
    return node;  // the kernel, too, writes -1 for unknown
  }
  if (levels_left == 0) return kNoNumaNode;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(interface, error)) {
    if (!entry.path().filename().string().starts_with("lower_")) continue;
    const NumaNode node = node_of_device(entry.path(), levels_left - 1);
    if (node != kNoNumaNode) return node;
  }
  return kNoNumaNode;
}

}  // namespace

// hwloc's view of a machine, NUMA nodes only.
class Topology::Machine {
 public:
  Machine() {
    ULNET_ASSERT(hwloc_topology_init(&topology_) == 0, "out of memory");
    hwloc_topology_set_all_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_NONE);
  }
  ~Machine() { hwloc_topology_destroy(topology_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool describe(const std::string& xml) {
    return hwloc_topology_set_xmlbuffer(topology_, xml.c_str(), static_cast<int>(xml.size()) + 1) ==
           0;
  }
  bool load() { return hwloc_topology_load(topology_) == 0; }

  NumaDistances distances() const {
    NumaDistances found;
    if (hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_NUMANODE) < 2) return found;
    found.nodes =
        static_cast<size_t>(hwloc_bitmap_last(hwloc_topology_get_topology_nodeset(topology_))) + 1;
    for (size_t i = 0; i < found.nodes; ++i) {
      for (size_t j = 0; j < found.nodes; ++j)
        found.values.push_back(i == j ? kLocalDistance : kRemoteDistance);
    }
    read_table(found);
    return found;
  }

  NumaNode node_of(const void* address) const {
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    const int status =
        hwloc_get_area_memlocation(topology_, address, 1, nodes, HWLOC_MEMBIND_BYNODESET);
    const NumaNode node = status == 0 ? hwloc_bitmap_first(nodes) : kNoNumaNode;
    hwloc_bitmap_free(nodes);
    return node;
  }

 private:
  // Nodes are named by their numbers in the operating system, which may have gaps.
  void read_table(NumaDistances& into) const {
    unsigned tables = 1;
    hwloc_distances_s* table = nullptr;
    const int status = hwloc_distances_get_by_type(
        topology_, HWLOC_OBJ_NUMANODE, &tables, &table,
        HWLOC_DISTANCES_KIND_MEANS_LATENCY | HWLOC_DISTANCES_KIND_FROM_OS, 0);
    if (status != 0 || tables == 0) return;
    for (size_t i = 0; i < table->nbobjs; ++i) {
      for (size_t j = 0; j < table->nbobjs; ++j) {
        into.values[table->objs[i]->os_index * into.nodes + table->objs[j]->os_index] =
            static_cast<uint32_t>(
                std::min<uint64_t>(table->values[i * table->nbobjs + j], UINT32_MAX));
      }
    }
    hwloc_distances_release(topology_, table);
  }

  hwloc_topology_t topology_ = nullptr;
};

Topology::Topology() : machine_(std::make_unique<Machine>()) {
  if (machine_->load()) distances_ = machine_->distances();
}

Topology::Topology(std::unique_ptr<Machine> machine)
    : machine_(std::move(machine)), distances_(machine_->distances()) {}

Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;

Result<Topology> Topology::from_xml(const std::string& xml) {
  auto machine = std::make_unique<Machine>();
  if (!machine->describe(xml) || !machine->load())
    return fail(EINVAL, "no description of a machine in hwloc's XML");
  return Topology(std::move(machine));
}

NumaNode Topology::node_of_interface(const std::string& interface,
                                     const std::string& net_folder) const {
  if (distances_.nodes == 0) return kNoNumaNode;
  const std::string device = interface.substr(0, interface.find(':'));
  return node_of_device(std::filesystem::path(net_folder) / device, kStackedMax);
}

NumaNode Topology::node_of_memory(const std::vector<iovec>& fragments) const {
  if (distances_.nodes == 0 || fragments.empty() || fragments.front().iov_len == 0)
    return kNoNumaNode;
  return machine_->node_of(fragments.front().iov_base);
}

}  // namespace ulnet
