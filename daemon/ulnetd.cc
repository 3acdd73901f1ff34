// ulnetd: one LNet node as a daemon in the foreground, with a control socket.
//
// Exit status: 0 ended by SIGTERM or SIGINT, or --check found nothing; 1 command line; 2
// configuration; 3 could not start. A second signal while it stops ends it at once.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/commands.h"
#include "daemon/control_server.h"
#include "daemon/control_socket.h"
#include "daemon/net_check.h"
#include "daemon/node_view.h"
#include "daemon/peer_identity.h"
#include "daemon/service_notify.h"
#include "lnet/base/log.h"
#include "ulnet/endpoint.h"

namespace ulnet::daemon {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitUsage = 1;
constexpr int kExitConfig = 2;
constexpr int kExitStart = 3;

constexpr const char* kGroup = "ulnet";  // whose members may change things

struct Options {
  std::string config;
  std::string socket;     // empty: that of the configuration, else the default
  std::string log_level;  // empty: that of the configuration
  bool check = false;
};

class EndpointView final : public NodeView {
 public:
  explicit EndpointView(Endpoint& endpoint) : endpoint_(endpoint), path_checker_(endpoint) {}
  std::vector<NetInfo> nets() const override { return endpoint_.nets(); }
  std::vector<PeerInfo> peers() const override { return endpoint_.peers(); }
  Statistics statistics() const override { return endpoint_.statistics(); }
  void reset_statistics() override { endpoint_.reset_statistics(); }
  GlobalSettings global() const override { return endpoint_.global(); }
  Status set_global(std::string_view name, int64_t value) override {
    return endpoint_.set_global(name, value);
  }
  Status change_nis(const NiSelection& which, const NiChange& change) override {
    return endpoint_.change_nis(which, change);
  }
  Status change_peers(const std::optional<Nid>& nid, const PeerChange& change) override {
    return endpoint_.change_peers(nid, change);
  }
  Status add_fault(const FaultRule& rule) override { return endpoint_.add_fault(rule); }
  size_t del_faults(FaultKind kind, const Nid& source, const Nid& dest) override {
    return endpoint_.del_faults(kind, source, dest);
  }
  void reset_faults(FaultKind kind) override { endpoint_.reset_faults(kind); }
  std::vector<FaultInfo> faults(FaultKind kind) const override { return endpoint_.faults(kind); }
  Result<Nid> add_ni(const NiSettings& ni) override { return endpoint_.add_ni(ni); }
  Status del_ni(const Nid& nid) override { return endpoint_.del_ni(nid); }
  Status del_net(NetId net, const std::string& interface) override {
    return endpoint_.del_net(net, interface);
  }
  Status configure_peer(const PeerSettings& peer) override {
    return endpoint_.configure_peer(peer);
  }
  Status delete_peer(const Nid& primary, const std::vector<Nid>& nids, bool force) override {
    return endpoint_.delete_peer(primary, nids, force);
  }
  void discover(const DiscoverArgs& args, Endpoint::DiscoverDone done) override {
    endpoint_.discover(args, std::move(done));
  }
  void ping(const PingArgs& args, Endpoint::PingDone done) override {
    endpoint_.ping(args, std::move(done));
  }
  void check_path(const PathCheckArgs& args, PathChecker::Done done) override {
    path_checker_.start(args, std::move(done));
  }

 private:
  Endpoint& endpoint_;
  PathChecker path_checker_;
};

// The options, or the exit status when there is nothing more to do.
int parse_options(int argc, char** argv, Options* options) {
  CLI::App app("Runs one LNet node.", "ulnetd");
  app.add_option("--config", options->config, "YAML file, as lnetctl exports it")->required();
  app.add_flag("--check", options->check,
               "read the configuration, say what is wrong with it, and end");
  app.add_option("--log-level", options->log_level,
                 "trace, debug, info, warn, error, off (default: the file's, else info)");
  app.add_option(
      "--socket", options->socket,
      "control socket (default: the file's, else " + std::string(kDefaultSocketPath) + ")");
  app.set_version_flag("--version", std::string("ulnetd " ULNET_VERSION));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "ulnetd: {}\n{}", error.what(), app.help());
    return kExitUsage;
  }
  if (!options->log_level.empty()) {
    if (const auto level = parse_log_level(options->log_level); !level) {
      fmt::print(stderr, "ulnetd: --log-level: {}\n", level.error().text());
      return kExitUsage;
    }
  }
  return -1;
}

