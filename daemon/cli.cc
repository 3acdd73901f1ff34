#include "daemon/cli.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "config/nearest.h"
#include "config/show.h"
#include "daemon/commands.h"
#include "ulnet/fault.h"

namespace ulnet::daemon {
namespace {

// Dashes that word processors put in the place of '-'.
constexpr std::array<std::string_view, 8> kWideDashes = {"\u2010", "\u2011", "\u2012", "\u2013",
                                                         "\u2014", "\u2015", "\u2212", "\uFF0D"};

// The word with ASCII dashes; nothing if it begins with an ASCII character.
std::optional<std::string> with_ascii_dashes(const std::string& word) {
  for (const std::string_view dash : kWideDashes) {
    if (word.starts_with(dash)) {
      std::string rest = word.substr(dash.size());
      rest.erase(0, rest.find_first_not_of('-'));
      if (const auto again = with_ascii_dashes(rest)) return again;
      return (rest.size() == 1 ? "-" : "--") + rest;
    }
  }
  return std::nullopt;
}

struct FaultOption {
  enum class Takes : uint8_t { kOne, kSeveral, kNothing };

  std::string_view field;
  const char* names;
  const char* what;
  Takes takes = Takes::kOne;
};

constexpr std::array<FaultOption, 11> kFaultOptions = {{
    {"source", "-s,--source", "NID that a message comes from, a net (e.g. tcp1), or '*' for any"},
    {"dest", "-d,--dest", "NID that a message goes to, a net, or '*' for any"},
    {"rate", "-r,--rate", "act on one of so many messages"},
    {"interval", "-i,--interval", "act on one message in so many seconds"},
    {"portal", "-p,--portal", "portal of PUT and GET; may be repeated",
     FaultOption::Takes::kSeveral},
    {"message", "-m,--message", "PUT, ACK, GET or REPLY; may be repeated",
     FaultOption::Takes::kSeveral},
    {"local_nid", "-o,--local_nid", "local NID that a message is received by"},
    {"health_error", "-e,--health_error",
     "drop what is sent, with this error: local_interrupt, local_dropped, local_aborted, "
     "local_no_route, local_error, local_timeout, remote_error, remote_dropped, remote_timeout, "
     "network_timeout or random; may be repeated",
     FaultOption::Takes::kSeveral},
    {"random", "-n,--random", "with an interval: drop each message with probability 1/2",
     FaultOption::Takes::kNothing},
    {"drop_all", "-x,--drop_all", "drop every message that fits, sent or received",
     FaultOption::Takes::kNothing},
    {"latency", "-l,--latency", "seconds to hold a message"},
}};

// All the words of ulnetctl, and CLI11 with its exceptions kept in.
class Parser {
 public:
  explicit Parser(const std::string& socket) {
    command_.socket = socket;
    app_.add_option("--socket", command_.socket,
                    "control socket of the daemon (default: $ULNET_SOCKET, else " +
                        std::string(kDefaultSocketPath) + ")");
    app_.add_flag("--json", command_.json, "print JSON instead of YAML");
    CLI::App* net = group("net", "local networks");
    CLI::App* net_show = leaf(*net, "show", "show networks");
    net_show->add_option("-n,--net", command_.net, "net name (e.g. tcp1) to filter on");
    verbose(*net_show);
    CLI::App* net_set = leaf(*net, "set", "change local NIs of the running node");
    net_set->add_option("-i,--net", command_.net, "all NIs of this net");
    net_set->add_option("-l,--lnd-timeout", command_.lnd_timeout,
                        "seconds until a transfer without progress is given up; 0: derived");
    selection_and_health(*net_set, "NID of one local NI", "all local NIs");
    net_changes(*net);
    CLI::App* peer = group("peer", "peers");
    CLI::App* peer_set = leaf(*peer, "set", "change what the running node holds of peers");
    selection_and_health(*peer_set, "NID of one peer NI", "all peers");
    CLI::App* peer_show = leaf(*peer, "show", "show peers");
    peer_show->add_option("-n,--nid", command_.nid, "NID of a peer to filter on");
    verbose(*peer_show);
    leaf(*peer, "list", "list the primary NIDs of all peers");
    CLI::App* stats = group("stats", "counters of the node");
    verbose(*leaf(*stats, "show", "show counters"));
    leaf(*stats, "reset", "set all counters to 0");
    leaf(*group("global", "global settings"), "show", "show global settings");
    CLI::App* set = leaf(app_, "set", "change a global setting of the running node");
    set->add_option("NAME", command_.setting, "as 'global show' lists it");
    set->add_option("VALUE", command_.value, "the new value");
    CLI::App* peer_add = leaf(*peer, "add", "say that some NIDs are one node");
    peer_add->add_option("-k,--prim_nid", command_.primary, "primary NID (default: the first NID)");
    peer_add->add_option("-n,--nid", command_.nid, "NIDs: a comma list, with ranges");
    peer_add->add_flag("-m,--non_mr", command_.non_mr, "no multi-rail: each message to its NID");
    peer_add->add_flag("-l,--lock_prim", command_.lock_primary,
                       "the primary NID stays, whatever the node says");
    CLI::App* peer_del = leaf(*peer, "del", "forget NIDs of a node, or all of it");
    peer_del->add_option("-k,--prim_nid", command_.primary, "primary NID");
    peer_del->add_option("-n,--nid", command_.nid, "NIDs: a comma list, with ranges");
    peer_del->add_flag("-f,--force", command_.force, "also a name that an application has given");
    CLI::App* discover = leaf(app_, "discover", "find out who has these NIDs");
    discover->add_flag("-f,--force", command_.force, "ask and tell, whatever is known");
    discover->add_option("NID", command_.targets,
                         "NIDs: comma lists, ranges such as 10.0.0.[1-9]@tcp, host names");
    CLI::App* ping = leaf(app_, "ping", "ping nodes");
    ping->add_option("-s,--source", command_.source, "local NID to ping from");
    ping->add_option("-t,--timeout", timeout_, "seconds to wait for an answer (default: 1)");
    ping->add_option("NID", command_.targets,
                     "NIDs: comma lists, ranges such as 10.0.0.[1-9]@tcp, host names");
    CLI::App* path = leaf(*group("check", "look for what is wrong"), "path",
                          "send messages of growing size to a node until one does not arrive");
    path->add_option("-s,--source", command_.source, "local NID to send from");
    path->add_option("NID", command_.nid, "NID of the node");
    add_fault_commands();
    leaf(app_, "version", "show the versions of this program and of the daemon");
    quiet(app_);
  }

