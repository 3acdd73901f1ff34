// The YAML loader: what it accepts, and word for word what it says about the rest.
#include "config/loader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>

#include "config/dump.h"
#include "config/show.h"
#include "ulnet/endpoint.h"

namespace ulnet::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Loaded load(std::string_view text) {
  return load_text(text, "f");
}

// One tcp NI, so that the warning about a node without nets stays away.
constexpr std::string_view kNet =
    "net: [{net type: tcp, 'local NI(s)': [{interfaces: {0: eth0}}]}]\n";

Loaded load_with_net(std::string_view text) {
  return load(std::string(kNet) + std::string(text));
}

// The settings of `text`, which must load without a word.
Settings clean(std::string_view text) {
  const Loaded loaded = load(text);
  EXPECT_THAT(loaded.errors, IsEmpty());
  EXPECT_THAT(loaded.warnings, IsEmpty());
  return loaded.settings;
}

TEST(Loader, EmptyFileIsOnlyLoopbackAndSaysSo) {
  for (const char* text : {"", "---\n", "# nothing\n", "net:\n", "{}", "global:\n"}) {
    const Loaded loaded = load(text);
    EXPECT_THAT(loaded.errors, IsEmpty()) << text;
    EXPECT_THAT(
        loaded.warnings,
        ElementsAre("f: no net is configured: the node has no address but 0@lo and reaches nobody"))
        << text;
    EXPECT_THAT(loaded.settings.nis, IsEmpty());
  }
}

TEST(Loader, ReadsEveryKeyOfANet) {
  const Settings s = clean(R"(
net:
    - net type: tcp1
      local NI(s):
        - nid: 10.1.0.5@tcp1
          interfaces:
              0: eth0:1
          tunables:
              peer_timeout: 0
              peer_credits: 16
              peer_buffer_credits: 3
              credits: 512
          lnd tunables:
              conns_per_peer: 4
              timeout: 10
              tos: 128
              tx_buffer_size: 1048576
              rx_buffer_size: 0x200000
              min_bulk: 2048
              min_reconnectms: 500
              max_reconnectms: 30000
              keepalive: 7
              keepalive_idle: 8
              keepalive_intvl: 9
              keepalive_count: 10
              nagle: 1
              enable_csum: yes
              accept_foreign_address: on
              tcp_congestion: cubic
)");
  ASSERT_EQ(s.nis.size(), 1u);
  const NiSettings& ni = s.nis[0];
  EXPECT_EQ(ni.net, (NetId{NetType::kTcp, 1}));
  EXPECT_EQ(ni.nid, *Nid::parse("10.1.0.5@tcp1"));
  EXPECT_EQ(ni.interface, "eth0:1");
  EXPECT_EQ(ni.where, "f:7");
  EXPECT_EQ(ni.tunables, (NetTunables{0, 16, 3, 512}));
  const TcpTunables expected{.conns_per_peer = 4,
                             .timeout_s = 10,
                             .tos = 128,
                             .tx_buffer_bytes = 1048576,
                             .rx_buffer_bytes = 2097152,
                             .min_bulk_bytes = 2048,
                             .min_reconnect_ms = 500,
                             .max_reconnect_ms = 30000,
                             .keepalive_s = 7,
                             .keepalive_idle_s = 8,
                             .keepalive_intvl_s = 9,
                             .keepalive_count = 10,
                             .nagle = true,
                             .enable_csum = true,
                             .accept_foreign_address = true,
                             .tcp_congestion = "cubic"};
  EXPECT_EQ(ni.tcp, expected);
}

TEST(Loader, EachInterfaceIsANi) {
  const Settings s = clean(
      "net:\n- net type: tcp\n  local NI(s):\n  -     interfaces:\n            0: eth0\n"
      "            1: eth1\n        tunables:\n          credits: 64\n");
  ASSERT_EQ(s.nis.size(), 2u);
  EXPECT_EQ(s.nis[0].interface, "eth0");
  EXPECT_EQ(s.nis[1].interface, "eth1");
  EXPECT_EQ(s.nis[1].tunables.credits, 64);
  EXPECT_EQ(s.nis[1].where, "f:6");
}

TEST(Loader, ReadsEveryGlobalKey) {
  const GlobalSettings g = load_with_net(R"(
global:
    numa_range: 3
    max_interfaces: 64
    discovery: False
    drop_asym_route: 1
    retry_count: 3
    transaction_timeout: 31
    health_sensitivity: 1000
    recovery_interval: 2
    router_sensitivity: 50
    lnd_timeout: 999
    response_tracking: 0
    recovery_limit: 60
    max_recovery_ping_interval: 300
)")
                               .settings.global;
  EXPECT_EQ(g.numa_range, 3);
  EXPECT_EQ(g.max_interfaces, 64);
  EXPECT_FALSE(g.discovery);
  EXPECT_TRUE(g.drop_asym_route);
  EXPECT_EQ(g.retry_count, 3);
  EXPECT_EQ(g.transaction_timeout_s, 31);
  EXPECT_EQ(g.health_sensitivity, 1000);
  EXPECT_EQ(g.recovery_interval_s, 2);
  EXPECT_EQ(g.router_sensitivity, 50);
  EXPECT_EQ(g.lnd_timeout_s(), 7);
  EXPECT_EQ(g.response_tracking, 0);
  EXPECT_EQ(g.recovery_limit_s, 60);
  EXPECT_EQ(g.max_recovery_ping_interval_s, 300);
}

