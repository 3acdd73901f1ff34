// The control protocol and its commands over a real socket, with a stand-in for the node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/peer_identity.h"
#include "tests/support/control_fixture.h"

namespace ulnet::daemon {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// ---- the protocol without a socket.

TEST(ControlProtocol, RequestsAndRepliesSurviveTheTrip) {
  const Result<Request> request =
      parse_request(R"({"id": 7, "command": "net show", "args": {"level": 2}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->id, 7u);
  EXPECT_EQ(request->command, "net show");
  EXPECT_EQ(request->args.dump(), R"({"level":2})");
  const std::string text = format_request(*request);
  EXPECT_EQ(text, "{\"id\":7,\"command\":\"net show\",\"args\":{\"level\":2}}\n");

  EXPECT_EQ(format_reply(8, Json{{"a", 1}}), "{\"id\":8,\"ok\":true,\"result\":{\"a\":1}}\n");
  const std::string failed = format_reply(9, fail(EINVAL, "no"));
  EXPECT_EQ(
      failed,
      "{\"id\":9,\"ok\":false,\"error\":{\"errno\":22,\"name\":\"EINVAL\",\"text\":\"no\"}}\n");
  const auto reply = parse_reply(failed);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->id, 9u);
  ASSERT_FALSE(reply->reply);
  EXPECT_EQ(reply->reply.error().code(), EINVAL);
  EXPECT_EQ(reply->reply.error().text(), "no");
}

TEST(ControlProtocol, BadRequestsAreNamed) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "the request is not JSON"},
      {"{", "the request is not JSON"},
      {"[]", "the request is not a JSON object"},
      {"{}", "the request's 'id' is not a number from 0 to 2^64-1"},
      {R"({"id": -1, "command": "x"})", "the request's 'id' is not a number from 0 to 2^64-1"},
      {R"({"id": 1})", "the request has no 'command'"},
      {R"({"id": 1, "command": 2})", "the request's 'command' is not a string"},
      {R"({"id": 1, "command": "x", "args": []})", "the request's 'args' is not an object"},
      {R"({"id": 1, "command": "x", "arg": {}})",
       "the request has the unknown key 'arg'; known are id, command, args"},
  };
  for (const auto& [line, text] : cases) {
    const Result<Request> request = parse_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().text(), text) << line;
  }
}

TEST(ControlProtocol, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(format_reply(1, Json{{"a", "x\xFF"}}),
            "{\"id\":1,\"ok\":true,\"result\":{\"a\":\"x\xEF\xBF\xBD\"}}\n");
}

TEST(PeerIdentityTest, RootOwnUserAndGroupMayChange) {
  EXPECT_TRUE((PeerIdentity{.uid = 0}.may_change({})));
  EXPECT_TRUE((PeerIdentity{.uid = ::geteuid()}.may_change({})));
  const uid_t other = ::geteuid() + 1;
  EXPECT_FALSE((PeerIdentity{.uid = other, .groups = {5, 6}}.may_change({})));
  EXPECT_FALSE((PeerIdentity{.uid = other, .groups = {5, 6}}.may_change(7)));
  EXPECT_TRUE((PeerIdentity{.uid = other, .groups = {5, 6}}.may_change(6)));
}

// ---- commands.

TEST_F(ControlTest, ShowCommands) {
  start();
  EXPECT_EQ((*call("net show"))["net"].size(), 2u);
  EXPECT_EQ((*call("net show", {{"net", "tcp0"}}))["net"][0]["local NI(s)"][0]["nid"],
            "10.0.0.1@tcp");
  EXPECT_FALSE((*call("net show", {{"level", 3}})).dump().find("\"ulnet\"") != std::string::npos);
  EXPECT_TRUE((*call("net show", {{"level", 4}})).dump().find("\"ulnet\"") != std::string::npos);
  EXPECT_EQ((*call("peer show"))["peer"].size(), 1u);
  EXPECT_EQ((*call("peer show", {{"nid", "10.0.1.2@tcp"}}))["peer"].size(),
            1u);  // any NID of the peer will do
  EXPECT_EQ((*call("peer show", {{"nid", "10.0.9.9@tcp"}})).dump(), "{}");
  EXPECT_EQ((*call("peer list")).dump(), R"({"peer list":[{"nid":"10.0.0.2@tcp"}]})");
  EXPECT_EQ((*call("global show"))["global"]["transaction_timeout"], 150);
  EXPECT_EQ((*call("version")).dump(),
            fmt::format(R"({{"version":"{}","nids":["0@lo","10.0.0.1@tcp"]}})", ULNET_VERSION));
}

