// Driver: what the parts of the TCP driver share: the host, the settings, the loops, and the
// directory of NIs and connections. It carries out the Effects that decisions under a lock leave
// behind.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lnd_tcp/ni.h"
#include "lnet/base/log.h"
#include "lnet/lnd.h"
#include "lnet/loop/loop.h"

namespace ulnet::tcp {

class IoConnection;
class Driver;

// One loop's share: its connections. Thread: that loop's, but for `loop`.
struct LoopContext {
  LoopContext(Driver& owner, Loop& its_loop) : driver(owner), loop(its_loop) {}

  // Answers to a batch of LNet calls leave together.
  void drain();

  Driver& driver;
  Loop& loop;
  std::vector<std::shared_ptr<IoConnection>>
      connections;  // all of them: being set up, established, lingering
  std::unique_ptr<LoopTimer> scan_timer;
  bool drain_due = false;
};

class Driver {
 public:
  Driver(LndHost& lnet, const std::vector<Loop*>& loops, const AcceptorSettings& acceptor,
         const GlobalSettings& global, Logger& log);

  LndHost& host;
  const AcceptorSettings acceptor;
  const GlobalSettings global;
  Logger& logger;
  LogLimiter limiter;
  std::vector<std::unique_ptr<LoopContext>> contexts;

  // Carries `effects` out. True when LNet has been told something: drain_actions() is due. Thread:
  // any, no lock held.
  bool apply(Ni& ni, Effects& effects);
  // A loop for a new connection, in turns. Thread: any.
  LoopContext& next_context();

  // ---- directory. Thread: any.
  void add_ni(std::unique_ptr<Ni> ni);
  // Also those that have been stopped; nullptr for others. Lifetime: the driver's.
  Ni* find_ni(NiId id) const;
  Ni* find_running_ni(const Nid& nid) const;
  std::vector<Ni*> running_nis() const;
  void retire_ni(Ni& ni);
  ConnectionId register_connection(const std::shared_ptr<IoConnection>& connection);
  void forget_connection(ConnectionId id);
  std::shared_ptr<IoConnection> find_connection(ConnectionId id) const;

 private:
  mutable std::mutex directory_mutex_;
  std::unordered_map<NiId, std::unique_ptr<Ni>>
      nis_;  // running and retired; looked up, never walked
  std::vector<Ni*> running_;
  std::unordered_map<ConnectionId, std::weak_ptr<IoConnection>> connections_;
  ConnectionId last_id_ = 0;
  std::atomic<uint32_t> next_context_{0};

  // send() finds its NI without a lock: NiIds are small indices that are never used again.
  static constexpr size_t kFastNis = 256;
  std::array<std::atomic<Ni*>, kFastNis> fast_nis_ = {};
};

}  // namespace ulnet::tcp
