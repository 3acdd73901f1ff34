// The words of ulnetctl, the NIDs it pings, and ulnetd's look at the kernel's settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "daemon/cli.h"
#include "daemon/net_check.h"
#include "daemon/ping_targets.h"
#include "daemon/service_notify.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::daemon {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Words = std::vector<std::string>;

CliCommand good(const Words& words) {
  const auto command = parse_cli(words, "/default");
  EXPECT_TRUE(command) << (command ? "" : command.error().fault);
  return command.value_or(CliCommand{});
}

CliExit bad(const Words& words) {
  const auto command = parse_cli(words, "/default");
  EXPECT_FALSE(command);
  return command ? CliExit{} : command.error();
}

TEST(Cli, Commands) {
  EXPECT_EQ(good({"net", "show"}).name, "net show");
  EXPECT_EQ(good({"peer", "show"}).name, "peer show");
  EXPECT_EQ(good({"peer", "list"}).name, "peer list");
  EXPECT_EQ(good({"stats", "show"}).name, "stats show");
  EXPECT_EQ(good({"stats", "reset"}).name, "stats reset");
  EXPECT_EQ(good({"global", "show"}).name, "global show");
  EXPECT_EQ(good({"version"}).name, "version");
  EXPECT_EQ(good({"ping", "a"}).name, "ping");
}

TEST(Cli, Options) {
  EXPECT_EQ(good({"net", "show"}).socket, "/default");
  EXPECT_EQ(good({"--socket", "/s", "net", "show"}).socket, "/s");
  EXPECT_EQ(good({"net", "show", "--socket=/s"}).socket, "/s");
  EXPECT_TRUE(good({"net", "show", "--json"}).json);
  EXPECT_TRUE(good({"--json", "net", "show"}).json);
  EXPECT_EQ(good({"net", "show", "--net", "tcp1"}).net, "tcp1");
  EXPECT_EQ(good({"net", "show", "-n", "tcp1"}).net, "tcp1");
  EXPECT_EQ(good({"peer", "show", "--nid", "1.2.3.4@tcp"}).nid, "1.2.3.4@tcp");
  EXPECT_EQ(good({"net", "show"}).level, 0);
  EXPECT_EQ(good({"net", "show", "-v"}).level, 1);
  EXPECT_EQ(good({"net", "show", "-v", "--net", "tcp"}).level, 1);
  EXPECT_EQ(good({"net", "show", "-v", "4"}).level, 4);
  EXPECT_EQ(good({"peer", "show", "--verbose=2"}).level, 2);
  EXPECT_EQ(good({"peer", "show", "--verbose"}).level, 1);
  EXPECT_EQ(good({"stats", "show", "-v4"}).level, 4);
}

TEST(Cli, CheckPath) {
  const CliCommand check = good({"check", "path", "10.0.0.2@tcp", "--source", "10.0.0.1@tcp"});
  EXPECT_EQ(check.name, "check path");
  EXPECT_EQ(check.nid, "10.0.0.2@tcp");
  EXPECT_EQ(check.source, "10.0.0.1@tcp");
  EXPECT_EQ(bad({"check", "path"}).fault, "no NID is given");
  EXPECT_EQ(bad({"check"}).fault, "a command is missing");
}

// lnetctl's options of `net add` and `net del`.
TEST(Cli, ChangesOfNets) {
  const CliCommand add =
      good({"net", "add", "--net", "tcp1", "--if", "eth1,eth2", "--peer-credits", "16",
            "--credits=64", "--conns-per-peer", "2", "--cpt", "[0,1]", "-k"});
  EXPECT_EQ(add.name, "net add");
  EXPECT_EQ(add.net, "tcp1");
  EXPECT_THAT(add.interfaces, ElementsAre("eth1", "eth2"));
  EXPECT_EQ(add.numbers, (std::map<std::string, int64_t>{
                             {"conns_per_peer", 2}, {"credits", 64}, {"peer_credits", 16}}));
  EXPECT_EQ(add.cpt, "[0,1]");
  const CliCommand brief = good({"net", "add", "-n", "tcp", "-i", "eth0", "-t", "-1", "-c", "9",
                                 "-b", "1", "-r", "2", "-m", "3", "--tos", "184"});
  EXPECT_EQ(brief.numbers.size(), 6U);
  EXPECT_EQ(brief.numbers.at("peer_timeout"), -1);
  const CliCommand del = good({"net", "del", "--nid", "10.0.0.1@tcp"});
  EXPECT_EQ(del.name, "net del");
  EXPECT_EQ(del.nid, "10.0.0.1@tcp");
  EXPECT_NE(bad({"net", "add", "--credits", "many"}).fault, "");
}