TEST_F(ControlTest, NisAreAddedAllOrNone) {
  start();
  EXPECT_EQ((*call("net add", {{"net", "tcp1"},
                               {"interfaces", {"eth1", "eth2"}},
                               {"peer_credits", 16},
                               {"conns_per_peer", 3}}))
                .dump(),
            R"({"nids":["0.0.0.1@tcp1","0.0.0.2@tcp1"]})");
  ASSERT_EQ(node_.added().size(), 2U);
  EXPECT_EQ(node_.added()[1].interface, "eth2");
  EXPECT_EQ(node_.added()[1].net, *NetId::parse("tcp1"));
  EXPECT_EQ(node_.added()[1].tunables.peer_credits, 16);
  EXPECT_EQ(node_.added()[1].tcp.conns_per_peer, 3);
  EXPECT_EQ(call("net add", {{"net", "tcp1"}, {"interfaces", {"eth3", "eth9"}}}).error().code(),
            ENODEV);
  EXPECT_THAT(node_.deleted(), testing::ElementsAre("0.0.0.3@tcp1"));
  EXPECT_EQ(call("net add", {{"net", "tcp1"}}).error().code(), EINVAL);
  EXPECT_EQ(call("net add", {{"net", "tcp1"}, {"nid", "10.0.0.1@tcp"}}).error().code(), EINVAL);
  EXPECT_EQ(call("net add", {{"nid", "10.0.0.1@tcp"}, {"credits", 0}}).error().code(), EINVAL);
  EXPECT_TRUE(call("net add", {{"nid", "10.0.0.1@tcp"}}));
  EXPECT_EQ(node_.added().back().interface, "");
}

TEST_F(ControlTest, NisAreRemovedByNetInterfaceOrNid) {
  start();
  EXPECT_TRUE(call("net del", {{"net", "tcp1"}}));
  EXPECT_TRUE(call("net del", {{"net", "tcp1"}, {"interfaces", {"eth1", "eth2"}}}));
  EXPECT_TRUE(call("net del", {{"nid", "10.0.0.1@tcp"}}));
  EXPECT_THAT(node_.deleted(),
              testing::ElementsAre("tcp1 ", "tcp1 eth1", "tcp1 eth2", "10.0.0.1@tcp"));
  EXPECT_EQ(call("net del", {{"net", "tcp9"}}).error().code(), ENOENT);
  EXPECT_EQ(call("net del").error().code(), EINVAL);
}

TEST_F(ControlTest, StatisticsAreShownAndReset) {
  start();
  node_.set_send_count(12);
  EXPECT_EQ((*call("stats show"))["statistics"]["send_count"], 12);
  EXPECT_TRUE(call("stats reset"));
  EXPECT_EQ((*call("stats show"))["statistics"]["send_count"], 0);
}

TEST_F(ControlTest, WrongArgumentsAreNamed) {
  start();
  const auto error = [&](const char* command, const Json& args) {
    return call(command, args).error();
  };
  EXPECT_EQ(error("nett show", Json::object()).code(), ENOSYS);
  EXPECT_EQ(error("net show", {{"net", "tcp9"}}).code(), ESRCH);
  EXPECT_EQ(error("net show", {{"net", "tcp9"}}).text(),
            "Network is down: no net tcp9 on this node");
  EXPECT_EQ(error("net show", {{"net", 1}}).text(), "argument 'net' must be a string");
  EXPECT_EQ(error("net show", {{"level", 5}}).text(),
            "argument 'level' must be a number from 0 to 4");
  EXPECT_EQ(error("net show", {{"level", 1.5}}).text(),
            "argument 'level' must be a number from 0 to 4");
  EXPECT_EQ(error("net show", {{"level", UINT64_MAX}}).text(),
            "argument 'level' must be a number from 0 to 4");
  EXPECT_EQ(error("net show", {{"lvl", 1}}).text(),
            "unknown argument 'lvl'; known are: net, level");
  EXPECT_EQ(error("stats reset", {{"x", 1}}).text(), "unknown argument 'x'; known are: none");
  EXPECT_THAT(error("peer show", {{"nid", "10.0.0@tcp"}}).text(), HasSubstr("argument 'nid': "));
  EXPECT_EQ(error("ping", Json::object()).text(),
            "argument 'nids' must be a list of 1 to 128 strings");
  EXPECT_EQ(error("ping", {{"nids", Json::array()}}).text(),
            "argument 'nids' must be a list of 1 to 128 strings");
  EXPECT_EQ(error("ping", {{"nids", std::vector<std::string>(129, "10.0.0.2@tcp")}}).text(),
            "argument 'nids' must be a list of 1 to 128 strings");
  EXPECT_EQ(error("ping", {{"nids", {"10.0.0.2@tcp"}}, {"timeout_ms", 0}}).text(),
            "argument 'timeout_ms' must be a number from 1 to 3600000");
}

