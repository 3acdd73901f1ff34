// The command line of ulnetctl: words to a command, and what to say when they make none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ulnet::daemon {

// Exit statuses of lnetctl: low bits of what its functions return.
inline constexpr int kExitOk = 0;
inline constexpr int kExitHelp = 1;       // help was asked for
inline constexpr int kExitNetDown = 156;  // -ENETDOWN, of stats and global
inline constexpr int kExitFailed = 234;   // -EINVAL, most failures
inline constexpr int kExitUsage =
    255;  // -1, words that make no command; a ping or check that failed

struct CliCommand {
  // As in the control protocol: "net show", "ping", ...
  std::string name;
  std::string socket;
  bool json = false;
  int level = 0;  // -v
  std::string net;
  std::string nid;
  std::string source;
  std::chrono::milliseconds timeout{1000};
  std::vector<std::string> targets;  // of ping and discover
  std::string primary;               // of peer add and peer del
  bool non_mr = false;
  bool lock_primary = false;
  bool force = false;   // of peer del and discover
  std::string setting;  // of set, with its value
  std::string value;
  bool all = false;  // of net set and peer set, with what to set; the daemon reads the numbers
  std::string health;
  std::string health_sensitivity;
  std::string lnd_timeout;
  // Of `fault`: by field (fault.h), or "all"; empty where nothing was given.
  std::map<std::string, std::vector<std::string>> fault;
  std::vector<std::string> interfaces;     // of net add and net del
  std::map<std::string, int64_t> numbers;  // of net add, by the names of the control protocol
  std::string cpt;
  bool skip_route_setup = false;  // accepted, no effect
};

// Why there is no command.
struct CliExit {
  int status = kExitUsage;
  bool json = false;
  std::string help;    // asked for, or the text that goes with too few words
  std::string entity;  // of the error block: the first command word, or "command"
  std::string fault;   // empty when help was asked for
};

// `arguments` without the program's name. `socket` is what holds without --socket.
tl::expected<CliCommand, CliExit> parse_cli(const std::vector<std::string>& arguments,
                                            const std::string& socket);

}  // namespace ulnet::daemon
