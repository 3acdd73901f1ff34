#include "tests/netns/loader.h"

#include <algorithm>
#include <utility>

#include "tests/bench/pattern.h"

namespace ulnet::netns {
namespace {

using std::chrono::milliseconds;

// After a failure the slot rests: a peer that is down would otherwise be asked some hundred
// thousand times a second.
constexpr milliseconds kRest{20};
// For the node to take back what its last operations held: an event comes before its credits.
constexpr milliseconds kSettle{200};

// Told one by one; all are counted.
constexpr size_t kFailuresMax = 10000;

double seconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

bool is_transfer(LoadKind kind) {
  return kind != LoadKind::kPing;
}

}  // namespace

Loader::Loader(std::unique_ptr<Endpoint> endpoint, const LoadPlan& plan)
    : endpoint_(std::move(endpoint)), plan_(plan), slots_(plan.in_flight) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].index = i;
    slots_[i].memory.resize(plan_.bytes);
  }
}

// The node goes before the memory that it borrows.
Loader::~Loader() {
  endpoint_.reset();
}

bool Loader::may_start() const {
  return !stop_requested_ && started_ < plan_.operations;
}

void Loader::run(std::chrono::seconds patience) {
  std::array<Event, 64> events;
  Clock::time_point deadline = Clock::time_point::max();
  while (may_start() || active_ > 0) {
    start_operations();
    const size_t count = endpoint_->poll_events(events, milliseconds(10));
    for (size_t i = 0; i < count; ++i) handle_event(events[i]);
    if (may_start()) continue;
    if (deadline == Clock::time_point::max()) deadline = Clock::now() + patience;
    if (Clock::now() < deadline) continue;
    for (size_t i = 0; i < active_; ++i) fault("an operation that never ended");
    break;
  }
  for (const auto end = Clock::now() + kSettle; Clock::now() < end;) {
    const size_t count = endpoint_->poll_events(events, kSettle / 4);
    for (size_t i = 0; i < count; ++i) handle_event(events[i]);
  }
  look_at_node();
  endpoint_->stop();
}

void Loader::start_operations() {
  if (active_ == slots_.size()) return;
  const Clock::time_point now = Clock::now();
  for (Slot& slot : slots_) {
    if (!slot.active && slot.not_before <= now && may_start()) start(slot);
  }
}

void Loader::start(Slot& slot) {
  const auto& [source, target] = plan_.paths[started_ % plan_.paths.size()];
  slot.kind = plan_.kinds[started_ / plan_.paths.size() % plan_.kinds.size()];
  slot.active = true;
  slot.sent = slot.responded = false;
  slot.status = 0;
  slot.started = Clock::now();
  slot.sent_at = {};
  ++active_;
  ++started_;
  ++tallies_[static_cast<size_t>(slot.kind)].started;
  if (is_transfer(slot.kind)) {
    const Status status = start_transfer(slot, {target, kPidLustre}, source);
    if (status.is_ok()) return;
    fault("not started: " + status.to_string());
    slot.status = -status.code();
    return end(slot);
  }
  endpoint_->ping({.nid = target, .source = source}, [this, &slot](const auto& result) {
    if (!slot.active) return fault("a ping that ended twice");
    if (!result) slot.status = -result.error().code();
    slot.sent = true;
    end(slot);
  });
}

Status Loader::start_transfer(Slot& slot, const ProcessId& target, const Nid& source) {
  MdSpec md{.threshold = 2, .user_data = &slot};  // SEND, and ACK or REPLY
  if (plan_.bytes > 0) md.fragments = {{slot.memory.data(), slot.memory.size()}};
  const auto bound = endpoint_->bind(md);
  if (!bound) return bound.error();
  slot.md = *bound;
  if (slot.kind == LoadKind::kGet) {
    std::fill(slot.memory.begin(), slot.memory.end(), uint8_t{0});
    return endpoint_->get(
        {.md = slot.md, .target = target, .portal = kSourcePortal, .source = source});
  }
  const uint32_t portal = slot.kind == LoadKind::kPut ? kSinkPortal : kParkingPortal;
  return endpoint_->put({.md = slot.md, .target = target, .portal = portal, .source = source});
}

void Loader::handle_event(const Event& event) {
  Slot& slot = *static_cast<Slot*>(event.user_data);
  if (!slot.active || slot.md != event.md) return fault("an event after the last one of its MD");
  note_event(slot, event);
  if (event.unlinked) return end(slot);
  // A send that failed leaves an MD that still waits for its response, which cannot come.
  if (event.status != 0) {
    const Status status = endpoint_->unlink(slot.md);
    if (!status.is_ok()) fault("unlink: " + status.to_string());
  }
}