TEST_F(ControlTest, PeersAreReadAndPassedOn) {
  using testing::ElementsAre;
  start();
  EXPECT_TRUE(call("peer add", {{"primary", "10.0.0.5@tcp"}}));
  EXPECT_TRUE(call("peer add", {{"nids", {"10.0.0.6@tcp", "10.0.1.6@tcp"}}, {"non_mr", true}}));
  EXPECT_TRUE(call("peer add", {{"primary", "10.0.0.7@tcp"}, {"lock_primary", true}}));
  EXPECT_TRUE(call("peer del", {{"primary", "10.0.0.7@tcp"}, {"force", true}}));
  EXPECT_TRUE(call("peer del", {{"nids", {"10.0.1.2@tcp"}}}));  // whose it is, is looked up
  EXPECT_THAT(
      node_.take_changes(),
      ElementsAre("peer 10.0.0.5@tcp:", "peer 10.0.0.6@tcp: 10.0.0.6@tcp 10.0.1.6@tcp non-mr",
                  "peer 10.0.0.7@tcp: locked", "no peer 10.0.0.7@tcp: forced",
                  "no peer 10.0.0.2@tcp: 10.0.1.2@tcp"));
  EXPECT_EQ(call("peer add", Json::object()).error().code(), EINVAL);
  EXPECT_EQ(call("peer del", Json::object()).error().code(), EINVAL);
  EXPECT_EQ(call("peer del", {{"nids", {"10.9.9.9@tcp"}}}).error().code(), ENOENT);
  EXPECT_EQ(call("peer add", {{"nids", {"10.0.0.900@tcp"}}}).error().code(), EINVAL);
}

TEST_F(ControlTest, DiscoveriesAreAnsweredInTheirOrder) {
  start();
  const Reply reply =
      call("discover", {{"nids", {"10.0.0.9@tcp", "10.0.0.8@tcp"}}, {"force", true}});
  ASSERT_TRUE(reply);
  const Json& results = (*reply)["results"];
  EXPECT_EQ(results.at(0)["error"]["errno"], EHOSTUNREACH);
  EXPECT_EQ(results.at(1)["pong"], (Json{{"primary nid", "10.0.0.8@tcp"},
                                         {"Multi-Rail", true},
                                         {"peer_ni", {{{"nid", "10.0.0.8@tcp"}}}}}));
  EXPECT_EQ(call("discover", Json::object()).error().code(), EINVAL);
}

TEST_F(ControlTest, ACheckedPathIsShownSizeBySize) {
  start();
  const Reply reply = call("check path", {{"nid", "10.0.0.2@tcp"}, {"source", "10.0.0.1@tcp"}});
  ASSERT_TRUE(reply);
  const Json& path = (*reply)["path"];
  EXPECT_EQ(path["source"], "10.0.0.1@tcp");
  EXPECT_EQ(path["connection"], "10.0.0.1:1023 - 10.0.0.2:988");
  EXPECT_EQ(path["path_mtu"], 9000);
  EXPECT_EQ(path["mss"], 8948);
  EXPECT_EQ(path["sizes"],
            (Json{{{"bytes", 0}, {"result", "passed"}, {"ms", 3}},
                  {{"bytes", 1024}, {"result", "passed"}, {"ms", 1}},
                  {{"bytes", 2048}, {"result", "ETIMEDOUT"}, {"ms", 5000}, {"reason", "lost"}}}));
  EXPECT_EQ(path["largest"], 1024);
  EXPECT_THAT(path["advice"].get<std::string>(), testing::HasSubstr("path_mtu 9000"));
  EXPECT_EQ(call("check path", {{"nid", "10.0.0.9@tcp"}}).error().code(), EBUSY);
  EXPECT_EQ(call("check path", Json::object()).error().text(), "no NID is given");
  EXPECT_EQ(call("check path", {{"nid", "10.0.0.900@tcp"}}).error().code(), EINVAL);
}

