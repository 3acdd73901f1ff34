// Nodes in virtual time: each a real core with the simulated driver and the real loopback driver
// under it, as the engine would put them together, but without lock and thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lnet/base/rng.h"
#include "lnet/core/core.h"
#include "lnet/engine/loopback_lnd.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/trace.h"

namespace ulnet::sim {

struct NodeSpec {
  std::string name;
  std::vector<NiSettings> nis;  // each with its nid
  GlobalSettings global;
  LimitSettings limits;
  std::vector<PeerSettings> peers;  // told by hand at each start
  std::vector<FaultRule> faults;    // of each incarnation
};

// What a node's cores did, over all its lives.
struct NodeTotals {
  uint64_t resends = 0;
  uint64_t resends_that_helped = 0;
  uint64_t recovery_pings = 0;
  uint64_t lost_responses = 0;
  NodeTotals& operator+=(const NodeTotals& other);
};

class Cluster;

class Node final : public LndHost {
 public:
  // Wraps what the node's driver talks to; for tests that plant a bug there.
  using Decorate = std::function<std::unique_ptr<LndHost>(LndHost&)>;

  Node(Cluster& cluster, uint32_t index, NodeSpec spec)
      : cluster_(cluster), index_(index), spec_(std::move(spec)) {}

  uint32_t index() const { return index_; }
  const NodeSpec& spec() const { return spec_; }
  std::vector<Nid> nids() const;

  // A new incarnation of the core. REQUIRES: not running.
  void start();
  // Shuts down as the engine does: every MD gets its last event, every message its completion.
  void stop();
  // Nobody in here is told anything. `how`: kKill or kPowerLoss.
  void crash(Farewell how);

  // The next life has these NIs, in this order. REQUIRES: not running; each NID is one the node was
  // made with.
  void set_nids(const std::vector<Nid>& nids);
  // Those the node was made with.
  std::vector<Nid> all_nids() const;
  // Whether some life has had other NIs than these.
  bool nids_vary() const { return nids_vary_; }

  bool running() const { return core_ != nullptr; }
  // Runs, and does not stand still.
  bool responsive() const;
  Time stalled_until() const { return stalled_until_; }
  // REQUIRES: running(). After commands, call settle().
  core::Core& core() { return *core_; }
  // Carries out what the core wants done, and hands its events to the cluster's listener.
  void settle() { drain_actions(); }
  NodeTotals totals() const;

  // The process stands still until then.
  void stall(Time until);
  // The wall clock jumps; only the next incarnation's cookie comes from it.
  void step_clock(Duration by) { wall_offset_ += by; }
  void set_fatal(const Nid& nid, bool fatal);
  // The NI of the spec with this NID goes, and comes back, while the node runs. Nothing when it is
  // gone, or there, already.
  void remove_ni(const Nid& nid);
  void add_ni(const Nid& nid);
  // Whether NIs have been removed from this node, even if they are back.
  bool has_lost_nis() const { return has_lost_nis_; }

  // ---- LndHost
  MessageVerdict handle_message(const IncomingMessage& message) override;
  void handle_receive_done(ReceiveId id, const Completion& completion) override;
  void handle_send_done(SendId id, const Completion& completion) override;
  void handle_peer_down(NiId ni, const Nid& peer, Time last_heard) override;
  void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) override;
  void drain_actions() override;
  Time now() const override;
  uint64_t random_below(uint64_t bound) override { return rng_->below(bound); }

 private:
  // What drivers report to.
  LndHost& host() { return decorated_ ? *decorated_ : static_cast<LndHost&>(*this); }
  void start_ni(const NiSettings& settings);
  void dispatch(const core::Action& action);
  void deliver_events();
  void arm_timer();
  void handle_timer();
  void end();

  Cluster& cluster_;
  const uint32_t index_;
  NodeSpec spec_;
  const std::vector<NiSettings> all_nis_ = spec_.nis;  // it was made with
  bool nids_vary_ = false;
  std::map<Nid, NiId> ids_;  // of the NIs that are there
  bool has_lost_nis_ = false;
  uint32_t incarnation_ = 0;
  NodeTotals past_;  // of the lives before this one
  Duration wall_offset_{};
  Time stalled_until_ = Time::min();
  Time armed_ = kNever;  // earliest timer entry in the queue
  bool draining_ = false;
  std::unique_ptr<Rng> rng_;
  std::unique_ptr<core::Core> core_;
  std::unique_ptr<LndHost> decorated_;
  std::unique_ptr<SimLnd> lnd_;
  std::unique_ptr<LoopbackLnd> loopback_;
};

class Cluster {
 public:
  // Takes every event of every MD without a handler, at its time.
  using Listener = std::function<void(Node&, const Event&)>;
  // Wraps the listener; for tests that plant a bug there.
  using DecorateListener = std::function<Listener(Listener)>;

  explicit Cluster(uint64_t seed, std::FILE* trace_out = nullptr);
  ~Cluster();

  Node& add(NodeSpec spec);
  Node& node(size_t index) { return *nodes_[index]; }
  size_t size() const { return nodes_.size(); }
  // The node with this NID, running or not; nullptr: none.
  Node* owner(const Nid& nid);

  // Runs everything that is due until then.
  void run_until(Time end);
  void run_for(Duration duration) { run_until(now() + duration); }

  Time now() const { return queue_.now(); }
  uint64_t seed() const { return seed_; }
  EventQueue& queue() { return queue_; }
  Network& network() { return network_; }
  Trace& trace() { return trace_; }

  void set_listener(Listener listener) {
    listener_ = decorate_listener_ ? decorate_listener_(std::move(listener)) : std::move(listener);
  }
  // Before set_listener().
  void set_decorate_listener(DecorateListener decorate) {
    decorate_listener_ = std::move(decorate);
  }
  void set_decorate(Node::Decorate decorate) { decorate_ = std::move(decorate); }

 private:
  friend class Node;

  const uint64_t seed_;
  Trace trace_;
  EventQueue queue_;
  Network network_;
  Listener listener_;
  Node::Decorate decorate_;
  DecorateListener decorate_listener_;
  std::map<Nid, Node*> by_nid_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace ulnet::sim
