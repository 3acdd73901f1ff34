#include "lnet/core/sender.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ulnet::core {
namespace {

// What a message counts in a peer NI's queue, beside its payload: one NID4 header (5.5).
constexpr uint64_t kQueuedHeaderBytes = kHeaderNid4Bytes;

uint64_t queued_bytes(const SendMessage& message) {
  return message.header.payload_bytes + kQueuedHeaderBytes;
}

bool on_reserved_portal(const Header& header) {
  if (const auto* put = std::get_if<PutPart>(&header.part)) return put->portal == kReservedPortal;
  if (const auto* get = std::get_if<GetPart>(&header.part)) return get->portal == kReservedPortal;
  return false;
}

Completion local_failure(int32_t error, HealthStatus health) {
  return {
      .error = error, .health = health, .delivery = Delivery::kUndelivered, .nothing_posted = true};
}

// Both credits.
bool has_credits(const SendMessage& message) {
  return message.state == SendMessage::State::kDelayed ||
         message.state == SendMessage::State::kInDriver;
}

}  // namespace

SendMessage& Sender::make() {
  const SendId id = state_.sends.insert();
  SendMessage& message = state_.sends.at(id);
  message.id = id;
  message.waiting.id = id;
  message.waiting.kind = TimerKind::kSendWaiting;
  state_.note_message_count();
  return message;
}

void Sender::start(SendMessage& message, Time response_deadline) {
  message.response_deadline =
      response_deadline != kNever
          ? response_deadline
          : state_.now + std::chrono::seconds(state_.global.transaction_timeout_s);
  message.target = message.header.dest_nid;
  const PathRequest request = request_of(message);
  message.next_hop = 0;
  attempt(message, request);
  run_ready();
}

PathRequest Sender::request_of(const SendMessage& message) const {
  PathRequest request;
  request.dest = message.header.dest_nid;
  request.source = message.source;
  request.reserved_portal = on_reserved_portal(message.header);
  request.pinned = message.pinned;
  if (const Md* md = message.md != 0 ? state_.mds.find(message.md) : nullptr)
    request.memory_node = md->numa_node;
  // An answer goes back from the NI of the request, or from another when that one has been removed.
  if (message.is_response && state_.nets.ni(message.ni).is_active()) {
    request.response_ni = &state_.nets.ni(message.ni);
    request.likely_dest = state_.peers.find_ni(message.next_hop);
  }
  const auto ni = [this](NiId id) { return id != kLoopbackNi ? &state_.nets.ni(id) : nullptr; };
  request.avoid_ni = ni(message.failed_ni);
  request.keep_ni = ni(message.keep_ni);
  request.avoid_peer_ni = state_.peers.find_ni(message.failed_peer_ni);
  request.keep_peer_ni = state_.peers.find_ni(message.keep_peer_ni);
  return request;
}

void Sender::attempt(SendMessage& message, PathRequest request) {
  if (state_.shutting_down)
    return finish(message, local_failure(ESHUTDOWN, HealthStatus::kLocalError));
  if (waits_for_discovery(message, request)) return;
  const Result<Path> path = select_path(state_, request);
  if (!path) {
    // Never committed: no health is touched (7.2).
    const int code = path.error().code();
    return finish(message, local_failure(code, code == EHOSTUNREACH ? HealthStatus::kRemoteError
                                                                    : HealthStatus::kLocalError));
  }
  set_path(message, *path);
  advance(message);
}

// The discovery gate (6.2): whoever is sent to must be known as the node that it is. Its own pings,
// pushes and answers pass.
bool Sender::waits_for_discovery(SendMessage& message, PathRequest& request) {
  if (message.is_response || request.reserved_portal || request.pinned) return false;
  if (state_.nets.is_local_nid(request.dest)) return false;
  request.likely_dest = find_or_create_peer_ni(state_, request.dest, false);
  Peer& peer = state_.peers.peer(request.likely_dest->peer);
  if (!peer_needed_(peer)) return false;
  if (peer.discovery.sends.size() >= static_cast<size_t>(state_.limits.waiting_for_discovery_max)) {
    finish(message, local_failure(ENOBUFS, HealthStatus::kLocalError));
    return true;
  }
  message.state = SendMessage::State::kWaitDiscovery;
  message.next_hop = 0;
  message.deadline =
      std::min(message.response_deadline,
               state_.now + std::chrono::seconds(state_.global.transaction_timeout_s));
  state_.timers.set(message.waiting, message.deadline);
  peer.discovery.sends.push_back(message.id);
  return true;
}

