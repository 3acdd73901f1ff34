// The printers, byte by byte against recorded lnetctl output (tests/vectors/lnetctl).
#include "config/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "config/dump.h"
#include "tests/support/nid.h"

namespace ulnet::config {
namespace {

// The recorded output of one command; lines `rc=N` are the recording shell's.
std::string recorded(const std::string& name) {
  std::ifstream file(std::string(ULNET_VECTORS) + "/lnetctl/" + name + ".yaml");
  EXPECT_TRUE(file) << name;
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("rc=")) text += line + '\n';
  }
  return text;
}

using test::nid;

// Node A of the recordings.
std::vector<NetInfo> recorded_nets() {
  NiInfo lo;
  lo.nid = Nid::lo();
  const auto tcp_ni = [](const char* address, const char* interface, TypeCounts sent,
                         TypeCounts received) {
    NiInfo ni;
    ni.nid = nid(address);
    ni.interface = interface;
    ni.stats = {sent, received, {}};
    ni.tcp = TcpTunables{.conns_per_peer = 1, .timeout_s = 50};
    return ni;
  };
  return {{NetId::lo(), {lo}},
          {NetId{NetType::kTcp, 0},
           {tcp_ni("10.77.0.1@tcp", "eth0", {15, 4, 0, 0, 0}, {16, 1, 3, 1, 0}),
            tcp_ni("10.77.1.1@tcp", "eth1", {14, 3, 0, 0, 0}, {14, 1, 2, 2, 0})}}};
}

PeerNiInfo peer_ni(const char* address, std::optional<bool> up, int32_t min_credits,
                   TypeCounts sent, TypeCounts received) {
  PeerNiInfo ni;
  ni.nid = nid(address);
  ni.up = up;
  ni.max_ni_tx_credits = ni.available_tx_credits = ni.available_rtr_credits = ni.min_rtr_credits =
      8;
  ni.min_tx_credits = min_credits;
  ni.stats = {sent, received, {}};
  return ni;
}

std::vector<PeerInfo> recorded_peers() {
  return {{nid("10.77.0.2@tcp"),
           true,
           131345,
           {peer_ni("10.77.0.2@tcp", true, 7, {6, 3, 0, 0, 0}, {6, 0, 3, 2, 0}),
            peer_ni("10.77.1.2@tcp", true, 7, {5, 0, 0, 0, 0}, {7, 0, 0, 0, 0})}},
          {nid("10.77.0.1@tcp"),
           true,
           273,
           {peer_ni("10.77.0.1@tcp", {}, 7, {9, 2, 0, 0, 0}, {8, 1, 1, 1, 0}),
            peer_ni("10.77.1.1@tcp", {}, 7, {9, 1, 0, 0, 0}, {9, 0, 1, 0, 0})}},
          {nid("10.77.0.50@tcp"),
           true,
           9,
           {peer_ni("10.77.0.50@tcp", {}, 8, {}, {}), peer_ni("10.77.0.51@tcp", {}, 8, {}, {})}}};
}

std::string net_text(int level, bool own_keys = false) {
  return dump_style_a(show_nets(recorded_nets(), {level, own_keys}), kIndentShow);
}
std::string peer_text(int level, bool own_keys = false) {
  return dump_style_a(show_peers(recorded_peers(), {level, own_keys}), kIndentShow);
}

TEST(ShowNets, EveryLevelAsRecorded) {
  EXPECT_EQ(net_text(0), recorded("net-show"));
  EXPECT_EQ(net_text(1), recorded("net-show-v1"));
  EXPECT_EQ(net_text(2), recorded("net-show-v2"));
  EXPECT_EQ(net_text(3), recorded("net-show-v2"));
}

TEST(ShowNets, LevelFourButForThePolicyRule) {
  std::string text = recorded("net-show-v4");
  // The recording node had the rule "tcp: priority 0"; policy rules are not there yet.
  for (size_t at; (at = text.find("net priority: 0")) != std::string::npos;)
    text.replace(at, 15, "net priority: -1");
  EXPECT_EQ(net_text(4), text);
}

