// Every recording of kernel nodes over TCP, played against our node in the place of each of its
// nodes: our node sends what the recorded one sent.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/interop/player.h"
#include "tests/interop/private_network.h"
#include "tests/interop/script.h"
#include "tests/support/pcap.h"

namespace ulnet::interop {
namespace {

// What is not played, or played in another way than whole and as recorded; with the reason.
struct Part {
  std::string capture;
  std::string node;       // an address of the node that is played; empty: every node
  std::string why;        // printed
  bool left_out = false;  // nothing is played
  ScriptLimits limits;
  std::vector<std::string> nids;  // when the recording does not tell
  int32_t conns_per_peer = 1;
  int32_t keepalive_s = 30;
  bool stops = false;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> kParts = {
      {.capture = "tcp-brw-64k-c8-cpp2", .why = "conns_per_peer 2", .conns_per_peer = 2},
      {.capture = "tcp-conns-per-peer-3", .why = "conns_per_peer 3", .conns_per_peer = 3},
  };
  return kParts;
}

const Part* find_part(const std::string& capture, const NodeAddresses& node) {
  for (const Part& part : parts()) {
    if (part.capture == capture && (part.node.empty() || node.contains(part.node))) return &part;
  }
  return nullptr;
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_VECTORS_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tcp") && name.ends_with(".pcap.gz")) {
      names.push_back(name.substr(0, name.size() - 8));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Settings settings_for(const std::vector<Nid>& nids, const Part& part) {
  Settings settings;
  for (const Nid& nid : nids) {
    NiSettings ni;
    ni.net = nid.net();
    ni.nid = nid;
    ni.tcp.conns_per_peer = part.conns_per_peer;
    ni.tcp.keepalive_s = part.keepalive_s;
    settings.nis.push_back(ni);
  }
  // Discoveries and pushes are asked for where the recording has them.
  settings.global.discovery = false;
  settings.node.log_level = "error";
  return settings;
}

std::set<std::string> addresses_of(const test::Capture& capture) {
  std::set<std::string> addresses;
  for (const test::TcpConnection& connection : capture.connections) {
    addresses.insert(connection.opener.address);
    addresses.insert(connection.listener.address);
  }
  return addresses;
}

class Replay : public testing::TestWithParam<std::string> {
 protected:
  void play_as(const test::Capture& capture, const NodeAddresses& node) {
    const Part whole;
    const Part* found = find_part(GetParam(), node);
    const Part& part = found != nullptr ? *found : whole;
    const std::string line = fmt::format("{} as {}", GetParam(), *node.begin());
    if (part.left_out) {
      fmt::print("{}: left out: {}\n", line, part.why);
      return;
    }
    std::vector<Nid> nids = find_nids(capture, node);
    if (!part.nids.empty()) nids.clear();
    for (const std::string& text : part.nids) nids.push_back(Nid::parse(text).value());
    std::set<std::string> addresses = addresses_of(capture);
    for (const Nid& nid : nids) addresses.insert(address_of(nid));
    const Status entered = enter_private_network(addresses);
    ASSERT_TRUE(entered.is_ok()) << entered.to_string();

    const Script script = make_script(capture, node, part.limits);
    ASSERT_EQ(script.failure, "");
    PlayOptions options;
    options.settings = settings_for(nids, part);
    options.keepalives = part.keepalive_s != whole.keepalive_s;
    options.stops = part.stops;
    Player player(script, options);
    const PlayReport report = player.play();
    for (const std::string& failure : report.failures) ADD_FAILURE() << line << ": " << failure;
    EXPECT_GT(report.pieces(), 0U) << line;
    fmt::print("{}: {}{}{}\n", line, report.to_string(), part.why.empty() ? "" : "; ", part.why);
  }
};

TEST_P(Replay, OurNodeSendsWhatTheRecordedNodeSent) {
  const auto capture =
      test::read_capture(std::filesystem::path(ULNET_VECTORS_DIR) / (GetParam() + ".pcap.gz"));
  ASSERT_TRUE(capture) << capture.error().to_string();
  for (const NodeAddresses& node : find_nodes(*capture)) play_as(*capture, node);
}

INSTANTIATE_TEST_SUITE_P(All, Replay, testing::ValuesIn(capture_names()),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// In a process of its own: what may not be done is not known before it is tried.
bool may_have_a_network(std::string* why) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const Status status = enter_private_network({"10.0.0.1"});
    if (!status.is_ok()) fmt::print("{}\n", status.to_string());
    std::fflush(nullptr);
    _exit(status.is_ok() ? 0 : 1);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  *why = "this needs the right to make a network namespace (CAP_SYS_ADMIN)";
  return ended == 0;
}

}  // namespace
}  // namespace ulnet::interop

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string why;
  if (!ulnet::interop::may_have_a_network(&why)) {
    fmt::print("SKIPPED: {}\n", why);
    return 77;
  }
  return RUN_ALL_TESTS();
}
