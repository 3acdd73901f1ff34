// PathChecker: how large a message passes from one local NI to one peer NI.
//
// Sends PUTs without ACK, each larger than the one before, to match bits that nobody uses: any
// node, a kernel's included, reads and drops them. What tells whether one has passed is the peer's
// TCP, which acknowledges its bytes. Made for paths of which one hop carries less than both ends
// believe and tells nobody (cases HL-17): they carry a ping and lose every bulk transfer.
//
// Thread: any, all calls. One check at a time, on a thread of its own.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ulnet/endpoint.h"

namespace ulnet::daemon {

struct PathCheckArgs {
  Nid nid;
  Nid source;  // wildcard: the first NI of ours on its net, rather one that is up
};

struct PathCheckSize {
  uint32_t bytes = 0;  // of the payload
  Status status;       // ok: the peer's TCP has all of it
  std::chrono::microseconds took{0};
};

struct PathCheckReport {
  Nid source;                        // in use
  std::vector<PathCheckSize> sizes;  // in growing order, up to the first that failed
  ConnectionInfo connection;         // the one that took most bytes; empty when there was none

  bool passed() const { return !sizes.empty() && sizes.back().status.is_ok(); }
};

class PathChecker final : private EventHandler {
 public:
  // Errors: EINVAL a NID of this node, or of no net of ours; ENODEV no NI as asked for; EBUSY
  // another check is under way; those of Endpoint::bind().
  using Done = std::function<void(Result<PathCheckReport>)>;

  static constexpr std::array<uint32_t, 11> kSizes = {0,     512,   1024,   2048,   4096,   8192,
                                                      16384, 65536, 262144, 524288, 1048576};
  static constexpr std::chrono::seconds kTimePerSize{5};

  // `endpoint` has threads of its own, outlives this, and is stopped before this goes.
  explicit PathChecker(Endpoint& endpoint);
  ~PathChecker() override;
  PathChecker(const PathChecker&) = delete;
  PathChecker& operator=(const PathChecker&) = delete;

  // `done` runs exactly once: in here when nothing could be started, else on the check's thread.
  void start(const PathCheckArgs& args, Done done);

 private:
  using Clock = std::chrono::steady_clock;
  using Connections = std::map<std::string, ConnectionInfo>;  // by "LOCAL - REMOTE"

  Result<Nid> choose_source(const PathCheckArgs& args) const;
  Result<PathCheckReport> check(const Nid& nid, const Nid& source);
  Status pass(const Nid& nid, const Nid& source, uint32_t bytes);
  Status wait_until_sent(MdHandle md, Clock::time_point deadline);
  Status wait_until_acknowledged(const Nid& nid, const Nid& source, Clock::time_point deadline);
  // True when the check is to end.
  bool rest();
  Connections connections(const Nid& nid, const Nid& source) const;
  void handle_event(const Event& event) override;

  Endpoint& endpoint_;
  std::vector<uint8_t> zeroes_;  // what is sent; never changed, so a late send may still read it

  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;  // guarded by mutex_, as all below
  bool stopping_ = false;
  MdHandle awaited_;
  bool sent_ = false;
  int32_t send_status_ = 0;
  std::thread thread_;
};

}  // namespace ulnet::daemon
