// Every recording of kernel nodes over TCP, played against our node in the place of each of its
// nodes: our node sends what the recorded one sent.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
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

// What is not played, or played in another way than whole and as recorded; with the reason. A node
// may have several parts: each is played.
struct Part {
  std::string capture;
  std::string node;       // an address of the node that is played; empty: every node
  std::string why;        // printed
  bool left_out = false;  // nothing is played
  ScriptLimits limits;
  std::vector<std::string> nids;  // when the recording does not tell
  int32_t conns_per_peer = 1;
  int32_t keepalive_s = 30;
  bool router = false;
  bool stops = false;
  bool discovery = true;
  std::vector<std::string> pinged;
  std::string more_discovery;  // see PlayOptions
};

constexpr char kRouter[] = "the router's place: it claims to forward, ours does not yet";
constexpr char kO2ib[] = "has a NI on o2ib, for which there is no driver yet";
constexpr char kNoLnet[] = "no node of LNet";
constexpr char kOff[] = "discovery off, as its notes say";
constexpr char kMetBefore[] = "discovery done before the recording";
constexpr char kOverIpv4[] = "push over IPv4";

// `met`: the router remembers from before the peer's start that it has told that peer.
Part router(std::string capture, std::string node, bool met = true) {
  return {.capture = std::move(capture),
          .node = std::move(node),
          .why = kRouter,
          .router = true,
          .more_discovery = met ? kMetBefore : ""};
}

