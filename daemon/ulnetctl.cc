// ulnetctl: shows and changes a running ulnetd, with lnetctl's words, output and exit statuses.
//
// Results go to standard output, errors to standard error as lnetctl's blocks. Exit status: 0, or
// as listed in cli.h.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "config/dump.h"
#include "config/show.h"
#include "daemon/cli.h"
#include "daemon/commands.h"
#include "daemon/control_client.h"
#include "daemon/path_check.h"
#include "daemon/ping_targets.h"
#include "ulnet/global_fields.h"

namespace ulnet::daemon {
namespace {

using config::ErrorBlock;

// On top of what a command may take itself.
constexpr std::chrono::milliseconds kDaemonPatience{10'000};
// A silent node is given up after the node's transaction timeout, at most a day.
constexpr std::chrono::milliseconds kDiscoverPatience = std::chrono::hours(24);

// Each size has its limit.
constexpr auto kCheckPatience =
    kDaemonPatience + PathChecker::kTimePerSize * PathChecker::kSizes.size();

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}
void print_error(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string as_json(const Json& tree) {
  return tree.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// How lnetctl prints each command's results and errors.
struct Manner {
  std::string_view action;  // first key of an error block
  bool style_b = false;
};

Manner manner_of(const std::string& command) {
  if (command == "set") return {"add", true};
  const bool style_b = command.starts_with("stats") || command.starts_with("global");
  for (const std::string_view action : {"add", "del"}) {
    if (command.ends_with(action)) return {action, style_b};
  }
  const bool shows = command.ends_with("show") || command.ends_with("list");
  if (command.ends_with(" set")) return {"set", style_b};
  return {shows ? "show" : "manage", style_b};
}

// "net" of "net show"; lnetctl calls the object of `stats` by the key of its output, and that of
// `set` by the setting, if there is such a one.
std::string entity_of(const CliCommand& command) {
  if (command.name == "set" && find_global_field(command.setting) != nullptr)
    return command.setting;
  const std::string first = command.name.substr(0, command.name.find(' '));
  return first == "stats" ? "statistics" : first;
}

// lnetctl knows one reason for a daemon (there: a module) that is not there.
int errno_of(const Status& status) {
  const bool no_daemon = status.code() == ENOENT || status.code() == ECONNREFUSED;
  return no_daemon ? -ENETDOWN : -status.code();
}

int report(const CliCommand& command, int code, const std::string& text) {
  const Manner manner = manner_of(command.name);
  const ErrorBlock block{std::string(manner.action), entity_of(command), code, text};
  if (command.json) {
    print_error(as_json(config::error_tree({block})));
  } else {
    print_error(manner.style_b ? config::error_style_b(block) : config::error_style_a(block));
  }
  return manner.style_b ? code & 0xFF : kExitFailed;
}

// A change of local NIs that the daemon has refused: with lnetctl's errno and words, then ours.
int report_refusal(const CliCommand& command, const Status& status) {
  const int code = status.code();
  if (command.name == "net add") {
    const bool absent = code == ENODEV || code == EADDRNOTAVAIL;
    return report(command, absent ? -ENETDOWN : -code, "cannot add LNet NI: " + status.text());
  }
  if (command.name == "net del") {
    return report(command, code == ENOENT ? -EINVAL : -code,
                  "cannot del network: " + status.text());
  }
  return report(command, -code, status.text());
}

void print_tree(const CliCommand& command, const Json& tree, int indent) {
  if (command.json) {
    print(as_json(tree));
  } else {
    print(manner_of(command.name).style_b ? config::dump_style_b(tree)
                                          : config::dump_style_a(tree, indent));
  }
}

Json arguments_of(const CliCommand& command) {
  Json args = Json::object();
  if (command.level > 0) args["level"] = command.level;
  if (!command.net.empty()) args["net"] = command.net;
  if (!command.nid.empty()) args["nid"] = command.nid;
  if (command.all) args["all"] = true;
  const std::pair<const char*, const std::string&> texts[] = {
      {"name", command.setting},
      {"value", command.value},
      {"health", command.health},
      {"health_sensitivity", command.health_sensitivity},
      {"lnd_timeout", command.lnd_timeout}};
  for (const auto& [key, text] : texts) {
    if (!text.empty()) args[key] = text;
  }
  for (const auto& [field, words] : command.fault) {
    if (words.empty()) continue;
    if (field == "all") {
      args[field] = true;
    } else {
      args[field] = words.size() == 1 ? Json(words.front()) : Json(words);
    }
  }
  if (!command.interfaces.empty()) args["interfaces"] = command.interfaces;
  if (!command.cpt.empty()) args["cpt"] = command.cpt;
  for (const auto& [name, number] : command.numbers) args[name] = number;
  return args;
}

// The daemon's answers in the order of `targets`, each with its word when it could not even be
// asked.
struct PingAnswers {
  Json pongs = Json::array();
  std::vector<ErrorBlock> failures;
  Json details = Json::array();  // of each failure: the whole sentence
};

void add_failure(PingAnswers& answers, const std::string& name, const std::string& word, int code,
                 const std::string& text) {
  answers.failures.push_back(
      {"manage", name, -code, fmt::format("failed to {} {}: {}", name, word, errno_text(code))});
  answers.details.push_back(text);
}

int print_answers(const CliCommand& command, const PingAnswers& answers) {
  if (command.json) {
    Json tree = Json::object();
    if (!answers.pongs.empty()) tree[command.name] = answers.pongs;
    if (!answers.failures.empty()) {
      tree.update(config::error_tree(answers.failures));
      for (size_t i = 0; i < answers.details.size(); ++i)
        tree["manage"][i]["text"] = answers.details[i];
    }
    print(as_json(tree));
  } else {
    if (!answers.pongs.empty())
      print(config::dump_style_a({{command.name, answers.pongs}}, config::kIndentPing));
    if (!answers.failures.empty()) print(config::error_list(command.name, answers.failures));
  }
  return answers.failures.empty() ? kExitOk : kExitUsage;
}

// Pings or discovers what can be; false when the daemon does not do that at all, with the reason in
// `reply`.
bool ask_for_pongs(const CliCommand& command, const std::vector<PingTarget>& targets,
                   Reply* reply) {
  Json args = {{"nids", Json::array()}};
  std::chrono::milliseconds patience = kDiscoverPatience;
  if (command.name == "discover") {
    args["force"] = command.force;
  } else {
    args["timeout_ms"] = command.timeout.count();
    patience = command.timeout;
    if (!command.source.empty()) args["source"] = command.source;
  }
  for (const PingTarget& target : targets) {
    if (target.nid) args["nids"].push_back(target.nid->to_string());
  }
  Result<ControlClient> client = ControlClient::connect(command.socket);
  *reply = client ? client->call(command.name, std::move(args), patience + kDaemonPatience)
                  : Failure(client.error());
  return reply->has_value();
}

int ping_or_discover(const CliCommand& command) {
  const auto targets = expand_ping_targets(command.targets, kPingNidsMax, system_resolver());
  if (!targets) return report(command, -targets.error().code(), targets.error().text());
  if (std::none_of(targets->begin(), targets->end(),
                   [](const PingTarget& t) { return t.nid.has_value(); })) {
    return report(command, -targets->front().nid.error().code(),
                  targets->front().nid.error().text());
  }
  Reply reply;
  if (!ask_for_pongs(command, *targets, &reply)) {
    return report(command, errno_of(reply.error()), reply.error().text());
  }
  PingAnswers answers;
  size_t next = 0;
  const Json& results = (*reply)["results"];
  for (const PingTarget& target : *targets) {
    if (!target.nid) {
      add_failure(answers, command.name, target.word, target.nid.error().code(),
                  target.nid.error().text());
      continue;
    }
    if (next >= results.size())
      return report(command, -EBADMSG, "the daemon answered for fewer NIDs than asked");
    const Json& result = results[next++];
    if (const auto error = result.find("error"); error != result.end()) {
      add_failure(answers, command.name, target.word, error->value("errno", EPROTO),
                  error->value("text", std::string()));
    } else {
      answers.pongs.push_back(result.value("pong", Json::object()));
    }
  }
  return print_answers(command, answers);
}

int change_peer(const CliCommand& command) {
  Json args = Json::object();
  if (!command.primary.empty()) args["primary"] = command.primary;
  if (command.non_mr) args["non_mr"] = true;
  if (command.lock_primary) args["lock_primary"] = true;
  if (command.force) args["force"] = true;
  if (!command.nid.empty()) {
    const auto nids = expand_ping_targets({command.nid}, kPeerNidsMax, system_resolver());
    if (!nids) return report(command, -nids.error().code(), nids.error().text());
    for (const PingTarget& nid : *nids) {
      if (!nid.nid) return report(command, -nid.nid.error().code(), nid.nid.error().text());
      args["nids"].push_back(nid.nid->to_string());
    }
  }
  Result<ControlClient> client = ControlClient::connect(command.socket);
  if (!client) return report(command, errno_of(client.error()), client.error().text());
  const Reply reply = client->call(command.name, std::move(args), kDaemonPatience);
  if (!reply) return report(command, -reply.error().code(), reply.error().text());
  return kExitOk;
}

// Works without a daemon, too.
int version(const CliCommand& command) {
  Json tree = {{"version", {{"ulnetctl", ULNET_VERSION}}}};
  Result<ControlClient> client = ControlClient::connect(command.socket);
  if (client) {
    const Reply reply = client->call("version", Json::object(), kDaemonPatience);
    if (!reply) return report(command, -reply.error().code(), reply.error().text());
    tree["version"]["ulnetd"] = (*reply)["version"];
  }
  print_tree(command, tree, config::kIndentPing);
  return kExitOk;
}

int check_path(const CliCommand& command) {
  Json args = {{"nid", command.nid}};
  if (!command.source.empty()) args["source"] = command.source;
  Result<ControlClient> client = ControlClient::connect(command.socket);
  if (!client) return report(command, errno_of(client.error()), client.error().text());
  const Reply reply = client->call(command.name, std::move(args), kCheckPatience);
  if (!reply) return report(command, -reply.error().code(), reply.error().text());
  print_tree(command, *reply, config::kIndentPing);
  const Json& sizes = (*reply)["path"]["sizes"];
  const bool passed = !sizes.empty() && sizes.back().value("result", "") == "passed";
  return passed ? kExitOk : kExitUsage;
}

int run(const CliCommand& command) {
  if (command.name == "ping" || command.name == "discover") return ping_or_discover(command);
  if (command.name == "peer add" || command.name == "peer del") return change_peer(command);
  if (command.name == "check path") return check_path(command);
  if (command.name == "version") return version(command);
  Result<ControlClient> client = ControlClient::connect(command.socket);
  if (!client) return report(command, errno_of(client.error()), client.error().text());
  const Reply reply = client->call(command.name, arguments_of(command), kDaemonPatience);
  if (!reply) return report_refusal(command, reply.error());
  // Changes that have worked are told to programs only.
  if ((reply->empty() || command.name == "net add") && !command.json) return kExitOk;
  print_tree(command, *reply, config::kIndentShow);
  return kExitOk;
}

int explain(const CliExit& exit) {
  if (exit.fault.empty()) {
    print(exit.help);
    return exit.status;
  }
  const ErrorBlock block{"parser", exit.entity, -1, exit.fault};
  print_error(exit.json ? as_json(config::error_tree({block})) : config::error_style_b(block));
  if (!exit.json) print_error(exit.help);
  return exit.status;
}

int main_of(const std::vector<std::string>& arguments) {
  const char* from_environment = std::getenv("ULNET_SOCKET");
  const bool given = from_environment != nullptr && *from_environment != '\0';
  const auto command = parse_cli(arguments, given ? from_environment : kDefaultSocketPath);
  const int status = command ? run(*command) : explain(command.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::perror("ulnetctl: standard output");
    return kExitFailed;
  }
  return status;
}

}  // namespace
}  // namespace ulnet::daemon

int main(int argc, char** argv) {
  return ulnet::daemon::main_of({argv + std::min(argc, 1), argv + argc});
}