TEST(Cli, Ping) {
  const CliCommand ping =
      good({"ping", "-s", "10.0.0.1@tcp", "-t", "2", "10.0.0.2@tcp,10.0.0.3@tcp", "host"});
  EXPECT_EQ(ping.source, "10.0.0.1@tcp");
  EXPECT_EQ(ping.timeout, milliseconds(2000));
  EXPECT_THAT(ping.targets, ElementsAre("10.0.0.2@tcp,10.0.0.3@tcp", "host"));
  EXPECT_EQ(good({"ping", "a"}).timeout, milliseconds(1000));
  EXPECT_EQ(good({"ping", "a", "--timeout", "0.25"}).timeout, milliseconds(250));
}

TEST(Cli, Set) {
  const CliCommand set = good({"set", "retry_count", "3", "--json"});
  EXPECT_EQ(set.name, "set");
  EXPECT_EQ(set.setting, "retry_count");
  EXPECT_EQ(set.value, "3");
  EXPECT_TRUE(set.json);
  EXPECT_EQ(good({"set", "health_sensitivity", "-1"}).value, "-1");
  EXPECT_EQ(good({"set", "health_sensitivity", "1e3"}).value, "1e3");
  EXPECT_EQ(bad({"set", "retry_count"}).fault, "a name and a value are wanted");
  EXPECT_EQ(bad({"set"}).status, kExitFailed);
  EXPECT_EQ(bad({"set", "retry_count", "3", "4"}).fault, "unknown word '4'");
  EXPECT_EQ(bad({"set", "retry_count", "3", "-1"}).fault, "unknown word '-1'");

  const CliCommand net = good({"net", "set", "-n", "10.0.0.1@tcp", "--health", "-1"});
  EXPECT_EQ(net.name, "net set");
  EXPECT_EQ(net.nid, "10.0.0.1@tcp");
  EXPECT_EQ(net.health, "-1");
  EXPECT_EQ(good({"net", "set", "-i", "tcp", "-l", "7"}).lnd_timeout, "7");
  EXPECT_EQ(good({"net", "set", "-a", "--health-sensitivity", "default"}).health_sensitivity,
            "default");
  const CliCommand peer = good({"peer", "set", "--all", "-t", "500"});
  EXPECT_EQ(peer.name, "peer set");
  EXPECT_TRUE(peer.all);
  EXPECT_EQ(peer.health, "500");
  EXPECT_EQ(bad({"peer", "set", "--lnd-timeout", "7"}).fault, "unknown word '--lnd-timeout'");
}

