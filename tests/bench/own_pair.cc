#include "tests/bench/own_pair.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "lnet/base/unique_fd.h"
#include "tests/bench/measure.h"
#include "tests/bench/perf_server.h"
#include "tests/bench/stop_signals.h"

namespace ulnet::bench {
namespace {

constexpr std::string_view kClientNid = "127.0.0.2@tcp";
constexpr std::string_view kServerNid = "127.0.0.3@tcp";

struct Arguments {
  std::string_view what;
  uint32_t size = 0;
  int cpu_client = -1;
  int cpu_server = -1;
  uint16_t port = 0;
};

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<Arguments> parse(std::span<char*> words) {
  Arguments arguments;
  int cpu_proxy = -1;
  if (words.size() != 6)
    return fail(EINVAL, "usage: ulnet_perf own WHAT SIZE CPU_A CPU_B CPU_PROXY PORT");
  arguments.what = words[0];
  if (!parse_number(words[1], arguments.size) || arguments.size > kPayloadBytesMax) {
    return fail(EINVAL,
                fmt::format("size '{}' is not a number up to {}", words[1], kPayloadBytesMax));
  }
  if (!parse_number(words[2], arguments.cpu_client) ||
      !parse_number(words[3], arguments.cpu_server) || !parse_number(words[4], cpu_proxy)) {
    return fail(EINVAL, "a cpu is a number, or -1 for any");
  }
  if (!parse_number(words[5], arguments.port))
    return fail(EINVAL, fmt::format("'{}' is not a port", words[5]));
  return arguments;
}

void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    fmt::print(stderr, "ulnet_perf: cpu {}: {}; not pinned\n", cpu, errno_text(errno));
  }
}

// The forked server: says by a byte on `ready` that it listens. Returns the exit status.
int serve(const Arguments& arguments, const UniqueFd& ready) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const StopSignals signals;
  pin(arguments.cpu_server);
  auto endpoint = start_node({.nid = std::string(kServerNid), .port = arguments.port});
  if (!endpoint) return report_failure("server", endpoint.error());
  PerfServer server(std::move(*endpoint));
  if (const Status status = server.attach(); !status.is_ok())
    return report_failure("server", status);
  if (write(ready.get(), "r", 1) != 1) return 1;
  server.run([&signals] { return signals.received(); });
  return 0;
}

Result<double> measure(const Arguments& arguments) {
  pin(arguments.cpu_client);
  auto endpoint = start_node({.nid = std::string(kClientNid), .port = arguments.port});
  if (!endpoint) return Failure(endpoint.error());
  PerfClient client(std::move(*endpoint), Nid::parse(kServerNid).value());
  if (arguments.what == "rtt") return measure_rtt_us(client, arguments.size);
  if (arguments.what == "rate") return measure_rate(client, arguments.size, kRateInFlight);
  return measure_rate(client, arguments.size, kBulkInFlight).map([&](double per_s) {
    return per_s * arguments.size / 1e6;
  });
}

}  // namespace

int run_own_pair(std::span<char*> words) {
  const Result<Arguments> arguments = parse(words);
  if (!arguments) return report_failure("own", arguments.error());
  if (arguments->what != "bw" && arguments->what != "rtt" && arguments->what != "rate") {
    return report_failure(
        "own", Status(ENOTSUP, fmt::format("'{}' is none of bw, rtt, rate", arguments->what)));
  }
  std::array<int, 2> fds;
  if (pipe(fds.data()) != 0) return report_failure("pipe", Status(errno, "no pipe"));
  UniqueFd reading(fds[0]), writing(fds[1]);
  const pid_t server = fork();
  if (server < 0) return report_failure("fork", Status(errno, "no process"));
  if (server == 0) _exit(serve(*arguments, writing));
  writing.reset();

  Result<double> figure = fail(ECHILD, "the server did not start");
  if (char byte; read(reading.get(), &byte, 1) == 1) figure = measure(*arguments);
  kill(server, SIGTERM);
  waitpid(server, nullptr, 0);
  if (!figure) return report_failure(arguments->what, figure.error());
  fmt::print("{:.2f}\n", *figure);
  return 0;
}

}  // namespace ulnet::bench
