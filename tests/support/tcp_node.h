// TcpNode: a TcpLnd with its loops and a FakeLndHost, as one node of a test. Several fit in one
// process, on 127.0.0.x.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lnd_tcp/tcp_lnd.h"
#include "lnet/base/log.h"
#include "tests/support/fake_lnd_host.h"

namespace ulnet::testing {

// Keeps all lines.
class CapturingLogger final : public Logger {
 public:
  CapturingLogger() : Logger(LogLevel::kDebug) {}
  void write(LogLevel, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }
  bool contains(std::string_view part) {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return lines_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct TcpNodeOptions {
  std::string nid = "127.0.0.2@tcp";
  int threads = 1;    // 0: the test calls run()
  uint16_t port = 0;  // all nodes of a test use one
  AcceptorSettings acceptor;
  GlobalSettings global;
  TcpTunables tcp;
};

// A port that nobody uses now on 127.0.0.0/8.
uint16_t free_port();

class TcpNode {
 public:
  explicit TcpNode(const TcpNodeOptions& options);
  ~TcpNode();

  const Nid& nid() const { return nid_; }
  // Starts a second node life at the same address. REQUIRES: this one has been stopped.
  SendId put(const Nid& target, uint32_t payload_bytes, size_t fragments = 1, uint8_t seed = 1,
             Time deadline = kNever);
  SendId get(const Nid& target);
  SendId ack(const Nid& target);
  SendId reply(const Nid& target, uint32_t payload_bytes);
  void flush() { lnd->flush(); }
  // Without threads: lets the loop run.
  void run(Duration wait = std::chrono::milliseconds(1));
  uint64_t counter(std::string_view name) const;
  size_t connections(const Nid& peer, std::string_view type) const;

  FakeLndHost host;
  CapturingLogger logger;
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<tcp::TcpLnd> lnd;
  Result<NiStarted> started = fail(1, "not started");

 private:
  SendId send(const Nid& target, Header header, size_t fragments, uint8_t seed, Time deadline);

  Nid nid_;
  int threads_;
  std::atomic<SendId> last_id_{0};
  std::mutex mutex_;
  struct Memory {
    std::vector<uint8_t> bytes;
    std::vector<iovec> pieces;
  };
  std::vector<std::unique_ptr<Memory>> memory_;
};

// True when the counts of the cases are wanted, not a small share of them.
inline bool full_run() {
  return std::getenv("ULNET_FULL") != nullptr;
}

// The byte at `i` of a payload with `seed`.
inline uint8_t pattern(uint8_t seed, size_t i) {
  return static_cast<uint8_t>(seed + i * 7 + (i >> 8));
}
bool has_pattern(const std::vector<uint8_t>& payload, uint8_t seed);

// Waits until `condition` holds, letting thread-less nodes run. False after `limit`.
template <typename Condition>
bool eventually(Condition condition, std::vector<TcpNode*> nodes = {},
                Duration limit = std::chrono::seconds(10)) {
  const Time end = clock_now() + limit;
  while (!condition()) {
    if (clock_now() > end) return false;
    for (TcpNode* node : nodes) node->run();
    if (nodes.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace ulnet::testing
