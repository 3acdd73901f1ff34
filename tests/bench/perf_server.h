// The passive side of ulnet_perf: memory to PUT to and GET from, and a judge of what arrives.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/bench/perf_node.h"

namespace ulnet::bench {

// Thread: one.
class PerfServer {
 public:
  explicit PerfServer(std::unique_ptr<Endpoint> endpoint);
  ~PerfServer();
  PerfServer(const PerfServer&) = delete;
  PerfServer& operator=(const PerfServer&) = delete;

  // Puts the memory behind the portals. Call once.
  Status attach();
  // Serves until `stop` says so; it is asked at least every 50 ms while there is nothing to do.
  void run(const std::function<bool()>& stop);

  uint64_t right() const { return right_; }
  uint64_t wrong() const { return wrong_; }

 private:
  // How the verified PUTs of one initiator turned out since its last report.
  struct Tally {
    uint64_t right = 0;
    uint64_t wrong = 0;
  };

  Status attach_persistent(uint32_t portal, std::vector<uint8_t>& memory, uint32_t operations);
  Status attach_verify_buffer(std::vector<uint8_t>& buffer);
  void handle_event(const Event& event);
  void handle_verified_put(const Event& event);
  void report_to(const ProcessId& initiator);

  std::unique_ptr<Endpoint> endpoint_;
  std::vector<uint8_t> sink_;
  std::vector<uint8_t> source_;
  std::vector<std::vector<uint8_t>> verify_buffers_;
  std::map<Nid, Tally> tallies_;
  uint64_t right_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace ulnet::bench