void Sender::end_waiting(const std::vector<SendId>& sends, int32_t error) {
  for (const SendId id : sends) {
    SendMessage* message = state_.sends.find(id);
    if (message == nullptr || message->state != SendMessage::State::kWaitDiscovery) continue;
    state_.timers.cancel(message->waiting);
    message->state = SendMessage::State::kNew;
    if (error != 0) {
      finish(*message, local_failure(error, HealthStatus::kRemoteError));
    } else {
      attempt_again(*message);
    }
  }
  run_ready();
}

// From the start: for what was asked, with nothing held.
void Sender::attempt_again(SendMessage& message) {
  if (!may_go_on(message)) return;
  if (state_.peers.find(message.header.dest_nid) == nullptr)
    message.header.dest_nid = message.target;
  attempt(message, request_of(message));
}

void Sender::peer_ni_leaves(PeerNi& peer_ni) {
  while (const SendId id = peer_ni.tx_credits.oldest()) {
    SendMessage& message = state_.sends.at(id);
    withdraw(message);
    state_.timers.cancel(message.waiting);
    rerouted_.push_back(id);
  }
}

void Sender::reroute(const std::vector<SendId>& sends) {
  for (const SendId id : sends) {
    SendMessage* message = state_.sends.find(id);
    if (message == nullptr || message->state != SendMessage::State::kWaitDiscovery) continue;
    state_.timers.cancel(message->waiting);
    message->state = SendMessage::State::kNew;
    rerouted_.push_back(id);
  }
}

void Sender::run_rerouted() {
  const std::vector<SendId> sends = std::exchange(rerouted_, {});
  for (const SendId id : sends) {
    if (SendMessage* message = state_.sends.find(id)) attempt_again(*message);
  }
  run_ready();
}

void Sender::set_path(SendMessage& message, const Path& path) {
  const Ni& ni = state_.nets.ni(path.ni);
  message.ni = path.ni;
  message.next_hop = path.next_hop;
  message.header.source_nid = ni.nid;
  message.header.dest_nid = path.final_dest;
  message.header.source_pid = state_.pid;
  message.deadline = std::min(state_.message_deadline(ni), message.response_deadline);
  if (Md* md = message.awaits_response ? state_.mds.find(message.md) : nullptr)
    md->response_next_hop = path.next_hop;
}

// Moves a message as far down as credits allow. It may be gone afterwards.
void Sender::advance(SendMessage& message) {
  if (!may_go_on(message)) return;
  if (message.next_hop != 0) {
    if (message.state == SendMessage::State::kNew && !take_peer_credit(message)) return;
    if (message.state == SendMessage::State::kWaitPeerCredit && !take_ni_credit(message)) return;
  }
  hand_to_driver(message);
}

bool Sender::may_go_on(SendMessage& message) {
  if (state_.shutting_down) {
    finish(message, local_failure(ESHUTDOWN, HealthStatus::kLocalError));
    return false;
  }
  if (state_.now >= message.deadline) {
    count_expired(message);
    finish(message, local_failure(ETIMEDOUT, HealthStatus::kNetworkTimeout));
    return false;
  }
  const Md* md = message.md != 0 ? state_.mds.find(message.md) : nullptr;
  if (md != nullptr && md->aborted) {
    finish(message,
           local_failure(md->response_lost ? ETIMEDOUT : ECANCELED, HealthStatus::kLocalError));
    return false;
  }
  return true;
}