// Signals are waited for by main() alone; a write to a closed socket is an error, not an end; and
// every connection costs a file descriptor, so the soft limit of 1024 is raised to what the
// administrator allows.
void prepare_process(sigset_t* stop_signals, Logger& logger) {
  sigemptyset(stop_signals);
  sigaddset(stop_signals, SIGTERM);
  sigaddset(stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, stop_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0)
    logger.warn("the limit of open files stays low: {}", errno_text(errno));
}

void wait_for_signal(const sigset_t& stop_signals, Logger& logger) {
  int number = 0;
  while (sigwait(&stop_signals, &number) != 0) {
  }
  logger.info("{}: stopping", number == SIGTERM ? "SIGTERM" : "SIGINT");
}

// From here on a signal does what it does to any process.
void let_signals_kill(const sigset_t& stop_signals) {
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &stop_signals, nullptr);
}

void notify(std::string_view state, Logger& logger) {
  const Status status = notify_service_manager(std::getenv("NOTIFY_SOCKET"), state);
  if (!status.is_ok()) logger.warn("the service manager was not told: {}", status.to_string());
}

void announce(const Endpoint& endpoint, const std::string& socket, Logger& logger) {
  std::vector<std::string> nids;
  for (const Nid& nid : endpoint.nids()) nids.push_back(nid.to_string());
  const std::string names = nids.empty() ? "0@lo only" : fmt::format("{}", fmt::join(nids, ", "));
  logger.info("ulnetd {} is up: {}; control socket {}", ULNET_VERSION, names, socket);
  for (const std::string& line : shared_subnet_advice(look_at_nics(endpoint.nets())))
    logger.warn("{}", line);
  notify(fmt::format("READY=1\nSTATUS={}", names), logger);
}

int serve(const Settings& settings, const std::string& socket_path, Logger& logger) {
  sigset_t stop_signals;
  prepare_process(&stop_signals, logger);
  // First the socket: a second daemon is told by its path before it touches the network.
  Result<ControlSocket> socket = ControlSocket::listen(socket_path);
  if (!socket) {
    logger.error("could not start: {}", socket.error().text());
    return kExitStart;
  }
  Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::start(settings, &logger);
  if (!endpoint) {
    logger.error("could not start: {}", endpoint.error().text());
    return kExitStart;
  }
  EndpointView node(**endpoint);
  Commands commands(node);
  const ControlServerOptions options{.group = find_group(kGroup)};
  auto server = ControlServer::start(*std::move(socket), options, commands, logger);
  if (!server) {
    logger.error("could not start: {}", server.error().text());
    return kExitStart;
  }
  announce(**endpoint, socket_path, logger);
  wait_for_signal(stop_signals, logger);
  notify("STOPPING=1", logger);
  server->reset();  // before the signals: the socket file must not stay
  let_signals_kill(stop_signals);
  (*endpoint)->stop();
  logger.info("stopped");
  return kExitOk;
}

// The settings; nothing, with all that is wrong printed, if they are not to be used.
std::optional<Settings> load(const std::string& path, std::vector<std::string>* warnings) {
  Result<Settings> settings = load_settings(path, warnings);
  if (settings && settings->node.threads == 0) {
    settings = fail(
        EINVAL,
        fmt::format("{}: 'threads' 0 is for applications that drive the node themselves; ulnetd "
                    "needs at least 1",
                    path));
  }
  if (settings) {
    // A daemon starts with the host, whose devices may come later than it.
    settings->node.wait_for_interfaces = settings->node.wait_for_interfaces.value_or(true);
    return *std::move(settings);
  }
  for (const std::string& warning : *warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print(stderr, "{}\n", settings.error().text());
  return std::nullopt;
}

int check(const std::string& path, const Settings& settings,
          const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{}: {} local NI{}, no error\n", path, settings.nis.size(),
             settings.nis.size() == 1 ? "" : "s");
  return kExitOk;
}

int run(int argc, char** argv) {
  Options options;
  if (const int status = parse_options(argc, argv, &options); status >= 0) return status;
  std::vector<std::string> warnings;
  const std::optional<Settings> settings = load(options.config, &warnings);
  if (!settings) return kExitConfig;
  if (options.check) return check(options.config, *settings, warnings);
  // Both words are checked already.
  const LogLevel level =
      *parse_log_level(options.log_level.empty() ? settings->node.log_level : options.log_level);
  const std::unique_ptr<Logger> logger = make_stderr_logger(level);
  for (const std::string& warning : warnings) logger->warn("{}", warning);
  const std::string& configured = settings->node.socket;
  const std::string socket = !options.socket.empty() ? options.socket
                             : !configured.empty()   ? configured
                                                     : kDefaultSocketPath;
  return serve(*settings, socket, *logger);
}

}  // namespace
}  // namespace ulnet::daemon

int main(int argc, char** argv) {
  return ulnet::daemon::run(argc, argv);
}