TEST_F(ControlTest, SettingsAreReadAndPassedOn) {
  using testing::ElementsAre;
  start();
  EXPECT_TRUE(call("set", {{"name", "retry_count"}, {"value", 3}}));
  EXPECT_TRUE(call("set", {{"name", "transaction_timeout"}, {"value", "0x28"}}));
  EXPECT_THAT(node_.take_changes(), ElementsAre("retry_count=3", "transaction_timeout=40"));
  EXPECT_TRUE(call("net set", {{"nid", "10.0.0.1@tcp"}, {"health", "0"}}));
  EXPECT_TRUE(call("net set", {{"net", "tcp1"}, {"lnd_timeout", 7}}));
  EXPECT_TRUE(call("net set", {{"all", true}, {"health_sensitivity", "default"}}));
  EXPECT_THAT(node_.take_changes(), ElementsAre("10.0.0.1@tcp health 0 sensitivity -9 timeout -9",
                                                "tcp1 health -9 sensitivity -9 timeout 7",
                                                "all health -9 sensitivity -1 timeout -9"));
  EXPECT_TRUE(call("peer set", {{"nid", "10.0.0.2@tcp"}, {"health", 500}}));
  EXPECT_TRUE(call("peer set", {{"all", true}, {"health_sensitivity", 1000}}));
  EXPECT_THAT(node_.take_changes(), ElementsAre("10.0.0.2@tcp health 500 sensitivity -9",
                                                "all health -9 sensitivity 1000"));
}

// HL-8
TEST_F(ControlTest, WrongSettingsAreNamedAndChangeNothing) {
  start();
  struct Row {
    const char* command;
    Json args;
    const char* text;
  };
  const Json tcp1 = "10.0.0.1@tcp";
  const std::vector<Row> rows = {
      {"set",
       {{"name", "health_sensitivity"}, {"value", 1001}},
       "health_sensitivity must be a number from 0 to 1000, not 1001"},
      {"set",
       {{"name", "health_sensitivity"}, {"value", "-1"}},
       "health_sensitivity must be a number from 0 to 1000, not '-1'"},
      {"set",
       {{"name", "health_sensitivity"}, {"value", "abc"}},
       "health_sensitivity must be a number from 0 to 1000, not 'abc'"},
      {"set",
       {{"name", "health_sensitivity"}, {"value", "1e3"}},
       "health_sensitivity must be a number from 0 to 1000, not '1e3'"},
      {"set",
       {{"name", "health_sensitivity"}, {"value", 1000.0}},
       "health_sensitivity must be a number from 0 to 1000, not 1000.0"},
      {"set",
       {{"name", "retry_count"}, {"value", nullptr}},
       "retry_count must be a number from 0 to 255, not null"},
      {"set", {{"name", "retry_count"}}, "no value for retry_count is given"},
      {"net set",
       {{"nid", tcp1}, {"health", 1001}},
       "health must be a number from 0 to 1000, not 1001"},
      {"net set",
       {{"nid", tcp1}, {"health", "1e3"}},
       "health must be a number from 0 to 1000, not '1e3'"},
      {"net set",
       {{"nid", tcp1}, {"health", "default"}},
       "health must be a number from 0 to 1000, not 'default'"},
      {"net set",
       {{"nid", tcp1}, {"health_sensitivity", -1}},
       "health_sensitivity must be a number from 0 to 1000, not -1"},
      {"net set",
       {{"nid", tcp1}, {"lnd_timeout", 86401}},
       "lnd_timeout must be a number from 0 to 86400, not 86401"},
      {"net set",
       {{"nid", tcp1}},
       "nothing to set: health, health_sensitivity or lnd_timeout must be given"},
      {"net set", {{"health", 1}}, "exactly one of nid, net and all must be given"},
      {"net set",
       {{"nid", tcp1}, {"all", true}, {"health", 1}},
       "exactly one of nid, net and all must be given"},
      {"net set", {{"all", 1}, {"health", 1}}, "argument 'all' must be true or false"},
      {"peer set",
       {{"nid", tcp1}, {"health", -1}},
       "health must be a number from 0 to 1000, not -1"},
      {"peer set", {{"health", 1}}, "exactly one of nid and all must be given"},
      {"peer set", {{"all", true}}, "nothing to set: health or health_sensitivity must be given"},
  };
  for (const Row& row : rows) {
    const Reply reply = call(row.command, row.args);
    ASSERT_FALSE(reply) << row.text;
    EXPECT_EQ(reply.error().code(), EINVAL);
    EXPECT_EQ(reply.error().text(), row.text);
  }
  const Reply unknown = call("set", {{"name", "retry_cuont"}, {"value", 1}});
  EXPECT_EQ(unknown.error().code(), ENOENT);
  EXPECT_THAT(unknown.error().text(),
              HasSubstr("no setting 'retry_cuont'; did you mean 'retry_count'?"));
  EXPECT_THAT(node_.take_changes(), testing::IsEmpty());
}