TEST(ShowNets, DownAndFatal) {
  NiInfo ni;
  ni.nid = nid("10.0.0.1@tcp");
  ni.interface = "eth0";
  ni.up = false;
  ni.fatal = true;
  const std::string text = dump_style_a(show_nets({{ni.nid.net(), {ni}}}, {2, false}), kIndentShow);
  EXPECT_THAT(text, testing::HasSubstr("            status: down\n"));
  EXPECT_THAT(text,
              testing::HasSubstr(
                  "                  fatal_error: 1\n                  health value: 1000\n"));
}

TEST(ShowPeers, EveryLevelAsRecorded) {
  EXPECT_EQ(peer_text(0), recorded("peer-show"));
  EXPECT_EQ(peer_text(1), recorded("peer-show-v1"));
  EXPECT_EQ(peer_text(2), recorded("peer-show-v2"));
  EXPECT_EQ(peer_text(3), recorded("peer-show-v3"));
  EXPECT_EQ(peer_text(4), recorded("peer-show-v4"));
}

TEST(ShowPeers, ListAsRecorded) {
  EXPECT_EQ(dump_style_a(list_peers(recorded_peers()), kIndentShow), recorded("peer-list"));
}

TEST(ShowPeers, NothingForNoPeers) {
  EXPECT_EQ(dump_style_a(show_peers({}, {4, true}), kIndentShow), "");
  EXPECT_EQ(dump_style_a(list_peers({}), kIndentShow), "");
}

TEST(ShowOwnKeys, StandBehindLnetctlsKeys) {
  std::vector<NetInfo> nets = recorded_nets();
  NiInfo& ni = nets[1].nis[1];
  ni.tx_credits = 255;
  ni.tx_credits_min = 250;
  ni.waiting = 1;
  ni.delayed = 2;
  ni.failures = {{"local NI down", 2}};
  ni.driver = {{"connections", 3}};
  const std::string own =
      "            ulnet:\n"
      "                  health_sensitivity: 100\n"
      "                  lnd_timeout:\n"
      "                        in_force: 0\n"
      "                        reason: derived\n"
      "                        attempt_bound: 0\n"
      "                  tx_credits: 255\n"
      "                  tx_credits_min: 250\n"
      "                  waiting: 1\n"
      "                  delayed: 2\n"
      "                  failures:\n"
      "                        local NI down: 2\n"
      "                  driver:\n"
      "                        connections: 3\n";
  EXPECT_THAT(dump_style_a(show_nets(nets, {4, true}), kIndentShow),
              testing::EndsWith("            CPT: \"[0]\"\n" + own));

  PeerNiInfo peer = peer_ni("10.77.0.2@tcp", true, 7, {}, {});
  peer.connections = {
      {"control", "active", "10.77.0.1:1023", "10.77.0.2:988", 10, 20, 0, 5, 1500, 1448}};
  EXPECT_THAT(dump_style_a(show_peers({{peer.nid, true, 0, {peer}}}, {4, true}), kIndentShow),
              testing::EndsWith("                  next_ping: 0\n"
                                "            ulnet:\n"
                                "                  health_sensitivity: 100\n"
                                "                  waiting: 0\n"
                                "                  failures: {}\n"
                                "                  connections:\n"
                                "                  -     type: control\n"
                                "                        direction: active\n"
                                "                        local: 10.77.0.1:1023\n"
                                "                        remote: 10.77.0.2:988\n"
                                "                        sent_bytes: 10\n"
                                "                        received_bytes: 20\n"
                                "                        queued_bytes: 0\n"
                                "                        unacked_bytes: 5\n"
                                "                        path_mtu: 1500\n"
                                "                        mss: 1448\n"));
}

