// ulnet_sim: runs random seeds or scenario files in virtual time.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tests/sim/scenario.h"
#include "tests/sim/swarm.h"

namespace ulnet::sim {
namespace {

struct Options {
  uint64_t seeds = 0;
  uint64_t from = 1;
  bool twice = false;
  bool trace = false;
  uint32_t scale = 0;
  std::string csv;
  std::vector<std::string> scenarios;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The one command that shows a failure again.
std::string replay(uint64_t seed) {
  return fmt::format("./dev sim --seeds 1 --from {} --trace", seed);
}

void print_violations(const RunResult& result) {
  for (const std::string& text : result.violations) fmt::print("  {}\n", text);
}

bool run_seed(const Options& options, uint64_t seed, RunResult* total) {
  const SwarmOptions run{.seed = seed,
                         .trace_out = options.trace ? stderr : nullptr,
                         .decorate = {},
                         .decorate_listener = {}};
  const RunResult result = run_swarm(run);
  total->operations += result.operations;
  total->delivered += result.delivered;
  total->lost += result.lost;
  total->faults += result.faults;
  total->totals += result.totals;
  total->virtual_time += result.virtual_time;
  if (!result.violations.empty()) {
    fmt::print("seed {} FAILED:\n", seed);
    print_violations(result);
    fmt::print("replay: {}\n", replay(seed));
    return false;
  }
  if (options.twice && run_swarm(run).hash != result.hash) {
    fmt::print("seed {} FAILED: two runs differ\nreplay: {} --twice\n", seed, replay(seed));
    return false;
  }
  return true;
}

// `current`: the seed that is being run.
int run_seeds(const Options& options, volatile uint64_t* current) {
  const auto start = Clock::now();
  RunResult total;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    *current = options.from + i;
    if (!run_seed(options, options.from + i, &total)) return 1;
  }
  const double seconds = seconds_since(start);
  fmt::print("{} seeds from {} passed in {:.1f} s ({:.1f} seeds/s), {:.1f} h of virtual time\n",
             options.seeds, options.from, seconds, static_cast<double>(options.seeds) / seconds,
             std::chrono::duration<double, std::ratio<3600>>(total.virtual_time).count());
  fmt::print(
      "{} operations, {} messages, {} faults; {} messages and {} responses lost, {} resends ({} "
      "helped), {} recovery pings\n",
      total.operations, total.delivered, total.faults, total.lost, total.totals.lost_responses,
      total.totals.resends, total.totals.resends_that_helped, total.totals.recovery_pings);
  return 0;
}

// Runs the seeds in a child, so that a crash, too, ends with the seed that shows it again.
int run_seeds_in_child(const Options& options) {
  void* const shared =
      mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto* const current = static_cast<volatile uint64_t*>(shared);
  const pid_t child = fork();
  if (child == 0) {
    const int status = run_seeds(options, current);
    std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 2;
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) return WEXITSTATUS(status);
  fmt::print("seed {} CRASHED\nreplay: {}\n", *current, replay(*current));
  return 1;
}

// What RPC clients did, second by second.
bool write_csv(const std::string& path, const std::vector<RpcSecond>& series) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    fmt::print("{}: {}\n", path, std::strerror(errno));
    return false;
  }
  fmt::print(file, "second,requests,succeeded,failed\n");
  for (size_t second = 0; second < series.size(); ++second) {
    const RpcSecond& each = series[second];
    fmt::print(file, "{},{},{},{}\n", second, each.requests, each.succeeded, each.failed);
  }
  return std::fclose(file) == 0;
}

int run_scenarios(const Options& options) {
  int status = 0;
  for (const std::string& path : options.scenarios) {
    const auto result = run_scenario(path, options.trace ? stderr : nullptr);
    if (result && !options.csv.empty() && !write_csv(options.csv, result->rpc_series)) status = 1;
    if (!result) {
      fmt::print("{}\n", result.error().text());
      status = 1;
    } else if (!result->violations.empty()) {
      fmt::print("{} FAILED:\n", path);
      print_violations(*result);
      fmt::print("replay: ./dev sim {} --trace\n", path);
      status = 1;
    } else {
      fmt::print("{} passed: {} operations, {} messages, {:.3f} s of virtual time, hash {:016x}\n",
                 path, result->operations, result->delivered,
                 std::chrono::duration<double>(result->virtual_time).count(), result->hash);
    }
  }
  return status;
}

int run_scale_test(uint32_t nodes) {
  const auto start = Clock::now();
  const RunResult result = run_scale(nodes, 4, std::chrono::minutes(10));
  fmt::print(
      "{} nodes with 4 NIs, 10 virtual minutes: {:.1f} s, {} MiB resident, {} operations, {} "
      "messages\n",
      nodes, seconds_since(start), resident_mib(), result.operations, result.delivered);
  print_violations(result);
  return result.violations.empty() ? 0 : 1;
}

int run(const Options& options) {
  if (options.scale > 0) return run_scale_test(options.scale);
  if (!options.scenarios.empty()) return run_scenarios(options);
  return run_seeds_in_child(options);
}

}  // namespace
}  // namespace ulnet::sim

int main(int argc, char** argv) {
  ulnet::sim::Options options;
  CLI::App app("Runs LNet nodes in virtual time: random seeds (default: 300), or scenario files.",
               "ulnet_sim");
  app.add_option("--seeds", options.seeds, "how many random runs")
      ->default_val(300)
      ->envname("ULNET_SIM_SEEDS");
  app.add_option("--from", options.from, "the first seed")->default_val(1);
  app.add_flag("--twice", options.twice, "run each seed twice and compare what happened")
      ->envname("ULNET_FULL");
  app.add_flag("--trace", options.trace, "write what happens to standard error");
  app.add_option("--scale", options.scale, "instead: a quiet cluster of so many nodes with 4 NIs");
  app.add_option("--csv", options.csv, "write what a scenario's RPC clients did to this file");
  app.add_option("scenario", options.scenarios, "YAML files, see tests/sim/scenarios");
  CLI11_PARSE(app, argc, argv);
  return ulnet::sim::run(options);
}