void Loader::note_event(Slot& slot, const Event& event) {
  if (event.status != 0 && slot.status == 0) slot.status = event.status;
  if (event.kind == EventKind::kSend) {
    if (std::exchange(slot.sent, true)) fault("a second SEND event");
    if (event.status == 0) {
      ++tallies_[static_cast<size_t>(slot.kind)].sent;
      slot.sent_at = Clock::now();
    }
  }
  if (event.kind == EventKind::kAck || event.kind == EventKind::kReply) {
    if (std::exchange(slot.responded, true)) fault("a second response");
    if ((event.kind == EventKind::kReply) != (slot.kind == LoadKind::kGet))
      fault("a response of the other kind");
    if (event.status == 0 && event.mlength != plan_.bytes) fault("a response cut short");
  }
}

void Loader::end(Slot& slot) {
  Tally& tally = tallies_[static_cast<size_t>(slot.kind)];
  slot.active = false;
  --active_;
  const Clock::time_point now = Clock::now();
  longest_ = std::max(longest_, now - slot.started);
  if (slot.status != 0) {
    ++tally.failed[errno_name(slot.status)];
    ++ended_failed_;
    note_failure(slot, now);
    slot.not_before = now + kRest;
    return;
  }
  const Clock::time_point before = std::exchange(last_success_, now);
  if (before != Clock::time_point{} && now - before > stall_) {
    stall_ = now - before;
    stall_begin_ = before;
  }
  if (is_transfer(slot.kind) && !(slot.sent && slot.responded))
    fault("success without SEND and response");
  if (slot.kind == LoadKind::kGet && bench::find_difference(slot.memory, 0)) fault("wrong bytes");
  ++tally.ok;
  ++ended_ok_;
}

void Loader::note_failure(const Slot& slot, Clock::time_point now) {
  if (failures_.size() == kFailuresMax) return;
  failures_.push_back({{"kind", kLoadKindNames[static_cast<size_t>(slot.kind)]},
                       {"error", errno_name(slot.status)},
                       {"started_s", seconds(slot.started)},
                       {"ended_s", seconds(now)}});
  if (slot.sent_at != Clock::time_point{}) failures_.back()["sent_s"] = seconds(slot.sent_at);
}

void Loader::fault(const std::string& text) {
  ++faults_[text];
}

// What must be back where it was when nothing is under way.
void Loader::look_at_node() {
  const Statistics stats = endpoint_->statistics();
  node_ = {
      {"msgs_alloc", stats.msgs_alloc},         {"rst_alloc", stats.rst_alloc},
      {"send_count", stats.send_count},         {"recv_count", stats.recv_count},
      {"drop_count", stats.drop_count},         {"response_timeouts", stats.response_timeout_count},
      {"resend_count", stats.resend_count},     {"resent_well", stats.successful_resends},
      {"resent_in_vain", stats.failed_resends}, {"nis", nlohmann::json::array()},
      {"peer_nis", nlohmann::json::array()}};
  for (const CounterInfo& drop : stats.drops) {
    if (drop.value > 0) node_["drops"][drop.name] = drop.value;
  }
  for (const NetInfo& net : endpoint_->nets()) {
    for (const NiInfo& ni : net.nis) {
      if (ni.nid.is_lo()) continue;
      node_["nis"].push_back({{"nid", ni.nid.to_string()},
                              {"credits_missing", ni.tunables.credits - ni.tx_credits},
                              {"waiting", ni.waiting},
                              {"sent_put", ni.stats.sent.put},
                              {"sent_get", ni.stats.sent.get},
                              {"received_ack", ni.stats.received.ack},
                              {"received_reply", ni.stats.received.reply}});
      for (const CounterInfo& counter : ni.driver)
        if (counter.value > 0) node_["nis"].back()["driver"][counter.name] = counter.value;
    }
  }
  for (const PeerInfo& peer : endpoint_->peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      nlohmann::json locals = nlohmann::json::array();
      for (const ConnectionInfo& connection : ni.connections) locals.push_back(connection.local);
      node_["peer_nis"].push_back(
          {{"nid", ni.nid.to_string()},
           {"credits_missing", ni.max_ni_tx_credits - ni.available_tx_credits},
           {"waiting", ni.waiting},
           {"sent_put", ni.stats.sent.put},
           {"connections", std::move(locals)}});
    }
  }
}

nlohmann::json Loader::report() const {
  nlohmann::json kinds = nlohmann::json::object();
  for (const LoadKind kind : plan_.kinds) {
    const Tally& tally = tallies_[static_cast<size_t>(kind)];
    kinds[kLoadKindNames[static_cast<size_t>(kind)]] = {{"started", tally.started},
                                                        {"sent", tally.sent},
                                                        {"ok", tally.ok},
                                                        {"failed", tally.failed}};
  }
  const auto longest_ms = std::chrono::duration_cast<milliseconds>(longest_).count();
  const auto stall_ms = std::chrono::duration_cast<milliseconds>(stall_).count();
  return {{"kinds", kinds},
          {"faults", faults_},
          {"failures", failures_},
          {"longest_ms", longest_ms},
          {"longest_stall", {{"begin_s", seconds(stall_begin_)}, {"ms", stall_ms}}},
          {"node", node_}};
}

}  // namespace ulnet::netns