TEST(Loader, ReadsEveryKeyOfOurOwnBlock) {
  const Loaded loaded = load_with_net(R"(
ulnet:
  accept: all
  accept_port: 9988
  accept_backlog: 10
  accept_timeout: 2
  threads: 4
  spin_us: 0
  shutdown_grace_ms: 100
  wait_for_interfaces: false
  address_change: follow
  socket: /tmp/x.sock
  log_level: debug
  limits: {parked_per_portal_max: 1, parked_per_peer_max: 2, peers_by_traffic_max: 3, setups_per_address_max: 4}
)");
  EXPECT_THAT(loaded.errors, IsEmpty());
  EXPECT_THAT(loaded.warnings, IsEmpty());
  const Settings& s = loaded.settings;
  EXPECT_EQ(s.acceptor.policy, AcceptPolicy::kAll);
  EXPECT_EQ(s.acceptor.port, 9988);
  EXPECT_EQ(s.acceptor.backlog, 10);
  EXPECT_EQ(s.acceptor.timeout_s, 2);
  EXPECT_EQ(s.acceptor.setups_per_address_max, 4);
  EXPECT_EQ(s.node.threads, 4);
  EXPECT_EQ(s.node.spin_us, 0);
  EXPECT_EQ(s.node.shutdown_grace_ms, 100);
  EXPECT_EQ(s.node.wait_for_interfaces, false);
  EXPECT_EQ(s.node.address_change, AddressChange::kFollow);
  EXPECT_EQ(s.node.socket, "/tmp/x.sock");
  EXPECT_EQ(s.node.log_level, "debug");
  EXPECT_EQ(s.limits.parked_per_portal_max, 1);
  EXPECT_EQ(s.limits.parked_per_peer_max, 2);
  EXPECT_EQ(s.limits.peers_by_traffic_max, 3);
}

TEST(Loader, DefaultsWithoutAWord) {
  const Settings s = clean(kNet);
  EXPECT_EQ(s.nis[0].tunables, NetTunables{});
  EXPECT_EQ(s.nis[0].tcp, TcpTunables{});
  EXPECT_EQ(s.global.transaction_timeout_s, 150);
  EXPECT_EQ(s.acceptor.policy, AcceptPolicy::kSecure);
  EXPECT_EQ(s.acceptor.port, 988);
}

// Decisions D3.
TEST(Loader, SensitivityOfNetNiAndPeer) {
  const Settings s = clean(
      "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: a}\n    tunables: "
      "{health_sensitivity: 0}\n    health_sensitivity: 30\npeer:\n- primary nid: 10.0.0.2@tcp\n"
      "  health_sensitivity: 1000\n");
  EXPECT_EQ(s.nis[0].tunables.health_sensitivity, 0);
  EXPECT_EQ(s.nis[0].health_sensitivity, 30);
  EXPECT_EQ(s.peers[0].health_sensitivity, 1000);
  EXPECT_EQ(clean(kNet).nis[0].tunables.health_sensitivity, std::nullopt);
  EXPECT_THAT(load("net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: a}\n"
                   "    health_sensitivity: 1001\n")
                  .errors,
              ElementsAre("f:5:25: 'health_sensitivity' must be a number from 0 to 1000, not "
                          "'1001'"));
}