  tl::expected<CliCommand, CliExit> parse(std::vector<std::string> arguments) {
    // The block of an error is JSON if that was asked for, even when the words before it make no
    // command.
    command_.json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    for (const std::string& word : arguments) {
      if (const auto ascii = with_ascii_dashes(word)) {
        return fault(fmt::format(
            "'{}' begins with a dash that is no '-' (U+002D); did you mean '{}'?", word, *ascii));
      }
    }
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
    try {
      app_.parse(arguments);
    } catch (const CLI::CallForHelp&) {
      return tl::unexpected(CliExit{.status = kExitHelp,
                                    .json = command_.json,
                                    .help = app_.help(),
                                    .entity = {},
                                    .fault = {}});
    } catch (const CLI::ParseError& error) {
      return fault(error.what());
    }
    return finish();
  }

 private:
  CLI::App* group(const char* name, const char* what) {
    CLI::App* app = app_.add_subcommand(name, what);
    quiet(*app);
    return app;
  }
  CLI::App* leaf(CLI::App& parent, const char* name, const char* what) {
    CLI::App* app = parent.add_subcommand(name, what);
    quiet(*app);
    leaves_.push_back(app);
    return app;
  }
  // Unknown words are collected and judged here; --json and --socket may stand anywhere.
  static void quiet(CLI::App& app) {
    app.allow_extras();
    app.fallthrough();
  }
  void selection_and_health(CLI::App& app, const char* nid, const char* all) {
    app.add_option("-n,--nid", command_.nid, nid);
    app.add_flag("-a,--all", command_.all, all);
    app.add_option("-t,--health", command_.health, "health value, 0 to 1000");
    app.add_option("--health-sensitivity", command_.health_sensitivity,
                   "what a failure takes and a success gives, 0 to 1000, or 'default'");
  }
  void add_fault_commands() {
    CLI::App* fault = group("fault", "rules that drop or delay messages, for tests");
    for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay}) {
      const std::string name(to_string(kind));
      CLI::App* rules = fault->add_subcommand(name, "rules that " + name + " messages");
      quiet(*rules);
      CLI::App* add = leaf(*rules, "add", "add a rule; it is tried before the others");
      for (const std::string_view field : fault_fields(kind)) add_fault_option(*add, field);
      CLI::App* del = leaf(*rules, "del", "delete the rules with this source and dest, or all");
      add_fault_option(*del, "source");
      add_fault_option(*del, "dest");
      fault_flag(*del, "all", "-a,--all", "delete all");
      leaf(*rules, "reset", "set the counters to 0 and draw the random choices again");
      verbose(*leaf(*rules, "show", "show the rules with their counters"));
    }
  }
  void add_fault_option(CLI::App& app, std::string_view field) {
    const auto option =
        std::find_if(kFaultOptions.begin(), kFaultOptions.end(),
                     [field](const FaultOption& each) { return each.field == field; });
    if (option->takes == FaultOption::Takes::kNothing)
      return fault_flag(app, field, option->names, option->what);
    CLI::Option* added =
        app.add_option(option->names, command_.fault[std::string(field)], option->what);
    if (option->takes == FaultOption::Takes::kSeveral) {
      added->allow_extra_args(false);
    } else {
      added->expected(1);
    }
  }
  void fault_flag(CLI::App& app, std::string_view field, const char* names, const char* what) {
    app.add_flag_callback(
        names, [this, field] { command_.fault[std::string(field)] = {"true"}; }, what);
  }
  // With lnetctl's options.
  void net_changes(CLI::App& net) {
    CLI::App* add = leaf(net, "add", "add local NIs");
    CLI::App* del = leaf(net, "del", "remove a net, or some of its local NIs");
    for (CLI::App* app : {add, del}) {
      app->add_option("-n,--net", command_.net, "net name (e.g. tcp1)");
      app->add_option("-i,--if", command_.interfaces, "interfaces: eth0,eth1")->delimiter(',');
      app->add_option("--nid", command_.nid, "NID of the local NI, instead of net and interface");
    }
    number(*add, "-t,--peer-timeout", "peer_timeout", "seconds after which a peer is not alive");
    number(*add, "-c,--peer-credits", "peer_credits", "messages on the way to one peer NI");
    number(*add, "-b,--peer-buffer-credits", "peer_buffer_credits", "router buffers of one peer");
    number(*add, "-r,--credits", "credits", "messages on the way on the NI");
    number(*add, "-m,--conns-per-peer", "conns_per_peer", "connections of each type, 0 to 127");
    number(*add, "--tos", "tos", "IP type of service");
    add->add_option("-s,--cpt", command_.cpt, "accepted, no effect");
    add->add_flag("-k,--skip-mr-route-setup", command_.skip_route_setup,
                  "accepted: no helper sets up host routes here");
  }
  void number(CLI::App& app, const char* option, const char* name, const char* what) {
    app.add_option_function<int64_t>(
        option, [this, name](const int64_t& value) { command_.numbers[name] = value; }, what);
  }
  void verbose(CLI::App& app) {
    CLI::Option* option = app.add_option("-v,--verbose", level_,
                                         "more detail, up to level 4 (default of -v alone: 1)");
    option->expected(0, 1);
    verbose_.push_back(option);
  }