// The state a message is in names the credit it has or waits for: kWaitPeerCredit once a peer
// credit is asked for, kWaitNiCredit once an NI credit is.
bool Sender::take_peer_credit(SendMessage& message) {
  PeerNi& peer_ni = state_.peers.ni(message.next_hop);
  message.state = SendMessage::State::kWaitPeerCredit;
  peer_ni.tx_queue_bytes += queued_bytes(message);
  if (peer_ni.tx_credits.take()) return true;
  peer_ni.tx_credits.wait(state_.sends, message.id);
  state_.timers.set(message.waiting, message.deadline);
  return false;
}

bool Sender::take_ni_credit(SendMessage& message) {
  Ni& ni = state_.nets.ni(message.ni);
  message.state = SendMessage::State::kWaitNiCredit;
  if (ni.tx_credits.take()) return true;
  ni.tx_credits.wait(state_.sends, message.id);
  state_.timers.set(message.waiting, message.deadline);
  return false;
}

void Sender::hand_to_driver(SendMessage& message) {
  const bool on_wire = message.next_hop != 0;
  const FaultRuleId delay = on_wire ? state_.faults.find_delay(message.header, state_.now) : 0;
  if (delay == 0) return hand_down(message);
  message.state = SendMessage::State::kDelayed;
  state_.faults.hold(delay, {.is_send = true, .id = message.id}, state_.now);
  state_.timers.set(message.waiting, message.deadline);
}

void Sender::delay_over(SendId id) {
  SendMessage* message = state_.sends.find(id);
  if (message == nullptr || message->state != SendMessage::State::kDelayed) return;
  state_.timers.cancel(message->waiting);
  if (next_hop_is_there(*message) && may_go_on(*message)) hand_down(*message);
  run_ready();
}

void Sender::hand_down(SendMessage& message) {
  message.state = SendMessage::State::kInDriver;
  if (message.next_hop != 0) {
    if (const auto status = state_.faults.drops_sent(message.header, state_.now)) {
      failed_.emplace_back(message.id, *status);
      return;
    }
  }
  SendAction action;
  action.id = message.id;
  action.ni = message.ni;
  action.next_hop = message.next_hop != 0 ? state_.peers.ni(message.next_hop).nid : Nid::lo();
  action.header = message.header;
  action.payload = message.payload;
  action.deadline = message.deadline;
  state_.actions.emplace_back(action);
}

void Sender::handle_send_done(SendId id, const Completion& completion) {
  SendMessage* message = state_.sends.find(id);
  ULNET_ASSERT(message != nullptr && message->state == SendMessage::State::kInDriver,
               "a driver completed a send that it does not have");
  const bool on_wire = message->next_hop != 0;
  if (completion.error == 0) {
    count_sent(*message);
    if (on_wire && completion.health == HealthStatus::kOk)
      health_.sent(state_.nets.ni(message->ni));
  } else if (on_wire && !state_.shutting_down && state_.now <= message->deadline) {
    health_.attempt_failed(state_.nets.ni(message->ni), state_.peers.find_ni(message->next_hop),
                           completion);
    remember_failure(*message, completion.health);
    if (may_resend(*message, completion)) {
      resend(*message);
      return run_ready();
    }
  }
  finish(*message, completion);
  run_ready();
}

// Decisions D1. What the peer may have in full is never sent again; what it cannot have goes by
// another way if there is one. Over the same pair again goes only what was lost unposted with its
// connection.
bool Sender::may_resend(const SendMessage& message, const Completion& completion) const {
  if (completion.delivery != Delivery::kUndelivered || message.pinned) return false;
  if (message.resends >= state_.global.retry_count) return false;
  if (state_.now >= message.response_deadline) return false;
  const Md* md = message.md != 0 ? state_.mds.find(message.md) : nullptr;
  if (md != nullptr && md->aborted) return false;
  const bool lost_with_connection = completion.nothing_posted && completion.error == EIO &&
                                    completion.health == HealthStatus::kLocalError &&
                                    completion.kind == FailureKind::kNone;
  const bool ni_removed = !state_.nets.ni(message.ni).is_active();
  if (lost_with_connection || ni_removed) return true;
  if (message.is_response) return false;
  return has_other_way(state_, request_of(message));
}