// CF-5: the same node in every dress.
TEST(Loader, AnyValidYamlGivesTheSame) {
  const std::string plain =
      "net:\n  - net type: tcp\n    local NI(s):\n      - interfaces:\n          0: eth0\n        "
      "tunables:\n"
      "          credits: 64\nglobal:\n  discovery: 0\n  drop_asym_route: 1\n";
  std::string crlf;
  for (const char c : plain) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const std::vector<std::string> dresses = {
      plain,
      crlf,
      "\xEF\xBB\xBF" + plain,
      "%YAML 1.2\n---\n" + plain + "...\n",
      "---\n" + plain,
      "# first\n" + plain + "# last",
      "net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: eth0\n    tunables:\n      "
      "credits: 64\n"
      "global:\n  discovery: False\n  drop_asym_route: TRUE\n",
      "\"net\":\n- 'net type': \"tcp\"\n  \"local NI(s)\":\n  - interfaces:\n      \"0\": 'eth0'\n "
      "   tunables:\n"
      "      credits: '64'\nglobal:\n  discovery: \"no\"\n  drop_asym_route: Yes\n",
      "{\"net\": [{\"net type\": \"tcp\", \"local NI(s)\": [{\"interfaces\": {\"0\": \"eth0\"},\n"
      " \"tunables\": {\"credits\": 64}}]}], \"global\": {\"discovery\": false, "
      "\"drop_asym_route\": true}}",
      "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}, tunables: {credits: 64}}]}]\n"
      "global: {discovery: off, drop_asym_route: on}\n",
      "global: &g {discovery: n}\nnet:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: "
      "eth0}\n"
      "    tunables: {credits: 64}\nnuma: {range: 0}\n",
  };
  for (const std::string& dress : dresses) {
    const Loaded loaded = load(dress);
    EXPECT_THAT(loaded.errors, IsEmpty()) << dress;
    EXPECT_THAT(loaded.warnings, IsEmpty()) << dress;
    ASSERT_EQ(loaded.settings.nis.size(), 1u) << dress;
    EXPECT_EQ(loaded.settings.nis[0].net.to_string(), "tcp") << dress;
    EXPECT_EQ(loaded.settings.nis[0].interface, "eth0") << dress;
    EXPECT_EQ(loaded.settings.nis[0].tunables.credits, 64) << dress;
    EXPECT_FALSE(loaded.settings.global.discovery) << dress;
  }
}

TEST(Loader, AnchorsAliasesAndMergeKeys) {
  const Settings s = clean(R"(
net:
- net type: tcp
  local NI(s):
  - &first
    interfaces: {0: eth0}
    tunables: &t {peer_credits: 4, credits: 32}
  - <<: *first
    interfaces: {0: eth1}
- net type: tcp1
  local NI(s):
  - interfaces: {0: eth2}
    tunables:
      <<: [*t]
      credits: 64
)");
  ASSERT_EQ(s.nis.size(), 3u);
  EXPECT_EQ(s.nis[1].interface, "eth1");
  EXPECT_EQ(s.nis[1].tunables, (NetTunables{180, 4, 0, 32}));
  EXPECT_EQ(s.nis[2].tunables, (NetTunables{180, 4, 0, 64}));
}

TEST(Loader, AliasBombIsRefused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= 20; ++i) {
    bomb += fmt::format("a{}: &a{} [", i, i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("*a{}, ", i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(load(bomb).errors,
              ElementsAre(HasSubstr("grows to more than 2000000 values by its aliases")));
  EXPECT_THAT(load("net: &a [*a]\n").errors,
              ElementsAre("f:1:10: this alias is inside the node that it names"));
}

struct Case {
  const char* text;
  std::vector<std::string> errors;
};

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Loaded loaded = load(c.text);
    EXPECT_EQ(loaded.errors, c.errors) << c.text;
  }
}

TEST(LoaderErrors, Syntax) {
  expect_errors({
      {"net: [a\n", {"f:2:1: not valid YAML: end of sequence flow not found"}},
      {"a: b\n---\nc: d\n", {"f:3:1: a second document; a file holds one"}},
      {"net: \x04\n", {"f:1:6: control character 0x04: is this a text file?"}},
      {"{[a]: b}\n", {"f:1:2: a key must be a word, not a list"}},
      {"just words\n", {"f:1:1: the file must be a map of keys and values, not 'just words'"}},
      {"net: []\nnet: []\n", {"f:2:1: key 'net' is given twice in the file, first in line 1"}},
  });
}

