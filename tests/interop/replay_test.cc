// Every recording of kernel nodes over TCP, played against our node in the place of each of its
// nodes: our node sends what the recorded one sent.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "tests/interop/parts.h"
#include "tests/interop/private_network.h"
#include "tests/interop/replay.h"

namespace ulnet::interop {
namespace {

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, OurNodeSendsWhatTheRecordedNodeSent) {
  play_capture(GetParam());
}

TEST(Parts, NameRecordingsThatAreThere) {
  const std::vector<std::string> names = capture_names();
  EXPECT_GT(names.size(), 40U);
  for (const Part& part : parts()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), part.capture), 1) << part.capture;
    EXPECT_NE(part.why, "") << part.capture;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Replay, testing::ValuesIn(capture_names()),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// Of all recordings.
std::set<std::string> all_addresses() {
  std::set<std::string> addresses;
  for (const std::string& name : capture_names()) {
    for (const test::TcpConnection& connection : capture_of(name).connections) {
      addresses.insert(connection.opener.address);
      addresses.insert(connection.listener.address);
    }
  }
  return addresses;
}

}  // namespace
}  // namespace ulnet::interop

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  using namespace ulnet::interop;
  const ulnet::Status entered = enter_private_network(all_addresses());
  if (!entered.is_ok()) {
    fmt::print("SKIPPED: {}\n", entered.to_string());
    return entered.code() == EPERM ? 77 : 1;
  }
  return RUN_ALL_TESTS();
}