TEST(Cli, Faults) {
  using Given = std::map<std::string, std::vector<std::string>>;
  const auto given = [](const Words& words, const char* name) {
    const CliCommand command = good(words);
    EXPECT_EQ(command.name, name);
    Given fault = command.fault;
    std::erase_if(fault, [](const auto& entry) { return entry.second.empty(); });
    return fault;
  };
  EXPECT_EQ(given({"fault",      "drop",        "add",          "--source",   "*",
                   "--dest=tcp", "--rate",      "10",           "--portal",   "1",
                   "--portal",   "2",           "--message",    "PUT",        "--health_error",
                   "random",     "--local_nid", "10.0.0.1@tcp", "--drop_all", "--random"},
                  "fault drop add"),
            (Given{{"source", {"*"}},
                   {"dest", {"tcp"}},
                   {"rate", {"10"}},
                   {"portal", {"1", "2"}},
                   {"message", {"PUT"}},
                   {"health_error", {"random"}},
                   {"local_nid", {"10.0.0.1@tcp"}},
                   {"drop_all", {"true"}},
                   {"random", {"true"}}}));
  EXPECT_EQ(given({"fault", "drop", "add", "-s",  "a",  "-d", "b",  "-i", "5", "-p", "1",
                   "-m",    "PUT",  "-m",  "GET", "-e", "x",  "-n", "-o", "c", "-x"},
                  "fault drop add"),
            (Given{{"source", {"a"}},
                   {"dest", {"b"}},
                   {"interval", {"5"}},
                   {"portal", {"1"}},
                   {"message", {"PUT", "GET"}},
                   {"health_error", {"x"}},
                   {"random", {"true"}},
                   {"local_nid", {"c"}},
                   {"drop_all", {"true"}}}));
  EXPECT_EQ(given({"fault", "delay", "add", "-s", "a", "-d", "b", "-r", "1", "-l", "3"},
                  "fault delay add"),
            (Given{{"source", {"a"}}, {"dest", {"b"}}, {"rate", {"1"}}, {"latency", {"3"}}}));
  EXPECT_EQ(given({"fault", "delay", "del", "-s", "a", "-d", "b"}, "fault delay del"),
            (Given{{"source", {"a"}}, {"dest", {"b"}}}));
  EXPECT_EQ(given({"fault", "drop", "del", "-a"}, "fault drop del"), (Given{{"all", {"true"}}}));
  EXPECT_EQ(good({"fault", "drop", "show", "-v", "4"}).level, 4);
  EXPECT_EQ(good({"fault", "delay", "reset"}).name, "fault delay reset");
  EXPECT_EQ(bad({"fault", "delay", "add", "-x"}).fault, "unknown word '-x'");
  EXPECT_EQ(bad({"fault", "drop", "add", "--latency", "3"}).fault, "unknown word '--latency'");
  EXPECT_EQ(bad({"fault", "drop", "add", "-m", "PUT", "GET"}).fault, "unknown word 'GET'");
  EXPECT_THAT(bad({"fault", "drop", "add", "-r", "1", "-r", "2"}).fault, HasSubstr("--rate"));
  EXPECT_EQ(bad({"fault", "drop"}).fault, "a command is missing");
  EXPECT_EQ(bad({"fault", "drop"}).entity, "fault");
}

TEST(Cli, HelpIsExitOne) {
  for (const Words& words :
       {Words{"-h"}, Words{"--help"}, Words{"net", "-h"}, Words{"net", "show", "--help"}}) {
    const CliExit exit = bad(words);
    EXPECT_EQ(exit.status, kExitHelp);
    EXPECT_THAT(exit.fault, IsEmpty());
    EXPECT_THAT(exit.help, HasSubstr("Usage: ulnetctl"));
  }
  EXPECT_THAT(bad({"net", "show", "-h"}).help, HasSubstr("--verbose"));
}