TEST(ShowPeers, WhatPoliciesSay) {
  PeerNiInfo ni = peer_ni("10.0.0.2@tcp", true, 8, {}, {});
  ni.udsp = {.net_priority = 4, .preferred_sources = {nid("10.0.0.1@tcp"), nid("10.0.0.3@tcp")}};
  const std::string text =
      dump_style_a(show_peers({{ni.nid, true, 0, {ni}}}, {4, false}), kIndentShow);
  EXPECT_THAT(text, testing::HasSubstr("net priority: 4\n"));
  EXPECT_THAT(text, testing::HasSubstr("nid priority: -1\n"));
  EXPECT_THAT(text, testing::HasSubstr("NID-0: 10.0.0.1@tcp\n"));
  EXPECT_THAT(text, testing::HasSubstr("NID-1: 10.0.0.3@tcp\n"));
}

TEST(ShowStatistics, AsRecorded) {
  Statistics s;
  s.msgs_max = 2;
  s.rst_alloc = 8;
  s.send_count = 36;
  s.recv_count = 40;
  s.send_length = 4108;
  s.recv_length = 266380;
  EXPECT_EQ(dump_style_b(show_statistics(s, false)), recorded("stats-show"));
  EXPECT_EQ(dump_style_b(show_statistics({}, false)), recorded("stats-reset"));
  s.recovery_pings = 5;
  s.drops = {{"no match", 7}};
  EXPECT_EQ(dump_style_b(show_statistics(s, true)),
            recorded("stats-show") +
                "    ulnet:\n        recovery_pings: 5\n        drops:\n            no match: 7\n");
}

TEST(ShowStatistics, EachKeyIsItsOwnCounter) {
  Statistics s;
  uint64_t n = 0;
  for (uint64_t* counter : {&s.msgs_alloc,
                            &s.msgs_max,
                            &s.rst_alloc,
                            &s.errors,
                            &s.send_count,
                            &s.resend_count,
                            &s.response_timeout_count,
                            &s.local_interrupt_count,
                            &s.local_dropped_count,
                            &s.local_aborted_count,
                            &s.local_no_route_count,
                            &s.local_timeout_count,
                            &s.local_error_count,
                            &s.remote_dropped_count,
                            &s.remote_error_count,
                            &s.remote_timeout_count,
                            &s.network_timeout_count,
                            &s.failed_resends,
                            &s.successful_resends,
                            &s.recv_count,
                            &s.route_count,
                            &s.drop_count,
                            &s.send_length,
                            &s.recv_length,
                            &s.route_length,
                            &s.drop_length}) {
    *counter = ++n;
  }
  n = 0;
  const Json tree = show_statistics(s, false);
  for (const auto& [key, value] : tree["statistics"].items()) EXPECT_EQ(value, ++n) << key;
  EXPECT_EQ(n, 26u);
}

TEST(ShowGlobal, AsRecorded) {
  EXPECT_EQ(dump_style_b(show_global({})), recorded("global-show"));
}

// HL-7: what a person needs to compute when an operation ends.
TEST(ShowGlobal, WithTheBoundsThatFollow) {
  NiInfo lo;
  lo.nid = Nid::lo();
  NiInfo clamped;
  clamped.nid = nid("10.0.0.1@tcp");
  clamped.lnd_timeout_asked_s = 50;
  clamped.lnd_timeout_s = 49;
  clamped.attempt_bound_s = 148;
  NiInfo derived = clamped;
  derived.nid = nid("10.0.0.2@tcp");
  derived.lnd_timeout_asked_s = 0;
  NiInfo set = clamped;
  set.nid = nid("10.0.0.3@tcp");
  set.lnd_timeout_asked_s = set.lnd_timeout_s = 7;
  set.attempt_bound_s = 22;
  const std::vector<NetInfo> nets = {{NetId::lo(), {lo}},
                                     {clamped.nid.net(), {clamped, derived, set}}};
  EXPECT_EQ(dump_style_b(show_global({}, nets)), recorded("global-show") + R"(    ulnet:
        operation_bound: 150
        lnd_timeouts:
            - nid: 10.0.0.1@tcp
              in_force: 49
              reason: "clamped: 50 is more than transaction_timeout leaves for an attempt"
              attempt_bound: 148
            - nid: 10.0.0.2@tcp
              in_force: 49
              reason: derived
              attempt_bound: 148
            - nid: 10.0.0.3@tcp
              in_force: 7
              reason: set
              attempt_bound: 22
)");
}

