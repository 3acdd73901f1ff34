#include "tests/sim/cluster.h"

#include <algorithm>

#include "lnet/base/assert.h"

namespace ulnet::sim {
namespace {

// A node's wall clock when the run begins; steps move it.
constexpr Duration kWallStart = std::chrono::seconds(1'700'000'000);

uint64_t mix(uint64_t a, uint64_t b) {
  return Rng(a * 0x9E3779B97F4A7C15ULL + b).next();
}

}  // namespace

NodeTotals& NodeTotals::operator+=(const NodeTotals& other) {
  resends += other.resends;
  resends_that_helped += other.resends_that_helped;
  recovery_pings += other.recovery_pings;
  lost_responses += other.lost_responses;
  return *this;
}

// ---------------------------------------------------------------- life

std::vector<Nid> Node::nids() const {
  std::vector<Nid> nids;
  for (const NiSettings& ni : spec_.nis) nids.push_back(*ni.nid);
  return nids;
}

void Node::start() {
  ULNET_ASSERT(!running(), "a node is started twice");
  ++incarnation_;
  const Duration wall = kWallStart + wall_offset_ + cluster_.now().time_since_epoch();
  const uint64_t seed = mix(mix(cluster_.seed_, index_), incarnation_);
  const auto cookie = static_cast<uint64_t>(wall.count()) + index_;
  rng_ = std::make_unique<Rng>(seed);
  core_ = std::make_unique<core::Core>(spec_.global, spec_.limits, cookie, rng_->next());
  if (cluster_.decorate_) decorated_ = cluster_.decorate_(*this);
  lnd_ = std::make_unique<SimLnd>(cluster_.network_, index_, host());
  loopback_ = std::make_unique<LoopbackLnd>(*this);
  ids_.clear();
  for (const NiSettings& settings : spec_.nis) start_ni(settings);
  for (const PeerSettings& peer : spec_.peers)
    ULNET_ASSERT(core_->configure_peer(now(), peer).is_ok(), "two peers with one NID");
  for (const FaultRule& rule : spec_.faults)
    ULNET_ASSERT(core_->add_fault(now(), rule).is_ok(), "a bad fault rule");
  lnd_->open();
  cluster_.trace_.note(cluster_.now(), "start",
                       {{"node", index_}, {"incarnation", incarnation_}, {"cookie", cookie}});
  settle();
}

void Node::start_ni(const NiSettings& settings) {
  const NiId id = core_->reserve_ni();
  const NiStarted started = lnd_->start_ni(id, settings).value();
  ULNET_ASSERT(core_->add_ni(now(), id, settings, started).is_ok(), "two NIs with one NID");
  ids_[started.nid] = id;
}

// As the engine does it: the core first, then the driver, whose completions find the NI gone.
void Node::remove_ni(const Nid& nid) {
  const auto found = ids_.find(nid);
  if (!running() || found == ids_.end()) return;
  const NiId id = found->second;
  ids_.erase(found);
  has_lost_nis_ = true;
  cluster_.trace_.note(now(), "ni-gone", {{"node", index_}, {"ni", id}});
  ULNET_ASSERT(core_->remove_ni(now(), id).is_ok(), "a NI that is up can be removed");
  settle();
  lnd_->stop_ni(id);
  settle();
}

void Node::add_ni(const Nid& nid) {
  if (!running() || ids_.contains(nid)) return;
  for (const NiSettings& settings : spec_.nis) {
    if (*settings.nid == nid) start_ni(settings);
  }
  if (!ids_.contains(nid)) return;  // a life without it
  cluster_.trace_.note(now(), "ni-back", {{"node", index_}, {"ni", ids_.at(nid)}});
  lnd_->open();
  settle();
}

void Node::stop() {
  core_->shut_down(cluster_.now());
  settle();
  lnd_->stop(Duration::zero());
  loopback_->stop(Duration::zero());
  settle();
  ULNET_ASSERT(core_->sends_in_progress() == 0, "a stopped core still has sends");
  ULNET_ASSERT(core_->receives_in_progress() == 0, "a stopped core still has receives");
  end();
}

void Node::crash(Farewell how) {
  lnd_->leave(how);
  end();
}

void Node::set_nids(const std::vector<Nid>& nids) {
  ULNET_ASSERT(!running(), "a running node gets other NIs");
  nids_vary_ = true;
  spec_.nis.clear();
  for (const Nid& nid : nids) {
    const auto known = std::find_if(all_nis_.begin(), all_nis_.end(),
                                    [&nid](const NiSettings& ni) { return ni.nid == nid; });
    ULNET_ASSERT(known != all_nis_.end(), "a node gets a NID it never had");
    spec_.nis.push_back(*known);
  }
}

std::vector<Nid> Node::all_nids() const {
  std::vector<Nid> nids;
  for (const NiSettings& ni : all_nis_) nids.push_back(*ni.nid);
  return nids;
}

NodeTotals Node::totals() const {
  NodeTotals totals = past_;
  if (!running()) return totals;
  const Statistics now = core_->statistics();
  totals +=
      {now.resend_count, now.successful_resends, now.recovery_pings, now.response_timeout_count};
  return totals;
}

void Node::end() {
  past_ = totals();
  cluster_.trace_.note(cluster_.now(), "end", {{"node", index_}});
  lnd_.reset();
  loopback_.reset();
  decorated_.reset();
  core_.reset();
  stalled_until_ = Time::min();
}

bool Node::responsive() const {
  return running() && stalled_until_ <= cluster_.now();
}

void Node::stall(Time until) {
  stalled_until_ = std::max(stalled_until_, until);
  for (const Nid& nid : nids()) cluster_.network_.stall(nid, stalled_until_);
}

void Node::set_fatal(const Nid& nid, bool fatal) {
  const auto found = ids_.find(nid);
  if (!running() || found == ids_.end()) return;
  host().handle_ni_fatal(found->second, fatal, "link");
  settle();
}

// ---------------------------------------------------------------- the driver's reports

MessageVerdict Node::handle_message(const IncomingMessage& message) {
  return core_->handle_message(now(), message);
}

void Node::handle_receive_done(ReceiveId id, const Completion& completion) {
  core_->handle_receive_done(now(), id, completion);
}

void Node::handle_send_done(SendId id, const Completion& completion) {
  core_->handle_send_done(now(), id, completion);
}

void Node::handle_peer_down(NiId ni, const Nid& peer, Time last_heard) {
  cluster_.trace_.note(now(), "peer-down", {{"node", index_}, {"ni", ni}});
  core_->handle_peer_down(now(), ni, peer, last_heard);
}

void Node::handle_ni_fatal(NiId ni, bool fatal, std::string_view) {
  core_->handle_ni_fatal(now(), ni, fatal);
}

Time Node::now() const {
  return cluster_.now();
}

// Loopback completes inside send, and the simulated driver in back-off, too: what they cause is
// taken in the same loop.
void Node::drain_actions() {
  if (draining_ || !running()) return;
  draining_ = true;
  while (core_->has_actions()) {
    std::vector<core::Action> actions;
    core_->take_actions(actions);
    for (const core::Action& action : actions) dispatch(action);
  }
  draining_ = false;
  deliver_events();
  arm_timer();
}

void Node::dispatch(const core::Action& action) {
  if (const auto* send = std::get_if<SendAction>(&action)) {
    if (send->ni == kLoopbackNi) {
      loopback_->send(*send);
    } else {
      const bool there = std::any_of(ids_.begin(), ids_.end(),
                                     [&](const auto& each) { return each.second == send->ni; });
      ULNET_ASSERT(there, "a core sends by a NI that it has removed");
      lnd_->send(*send);
    }
    return;
  }
  if (const auto* timeout = std::get_if<LndTimeoutAction>(&action)) {
    lnd_->set_lnd_timeout(timeout->ni, timeout->timeout);
    return;
  }
  const auto& receive = std::get<ReceiveAction>(action);
  if (receive.ni == kLoopbackNi) {
    loopback_->receive(receive);
  } else {
    lnd_->receive(receive);
  }
}

void Node::deliver_events() {
  std::vector<core::CoreEvent> handled;
  std::vector<core::CoreEvent> polled;
  handled.swap(core_->handled_events());
  polled.swap(core_->polled_events());
  for (const core::CoreEvent& event : handled) event.handler->handle_event(event.event);
  for (const core::CoreEvent& each : polled) {
    const Event& event = each.event;
    cluster_.trace_.note(now(), "event",
                         {{"node", index_},
                          {"kind", static_cast<uint64_t>(event.kind)},
                          {"md", event.md.value},
                          {"status", static_cast<uint64_t>(-event.status)},
                          {"bytes", event.mlength},
                          {"unlinked", event.unlinked}});
    if (cluster_.listener_) cluster_.listener_(*this, event);
  }
}

// ---------------------------------------------------------------- time

// At most one entry of the queue that still counts stands for the core's deadlines; when an earlier
// one comes up, the later entry finds nothing to do.
void Node::arm_timer() {
  const Time next = core_->next_timeout();
  if (next >= armed_) return;
  armed_ = next;
  cluster_.queue_.at(next, [this, next] {
    if (armed_ != next) return;
    armed_ = kNever;
    handle_timer();
  });
}

void Node::handle_timer() {
  if (!running()) return;
  if (!responsive()) {
    armed_ = stalled_until_;
    cluster_.queue_.at(stalled_until_, [this, when = stalled_until_] {
      if (armed_ != when) return;
      armed_ = kNever;
      handle_timer();
    });
    return;
  }
  if (core_->next_timeout() <= now()) core_->handle_timeout(now());
  settle();
}

// ---------------------------------------------------------------- Cluster

Cluster::Cluster(uint64_t seed, std::FILE* trace_out)
    : seed_(seed), trace_(trace_out), network_(queue_, trace_, mix(seed, 0x4E6574)) {}

Cluster::~Cluster() {
  // Cores go before what they call.
  for (const auto& node : nodes_) {
    if (node->running()) node->crash(Farewell::kKill);
  }
}

Node& Cluster::add(NodeSpec spec) {
  // What is in force: the bounds of operations are computed from it.
  for (NiSettings& ni : spec.nis) ni.tcp.timeout_s = spec.global.lnd_timeout_s(ni.tcp.timeout_s);
  const auto index = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(std::make_unique<Node>(*this, index, std::move(spec)));
  for (const Nid& nid : nodes_.back()->nids()) by_nid_[nid] = nodes_.back().get();
  return *nodes_.back();
}

Node* Cluster::owner(const Nid& nid) {
  const auto found = by_nid_.find(nid);
  return found != by_nid_.end() ? found->second : nullptr;
}

void Cluster::run_until(Time end) {
  while (queue_.run_next(end)) {
  }
}

}  // namespace ulnet::sim