  tl::expected<CliCommand, CliExit> fault(std::string text) const {
    std::string entity = "command";
    for (const CLI::App* app : app_.get_subcommands()) entity = app->get_name();
    return tl::unexpected(CliExit{.status = kExitUsage,
                                  .json = command_.json,
                                  .help = {},
                                  .entity = entity,
                                  .fault = std::move(text)});
  }

  tl::expected<CliCommand, CliExit> finish() {
    const CLI::App* last = &app_;
    while (!last->get_subcommands().empty()) {
      command_.name +=
          (command_.name.empty() ? "" : " ") + last->get_subcommands().front()->get_name();
      last = last->get_subcommands().front();
    }
    std::vector<std::string> words = app_.remaining(true);
    // A negative value looks like an option; the daemon tells what is wrong with it.
    if (command_.name == "set" && words.size() == 1 && command_.value.empty() &&
        words.front().find_first_not_of("-0123456789") == std::string::npos) {
      command_.value = std::exchange(words, {}).front();
    }
    if (!words.empty()) {
      return fault(
          fmt::format("unknown word '{}'{}", words.front(), suggest(words.front(), *last)));
    }
    const bool takes_targets = command_.name == "ping" || command_.name == "discover";
    const bool no_target = (takes_targets && command_.targets.empty()) ||
                           (command_.name == "check path" && command_.nid.empty());
    const bool no_value = command_.name == "set" && command_.value.empty();
    if (std::find(leaves_.begin(), leaves_.end(), last) == leaves_.end() || no_target || no_value) {
      auto result = fault(no_target  ? "no NID is given"
                          : no_value ? "a name and a value are wanted"
                                     : "a command is missing");
      result.error().help = app_.help();
      result.error().status = kExitFailed;
      return result;
    }
    if (!read_level())
      return fault(fmt::format("'--verbose {}': a level is a number from 0 to {}", level_,
                               config::kShowLevelMax));
    if (!read_timeout()) {
      return fault(
          fmt::format("'--timeout {}': a time is a number of seconds, above 0 and at most {}",
                      timeout_, kPingTimeoutMsMax / 1000));
    }
    return command_;
  }