TEST(LoaderErrors, NestingIsBounded) {
  for (const char bracket : {'[', '{'}) {
    EXPECT_THAT(load(std::string(10'000, bracket)).errors,
                ElementsAre(HasSubstr("lists and maps are nested more than 500 deep")));
  }
  std::string dashes;
  for (int i = 0; i < 2000; ++i) dashes += "- ";
  EXPECT_THAT(load(dashes).errors, ElementsAre(HasSubstr("nested more than 500 deep")));
}

TEST(LoaderErrors, TabsIndentNothing) {
  EXPECT_THAT(load("net:\n\t- net type: tcp\n").errors,
              ElementsAre("f:2:2: not valid YAML: illegal block entry"));
  EXPECT_EQ(load_with_net("global:\n  retry_count:\t1\t# one\n").settings.global.retry_count, 1);
}

// CF-13.
TEST(LoaderErrors, TopLevelKeyMissing) {
  expect_errors({{"- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: eth0\n",
                  {"f:1:1: the file begins with a list; is the line 'net:' missing above it? "
                   "Nothing is configured"}}});
}

TEST(LoaderErrors, Nets) {
  expect_errors({
      {"net: tcp\n", {"f:1:6: 'net' must be a list, each element with a 'net type', not 'tcp'"}},
      {"net:\n- tcp\n",
       {"f:2:3: an element of 'net' must be a map that begins with 'net type', not 'tcp'"}},
      {"net:\n- local NI(s): []\n", {"f:2:3: an element of 'net' has no 'net type'"}},
      {"net:\n- net type: tcp\n",
       {"f:2:3: net 'tcp' has no 'local NI(s)'; no interface is chosen for you"}},
      {"net:\n- net type: tcp\n  local NI(s): []\n",
       {"f:3:16: 'local NI(s)' must be a list of NIs, not an empty one"}},
      {"net:\n- net type: [tcp]\n",
       {"f:2:13: 'net type' must be a net such as tcp or tcp1, not a list"}},
      {"net:\n- net type: o2ib3\n  local NI(s):\n  - interfaces: {0: ib0}\n",
       {"f:2:13: net 'o2ib3' cannot be brought up: there is no driver for type 'o2ib' yet; tcp has "
        "one"}},
  });
  const Loaded unknown = load("net:\n- net type: tpc\n");
  ASSERT_EQ(unknown.errors.size(), 1u);
  EXPECT_THAT(unknown.errors[0], testing::StartsWith("f:2:13: "));
  EXPECT_THAT(unknown.errors[0], HasSubstr("tpc"));
}

TEST(LoaderErrors, LocalNis) {
  expect_errors({
      {"net:\n- net type: tcp\n  local NI(s):\n  - tunables: {credits: 1, peer_credits: 1}\n",
       {"f:4:5: a local NI of net 'tcp' has neither 'interfaces' nor 'nid'; none is chosen for "
        "you"}},
      {"net:\n- net type: tcp1\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n",
       {"f:4:10: 'nid' 10.0.0.1@tcp is not on net 'tcp1'; write ADDRESS@tcp1"}},
      {"net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n    interfaces: {0: a, 1: "
       "b}\n",
       {"f:4:10: one 'nid' and 2 interfaces: each interface is a NI with a NID of its own; write "
        "one entry for each"}},
      {"net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {eth0: 0}\n",
       {"f:4:18: 'interfaces' must be a number of at least 0, not 'eth0'"}},
      {"net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0, 0: eth1}\n",
       {"f:4:27: number 0 is given twice in 'interfaces'"}},
      {"net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n  - interfaces: {0: "
       "eth0}\n",
       {"f:5:21: interface 'eth0' is given twice on net 'tcp', first at f:4"}},
      {"net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n",
       {"f:4:5: 'interfaces' is empty; write a map such as '0: eth0'"}},
  });
}

// CF-11: whole or not at all.
TEST(LoaderErrors, InterfaceNames) {
  const auto with_name = [](const std::string& name) {
    return load("net: [{net type: tcp, local NI(s): [{interfaces: {0: \"" + name + "\"}}]}]");
  };
  EXPECT_THAT(with_name("a23456789012345").errors, IsEmpty());
  EXPECT_EQ(with_name("a23456789012345").settings.nis[0].interface, "a23456789012345");
  EXPECT_THAT(with_name("eth0.100").errors, IsEmpty());
  EXPECT_THAT(with_name("eth0:10").errors, IsEmpty());
  EXPECT_THAT(with_name("v@th").errors, IsEmpty());
  EXPECT_THAT(with_name("\xC3\xA9th").errors, IsEmpty());
  EXPECT_THAT(
      with_name("a234567890123456").errors,
      ElementsAre("f:1:54: interface 'a234567890123456' is 16 bytes long; Linux allows 15"));
  EXPECT_THAT(with_name(std::string(300, 'x')).errors,
              ElementsAre(HasSubstr("is 300 bytes long; Linux allows 15")));
  EXPECT_THAT(with_name("a/b").errors, ElementsAre("f:1:54: interface 'a/b' contains '/'"));
  EXPECT_THAT(with_name("a b").errors, ElementsAre("f:1:54: interface 'a b' contains a blank"));
  EXPECT_THAT(with_name("..").errors, ElementsAre("f:1:54: interface '..' is no device name"));
  EXPECT_THAT(with_name("").errors, ElementsAre("f:1:54: interface '' is empty"));
}

TEST(LoaderErrors, TunablesNameKeyValueAndRange) {
  const auto with_lnd = [](const std::string& key_value) {
    return load(
               "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0}\n    lnd "
               "tunables:\n      " +
               key_value + "\n")
        .errors;
  };
  EXPECT_THAT(with_lnd("conns_per_peer: 128"),
              ElementsAre("f:6:23: 'conns_per_peer' must be a number from 0 to 127, not '128'"));
  EXPECT_THAT(with_lnd("tos: 256"),
              ElementsAre("f:6:12: 'tos' must be a number from -1 to 255, not '256'"));
  EXPECT_THAT(with_lnd("tos: low"),
              ElementsAre("f:6:12: 'tos' must be a number from -1 to 255, not 'low'"));
  EXPECT_THAT(with_lnd("tos: 010"),
              ElementsAre("f:6:12: 'tos' must be a number from -1 to 255, not '010'"));
  EXPECT_THAT(with_lnd("tos: 1.5"),
              ElementsAre("f:6:12: 'tos' must be a number from -1 to 255, not '1.5'"));
  EXPECT_THAT(with_lnd("tos:"),
              ElementsAre("f:6:7: 'tos' must be a number from -1 to 255, not nothing"));
  EXPECT_THAT(with_lnd("tos: [1]"),
              ElementsAre(HasSubstr("'tos' must be a number from -1 to 255, not a list")));
  EXPECT_THAT(with_lnd("timeout: -1"),
              ElementsAre("f:6:16: 'timeout' must be a number of at least 0, not '-1'"));
  EXPECT_THAT(with_lnd("timeout: 99999999999999999999"),
              ElementsAre(HasSubstr("must be a number of at least 0")));
  EXPECT_THAT(with_lnd("nagle: perhaps"),
              ElementsAre("f:6:14: 'nagle' must be 0 or 1 (or false or true, no or yes, off or "
                          "on), not 'perhaps'"));
  EXPECT_THAT(with_lnd("tcp_congestion: a234567890123456"),
              ElementsAre("f:6:23: 'tcp_congestion' is 16 bytes long; at most 15 are allowed"));
  EXPECT_THAT(with_lnd("max_reconnectms: 10"),
              ElementsAre("f:6:7: 'max_reconnectms' 10 is below 'min_reconnectms' 1000"));
}

TEST(LoaderErrors, GlobalRangesAllAtOnceInFileOrder) {
  EXPECT_THAT(
      load("global:\n  response_tracking: -10\n  health_sensitivity: 1001\n  retry_count: 2\n"
           "  transaction_timeout: 2\n  router_sensitivity: 101\n  max_recovery_ping_interval: 0\n")
          .errors,
      ElementsAre("f:2:22: 'response_tracking' must be a number from 0 to 3, not '-10'",
                  "f:3:23: 'health_sensitivity' must be a number from 0 to 1000, not '1001'",
                  "f:5:24: 'transaction_timeout' 2 must be above 'retry_count' 2",
                  "f:6:23: 'router_sensitivity' must be a number from 0 to 100, not '101'",
                  "f:7:31: 'max_recovery_ping_interval' must be a number of at least 1, not '0'"));
}

TEST(LoaderErrors, OurOwnBlock) {
  expect_errors({
      {"ulnet:\n  accept: al\n",
       {"f:2:11: 'accept' must be secure, all or none, not 'al'; did you mean 'all'?"}},
      {"ulnet:\n  accept_port: 0\n",
       {"f:2:16: 'accept_port' must be a number from 1 to 65535, not '0'"}},
      {"ulnet:\n  log_level: loud\n",
       {"f:2:14: log level 'loud' is not one of trace, debug, info, warn, error, off"}},
      {"ulnet: [1]\n", {"f:1:8: 'ulnet' must be a map of keys and values, not a list"}},
      {"ulnet: {limits: {peers_by_traffic_max: 0}}\n",
       {"f:1:40: 'peers_by_traffic_max' must be a number of at least 1, not '0'"}},
  });
  EXPECT_THAT(load("ulnet: {socket: /" + std::string(107, 'x') + "}").errors,
              ElementsAre("f:1:17: 'socket' is 108 bytes long; at most 107 are allowed"));
}

// CF-14.
TEST(LoaderWarnings, UnknownKeysWithTheNearestOne) {
  EXPECT_THAT(
      load_with_net("globl: {}\nglobal:\n  retry_counts: 1\nulnet:\n  xyzzy: 1\n").warnings,
      ElementsAre(
          "f:2:1: unknown key 'globl' in the file is ignored; did you mean 'global'?",
          "f:4:3: unknown key 'retry_counts' in 'global' is ignored; did you mean 'retry_count'?",
          "f:6:3: unknown key 'xyzzy' in 'ulnet' is ignored"));
  const Loaded loaded = load(R"(net:
- net type: tcp
  locals: 1
  local NI(s):
  - interface: eth0
    interfaces: eth1
    LND tunables: {}
    tunables: {peercredits: 1}
)");
  EXPECT_THAT(loaded.errors, IsEmpty());
  EXPECT_THAT(loaded.warnings,
              ElementsAre("f:3:3: unknown key 'locals' in net 'tcp' is ignored",
                          "f:5:5: unknown key 'interface' in a local NI of net 'tcp' is ignored; "
                          "did you mean 'interfaces'?",
                          "f:6:17: 'interfaces' is one word; lnetctl wants a map: '0: eth1'",
                          "f:7:5: unknown key 'LND tunables' in a local NI of net 'tcp' is "
                          "ignored; did you mean 'lnd tunables'?",
                          "f:8:16: unknown key 'peercredits' in 'tunables' is ignored; did you "
                          "mean 'peer_credits'?"));
  EXPECT_EQ(loaded.settings.nis[0].interface, "eth1");
}

TEST(LoaderWarnings, BlocksThatComeLater) {
  EXPECT_THAT(
      load_with_net("route: [{net: tcp5, gateway: 10.0.0.1@tcp}]\nrouting: {enable: 1}\nudsp:\n")
          .warnings,
      ElementsAre("f:2:1: block 'route' is not yet in effect",
                  "f:3:1: block 'routing' is not yet in effect"));
}

TEST(LoaderWarnings, MismatchedTunablesOfOneNet) {
  EXPECT_THAT(
      load("net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: a}\n  - interfaces: {0: b}\n"
           "    tunables: {credits: 9}\n")
          .warnings,
      ElementsAre("f:5:21: 'tunables' differ from those at f:4, which count for all of net 'tcp'"));
  EXPECT_THAT(load("net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: a}\n    tunables: "
                   "{credits: 4}\n")
                  .warnings,
              ElementsAre("f:5:15: 'peer_credits' 8 is above 'credits' 4; it counts as 4"));
}

// Decisions D5: stock 2.17 exports say 50 where 49 fit. What was asked for is kept: it counts again
// when transaction_timeout is raised.
TEST(LoaderWarnings, LndTimeoutThatDoesNotFit) {
  const Loaded loaded = load(
      "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: a}\n    lnd tunables:\n"
      "      timeout: 50\n");
  EXPECT_THAT(loaded.warnings, ElementsAre("f:6:16: 'timeout' 50 x 3 attempts + 1 is above "
                                           "'transaction_timeout' 150; 49 is in force"));
  EXPECT_EQ(loaded.settings.nis[0].tcp.timeout_s, 50);
  EXPECT_EQ(loaded.settings.global.lnd_timeout_s(50), 49);
  EXPECT_THAT(
      load_with_net("global: {transaction_timeout: 3}").warnings,
      ElementsAre(
          "f:2:31: 'transaction_timeout' 3 leaves less than a second for each of 3 attempts; "
          "at least 4 would do"));
  EXPECT_THAT(load_with_net("global: {transaction_timeout: 4}").warnings, IsEmpty());
  EXPECT_THAT(load_with_net("global: {max_intf: 15}").warnings,
              ElementsAre("f:2:20: 'max_intf' 15 is below 16; the default 200 is used"));
}

// ---- configurations from the field (tests/vectors/configs).

Loaded load_vector(const std::string& name) {
  std::ifstream file(std::string(ULNET_VECTORS) + "/configs/" + name);
  EXPECT_TRUE(file) << name;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return load_text(text, name);
}

TEST(LoaderField, NetsAndInterfaces) {
  const Loaded one = load_vector("single-tcp-nid.yaml");
  EXPECT_THAT(one.errors, IsEmpty());
  EXPECT_THAT(one.warnings, IsEmpty());
  ASSERT_EQ(one.settings.nis.size(), 1u);
  EXPECT_EQ(one.settings.nis[0].interface, "eth1");
  EXPECT_EQ(one.settings.nis[0].nid, *Nid::parse("10.1.0.21@tcp"));

  const Loaded three = load_vector("many-interfaces-one-entry.yaml");
  EXPECT_THAT(three.errors, IsEmpty());
  ASSERT_EQ(three.settings.nis.size(), 3u);
  EXPECT_EQ(three.settings.nis[2].interface, "eth3");
}

TEST(LoaderField, OldLayoutIsOneNi) {
  const Loaded old = load_vector("old-2014-format.yaml");
  EXPECT_THAT(old.errors, IsEmpty());
  EXPECT_THAT(old.warnings, testing::Contains(HasSubstr("in the layout of 2014")));
  ASSERT_EQ(old.settings.nis.size(), 1u);
  EXPECT_EQ(old.settings.nis[0].interface, "eth0");
  EXPECT_EQ(old.settings.nis[0].cpt, "[0,1]");
}

TEST(LoaderField, FullExportLoadsWithOneNoteAboutLiveState) {
  const Loaded full = load_vector("full-export-with-stats.yaml");
  EXPECT_THAT(full.errors, IsEmpty());
  EXPECT_THAT(full.warnings, ElementsAre("full-export-with-stats.yaml:24:11: keys that only 'show' "
                                         "prints are skipped: 'status' here, "
                                         "16 in all",
                                         HasSubstr("'CPT' is kept and has no effect"),
                                         HasSubstr("peer 0@lo, as older exports have it")));
  ASSERT_EQ(full.settings.nis.size(), 1u);
  ASSERT_EQ(full.settings.peers.size(), 1u);
  EXPECT_EQ(full.settings.global.max_interfaces, 200);
}

TEST(LoaderPeer, PeersAreReadAsExported) {
  const Loaded loaded = load_text(
      "peer:\n"
      "- primary nid: 10.0.0.2@tcp\n"
      "  Multi-Rail: True\n"
      "  peer ni:\n"
      "  - nid: 10.0.0.2@tcp\n"
      "    state: up\n"
      "  - nid: 10.0.1.2@tcp1\n"
      "- primary nid: 10.0.0.3@tcp\n"
      "  Multi-Rail: no\n"
      "- primary nid: 10.0.0.4@tcp\n"
      "  Multi-Rail:\n",
      "f");
  EXPECT_THAT(loaded.errors, IsEmpty());
  const std::vector<PeerSettings>& peers = loaded.settings.peers;
  ASSERT_EQ(peers.size(), 3u);
  EXPECT_EQ(peers[0].primary_nid, Nid::parse("10.0.0.2@tcp").value());
  EXPECT_EQ(peers[0].nids.size(), 2u);
  EXPECT_TRUE(peers[0].multi_rail);
  EXPECT_EQ(peers[0].where, "f:2");
  EXPECT_FALSE(peers[1].multi_rail);
  EXPECT_TRUE(peers[2].multi_rail);
}

TEST(LoaderPeer, EachMistakeIsNamed) {
  const Loaded loaded = load_text(
      "peer:\n"
      "- primary nid: 10.0.0.256@tcp\n"
      "- Multi-Rail: maybe\n"
      "  primary nid: 10.0.0.2@tcp\n"
      "- peer ni: 10.0.0.3@tcp\n"
      "- 10.0.0.4@tcp\n",
      "f");
  EXPECT_THAT(loaded.errors,
              ElementsAre(HasSubstr("f:2:16: 'primary nid': NID '10.0.0.256@tcp'"),
                          HasSubstr("f:3:15: 'Multi-Rail' must be"),
                          HasSubstr("f:5:12: 'peer ni' is '10.0.0.3@tcp', not a list"),
                          HasSubstr("f:6:3: 'peer' holds '10.0.0.4@tcp' where a peer is wanted")));
  EXPECT_THAT(load_text("peer: 10.0.0.1@tcp\n", "f").errors,
              ElementsAre(HasSubstr("f:1:7: 'peer' is '10.0.0.1@tcp', not a list")));
}

TEST(LoaderField, NumaBlockIsNumaRange) {
  EXPECT_THAT(load_vector("numa-block-2.10.yaml").warnings, IsEmpty());
  EXPECT_EQ(load("numa: {range: 7}").settings.global.numa_range, 7);
}

TEST(LoaderField, NothingOfABadGlobalBlock) {
  EXPECT_EQ(load_vector("global-out-of-range.yaml").errors.size(), 3u);
}

TEST(LoaderField, InfiniBandIsRefusedByNameAndItsTyposAreTold) {
  const Loaded loaded = load_vector("lnd-tunables-wrong-case.yaml");
  EXPECT_THAT(loaded.errors, ElementsAre(HasSubstr("net 'o2ib' cannot be brought up")));
  EXPECT_THAT(
      loaded.warnings,
      ElementsAre(HasSubstr("unknown key 'LND tunables' in a local NI of net 'o2ib' is ignored; "
                            "did you mean 'lnd tunables'?")));
  const Loaded clean_one = load_vector("o2ib-no-nid-tunables.yaml");
  EXPECT_EQ(clean_one.errors.size(), 1u);
  EXPECT_THAT(clean_one.warnings, ElementsAre(HasSubstr("'CPT' is kept")));
}

// ---- fault.

TEST(LoaderFault, ReadsEveryKey) {
  const Settings s = clean(std::string(kNet) + R"(
fault:
  drop:
    - source: "*"
      dest: 10.0.0.2@tcp
      rate: 10
      portal: [0, 63]
      message: [PUT, get]
      health_error: random
    - {source: tcp, dest: tcp1, interval: 30, random: true, drop_all: true, local_nid: 10.0.0.1@tcp}
  delay:
    - {source: 10.0.0.2@tcp, dest: "*", rate: 1, latency: 3, message: ACK}
)");
  ASSERT_EQ(s.faults.size(), 3u);
  EXPECT_EQ(s.faults[0].kind, FaultKind::kDrop);
  EXPECT_TRUE(s.faults[0].source.is_any());
  EXPECT_EQ(s.faults[0].dest, *Nid::parse("10.0.0.2@tcp"));
  EXPECT_EQ(s.faults[0].rate, 10u);
  EXPECT_EQ(s.faults[0].portals, uint64_t{1} << 63 | 1);
  EXPECT_EQ(s.faults[0].messages, kFaultPut | kFaultGet);
  EXPECT_EQ(s.faults[0].health_errors, kFaultAnyHealth);
  EXPECT_EQ(s.faults[1].source, *Nid::parse("255.255.255.255@tcp"));
  EXPECT_EQ(s.faults[1].interval_s, 30u);
  EXPECT_TRUE(s.faults[1].random && s.faults[1].drop_all);
  EXPECT_EQ(s.faults[1].local_nid, *Nid::parse("10.0.0.1@tcp"));
  EXPECT_EQ(s.faults[2].kind, FaultKind::kDelay);
  EXPECT_EQ(s.faults[2].latency_s, 3u);
  EXPECT_EQ(s.faults[2].messages, kFaultAck);
}

// What `fault drop show -v 4` prints under `ulnet` may be put into a file.
TEST(LoaderFault, TakesWhatShowPrints) {
  const Settings first = clean(std::string(kNet) + R"(
fault:
  drop:
    - {source: tcp1, dest: "*", interval: 1, random: true, portal: [4], health_error: [local_error]}
    - {source: "*", dest: "*", rate: 2, drop_all: true, message: [REPLY]}
  delay:
    - {source: "*", dest: fe80::1@tcp, rate: 3, latency: 1}
)");
  Json lists = Json::object();
  for (const FaultRule& rule : first.faults) {
    const Json shown = show_faults({{.rule = rule}}, true);
    lists[std::string(to_string(rule.kind))].push_back(shown["fault"][0]["ulnet"]);
  }
  const std::string text = dump_style_a({{"fault", lists}}, kIndentShow);
  EXPECT_EQ(clean(std::string(kNet) + text).faults, first.faults) << text;
}

TEST(LoaderFault, WhatIsWrongIsNamedWithItsLine) {
  const Loaded loaded = load_with_net(R"(fault:
  drop:
    - {source: "*", rate: 1}
    - {source: "*", dest: "*"}
    - {source: 1.2.3, dest: "*", rate: x}
    - {source: "*", dest: "*", rate: 1, message: [PUT, HELLO], latency: 3, colour: red}
    - {source: "*", dest: "*", rate: [1, 2]}
    - drop everything
    - {source: "*", dest: "*", interval: 0xFFFFFFFF}
  delay: all
)");
  EXPECT_THAT(
      loaded.errors,
      ElementsAre(
          "f:4:7: a rule without 'dest': a NID, a net, or '*' for any",
          "f:5:7: rate 0 and interval 0: exactly one of them must be above 0",
          HasSubstr("f:6:16: 'source': "),
          "f:6:40: 'rate' must be a number from 1 to 2147483647, not 'x'",
          "f:7:56: 'message' must be one of ACK, PUT, GET, REPLY, not 'HELLO'",
          "f:8:38: 'rate' is a list, not a word or a list of words",
          "f:9:7: 'drop' holds 'drop everything' where a rule is wanted, a map that begins with "
          "'source'",
          "f:10:42: 'interval' must be a number from 1 to 2147483647, not '0xFFFFFFFF'",
          "f:11:10: 'delay' is 'all', not a list of '- source: ...'"));
  EXPECT_THAT(loaded.warnings, ElementsAre("f:7:64: unknown key 'latency' in 'drop' is ignored",
                                           "f:7:76: unknown key 'colour' in 'drop' is ignored"));
  EXPECT_THAT(load_with_net("fault: [1]\n").errors,
              ElementsAre("f:2:8: 'fault' must be a map of keys and values, not a list"));
}

TEST(LoaderFault, ThereIsALimit) {
  std::string text = "fault:\n  drop:\n";
  for (size_t i = 0; i <= kFaultRulesMax; ++i) text += "    - {source: '*', dest: '*', rate: 1}\n";
  EXPECT_THAT(load_with_net(text).errors,
              ElementsAre("f:4:5: 'drop' holds 257 rules; at most 256 are allowed"));
}

// ---- files.

TEST(LoadSettings, NamesTheFile) {
  const auto missing = load_settings("/nonexistent/lnet.conf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ENOENT);
  EXPECT_EQ(missing.error().text(),
            "/nonexistent/lnet.conf: cannot be opened: No such file or directory");
  const auto directory = load_settings("/");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code(), EISDIR);
}

TEST(LoadSettings, AllErrorsInOneText) {
  const std::string path = testing::TempDir() + "/ulnet-config-errors.yaml";
  std::ofstream(path) << "global:\n  retry_count: x\n  recovery_limit: y\nroute: [1]\n";
  std::vector<std::string> warnings;
  const auto settings = load_settings(path, &warnings);
  std::remove(path.c_str());
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code(), EINVAL);
  EXPECT_EQ(settings.error().text(),
            path + ":2:16: 'retry_count' must be a number from 0 to 255, not 'x'\n" + path +
                ":3:19: 'recovery_limit' must be a number of at least 0, not 'y'");
  EXPECT_THAT(warnings, ElementsAre(path + ":4:1: block 'route' is not yet in effect"));
}

// CF-4.
TEST(LoadSettings, LongFilesLoadQuickly) {
  std::string text(kNet);
  text += "route:\n";
  for (int i = 0; i < 20000; ++i)
    text += fmt::format("  - net: tcp{}\n    gateway: 10.0.{}.{}@tcp\n", i, i >> 8, i & 255);
  text += "peer:\n";
  for (int i = 0; i < 5000; ++i)
    text += fmt::format("  - primary nid: 10.1.{}.{}@tcp\n", i >> 8, i & 255);
  const std::clock_t start = std::clock();  // of this process: other load does not count
  EXPECT_THAT(load(text).errors, IsEmpty());
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace ulnet::config