// Ours, and so printed only where somebody set it.
TEST(ShowSensitivity, WhereItIsSet) {
  NiInfo ni;
  ni.nid = nid("10.0.0.1@tcp");
  const auto text = [&] {
    return dump_style_a(show_nets({{ni.nid.net(), {ni}}}, {2, false}), kIndentShow);
  };
  EXPECT_THAT(text(), testing::Not(testing::HasSubstr("health_sensitivity")));
  ni.tunables.health_sensitivity = 20;
  ni.own_health_sensitivity = 30;
  EXPECT_THAT(text(), testing::HasSubstr("                  credits: 256\n"
                                         "                  health_sensitivity: 20\n"));
  EXPECT_THAT(text(), testing::HasSubstr("            CPT: \"[0]\"\n"
                                         "            health_sensitivity: 30\n"));
  PeerInfo peer{nid("10.0.0.2@tcp"), true, 0, {}, {}};
  peer.own_health_sensitivity = 40;
  EXPECT_EQ(show_peers({peer}, {1, false})["peer"][0]["health_sensitivity"], 40);
  EXPECT_FALSE(show_peers({peer}, {0, false})["peer"][0].contains("health_sensitivity"));
}

TEST(ShowPing, AsRecorded) {
  const PingResult result{
      nid("10.77.0.2@tcp"), true, false, 0, {nid("10.77.0.2@tcp"), nid("10.77.1.2@tcp")}, 0};
  EXPECT_EQ(dump_style_a({{"ping", Json::array({show_ping(result)})}}, kIndentPing),
            recorded("ping"));
  EXPECT_EQ(
      dump_style_a({{"ping", Json::array({show_ping(result), show_ping(result)})}}, kIndentPing),
      recorded("ping-two"));
}

TEST(ErrorBlocks, AsRecorded) {
  EXPECT_EQ(error_style_a({"show", "net", -3, "Network is down"}),
            recorded("err-net-show-missing"));
  EXPECT_EQ(error_style_b({"add", "transaction_timeout", -61,
                           "cannot configure transaction timeout: Invalid argument"}),
            recorded("err-set-bad"));
  EXPECT_EQ(error_list("ping", {{"manage", "ping", -113,
                                 "failed to ping 10.77.0.77@tcp: No route to host"}}),
            recorded("err-ping-dead"));
  EXPECT_EQ(error_style_a(
                {"manage", "ping", -22, "\"Unable to parse nidlist: no valid NIDs in string\""}) +
                error_style_a({"manage", "discover", -22,
                               "\"Unable to parse nidlist: invalid NID in nidstr\""}),
            recorded("err-bad-nid"));
}

// ---- faults. No recording has a rule in it; keys and order are spec config 8.10.

