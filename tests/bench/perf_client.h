// The active side of ulnet_perf: keeps operations in flight, and checks what comes back.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/bench/perf_node.h"

namespace ulnet::bench {

struct Load {
  enum class Kind : uint8_t { kPut, kGet };
  Kind kind = Kind::kPut;
  uint32_t portal = kSinkPortal;
  uint32_t bytes = 0;  // of each operation, 0..1 MiB
  uint32_t in_flight = 1;
  bool verify = false;  // contents: each operation has memory of its own; else all share one buffer
};

// Operations that ended, and the time from the first start to the last end.
struct Outcome {
  uint64_t operations = 0;
  std::chrono::duration<double> elapsed{};
  uint64_t wrong = 0;  // GETs whose contents were not what the server has there

  double operations_per_s() const { return static_cast<double>(operations) / elapsed.count(); }
};

// Thread: one.
class PerfClient {
 public:
  using Clock = std::chrono::steady_clock;

  PerfClient(std::unique_ptr<Endpoint> endpoint, const Nid& server);
  ~PerfClient();
  PerfClient(const PerfClient&) = delete;
  PerfClient& operator=(const PerfClient&) = delete;

  // Runs `load` as long as `more` says so (asked before each operation, with the number started)
  // and waits for what is in flight. Errors: the first failed operation.
  Result<Outcome> run(const Load& load, const std::function<bool(uint64_t started)>& more);
  Result<Outcome> run_for(const Load& load, std::chrono::duration<double> duration);
  Result<Outcome> run_count(const Load& load, uint64_t operations);

  // Median time of one operation after another, in microseconds. Ignores load.in_flight.
  Result<double> median_us(Load load, std::chrono::duration<double> duration);

  // How the PUTs to kVerifyPortal since the last report turned out. Call when they all have ended.
  struct Report {
    uint64_t right = 0;
    uint64_t wrong = 0;
  };
  Result<Report> fetch_report();

  // Ends the node; what it had to say has been said.
  void stop() { endpoint_->stop(); }

 private:
  // One operation in flight, and the memory it uses.
  struct Slot {
    MdHandle md;
    std::span<uint8_t> memory;
    uint64_t iteration = 0;
    int events_due = 0;  // SEND, and ACK or REPLY, in either order
  };

  Status open_slots(const Load& load);
  Status close_slots();
  Status start_operation(const Load& load, Slot& slot, uint64_t iteration);
  // Takes what has happened into account; waits for at least one event.
  Status handle_events(const Load& load, Outcome& outcome);

  std::unique_ptr<Endpoint> endpoint_;
  const ProcessId server_;
  std::vector<uint8_t> memory_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_slots_;
  std::array<Event, 128> events_;
};

}  // namespace ulnet::bench