TEST_F(ControlTest, FaultRulesComeAndGo) {
  start();
  EXPECT_EQ((*call("fault drop show")).dump(), "{}");
  ASSERT_TRUE(call("fault drop add", {{"source", "*"},
                                      {"dest", "tcp"},
                                      {"rate", "10"},
                                      {"message", {"PUT", "GET"}},
                                      {"portal", 9},
                                      {"drop_all", true}}));
  ASSERT_TRUE(call("fault delay add",
                   {{"source", "10.0.0.1@tcp"}, {"dest", "*"}, {"rate", 1}, {"latency", 2}}));
  const std::vector<FaultInfo> drops = node_.faults(FaultKind::kDrop);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].rule.rate, 10u);
  EXPECT_EQ(drops[0].rule.messages, kFaultPut | kFaultGet);
  EXPECT_EQ(drops[0].rule.portals, 1u << 9);
  EXPECT_TRUE(drops[0].rule.drop_all);
  EXPECT_EQ((*call("fault drop show"))["fault"][0]["fs_count"], 3);
  EXPECT_FALSE((*call("fault drop show"))["fault"][0].contains("ulnet"));
  EXPECT_EQ((*call("fault delay show", {{"level", 4}}))["fault"][0]["ulnet"]["latency"], 2);
  ASSERT_TRUE(call("fault drop reset"));
  EXPECT_EQ((*call("fault drop show"))["fault"][0]["fs_count"], 0);
  EXPECT_EQ((*call("fault delay show"))["fault"][0]["fs_count"], 3);
  EXPECT_EQ(call("fault drop del", {{"source", "tcp1"}, {"dest", "tcp"}}).error().text(),
            "no drop rule from 255.255.255.255@tcp1 to 255.255.255.255@tcp");
  EXPECT_TRUE(call("fault drop del", {{"source", "*"}, {"dest", "tcp"}}));
  EXPECT_TRUE(node_.faults(FaultKind::kDrop).empty());
  EXPECT_TRUE(call("fault delay del", {{"all", true}}));
  EXPECT_TRUE(call("fault delay del", {{"all", true}}));  // none is fine
  EXPECT_TRUE(node_.faults(FaultKind::kDelay).empty());
  for (const char* command : {"fault drop add", "fault delay del", "fault drop reset"})
    EXPECT_TRUE(Commands::is_change(command)) << command;
  EXPECT_FALSE(Commands::is_change("fault drop show"));
}

TEST_F(ControlTest, WrongFaultRulesAreNamed) {
  start();
  const auto error = [&](const char* command, const Json& args) {
    const Reply reply = call(command, args);
    return reply ? "none" : reply.error().text();
  };
  const Json any = {{"source", "*"}, {"dest", "*"}};
  const auto with = [&any](Json more) {
    Json args = any;
    args.update(more);
    return args;
  };
  EXPECT_EQ(error("fault drop add", {{"source", "*"}, {"rate", 1}}),
            "argument 'dest' is missing: a NID, a net, or '*' for any");
  EXPECT_EQ(error("fault drop add", any),
            "rate 0 and interval 0: exactly one of them must be above 0");
  EXPECT_EQ(error("fault drop add", with({{"rate", "ten"}})),
            "argument 'rate' must be a number from 1 to 2147483647, not 'ten'");
  EXPECT_EQ(error("fault drop add", with({{"rate", {{"a", 1}}}})),
            "argument 'rate' must be a number from 1 to 2147483647, not '{\"a\":1}'");
  EXPECT_EQ(error("fault drop add", with({{"portal", {{1, 2}}}})),
            "argument 'portal' is a list of lists");
  EXPECT_EQ(error("fault drop add", with({{"random", nullptr}})),
            "argument 'random' must be true or false, not 'null'");
  EXPECT_EQ(error("fault delay add", with({{"rate", 1}})),
            "a delay rule needs a latency of at least 1 second");
  EXPECT_EQ(error("fault delay add", with({{"random", true}})),
            "unknown argument 'random'; known are: source, dest, rate, interval, portal, message, "
            "local_nid, latency");
  EXPECT_EQ(error("fault drop del", Json::object()),
            "argument 'source' is missing: a NID, a net, or '*' for any");
  EXPECT_EQ(error("fault drop del", with({{"all", true}})),
            "argument 'all' must be true, without a source and a dest");
  EXPECT_EQ(error("fault drop reset", any), "unknown argument 'source'; known are: none");
  EXPECT_EQ(error("fault drop show", {{"level", "x"}}),
            "argument 'level' must be a number from 0 to 4");
  EXPECT_TRUE(node_.faults(FaultKind::kDrop).empty());
}