// Which halves of its path the failed attempt blames and which it does not; and the NID to ask for
// next, if the one that was tried is no longer known.
void Sender::remember_failure(SendMessage& message, HealthStatus health) const {
  const Blame blame = blame_of(health);
  const bool local = blame != Blame::kRemote;
  const bool remote = blame != Blame::kLocal;
  message.failed_ni = local ? message.ni : kLoopbackNi;
  message.keep_ni = local ? kLoopbackNi : message.ni;
  message.failed_peer_ni = remote ? message.next_hop : 0;
  message.keep_peer_ni = remote ? 0 : message.next_hop;
  if (state_.peers.find(message.header.dest_nid) == nullptr)
    message.header.dest_nid = message.target;
}

void Sender::resend(SendMessage& message) {
  release_credits(message);
  message.state = SendMessage::State::kNew;
  ++message.resends;
  ++state_.stats.resend_count;
  attempt(message, request_of(message));
}

void Sender::waiting_expired(SendId id) {
  SendMessage& message = state_.sends.at(id);
  withdraw(message);
  count_expired(message);
  finish(message, local_failure(ETIMEDOUT, HealthStatus::kNetworkTimeout));
  run_ready();
}

// What a delay rule holds; then, oldest first in each queue, what holds a peer credit already
// before what does not.
std::vector<SendId> Sender::waiting_for(NiId ni) const {
  std::vector<SendId> found;
  state_.sends.for_each([&](SendId id, const SendMessage& message) {
    if (message.ni == ni && message.state == SendMessage::State::kDelayed) found.push_back(id);
  });
  const auto collect = [&](const Credits& credits) {
    for (SendId id = credits.oldest(); id != 0; id = state_.sends.at(id).next_waiting) {
      if (state_.sends.at(id).ni == ni) found.push_back(id);
    }
  };
  collect(state_.nets.ni(ni).tx_credits);
  state_.peers.nis().for_each([&](PeerNiId, const PeerNi& each) { collect(each.tx_credits); });
  return found;
}

void Sender::leave_ni(NiId ni) {
  // All leave the queues first, so that no credit which one gives back goes to another of them.
  const std::vector<SendId> waiting = waiting_for(ni);
  for (const SendId id : waiting) {
    state_.timers.cancel(state_.sends.at(id).waiting);
    withdraw(state_.sends.at(id));
  }
  for (const SendId id : waiting) {
    SendMessage* message = state_.sends.find(id);
    if (message == nullptr) continue;
    release_credits(*message);
    message->state = SendMessage::State::kNew;
    // A ping of the NI itself has nothing left to look for.
    if (message->header.dest_nid == state_.nets.ni(ni).nid) {
      finish(*message, local_failure(ESHUTDOWN, HealthStatus::kLocalError));
    } else {
      rerouted_.push_back(id);
    }
  }
  run_ready();
}

void Sender::shut_down() {
  std::vector<SendId> all;
  state_.sends.for_each([&all](SendId id, SendMessage&) { all.push_back(id); });
  for (const SendId id : all) {
    SendMessage* message = state_.sends.find(id);
    if (message == nullptr || message->state == SendMessage::State::kInDriver) continue;
    withdraw(*message);
    finish(*message, local_failure(ESHUTDOWN, HealthStatus::kLocalError));
    run_ready();
  }
}

// Takes a message that waits or is delayed out of the queue it is in; it keeps the credits it has.
void Sender::withdraw(SendMessage& message) {
  if (message.state == SendMessage::State::kWaitDiscovery) {
    message.state = SendMessage::State::kNew;  // its id in the peer's list names nothing any more
  } else if (message.state == SendMessage::State::kDelayed) {
    state_.faults.forget({.is_send = true, .id = message.id});
  } else if (message.state == SendMessage::State::kWaitPeerCredit) {
    PeerNi& peer_ni = state_.peers.ni(message.next_hop);
    peer_ni.tx_credits.remove(state_.sends, message.id);
    peer_ni.tx_queue_bytes -= queued_bytes(message);
    message.state = SendMessage::State::kNew;
  } else {
    ULNET_ASSERT(message.state == SendMessage::State::kWaitNiCredit,
                 "a message that waits in no queue");
    state_.nets.ni(message.ni).tx_credits.remove(state_.sends, message.id);
    message.state = SendMessage::State::kWaitPeerCredit;
  }
}