// UX-1: quoted, with the word that was meant, and never ignored.
TEST(Cli, WordsThatMakeNoCommand) {
  struct Case {
    Words words;
    const char* fault;
    const char* entity;
  };
  const std::vector<Case> cases = {
      {{"nett", "show"}, "unknown word 'nett'; did you mean 'net'?", "command"},
      {{"net", "shwo"}, "unknown word 'shwo'; did you mean 'show'?", "net"},
      {{"net", "show", "--nte", "tcp"}, "unknown word '--nte'; did you mean '--net'?", "net"},
      {{"net", "show", "--nets=tcp"}, "unknown word '--nets=tcp'; did you mean '--net'?", "net"},
      {{"net", "show", "extra"}, "unknown word 'extra'", "net"},
      {{"net", "show", "tcp", "--jsn"}, "unknown word 'tcp'", "net"},
      {{"stats", "reset", "--jsonn"}, "unknown word '--jsonn'; did you mean '--json'?", "stats"},
      {{"peer", "list", "-v"}, "unknown word '-v'", "peer"},
      {{"net", "show", "\u2013\u2013net", "tcp"},
       "'\u2013\u2013net' begins with a dash that is no '-' (U+002D); did you mean '--net'?",
       "command"},
      {{"net", "show", "\u2013v"},
       "'\u2013v' begins with a dash that is no '-' (U+002D); did you mean '-v'?",
       "command"},
      {{"ping", "\u2014timeout", "1", "a"},
       "'\u2014timeout' begins with a dash that is no '-' (U+002D); did you mean '--timeout'?",
       "command"},
      {{"net", "show", "-v", "5"}, "'--verbose 5': a level is a number from 0 to 4", "net"},
      {{"net", "show", "-v", "x"}, "'--verbose x': a level is a number from 0 to 4", "net"},
      {{"ping", "-t", "0", "a"},
       "'--timeout 0': a time is a number of seconds, above 0 and at most 3600",
       "ping"},
      {{"ping", "-t", "nan", "a"},
       "'--timeout nan': a time is a number of seconds, above 0 and at most 3600",
       "ping"},
      {{"ping", "-t", "1s", "a"},
       "'--timeout 1s': a time is a number of seconds, above 0 and at most 3600",
       "ping"},
      {{"ping", "-t", "1e99", "a"},
       "'--timeout 1e99': a time is a number of seconds, above 0 and at most 3600",
       "ping"},
  };
  for (const Case& c : cases) {
    const CliExit exit = bad(c.words);
    EXPECT_EQ(exit.fault, c.fault);
    EXPECT_EQ(exit.entity, c.entity) << c.fault;
    EXPECT_EQ(exit.status, kExitUsage) << c.fault;
  }
  EXPECT_THAT(bad({"net", "show", "--net"}).fault, HasSubstr("--net"));
  EXPECT_THAT(bad({"net", "show", "--net", "a", "--net", "b"}).fault, HasSubstr("--net"));
  EXPECT_EQ(bad({"net", "show", "--net", "a", "--net", "b"}).status, kExitUsage);
}

TEST(Cli, TooFewWordsGetTheHelp) {
  for (const Words& words : {Words{}, Words{"net"}, Words{"ping"}, Words{"--json"}}) {
    const CliExit exit = bad(words);
    EXPECT_EQ(exit.status, kExitFailed);
    EXPECT_THAT(exit.help, HasSubstr("Usage: ulnetctl"));
    EXPECT_FALSE(exit.fault.empty());
  }
  EXPECT_TRUE(bad({"nett", "--json"}).json);
}

// ---- targets of ping.

Result<std::vector<uint32_t>> two_addresses(const std::string& name) {
  if (name == "twin") return std::vector<uint32_t>{0x0A000001, 0x0A000002};
  return fail(EHOSTUNREACH, "host '" + name + "': unknown");
}

std::vector<std::string> words_of(const Words& arguments) {
  const auto targets = expand_ping_targets(arguments, 128, two_addresses);
  std::vector<std::string> words;
  EXPECT_TRUE(targets);
  for (const PingTarget& target : *targets) words.push_back((target.nid ? "" : "!") + target.word);
  return words;
}

TEST(PingTargets, ListsRangesAndNames) {
  EXPECT_THAT(words_of({"10.0.0.1@tcp,10.0.0.2@tcp1", "10.0.0.3"}),
              ElementsAre("10.0.0.1@tcp", "10.0.0.2@tcp1", "10.0.0.3@tcp"));
  EXPECT_THAT(words_of({"10.0.0.[1,3-4]@tcp"}),
              ElementsAre("10.0.0.1@tcp", "10.0.0.3@tcp", "10.0.0.4@tcp"));
  EXPECT_THAT(words_of({"fe80::1@tcp"}), ElementsAre("fe80::1@tcp"));
  EXPECT_THAT(words_of({"twin@tcp1"}), ElementsAre("10.0.0.1@tcp1", "10.0.0.2@tcp1"));
  EXPECT_THAT(words_of({"twin"}), ElementsAre("10.0.0.1@tcp", "10.0.0.2@tcp"));
}

// UX-5: the bad one is reported, the others are pinged.
TEST(PingTargets, BadWordsStandInTheirPlace) {
  EXPECT_THAT(
      words_of({"10.0.0.1@tcp,10.0.0@tcp,10.0.0.3@tcp", "nobody", "<?>", "10.0.0.[9-1]@tcp"}),
      ElementsAre("10.0.0.1@tcp", "!10.0.0@tcp", "10.0.0.3@tcp", "!nobody", "!<?>",
                  "!10.0.0.[9-1]@tcp"));
}