  // Among the words that may stand where `word` does.
  std::string suggest(const std::string& word, const CLI::App& last) const {
    std::vector<std::string> known = {"--json", "--socket", "--help"};
    for (const CLI::App* sub : last.get_subcommands(nullptr)) known.push_back(sub->get_name());
    for (const CLI::Option* option : last.get_options()) {
      if (!option->get_lnames().empty()) known.push_back("--" + option->get_lnames().front());
    }
    const std::vector<std::string_view> views(known.begin(), known.end());
    return config::suggestion(word.substr(0, word.find('=')), views);
  }

  bool read_level() {
    const bool given = std::any_of(verbose_.begin(), verbose_.end(),
                                   [](const CLI::Option* o) { return o->count() > 0; });
    if (!given) return true;
    if (level_.empty()) level_ = "1";
    const char* end = level_.data() + level_.size();
    const auto [stop, error] = std::from_chars(level_.data(), end, command_.level);
    return error == std::errc() && stop == end && command_.level >= 0 &&
           command_.level <= config::kShowLevelMax;
  }

  bool read_timeout() {
    if (timeout_.empty()) return true;
    double seconds = 0;
    const char* end = timeout_.data() + timeout_.size();
    const auto [stop, error] = std::from_chars(timeout_.data(), end, seconds);
    const double milliseconds = std::ceil(seconds * 1000);
    if (error != std::errc() || stop != end || !(milliseconds >= 1) ||
        milliseconds > static_cast<double>(kPingTimeoutMsMax)) {
      return false;
    }
    command_.timeout = std::chrono::milliseconds(static_cast<int64_t>(milliseconds));
    return true;
  }

  CLI::App app_{"Shows and pings with the node of a running ulnetd.", "ulnetctl"};
  CliCommand command_;
  std::vector<CLI::App*> leaves_;
  std::vector<CLI::Option*> verbose_;
  std::string level_;
  std::string timeout_;
};

}  // namespace

tl::expected<CliCommand, CliExit> parse_cli(const std::vector<std::string>& arguments,
                                            const std::string& socket) {
  return Parser(socket).parse(arguments);
}

}  // namespace ulnet::daemon
