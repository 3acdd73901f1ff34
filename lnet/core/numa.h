// How far memory and devices are apart. Plain data: whoever knows the machine fills it in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ulnet::core {

// A NUMA node by its number in the operating system; kNoNumaNode: unknown, or it does not matter.
using NumaNode = int32_t;
inline constexpr NumaNode kNoNumaNode = -1;

// Shape: `values` is a square matrix by rows, from node i to node j at i * nodes + j, in the units
// of
//        the firmware's table (10 is local). Without nodes every distance is 0.
struct NumaDistances {
  size_t nodes = 0;
  std::vector<uint32_t> values;

  // From memory on one node to a device on another. What is not known of memory makes all devices
  // equal; what is not known of a device makes it as far as any.
  uint32_t between(NumaNode memory, NumaNode device) const {
    if (!knows(memory)) return 0;
    const auto row = values.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(memory) * nodes);
    if (!knows(device)) return *std::max_element(row, row + static_cast<ptrdiff_t>(nodes));
    return row[device];
  }

 private:
  bool knows(NumaNode node) const { return node >= 0 && static_cast<size_t>(node) < nodes; }
};

}  // namespace ulnet::core
