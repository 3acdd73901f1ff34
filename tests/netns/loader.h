// Loader: keeps operations in flight against other nodes, takes failures as they come, and keeps
// book: each operation must end exactly once, and nothing may be told of it after that.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ulnet/endpoint.h"

namespace ulnet::netns {

// Portals of `load_node serve`.
inline constexpr uint32_t kSinkPortal = 40;     // PUTs of any size
inline constexpr uint32_t kSourcePortal = 41;   // GETs: pattern of seed 0
inline constexpr uint32_t kParkingPortal = 42;  // lazy and without memory: PUTs wait there for ever

// What one operation is: kParked is a PUT with ACK to the parking portal.
enum class LoadKind : uint8_t { kPut, kGet, kPing, kParked };
inline constexpr std::array<const char*, 4> kLoadKindNames = {"put", "get", "ping", "parked"};

struct LoadPlan {
  std::vector<LoadKind> kinds;             // taken in turn; at least one
  std::vector<std::pair<Nid, Nid>> paths;  // source (wildcard: any) and target, taken in turn
  uint32_t bytes = 0;                      // of each PUT and GET, 0..1 MiB
  uint32_t in_flight = 1;
  uint64_t operations = ~uint64_t{0};  // no more than these are started
};

// Thread: one, but for `ended_ok()`, `ended_failed()` and `request_stop()`.
class Loader {
 public:
  // `endpoint` is started with `threads: 0`.
  Loader(std::unique_ptr<Endpoint> endpoint, const LoadPlan& plan);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Starts operations until there are enough or a stop is requested, waits for what is in flight,
  // but no longer than `patience` after that, and stops the endpoint.
  void run(std::chrono::seconds patience);
  void request_stop() { stop_requested_ = true; }

  uint64_t ended_ok() const { return ended_ok_; }
  uint64_t ended_failed() const { return ended_failed_; }

  // After run(): what was started, how it ended, and what the node counted and still held when the
  // last operation had ended. Times "..._s" are seconds of CLOCK_MONOTONIC, which other programs of
  // this host share. No fault has been seen when "faults" is empty.
  nlohmann::json report() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Tally {
    uint64_t started = 0;
    uint64_t sent = 0;  // SEND events with status 0
    uint64_t ok = 0;
    std::map<std::string, uint64_t> failed;  // by errno name
  };

  // One operation in flight, or a pause after one.
  struct Slot {
    size_t index = 0;
    LoadKind kind = LoadKind::kPut;
    MdHandle md;
    bool active = false;
    bool sent = false;       // its SEND event came
    bool responded = false;  // its ACK or REPLY came
    int32_t status = 0;      // first failure
    Clock::time_point started;
    Clock::time_point sent_at;  // of its SEND event, if that came and was good
    Clock::time_point not_before;
    std::vector<uint8_t> memory;
  };

  bool may_start() const;
  void start_operations();
  void start(Slot& slot);
  Status start_transfer(Slot& slot, const ProcessId& target, const Nid& source);
  void handle_event(const Event& event);
  void note_event(Slot& slot, const Event& event);
  void end(Slot& slot);
  void note_failure(const Slot& slot, Clock::time_point now);
  void fault(const std::string& text);
  void look_at_node();

  std::unique_ptr<Endpoint> endpoint_;
  const LoadPlan plan_;
  std::vector<Slot> slots_;
  size_t active_ = 0;
  uint64_t started_ = 0;
  std::array<Tally, 4> tallies_;
  std::map<std::string, uint64_t> faults_;
  Clock::duration longest_{};
  Clock::time_point last_success_{};
  Clock::time_point stall_begin_{};  // the longest time between two successes, if there were two
  Clock::duration stall_{};
  nlohmann::json failures_ = nlohmann::json::array();  // the first kFailuresMax
  nlohmann::json node_;                                // of look_at_node()
  std::atomic<uint64_t> ended_ok_{0};
  std::atomic<uint64_t> ended_failed_{0};
  std::atomic<bool> stop_requested_{false};
};

}  // namespace ulnet::netns
