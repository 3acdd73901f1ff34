// Which address a NI gets: by NID, by device, by alias label; in whatever order the kernel lists
// them.
#include "lnd_tcp/interfaces.h"
#include "tests/support/nid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ulnet::testing {
namespace {

using tcp::InterfaceAddress;

using test::nid;

// SL-9: one device with three addresses and two labels that are prefixes of each other; an IPv6
// address; lo.
std::vector<InterfaceAddress> host() {
  return {{"lo", "lo", nid("127.0.0.1@tcp")},      {"eth0", "eth0", nid("10.0.1.1@tcp")},
          {"eth0:1", "eth0", nid("10.0.1.2@tcp")}, {"eth0:10", "eth0", nid("10.0.1.3@tcp")},
          {"eth0", "eth0", nid("fd77::1@tcp")},    {"eth1:a", "eth1", nid("10.0.2.1@tcp")},
          {"eth2", "eth2", nid("fd78::1@tcp")}};
}

NiSettings by_name(const std::string& interface, NetId net = {NetType::kTcp, 0}) {
  NiSettings settings;
  settings.net = net;
  settings.interface = interface;
  return settings;
}
NiSettings by_nid(std::string_view text, const std::string& interface = "") {
  NiSettings settings;
  settings.nid = nid(text);
  settings.net = settings.nid->net();
  settings.interface = interface;
  return settings;
}

TEST(TcpInterfaces, ByNameLabelAndAddressInAnyOrder) {
  auto addresses = host();
  std::sort(addresses.begin(), addresses.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  do {
    const auto address_of = [&](const NiSettings& settings) {
      const auto chosen = tcp::choose_interface(addresses, settings);
      return chosen ? chosen->nid.to_string() + " " + chosen->device : chosen.error().to_string();
    };
    ASSERT_EQ(address_of(by_name("eth0")), "10.0.1.1@tcp eth0");
    ASSERT_EQ(address_of(by_name("eth0:1")), "10.0.1.2@tcp eth0");
    ASSERT_EQ(address_of(by_name("eth0:10")), "10.0.1.3@tcp eth0");
    ASSERT_EQ(address_of(by_name("eth1")), "10.0.2.1@tcp eth1");
    ASSERT_EQ(address_of(by_name("eth2")), "fd78::1@tcp eth2");
    ASSERT_EQ(address_of(by_name("eth0", {NetType::kTcp, 3})), "10.0.1.1@tcp3 eth0");
    ASSERT_EQ(address_of(by_nid("10.0.1.3@tcp")), "10.0.1.3@tcp eth0");
    ASSERT_EQ(address_of(by_nid("fd77::1@tcp4")), "fd77::1@tcp4 eth0");
    ASSERT_EQ(address_of(by_nid("127.9.9.9@tcp")), "127.9.9.9@tcp lo");
  } while (
      std::next_permutation(addresses.begin(), addresses.end(),
                            [](const auto& a, const auto& b) { return a.address < b.address; }));
}

TEST(TcpInterfaces, ErrorsNameWhatIsWrong) {
  const auto code_of = [](const NiSettings& settings) {
    const auto chosen = tcp::choose_interface(host(), settings);
    return chosen ? 0 : chosen.error().code();
  };
  EXPECT_EQ(code_of(by_name("eth0:2")), ENODEV);
  EXPECT_EQ(code_of(by_name("eth")), ENODEV);
  EXPECT_EQ(code_of(by_nid("10.0.9.9@tcp")), EADDRNOTAVAIL);
  EXPECT_EQ(code_of(by_nid("10.0.1.1@tcp", "eth1")), EADDRNOTAVAIL);
  EXPECT_EQ(code_of(by_nid("10.0.1.1@tcp", "eth0:1")), EADDRNOTAVAIL);
  EXPECT_EQ(code_of(by_nid("10.0.1.2@tcp", "eth0:1")), 0);
  EXPECT_EQ(code_of(by_nid("10.0.1.2@tcp", "eth0")), 0);
  EXPECT_EQ(code_of(by_name("")), EINVAL);
  NiSettings other_net = by_nid("10.0.1.1@tcp");
  other_net.net.number = 2;
  EXPECT_EQ(code_of(other_net), EINVAL);
  const auto missing = tcp::choose_interface(host(), by_name("ib0"));
  EXPECT_THAT(missing.error().text(),
              ::testing::AllOf(::testing::HasSubstr("'ib0'"), ::testing::HasSubstr("eth0:10")));
}

TEST(TcpInterfaces, ConnectionsByLinkSpeed) {
  // Table of spec tcp-lnd 6.1.
  const std::vector<std::pair<int64_t, int32_t>> table = {
      {1000, 1},   {2500, 1},   {10000, 2},  {25000, 3}, {40000, 3}, {50000, 3},
      {100000, 4}, {200000, 4}, {400000, 5}, {100, 1},   {-1, 1},    {0, 1}};
  for (const auto& [speed, conns] : table)
    EXPECT_EQ(tcp::conns_per_peer_for_speed(speed), conns) << speed;
}

TEST(TcpInterfaces, ThisHostHasLo) {
  const auto addresses = tcp::list_addresses();
  ASSERT_TRUE(addresses);
  const bool found = std::any_of(addresses->begin(), addresses->end(), [](const auto& each) {
    return each.label == "lo" && each.address == nid("127.0.0.1@tcp") && each.up;
  });
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace ulnet::testing
