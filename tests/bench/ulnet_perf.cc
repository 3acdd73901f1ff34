// ulnet_perf: how fast is ulnet, and does every byte arrive?
//
//   ulnet_perf serve --nid NID                                      the passive side; ends on
//   SIGTERM ulnet_perf bw|get|rtt|rate|verify --nid NID --target NID        the active side; one
//   line "NAME VALUE UNIT" a figure ulnet_perf own bw|rtt|rate SIZE CPU_A CPU_B CPU_PROXY PORT
//   both, for tests/bench/peers.sh; one number
//
// Exit status: 0, 1 when something failed or a byte was wrong, 2 for wrong usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "tests/bench/measure.h"
#include "tests/bench/own_pair.h"
#include "tests/bench/perf_server.h"
#include "tests/bench/stop_signals.h"

namespace ulnet::bench {
namespace {

constexpr uint32_t kRttBytes = 64;

struct Options {
  PerfOptions node;
  std::string target;
  uint64_t bytes = uint64_t{1} << 30;  // moved in all by bw, get and verify
  uint32_t size = 0;                   // of one operation; 0 = what suits the mode

  uint32_t size_or(uint32_t fallback) const { return size > 0 ? size : fallback; }
};

int serve(const PerfOptions& options) {
  const StopSignals signals;
  auto endpoint = start_node(options);
  if (!endpoint) return report_failure("start", endpoint.error());
  const std::string nid = endpoint.value()->nids().front().to_string();
  PerfServer server(std::move(*endpoint));
  if (const Status status = server.attach(); !status.is_ok())
    return report_failure("attach", status);
  fmt::print("ready: {}\n", nid);
  std::fflush(stdout);
  server.run([&signals] { return signals.received(); });
  fmt::print("verified PUTs: {} right, {} wrong\n", server.right(), server.wrong());
  return server.wrong() == 0 ? 0 : 1;
}

void print_bandwidth(std::string_view name, const Outcome& outcome, uint32_t bytes) {
  fmt::print("{} {:.0f} MB/s\n", name, outcome.operations_per_s() * bytes / 1e6);
}

Status move_bytes(PerfClient& client, const Options& options, std::string_view name, Load load) {
  load.bytes = options.size_or(kPayloadBytesMax);
  load.in_flight = kBulkInFlight;
  const auto outcome = client.run_count(load, options.bytes / load.bytes);
  if (!outcome) return outcome.error();
  if (outcome->wrong > 0) {
    return Status(EBADMSG, fmt::format("{} of {} operations with wrong contents", outcome->wrong,
                                       outcome->operations));
  }
  print_bandwidth(name, *outcome, load.bytes);
  return Status::ok();
}

// PUTs that the server checks, then GETs that are checked here.
Status verify(PerfClient& client, const Options& options) {
  if (Status status =
          move_bytes(client, options, "verify-put", {.portal = kVerifyPortal, .verify = true});
      !status.is_ok()) {
    return status;
  }
  const auto report = client.fetch_report();
  if (!report) return report.error();
  const uint64_t sent = options.bytes / options.size_or(kPayloadBytesMax);
  if (report->right != sent || report->wrong != 0) {
    return Status(EBADMSG, fmt::format("{} PUTs sent: {} arrived right, {} wrong", sent,
                                       report->right, report->wrong));
  }
  return move_bytes(client, options, "verify-get",
                    {.kind = Load::Kind::kGet, .portal = kSourcePortal, .verify = true});
}

Status print_figure(std::string_view name, const Result<double>& figure, int decimals,
                    std::string_view unit) {
  if (!figure) return figure.error();
  fmt::print("{} {:.{}f} {}\n", name, *figure, decimals, unit);
  return Status::ok();
}

Status run_mode(std::string_view mode, PerfClient& client, const Options& options) {
  if (mode == "bw") return move_bytes(client, options, mode, {});
  if (mode == "get")
    return move_bytes(client, options, mode, {.kind = Load::Kind::kGet, .portal = kSourcePortal});
  if (mode == "verify") return verify(client, options);
  const uint32_t bytes = options.size_or(kRttBytes);
  if (mode == "rtt") return print_figure(mode, measure_rtt_us(client, bytes), 1, "us");
  return print_figure(mode, measure_rate(client, bytes, kRateInFlight), 0, "msg/s");
}

int run_client(std::string_view mode, const Options& options) {
  const Result<Nid> target = Nid::parse(options.target);
  if (!target) return report_failure("--target", target.error());
  auto endpoint = start_node(options.node);
  if (!endpoint) return report_failure("start", endpoint.error());
  PerfClient client(std::move(*endpoint), *target);
  if (const Status status = run_mode(mode, client, options); !status.is_ok())
    return report_failure(mode, status);
  client.stop();
  return 0;
}

void add_node_options(CLI::App& command, PerfOptions& node) {
  auto* config = command.add_option("--config", node.config, "the node as a YAML file");
  auto* nid =
      command.add_option("--nid", node.nid, "the node as one NI with this NID")->excludes(config);
  command.add_option("--port", node.port, "port of all nodes of the net")
      ->needs(nid)
      ->capture_default_str();
  command.add_option("--threads", node.threads, "I/O threads; 0: none")
      ->needs(nid)
      ->capture_default_str();
}

void add_client_command(CLI::App& app, const char* name, const char* description,
                        Options& options) {
  CLI::App* command = app.add_subcommand(name, description);
  add_node_options(*command, options.node);
  command->add_option("--target", options.target, "NID of `ulnet_perf serve`")->required();
  command->add_option("--bytes", options.bytes, "bytes in all (bw, get, verify)")
      ->capture_default_str();
  command->add_option("--size", options.size, "bytes of one operation")
      ->check(CLI::Range(1u, kPayloadBytesMax));
}

int run(int argc, char** argv) {
  // Not by CLI11, which takes the cpu "-1" for an option.
  if (argc > 1 && std::string_view(argv[1]) == "own")
    return run_own_pair(std::span(argv + 2, argv + argc));

  CLI::App app("How fast is ulnet, and does every byte arrive?", "ulnet_perf");
  app.require_subcommand(1);
  Options options;
  add_node_options(*app.add_subcommand("serve", "the passive side; ends on SIGTERM"), options.node);
  add_client_command(app, "bw", "PUTs with ACK: MB/s", options);
  add_client_command(app, "get", "GETs: MB/s", options);
  add_client_command(app, "rtt", "one PUT with ACK after the other: median in us", options);
  add_client_command(app, "rate", "small PUTs with ACK: messages/s", options);
  add_client_command(app, "verify", "PUTs, then GETs, with contents compared at their end: MB/s",
                     options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::string mode = app.get_subcommands().front()->get_name();
  return mode == "serve" ? serve(options.node) : run_client(mode, options);
}

}  // namespace
}  // namespace ulnet::bench

int main(int argc, char** argv) {
  return ulnet::bench::run(argc, argv);
}
