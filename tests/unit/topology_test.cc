// Where memory and devices are: hwloc's tables and the kernel's files, of this machine and of
// made-up ones.
#include "lnet/engine/topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace ulnet {
namespace {

using core::kNoNumaNode;

// A machine whose two nodes have the numbers 0 and 2, as hwloc describes it, with this table.
std::string machine(const std::string& table) {
  const auto node = [](int number, int id) {
    const std::string sets = fmt::format(
        R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="{0:#x}" complete_nodeset="{0:#x}")",
        1 << number);
    return fmt::format(
        R"(<object type="Group" {0} gp_index="{2}" kind="1001" subkind="0">
             <object type="NUMANode" os_index="{1}" {0} gp_index="{3}" local_memory="1048576"/>
             <object type="PU" os_index="{1}" {0} gp_index="{4}"/>
           </object>)",
        sets, number, id, id + 1, id + 2);
  };
  const char* all =
      R"(cpuset="0x5" complete_cpuset="0x5" allowed_cpuset="0x5" nodeset="0x5" complete_nodeset="0x5"
         allowed_nodeset="0x5")";
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd">
         <topology version="2.0"><object type="Machine" os_index="0" {} gp_index="1">{}{}</object>
         {}</topology>)",
      all, node(0, 10), node(2, 20), table);
}

const std::string kTable =
    R"(<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
         <indexes length="4">0 2 </indexes><u64values length="12">10 21 31 11 </u64values>
       </distances2>)";

class InterfaceTest : public testing::Test {
 protected:
  InterfaceTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ulnet-topology-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~InterfaceTest() override { std::filesystem::remove_all(folder_); }

  void add_device(const std::string& name, int node) {
    std::filesystem::create_directories(folder_ / name / "device");
    std::ofstream(folder_ / name / "device" / "numa_node") << node << '\n';
  }
  void stack(const std::string& upper, const std::string& lower) {
    std::filesystem::create_directories(folder_ / upper);
    std::filesystem::create_directory_symlink(folder_ / lower,
                                              folder_ / upper / ("lower_" + lower));
  }
  core::NumaNode node_of(const std::string& name) {
    return topology_.node_of_interface(name, folder_.string());
  }

  std::filesystem::path folder_;
  Topology topology_ = Topology::from_xml(machine(kTable)).value();
};

TEST(Topology, DistancesAreThoseOfTheTable) {
  const core::NumaDistances distances = Topology::from_xml(machine(kTable)).value().distances();
  EXPECT_EQ(distances.nodes, 3U);
  EXPECT_EQ(distances.between(0, 0), 10U);
  EXPECT_EQ(distances.between(0, 2), 21U);
  EXPECT_EQ(distances.between(2, 0), 31U);
  EXPECT_EQ(distances.between(2, 2), 11U);
}

TEST(Topology, WithoutATableOnlyNearAndFarAreKnown) {
  const core::NumaDistances distances = Topology::from_xml(machine("")).value().distances();
  EXPECT_EQ(distances.between(0, 0), 10U);
  EXPECT_EQ(distances.between(0, 2), 20U);
}

TEST(Topology, WhatIsNoMachineIsRefused) {
  const auto topology = Topology::from_xml("<topology>");
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(topology.error().code(), EINVAL);
}

TEST(Topology, OfThisMachine) {
  const Topology topology;
  int word = 1;  // touched, so it is somewhere
  const core::NumaNode node = topology.node_of_memory({{&word, sizeof word}});
  EXPECT_EQ(topology.node_of_memory({}), kNoNumaNode);
  EXPECT_EQ(topology.node_of_interface("lo"), kNoNumaNode);
  if (topology.distances().nodes == 0) {
    EXPECT_EQ(node, kNoNumaNode);
    return;
  }
  ASSERT_GE(node, 0);
  ASSERT_LT(static_cast<size_t>(node), topology.distances().nodes);
  EXPECT_GT(topology.distances().between(node, node), 0U);
}

TEST_F(InterfaceTest, ADeviceIsWhereTheKernelSays) {
  add_device("eth0", 2);
  add_device("eth1", -1);
  EXPECT_EQ(node_of("eth0"), 2);
  EXPECT_EQ(node_of("eth0:1"), 2);
  EXPECT_EQ(node_of("eth1"), kNoNumaNode);
  EXPECT_EQ(node_of("eth9"), kNoNumaNode);
}

TEST_F(InterfaceTest, WhatIsStackedIsWhereItsDeviceIs) {
  add_device("eth0", 2);
  stack("bond0", "eth0");
  stack("bond0.5", "bond0");
  stack("loop0", "loop0");  // no kernel makes one; it ends all the same
  EXPECT_EQ(node_of("bond0.5"), 2);
  EXPECT_EQ(node_of("loop0"), kNoNumaNode);
}

}  // namespace
}  // namespace ulnet