TEST_F(ControlTest, PingsRunSideBySideAndAreAnsweredInOrder) {
  start();
  RawClient client(path_);
  client.send(
      R"({"id":1,"command":"ping","args":{"nids":["10.0.0.2@tcp","10.0.0.3@tcp"],"source":"10.0.0.1@tcp",)"
      R"("timeout_ms":250}})"
      "\n");
  auto pings = node_.take_pings(2);
  ASSERT_EQ(pings.size(), 2u);
  EXPECT_EQ(pings[0].first.source.to_string(), "10.0.0.1@tcp");
  EXPECT_EQ(pings[0].first.timeout, milliseconds(250));
  pings[1].second(fail(EHOSTUNREACH, "no route to 10.0.0.3@tcp"));
  pings[0].second(pong_of(pings[0].first.nid));
  EXPECT_EQ(
      client.line(),
      R"({"id":1,"ok":true,"result":{"results":[{"nid":"10.0.0.2@tcp","pong":{"primary nid":"10.0.0.2@tcp",)"
      R"("Multi-Rail":true,"peer_ni":[{"nid":"10.0.0.2@tcp"}]}},{"nid":"10.0.0.3@tcp","error":{"errno":113,)"
      R"("name":"EHOSTUNREACH","text":"no route to 10.0.0.3@tcp"}}]}})");
}

TEST_F(ControlTest, ASlowPingDelaysNobody) {
  start();
  RawClient client(path_);
  client.send(
      "{\"id\":1,\"command\":\"ping\",\"args\":{\"nids\":[\"10.0.0.2@tcp\"]}}\n{\"id\":2,"
      "\"command\":\"peer list\"}\n");
  EXPECT_THAT(client.line(), HasSubstr(R"({"id":2,"ok":true)"));  // the same client
  EXPECT_TRUE(call("net show"));                                  // another one
  auto pings = node_.take_pings(1);
  pings[0].second(pong_of(pings[0].first.nid));
  EXPECT_THAT(client.line(), HasSubstr(R"({"id":1,"ok":true)"));
}

TEST_F(ControlTest, PingsOutliveTheirClientAndTheServer) {
  start();
  {
    RawClient client(path_);
    client.send("{\"id\":1,\"command\":\"ping\",\"args\":{\"nids\":[\"10.0.0.2@tcp\"]}}\n");
    for (auto& ping : node_.take_pings(1)) {
      RawClient(path_).send(
          "{\"id\":1,\"command\":\"ping\",\"args\":{\"nids\":[\"10.0.0.3@tcp\"]}}\n");
      auto late = node_.take_pings(1);
      server_.reset();
      ping.second(pong_of(ping.first.nid));
      late[0].second(fail(ESHUTDOWN, "the node stops"));
    }
    EXPECT_TRUE(client.at_end());
  }
}

TEST_F(ControlTest, PingsInFlightAreBounded) {
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  const std::vector<std::string> nids(128, "10.0.0.2@tcp");
  const std::string request = format_request({1, "ping", {{"nids", nids}}});
  for (size_t sent = 0; sent < kPingsInFlightMax; sent += 128) {
    clients.push_back(std::make_unique<RawClient>(path_));
    clients.back()->send(request);
  }
  auto pings = node_.take_pings(kPingsInFlightMax);
  EXPECT_EQ(call("ping", {{"nids", {"10.0.0.2@tcp"}}}).error().code(), EBUSY);
  for (auto& ping : pings) ping.second(pong_of(ping.first.nid));
  EXPECT_THAT(clients.back()->line(), HasSubstr("\"ok\":true"));
  std::thread last([&] { node_.take_pings(1)[0].second(fail(ETIMEDOUT, "late")); });
  EXPECT_TRUE(call("ping", {{"nids", {"10.0.0.2@tcp"}}}));  // the budget is back
  last.join();
}

}  // namespace
}  // namespace ulnet::daemon
