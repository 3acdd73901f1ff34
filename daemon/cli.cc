#include "daemon/cli.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "config/nearest.h"
#include "config/show.h"
#include "daemon/commands.h"

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
    net_changes(*net);
    CLI::App* peer = group("peer", "peers");
    CLI::App* peer_show = leaf(*peer, "show", "show peers");
    peer_show->add_option("-n,--nid", command_.nid, "NID of a peer to filter on");
    verbose(*peer_show);
    leaf(*peer, "list", "list the primary NIDs of all peers");
    CLI::App* stats = group("stats", "counters of the node");
    verbose(*leaf(*stats, "show", "show counters"));
    leaf(*stats, "reset", "set all counters to 0");
    leaf(*group("global", "global settings"), "show", "show global settings");
    CLI::App* ping = leaf(app_, "ping", "ping nodes");
    ping->add_option("-s,--source", command_.source, "local NID to ping from");
    ping->add_option("-t,--timeout", timeout_, "seconds to wait for an answer (default: 1)");
    ping->add_option("NID", command_.targets,
                     "NIDs: comma lists, ranges such as 10.0.0.[1-9]@tcp, host names");
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
    if (const std::vector<std::string> words = app_.remaining(true); !words.empty()) {
      return fault(
          fmt::format("unknown word '{}'{}", words.front(), suggest(words.front(), *last)));
    }
    if (std::find(leaves_.begin(), leaves_.end(), last) == leaves_.end() ||
        (command_.name == "ping" && command_.targets.empty())) {
      auto result = fault(command_.name == "ping" ? "no NID is given" : "a command is missing");
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