const std::vector<Part> kParts = {
    {.capture = "tcp-2.15-discovers-2.17-with-ipv6",
     .node = "10.77.0.1",
     .why = "without the pushes under the IPv6 NID cut to 4 bytes, a fault of that version",
     .limits = {.left_out = {{"10.77.0.4", 988}}},
     .more_discovery = kOverIpv4},
    {.capture = "tcp-2.15-discovers-2.17-with-ipv6",
     .node = "10.77.0.4",
     .why = "without connections whose HELLO has a NID cut to 4 bytes: the address is not the "
            "sender's, we refuse it (spec tcp-lnd 10.2)",
     .limits = {.left_out = {{"10.77.0.1", 1021}, {"10.77.0.1", 1022}, {"10.77.0.1", 1023}}}},
    {.capture = "tcp-brw-64k-c8-cpp2", .why = "conns_per_peer 2", .conns_per_peer = 2},
    {.capture = "tcp-conns-per-peer-3", .why = "conns_per_peer 3", .conns_per_peer = 3},
    {.capture = "tcp-conn-refused", .node = "10.77.0.2", .why = kNoLnet, .left_out = true},
    {.capture = "tcp-conn-wrong-net",
     .node = "10.77.0.2",
     .why = "in net tcp, as its notes say",
     .nids = {"10.77.0.2@tcp"}},
    {.capture = "tcp-conn-wrong-nid",
     .node = "10.77.0.12",
     .why = "the address is no NI's, as its notes say",
     .nids = {"10.77.0.2@tcp"}},
    {.capture = "tcp-discovery-peer-off", .node = "10.77.0.2", .why = kOff, .discovery = false},
    {.capture = "tcp-discovery-push",
     .node = "10.77.0.1",
     .why = "pings of one NID, as its notes say: the paths are our node's choice",
     .pinged = {"10.77.0.2@tcp", "10.77.0.2@tcp", "10.77.0.2@tcp"}},
    {.capture = "tcp-host-probes", .why = "probe by probe in Probes", .left_out = true},
    {.capture = "tcp-idle-noop", .why = "keepalive after 1 s instead of 30", .keepalive_s = 1},
    {.capture = "tcp-link-cut",
     .node = "10.77.0.1",
     .why = "discovery off; before the cut (silence of 70 s is not waited for, nor its frames "
            "recorded)",
     .limits = {.until_s = 1},
     .discovery = false},
    {.capture = "tcp-link-cut",
     .node = "10.77.0.1",
     .why = "discovery off; after the cut",
     .limits = {.from_s = 84},
     .discovery = false,
     .more_discovery = kMetBefore},
    {.capture = "tcp-link-cut", .node = "10.77.0.2", .why = "discovery off", .discovery = false},
    {.capture = "tcp-o2ib-router-brw-4k", .node = "10.77.0.2", .why = kO2ib, .left_out = true},
    {.capture = "tcp-o2ib-router-brw-read-1m-o2ib-side",
     .why = "nothing of it is on tcp",
     .left_out = true},
    {.capture = "tcp-o2ib-router-brw-write-1m-o2ib-side",
     .why = "nothing of it is on tcp",
     .left_out = true},
    {.capture = "tcp-o2ib-router-ping-discover",
     .node = "10.77.0.2",
     .why = kO2ib,
     .left_out = true},
    {.capture = "tcp-ping", .why = kOff, .discovery = false},
    {.capture = "tcp-ping-then-unconfigure",
     .node = "10.77.0.1",
     .why = "stop() where the node was unconfigured",
     .stops = true},
    router("tcp-router-brw-4k", "10.77.0.2"),
    router("tcp-router-brw-read-1m-farside", "10.77.1.2"),
    router("tcp-router-brw-write-1m-nearside", "10.77.0.2"),
    router("tcp-router-discover", "10.77.0.2"),
    router("tcp-router-enable", "10.77.0.2", false),
    router("tcp-router-ping", "10.77.0.2"),
    {.capture = "tcp-stale-restarted-sends", .node = "10.77.0.1", .why = kOff, .discovery = false},
    {.capture = "tcp-stale-restarted-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its first life",
     .limits = {.until_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-restarted-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its second life",
     .limits = {.from_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-survivor-sends", .node = "10.77.0.1", .why = kOff, .discovery = false},
    {.capture = "tcp-stale-survivor-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its first life",
     .limits = {.until_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-survivor-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its second life",
     .limits = {.from_s = 100},
     .discovery = false},
    {.capture = "tcp-untyped-conns-hang",
     .node = "10.77.0.1",
     .why = "dials with type ANY, a known fault: we never do",
     .left_out = true},
    {.capture = "tcp46-mixed-to-v4only",
     .node = "10.77.0.2",
     .why = "without its dial of an IPv6 NID from an IPv4 one: we never do (spec tcp-lnd 2.1)",
     .limits = {.left_out = {{"fd77::1", 988}}},
     .more_discovery = kOverIpv4},
};

bool concerns(const Part& part, const std::string& capture, const NodeAddresses& node) {
  return part.capture == capture && (part.node.empty() || node.contains(part.node));
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
  settings.global.discovery = part.discovery;
  settings.node.log_level = "error";
  return settings;
}

test::Capture capture_of(const std::string& name) {
  auto capture = test::read_capture(std::filesystem::path(ULNET_VECTORS_DIR) / (name + ".pcap.gz"));
  EXPECT_TRUE(capture) << capture.error().to_string();
  return capture ? std::move(*capture) : test::Capture{};
}

class Replay : public testing::TestWithParam<std::string> {
 protected:
  void play_as(const test::Capture& capture, const NodeAddresses& node) {
    const Part whole;
    bool found = false;
    for (const Part& part : kParts) {
      if (!concerns(part, GetParam(), node)) continue;
      found = true;
      play_part(capture, node, part);
    }
    if (!found) play_part(capture, node, whole);
  }

 private:
  void play_part(const test::Capture& capture, const NodeAddresses& node, const Part& part) {
    const std::string line = fmt::format("{} as {}", GetParam(), *node.begin());
    if (part.left_out) {
      fmt::print("{}: left out: {}\n", line, part.why);
      return;
    }
    std::vector<Nid> nids = find_nids(capture, node);
    if (!part.nids.empty()) nids.clear();
    for (const std::string& text : part.nids) nids.push_back(Nid::parse(text).value());
    const Script script = make_script(capture, node, part.limits);
    ASSERT_EQ(script.failure, "");
    PlayOptions options;
    options.settings = settings_for(nids, part);
    options.keepalives = part.keepalive_s != Part().keepalive_s;
    options.router = part.router;
    options.stops = part.stops;
    for (const std::string& text : part.pinged) options.pinged.push_back(Nid::parse(text).value());
    options.more_discovery = part.more_discovery;
    const PlayReport report = Player(script, options).play();
    for (const std::string& failure : report.failures) ADD_FAILURE() << line << ": " << failure;
    EXPECT_GT(report.pieces(), 0U) << line;
    if (!part.more_discovery.empty()) {
      EXPECT_GT(report.exceptions.count(part.more_discovery), 0U) << line;
    }
    fmt::print("{}: {}", line, report.to_string());
    if (script.routed > 0) fmt::print("; routed, left out x{}", script.routed);
    fmt::print("{}{}\n", part.why.empty() ? "" : "; ", part.why);
  }
};

TEST_P(Replay, OurNodeSendsWhatTheRecordedNodeSent) {
  const test::Capture capture = capture_of(GetParam());
  const std::vector<NodeAddresses> nodes = find_nodes(capture);
  for (const NodeAddresses& node : nodes) play_as(capture, node);
  for (const Part& part : kParts) {
    if (part.capture != GetParam()) continue;
    const bool used = (nodes.empty() && part.left_out) ||
                      std::any_of(nodes.begin(), nodes.end(), [&](const NodeAddresses& node) {
                        return concerns(part, GetParam(), node);
                      });
    EXPECT_TRUE(used) << "no node " << part.node << " in " << part.capture;
    if (nodes.empty()) fmt::print("{}: left out: {}\n", GetParam(), part.why);
  }
  if (nodes.empty()) {
    EXPECT_TRUE(std::any_of(kParts.begin(), kParts.end(), [&](const Part& part) {
      return part.capture == GetParam() && part.left_out;
    })) << "neither played nor listed";
  }
}

TEST(Parts, NameRecordingsThatAreThere) {
  const std::vector<std::string> names = capture_names();
  EXPECT_GT(names.size(), 40U);
  for (const Part& part : kParts) {
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