TEST(PingTargets, AtMostTheLimit) {
  EXPECT_EQ(words_of({"10.0.0.[1-128]@tcp"}).size(), 128u);
  EXPECT_EQ(expand_ping_targets({"10.0.0.[1-129]@tcp"}, 128, two_addresses).error().code(), E2BIG);
  EXPECT_EQ(expand_ping_targets({"10.0.0.[1-100]@tcp", "10.0.1.[1-100]@tcp"}, 128, two_addresses)
                .error()
                .code(),
            E2BIG);
  EXPECT_EQ(expand_ping_targets({",", ""}, 128, two_addresses).error().code(), EINVAL);
}

// ---- kernel settings (SL-2).

NicView nic(const char* device, uint32_t address, int arp_ignore, int arp_announce, int rp_filter) {
  return {device, address, 0xFFFFFF00, arp_ignore, arp_announce, rp_filter};
}

TEST(NetCheck, TwoNicsOnOneSubnetGetTheExactCommands) {
  EXPECT_THAT(
      shared_subnet_advice({nic("eth0", 0x0A000001, 0, 0, 1), nic("eth1.7", 0x0A000002, 1, 2, 1)}),
      ElementsAre(
          "devices eth0, eth1.7 are on one subnet, 10.0.0.0/24, and the kernel lets one answer for "
          "another; to keep their traffic apart:",
          "sysctl -w net.ipv4.conf.eth0.arp_ignore=1",
          "sysctl -w net.ipv4.conf.eth0.arp_announce=2", "sysctl -w net.ipv4.conf.eth0.rp_filter=2",
          "sysctl -w net.ipv4.conf.eth1/7.rp_filter=2"));
}

TEST(NetCheck, NothingToSay) {
  EXPECT_THAT(shared_subnet_advice({}), IsEmpty());
  EXPECT_THAT(
      shared_subnet_advice({nic("eth0", 0x0A000001, 0, 0, 1), nic("eth1", 0x0A000101, 0, 0, 1)}),
      IsEmpty());
  EXPECT_THAT(
      shared_subnet_advice({nic("eth0", 0x0A000001, 0, 0, 1), nic("eth0", 0x0A000002, 0, 0, 1)}),
      IsEmpty());
  EXPECT_THAT(
      shared_subnet_advice({nic("eth0", 0x0A000001, 1, 2, 0), nic("eth1", 0x0A000002, 2, 2, 2)}),
      IsEmpty());
}

TEST(NetCheck, FindsTheDeviceOfAnAddress) {
  NiInfo ni;
  ni.nid = *Nid::parse("127.0.0.1@tcp");
  const std::vector<NicView> nics = look_at_nics({{ni.nid.net(), {ni}}});
  ASSERT_EQ(nics.size(), 1u);
  EXPECT_EQ(nics[0].device, "lo");
  EXPECT_EQ(nics[0].mask, 0xFF000000u);
}

// ---- service manager.

TEST(ServiceNotify, SendsOneDatagram) {
  for (const std::string& name :
       {testing::TempDir() + "/ulnet-notify.sock", std::string("@ulnet-notify-test")}) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    EXPECT_TRUE(notify_service_manager(name.c_str(), "READY=1\n").is_ok());
    char buffer[64];
    const ssize_t bytes = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    EXPECT_EQ(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(bytes, 0))), "READY=1\n");
    if (name[0] != '@') ::unlink(name.c_str());
  }
  EXPECT_TRUE(notify_service_manager(nullptr, "x").is_ok());
  EXPECT_TRUE(notify_service_manager("", "x").is_ok());
  EXPECT_EQ(notify_service_manager("/nonexistent.sock", "x").code(), ENOENT);
  EXPECT_EQ(notify_service_manager(std::string(200, 'x').c_str(), "x").code(), ENAMETOOLONG);
}

}  // namespace
}  // namespace ulnet::daemon
