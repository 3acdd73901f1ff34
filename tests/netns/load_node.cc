// load_node: the two sides of the tests that break nodes under load.
//
//   load_node serve CONFIG                 memory to PUT into and GET from, until SIGTERM
//   load_node load CONFIG... --path NID    one loader for each CONFIG, all in this process; ends by
//                                          its limits or SIGTERM and prints one JSON line:
//                                          report() of each loader
//
// A path is TARGET or SOURCE=TARGET. While it runs, `load` prints "progress OK FAILED", the sums of
// ended operations, whenever they have changed.
// Exit status: 0; 1 when something could not start, or a loader saw a fault.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/pattern.h"
#include "tests/bench/stop_signals.h"
#include "tests/netns/loader.h"

namespace ulnet::netns {
namespace {

struct Options {
  std::vector<std::string> configs;
  std::vector<std::string> paths;
  std::vector<std::string> kinds = {"put", "get"};
  uint32_t bytes = 4096;
  uint32_t in_flight = 16;
  uint64_t operations = ~uint64_t{0};
  double seconds = 3600;
  int patience_s = 30;
};

int report_failure(const std::string& what, const Status& status) {
  fmt::print(stderr, "load_node: {}: {}\n", what, status.to_string());
  return 1;
}

Result<std::unique_ptr<Endpoint>> start_endpoint(const std::string& config, int threads) {
  Result<Settings> settings = load_settings(config);
  if (!settings) return Failure(settings.error());
  settings->node.threads = threads;
  return Endpoint::start(*settings);
}

Status attach(Endpoint& endpoint, uint32_t portal, uint32_t operation,
              std::vector<uint8_t>& memory) {
  const auto attached = endpoint.attach({.portal = portal,
                                         .match_id = ProcessId::any(),
                                         .ignore_bits = ~uint64_t{0},
                                         .unlink = UnlinkPolicy::kRetain},
                                        {.fragments = {{memory.data(), memory.size()}},
                                         .options = operation | kMdManageRemote,
                                         .unlink = UnlinkPolicy::kRetain});
  return attached ? Status::ok() : attached.error();
}

uint64_t received_puts(const Endpoint& node) {
  uint64_t puts = 0;
  for (const NetInfo& net : node.nets()) {
    for (const NiInfo& ni : net.nis) puts += ni.stats.received.put;
  }
  return puts;
}

int serve(const Options& options) {
  const bench::StopSignals signals;
  std::vector<uint8_t> sink(kPayloadBytesMax);
  std::vector<uint8_t> source(kPayloadBytesMax);
  bench::fill_pattern(source, 0);
  auto endpoint = start_endpoint(options.configs.front(), 1);
  if (!endpoint) return report_failure("start", endpoint.error());
  Endpoint& node = **endpoint;
  if (Status status = attach(node, kSinkPortal, kMdPut, sink); !status.is_ok())
    return report_failure("sink", status);
  if (Status status = attach(node, kSourcePortal, kMdGet, source); !status.is_ok())
    return report_failure("source", status);
  if (Status status = node.set_lazy(kParkingPortal, true); !status.is_ok())
    return report_failure("parking", status);
  fmt::print("ready: {}\n", node.nids().front().to_string());
  std::fflush(stdout);
  std::array<Event, 256> events;
  while (!signals.received()) node.poll_events(events, std::chrono::milliseconds(20));
  fmt::print("received {} PUTs\n", received_puts(node));
  fmt::print("stopping with {} messages held\n", node.statistics().msgs_alloc);
  node.stop();
  return 0;
}

Result<LoadPlan> make_plan(const Options& options) {
  LoadPlan plan{
      .bytes = options.bytes, .in_flight = options.in_flight, .operations = options.operations};
  for (const std::string& kind : options.kinds) {
    const auto name = std::find(kLoadKindNames.begin(), kLoadKindNames.end(), kind);
    if (name == kLoadKindNames.end()) return fail(EINVAL, "unknown kind " + kind);
    plan.kinds.push_back(static_cast<LoadKind>(name - kLoadKindNames.begin()));
  }
  for (const std::string& path : options.paths) {
    const size_t equals = path.find('=');
    const auto target = Nid::parse(path.substr(equals == std::string::npos ? 0 : equals + 1));
    if (!target) return Failure(target.error());
    Nid source;
    if (equals != std::string::npos) {
      const auto parsed = Nid::parse(path.substr(0, equals));
      if (!parsed) return Failure(parsed.error());
      source = *parsed;
    }
    plan.paths.emplace_back(source, *target);
  }
  return plan;
}

// Prints how far the loaders are, and tells them when to stop.
void watch(const std::vector<std::unique_ptr<Loader>>& loaders, const std::atomic<size_t>& running,
           const bench::StopSignals& signals, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  std::string shown;
  bool stop = false;
  while (running > 0) {
    uint64_t ok = 0;
    uint64_t failed = 0;
    for (const auto& loader : loaders) {
      ok += loader->ended_ok();
      failed += loader->ended_failed();
      if (stop) loader->request_stop();
    }
    std::string text = fmt::format("progress {} {}\n", ok, failed);
    if (text != shown) {
      shown = std::move(text);
      std::fputs(shown.c_str(), stdout);
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = stop || signals.received() || Clock::now() >= end;
  }
}

int load(const Options& options) {
  const bench::StopSignals signals;
  const Result<LoadPlan> plan = make_plan(options);
  if (!plan) return report_failure("plan", plan.error());
  std::vector<std::unique_ptr<Loader>> loaders;
  for (const std::string& config : options.configs) {
    auto endpoint = start_endpoint(config, 0);
    if (!endpoint) return report_failure(config, endpoint.error());
    loaders.push_back(std::make_unique<Loader>(*std::move(endpoint), *plan));
  }
  std::atomic<size_t> running = loaders.size();
  std::vector<std::thread> threads;
  for (const auto& loader : loaders) {
    threads.emplace_back([&loader, &running, &options] {
      loader->run(std::chrono::seconds(options.patience_s));
      --running;
    });
  }
  watch(loaders, running, signals, options.seconds);
  for (std::thread& thread : threads) thread.join();
  nlohmann::json reports = nlohmann::json::array();
  bool faultless = true;
  for (const auto& loader : loaders) {
    reports.push_back(loader->report());
    faultless = faultless && reports.back()["faults"].empty();
  }
  fmt::print("{}\n", reports.dump());
  return faultless ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app("Nodes under load, for tests.", "load_node");
  app.require_subcommand(1);
  Options options;
  auto* server = app.add_subcommand("serve", "the side that is asked");
  server->add_option("config", options.configs, "a node")->required()->expected(1);
  auto* loader = app.add_subcommand("load", "the side that asks");
  loader->add_option("config", options.configs, "nodes")->required();
  loader->add_option("--path", options.paths, "TARGET or SOURCE=TARGET; taken in turn")->required();
  loader->add_option("--kinds", options.kinds, "put, get, ping, parked; taken in turn")
      ->delimiter(',');
  loader->add_option("--bytes", options.bytes, "of each PUT and GET")
      ->check(CLI::Range(0u, kPayloadBytesMax));
  loader->add_option("--in-flight", options.in_flight, "operations at a time, each loader");
  loader->add_option("--operations", options.operations, "of each loader");
  loader->add_option("--seconds", options.seconds, "start no more after these");
  loader->add_option("--patience", options.patience_s, "seconds for the last ones to end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return server->parsed() ? serve(options) : load(options);
}

}  // namespace
}  // namespace ulnet::netns

int main(int argc, char** argv) {
  return ulnet::netns::run(argc, argv);
}