TEST(ShowFaults, AreAListWithLnetctlsKeys) {
  FaultRule drop;
  drop.source = Nid::any();
  drop.dest = parse_fault_nid("tcp1").value();
  drop.rate = 10;
  drop.messages = kFaultPut | kFaultGet;
  drop.portals = uint64_t{1} << 63 | 2;
  drop.health_errors = 1U << 2 | 1U << 9;
  EXPECT_EQ(dump_style_a(show_faults({{.rule = drop, .examined = 21, .put = 2, .acted = 2}}, false),
                         kIndentShow),
            "fault:\n"
            "-     rule_type: drop\n"
            "      fa_src: <?>\n"
            "      fa_dst: 255.255.255.255@tcp1\n"
            "      fa_ptl_mask: 9223372036854775810\n"
            "      fa_msg_mask: 6\n"
            "      da_rate: 10\n"
            "      da_interval: 0\n"
            "      ds_dropped: 2\n"
            "      fs_count: 21\n"
            "      fs_put: 2\n"
            "      fs_ack: 0\n"
            "      fs_get: 0\n"
            "      fs_reply: 0\n");
  FaultRule delay;
  delay.kind = FaultKind::kDelay;
  delay.source = delay.dest = *Nid::parse("10.0.0.1@tcp");
  delay.interval_s = 5;
  delay.latency_s = 7;
  const Json tree = show_faults({{.rule = delay, .acted = 3}}, false);
  EXPECT_EQ(tree["fault"][0].dump(),
            R"({"rule_type":"delay","fa_src":"10.0.0.1@tcp","fa_dst":"10.0.0.1@tcp",)"
            R"("fa_ptl_mask":0,"fa_msg_mask":0,"la_rate":0,"la_interval":5,"la_latency":7,)"
            R"("ls_delayed":3,"fs_count":0,"fs_put":0,"fs_ack":0,"fs_get":0,"fs_reply":0})");
  EXPECT_EQ(show_faults({{.rule = drop}}, true)["fault"][0]["ulnet"].dump(),
            R"({"source":"*","dest":"tcp1","rate":10,"portal":[1,63],"message":["PUT","GET"],)"
            R"("health_error":["local_dropped","remote_timeout"]})");
  EXPECT_EQ(show_faults({}, true).dump(), "{}");
}

// UX-2: whatever the text is made of.
TEST(ErrorBlocks, EscapeWhatWouldBreakThem) {
  EXPECT_EQ(error_style_a({"show", "net", -22, "a \"b\": \\c\n\td\x7F"}),
            "---\nshow:\n-     net:\n      errno: -22\n      descr: ! \"a \\\"b\\\": "
            "\\\\c\\n\\x09d\\x7F\"\n...\n");
  EXPECT_EQ(error_list("ping", {{"manage", "ping", -22, "it's"}, {"manage", "ping", -22, "a\nb"}}),
            "manage:\n- ping:\n  errno: -22\n  descr: ! 'it''s'\n- ping:\n  errno: -22\n  descr: ! "
            "\"a\\nb\"\n");
  EXPECT_EQ(error_tree({{"show", "net", -22, "x"}}).dump(),
            R"({"show":[{"net":null,"errno":-22,"name":"EINVAL","descr":"x"}]})");
}

TEST(Dump, QuotesOnlyWhatYamlWouldMisread) {
  const Json tree = {{"a", "plain word"},  {"b", "true"}, {"c", "12"},          {"d", ""},
                     {"e", "x: y"},        {"f", "<?>"},  {"g", "fe80::1@tcp"}, {"h", "0x1f"},
                     {"i", "trailing:"},   {"j", "# no"}, {"k", true},          {"l", nullptr},
                     {"m", Json::array()}, {"n", -1.5},   {"o", "10.0.0.1:988"}};
  EXPECT_EQ(dump_style_a(tree, 6),
            "a: plain word\nb: \"true\"\nc: \"12\"\nd: \"\"\ne: \"x: y\"\nf: <?>\ng: "
            "fe80::1@tcp\nh: \"0x1f\"\n"
            "i: \"trailing:\"\nj: \"# no\"\nk: true\nl:\nm: []\nn: -1.5\no: 10.0.0.1:988\n");
  EXPECT_EQ(dump_style_b({{"k", false}, {"list", Json::array({{{"x", 1}, {"y", {{"z", 2}}}}, 3})}}),
            "k: False\nlist:\n    - x: 1\n      y:\n          z: 2\n    - 3\n");
}

}  // namespace
}  // namespace ulnet::config