// Gives back what it holds, tells the MD, and is gone.
void Sender::finish(SendMessage& message, const Completion& completion) {
  state_.timers.cancel(message.waiting);
  release_credits(message);
  if (message.resends > 0) {
    ++(completion.error == 0 ? state_.stats.successful_resends : state_.stats.failed_resends);
  }
  if (message.md != 0) {
    if (completion.error != 0 && message.awaits_response) {
      memory_.response_impossible(state_.mds.at(message.md),
                                  message.header.type() == MessageType::kPut);
    }
    message.event.status = -completion.error;
    memory_.end_operation(message.md, message.event);
  }
  state_.sends.erase(message.id);
}

// The NI credit first, then the peer credit; each wakes its oldest waiter.
void Sender::release_credits(const SendMessage& message) {
  if (message.next_hop == 0) return;
  const bool has_ni_credit = has_credits(message);
  const bool has_peer_credit =
      has_ni_credit || message.state == SendMessage::State::kWaitPeerCredit;
  if (has_ni_credit) {
    if (const SendId next = state_.nets.ni(message.ni).tx_credits.give(state_.sends))
      ready_.push_back(next);
  }
  if (PeerNi* peer_ni = has_peer_credit ? state_.peers.find_ni(message.next_hop) : nullptr) {
    peer_ni->tx_queue_bytes -= queued_bytes(message);
    if (const SendId next = peer_ni->tx_credits.give(state_.sends)) ready_.push_back(next);
  }
}

void Sender::run_ready() {
  if (running_ready_) return;
  running_ready_ = true;
  size_t woken = 0;
  size_t failed = 0;
  while (woken < ready_.size() || failed < failed_.size()) {
    if (woken < ready_.size()) {
      run_woken(ready_[woken++]);
    } else {
      const auto [id, status] = failed_[failed++];
      handle_send_done(id, local_failure(EINVAL, status));
    }
  }
  ready_.clear();
  failed_.clear();
  running_ready_ = false;
}

// It has the credit it waited for, and goes on from there.
void Sender::run_woken(SendId id) {
  SendMessage& message = state_.sends.at(id);
  state_.timers.cancel(message.waiting);
  const bool has_both = message.state == SendMessage::State::kWaitNiCredit;
  if (!has_both) return advance(message);
  // It holds an NI credit now: as good as in the driver, should it fail the last check.
  message.state = SendMessage::State::kInDriver;
  if (next_hop_is_there(message) && may_go_on(message)) hand_to_driver(message);
}

// Or else, since it went while the message waited, another way is sought.
bool Sender::next_hop_is_there(SendMessage& message) {
  if (state_.peers.find_ni(message.next_hop) != nullptr) return true;
  release_credits(message);
  message.state = SendMessage::State::kNew;
  attempt_again(message);
  return false;
}

void Sender::count_sent(const SendMessage& message) {
  const MessageType type = message.header.type();
  ++state_.stats.send_count;
  if (type == MessageType::kPut || type == MessageType::kReply) {
    state_.stats.send_length += message.header.payload_bytes;
  }
  ++count_of(state_.nets.ni(message.ni).stats.sent, type);
  if (PeerNi* peer_ni = state_.peers.find_ni(message.next_hop))
    ++count_of(peer_ni->stats.sent, type);
}

void Sender::count_expired(const SendMessage& message) {
  const MessageType type = message.header.type();
  ++state_.stats.drop_count;
  state_.stats.drop_length += message.header.payload_bytes;
  ++state_.stats.drops[static_cast<size_t>(DropReason::kExpiredBeforeSend)];
  ++count_of(state_.nets.ni(message.ni).stats.dropped, type);
  if (PeerNi* peer_ni = state_.peers.find_ni(message.next_hop))
    ++count_of(peer_ni->stats.dropped, type);
}

}  // namespace ulnet::core
