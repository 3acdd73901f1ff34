#include "lnd_tcp/ni.h"

#include <algorithm>
#include <cerrno>

#include "lnd_tcp/io_connection.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

constexpr Duration kKeepaliveRepeat = std::chrono::seconds(10);

}  // namespace

Completion failure(int error, HealthStatus health, FailureKind kind, bool nothing_posted) {
  return {error, health, Delivery::kUndelivered, kind, nothing_posted};
}

Completion shutdown_completion() {
  return failure(ESHUTDOWN, HealthStatus::kLocalError);
}

Completion connect_failure(int error) {
  switch (error) {
    case ETIMEDOUT:
      return failure(error, HealthStatus::kNetworkTimeout, FailureKind::kPeerNiConnectError);
    case ECONNREFUSED:
      return failure(error, HealthStatus::kRemoteDropped, FailureKind::kPeerNiNoListener);
    case ENETDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return failure(error, HealthStatus::kRemoteDropped, FailureKind::kPeerNiUnreachable);
    case ECONNRESET:
      return failure(error, HealthStatus::kRemoteDropped, FailureKind::kPeerNiConnectError);
    case EALREADY:
      return failure(error, HealthStatus::kLocalError, FailureKind::kPeerNiConnectionRejected);
    case EADDRNOTAVAIL:
      return failure(error, HealthStatus::kLocalError, FailureKind::kPeerNiAddressError);
    default:
      return failure(error, HealthStatus::kLocalError, FailureKind::kPeerNiConnectError);
  }
}

IoConnection* PeerLink::find(ConnectionId id) const {
  for (const auto& connection : connections) {
    if (connection->id() == id) return connection.get();
  }
  return nullptr;
}

// ---------------------------------------------------------------- peers

PeerLink* Ni::find(const Nid& nid, Pid pid) const {
  const auto it = peers_.find({nid, pid});
  return it == peers_.end() ? nullptr : it->second.get();
}

// Messages for a peer with another pid than Lustre's find it as long as it is connected.
PeerLink* Ni::find_target(const SendAction& send) const {
  if (send.header.dest_pid != kPidLustre) {
    PeerLink* peer = find(send.next_hop, send.header.dest_pid);
    if (peer != nullptr && !peer->connections.empty()) return peer;
  }
  return find(send.next_hop, kPidLustre);
}

std::shared_ptr<PeerLink> Ni::find_or_create(const Nid& nid, Pid pid) {
  std::shared_ptr<PeerLink>& peer = peers_[{nid, pid}];
  if (peer == nullptr) {
    peer = std::make_shared<PeerLink>(
        *this,
        PeerSettings{.own = identity_.nid,
                     .nid = nid,
                     .pid = pid,
                     .conns_per_peer = identity_.conns_per_peer,
                     .min_bulk_bytes = static_cast<uint32_t>(tunables().min_bulk_bytes),
                     .reconnect_min = std::chrono::milliseconds(tunables().min_reconnect_ms),
                     .reconnect_max = std::chrono::milliseconds(tunables().max_reconnect_ms)});
  }
  return peer;
}

// ---------------------------------------------------------------- sending

uint64_t Ni::frame_bytes(const SendAction& send) const {
  const HeaderForm form = identity_.nid.is_ipv6() ? HeaderForm::kNid16 : HeaderForm::kNid4;
  return kFrameHeaderBytes + header_bytes(form) + send.payload.bytes;
}

void Ni::queue(PeerLink& peer, IoConnection& connection, const SendAction& send) {
  const uint32_t bytes =
      connection.transmit().queue.push_message(send, connection.form(), tunables().enable_csum);
  peer.logic.add_pending(connection.id(), bytes);
}

Ni::SendResult Ni::send(const SendAction& send, std::shared_ptr<IoConnection>* connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return SendResult::kStopped;
  PeerLink* const peer = find_target(send);
  // What waits is older: it goes first.
  if (peer == nullptr || !peer->waiting.empty()) return SendResult::kNoConnection;
  const auto id = peer->logic.choose(frame_bytes(send));
  if (!id) return SendResult::kNoConnection;
  IoConnection* const chosen = peer->find(*id);
  queue(*peer, *chosen, send);
  const bool incomplete = peer->logic.owns_set() && !peer->logic.set_complete();
  if (chosen->transmit().flush_due && !incomplete) return SendResult::kQueued;
  chosen->transmit().flush_due = true;
  *connection = chosen->shared_from_this();
  return incomplete ? SendResult::kQueuedIncomplete : SendResult::kQueuedFlush;
}

void Ni::send_without_connection(const SendAction& send, Time now, Effects* effects) {
  const std::lock_guard lock(mutex_);
  const auto refuse = [&](const Completion& completion) {
    effects->completions.emplace_back(send.id, completion);
  };
  if (stopping_) return refuse(shutdown_completion());
  PeerLink* existing = find_target(send);
  if (existing != nullptr && existing->waiting.empty()) {
    // A connection may have come up since send() looked.
    if (const auto id = existing->logic.choose(frame_bytes(send))) {
      IoConnection* const chosen = existing->find(*id);
      queue(*existing, *chosen, send);
      effects->flush.push_back(chosen->shared_from_this());
      return;
    }
  }
  // Only NIDs of our own kind can be dialled; an IPv4 NID never from an IPv6 NI (spec 2.1).
  if (send.next_hop.net() != identity_.nid.net() || send.next_hop.size != identity_.nid.size) {
    return refuse(
        failure(EAFNOSUPPORT, HealthStatus::kLocalError, FailureKind::kPeerNiAddressError));
  }
  const auto peer = find_or_create(send.next_hop, kPidLustre);
  peer->logic.own_the_set();
  if (peer->logic.may_dial(now)) {
    start_dial(*peer, effects);
  } else if (!peer->logic.job_running()) {
    return refuse(failure(peer->last_dial_error, HealthStatus::kRemoteError,
                          FailureKind::kPeerNiConnectError));
  }
  WaitingSend& waiting = peer->waiting.emplace_back();
  waiting.action = send;
  waiting.fragments.assign(send.payload.fragments.begin(), send.payload.fragments.end());
  waiting.action.payload.fragments = waiting.fragments;
  waiting.give_up = std::min(send.deadline, now + lnd_timeout());
}

void Ni::continue_job(const Nid& nid, Time now, Effects* effects) {
  const std::lock_guard lock(mutex_);
  PeerLink* const peer = find(nid, kPidLustre);
  if (stopping_ || peer == nullptr || !peer->logic.owns_set() || !peer->logic.may_dial(now)) return;
  if (nid.size != identity_.nid.size) return;
  start_dial(*peer, effects);
}

void Ni::start_dial(PeerLink& peer, Effects* effects) {
  const ConnType type = peer.logic.begin_dial();
  counters_.add(Counter::kConnects);
  effects->dials.push_back({peer.shared_from_this(), type});
}

void Ni::fail_waiting(PeerLink& peer, const Completion& completion, Effects* effects) {
  for (const WaitingSend& waiting : peer.waiting) {
    effects->completions.emplace_back(waiting.action.id, completion);
  }
  peer.waiting.clear();
}

// ---------------------------------------------------------------- connections

void Ni::attach(PeerLink& peer, const std::shared_ptr<IoConnection>& connection, ConnType type,
                bool active, Effects* effects) {
  peer.logic.add(connection->id(), type, active);
  peer.connections.push_back(connection);
  connection->set_peer(peer.shared_from_this(), type);
  peer.logic.settle();
  while (!peer.waiting.empty()) {
    const SendAction& send = peer.waiting.front().action;
    const auto id = peer.logic.choose(frame_bytes(send));
    if (!id) break;
    IoConnection* const chosen = peer.find(*id);
    queue(peer, *chosen, send);
    peer.waiting.pop_front();
    if (chosen != connection.get()) effects->flush.push_back(chosen->shared_from_this());
  }
  effects->flush.push_back(connection);
}

std::optional<PeerLogic::Admission> Ni::admit(const std::shared_ptr<IoConnection>& connection,
                                              const Incoming& incoming,
                                              std::span<const uint8_t> answer, Effects* effects) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return std::nullopt;
  const auto peer = find_or_create(incoming.peer.nid, incoming.peer.pid);
  const auto admission = peer->logic.judge_incoming(
      incoming.type, incoming.version, incoming.incarnation, incoming.from_nid_address);
  switch (admission) {
    case PeerLogic::Admission::kAccept:
      peer->logic.record(incoming.version, incoming.incarnation);
      connection->transmit().queue.push_bytes(answer);
      attach(*peer, connection, incoming.type, false, effects);
      counters_.add(Counter::kPassiveEstablished);
      break;
    case PeerLogic::Admission::kStale:
      counters_.add(Counter::kStaleConnections);
      peer->logic.forget_record();
      close_all(*peer, CloseReason::kStaleRefused, effects);
      break;
    case PeerLogic::Admission::kRace:
      counters_.add(Counter::kRacesWon);
      break;
    case PeerLogic::Admission::kDuplicate:
      break;
  }
  return admission;
}

bool Ni::finish_dial(const std::shared_ptr<IoConnection>& connection, uint32_t version,
                     uint64_t incarnation, bool refused, Time now, uint32_t random,
                     Effects* effects) {
  const std::lock_guard lock(mutex_);
  PeerLink& peer = *connection->peer();
  if (stopping_ || peer.retired) {
    peer.logic.cancel_job();
    return false;
  }
  using Result = PeerLogic::DialResult;
  if (refused) counters_.add(Counter::kRacesLost);
  if (peer.logic.is_stale(version, incarnation)) {
    counters_.add(Counter::kStaleConnections);
    peer.logic.forget_record();
    close_all(peer, CloseReason::kStaleRefused, effects);
    end_dial(peer, Result::kStale, connect_failure(EALREADY), now, random, effects);
    return false;
  }
  peer.logic.record(version, incarnation);
  if (refused) {
    end_dial(peer, Result::kRefused, connect_failure(EALREADY), now, random, effects);
    return false;
  }
  counters_.add(Counter::kActiveEstablished);
  attach(peer, connection, connection->type(), true, effects);
  end_dial(peer, Result::kOk, {}, now, random, effects);
  return true;
}

void Ni::fail_dial(PeerLink& peer, const Completion& completion, Time now, uint32_t random,
                   Effects* effects) {
  const std::lock_guard lock(mutex_);
  counters_.add(Counter::kConnectFailures);
  if (stopping_ || peer.retired) {
    peer.logic.cancel_job();
    return;
  }
  end_dial(peer, PeerLogic::DialResult::kFailed, completion, now, random, effects);
}

void Ni::end_dial(PeerLink& peer, PeerLogic::DialResult result, const Completion& completion,
                  Time now, uint32_t random, Effects* effects) {
  switch (peer.logic.handle_dialled(result, now, random)) {
    case PeerLogic::DialNext::kDialNext:
      start_dial(peer, effects);
      return;
    case PeerLogic::DialNext::kRetryAt:
      return;
    case PeerLogic::DialNext::kDone:
      // Nothing more is dialled: what found no connection until now never will.
      fail_waiting(peer, failure(EIO, HealthStatus::kRemoteError, FailureKind::kPeerNiConnectError),
                   effects);
      return;
    case PeerLogic::DialNext::kJobFailed:
      counters_.add(Counter::kReconnectBackoffs);
      if (completion.error != 0) peer.last_dial_error = completion.error;
      fail_waiting(peer, completion, effects);
      if (peer.connections.empty()) effects->down.push_back({peer.nid(), peer.last_heard()});
      return;
  }
}

// From here on none of them is chosen or counted, although each closes on its own loop a little
// later: a send that comes between waits for a new connection instead of failing with an old one.
void Ni::close_all(PeerLink& peer, CloseReason reason, Effects* effects) {
  for (const auto& connection : peer.connections) {
    peer.logic.remove(connection->id());
    effects->close.push_back({connection, reason});
  }
}

void Ni::remove(IoConnection& connection, CloseReason reason, const Completion& completion,
                Effects* effects) {
  const std::lock_guard lock(mutex_);
  PeerLink& peer = *connection.peer();
  Transmit& transmit = connection.transmit();
  transmit.closed = true;
  transmit.end = completion;
  std::vector<TransmitQueue::Abandoned> abandoned;
  if (!transmit.writing) transmit.queue.abandon_batch(&abandoned);
  transmit.queue.abandon_queued(&abandoned);
  for (const auto& each : abandoned) {
    Completion ended = completion;
    ended.nothing_posted = each.nothing_posted;
    effects->completions.emplace_back(each.id, ended);
  }
  peer.logic.remove(connection.id());
  std::erase_if(peer.connections, [&](const auto& each) { return each.get() == &connection; });
  if (is_failure(reason) && reason != CloseReason::kSibling)
    close_all(peer, CloseReason::kSibling, effects);
  if (!peer.connections.empty() || peer.logic.job_running()) return;
  fail_waiting(peer, failure(EIO, HealthStatus::kLocalError), effects);
  if (is_failure(reason) && !stopping_) effects->down.push_back({peer.nid(), peer.last_heard()});
}

// ---------------------------------------------------------------- upkeep

void Ni::expire(PeerLink& peer, Time now, Effects* effects) {
  const Completion late =
      failure(ETIMEDOUT, HealthStatus::kNetworkTimeout, FailureKind::kLocalNiSendTimeout);
  std::vector<SendId> expired;
  for (const auto& connection : peer.connections) {
    Transmit& transmit = connection->transmit();
    const uint64_t bytes = transmit.queue.expire(now, !transmit.writing, &expired);
    peer.logic.sub_pending(connection->id(), bytes);
  }
  std::erase_if(peer.waiting, [&](const WaitingSend& waiting) {
    if (waiting.give_up > now) return false;
    expired.push_back(waiting.action.id);
    return true;
  });
  counters_.add(Counter::kSendTimeouts, expired.size());
  for (const SendId id : expired) effects->completions.emplace_back(id, late);
}

// A word to a peer that has been silent, so that it and the network between see that we live
// (spec 3.6).
void Ni::keep_alive(PeerLink& peer, Time now, Effects* effects) {
  if (tunables().keepalive_s <= 0 || peer.connections.empty()) return;
  if (now - peer.last_heard() < std::chrono::seconds(tunables().keepalive_s)) return;
  if (peer.last_keepalive != Time::min() && now - peer.last_keepalive < kKeepaliveRepeat) return;
  const auto id = peer.logic.choose_for_keepalive();
  if (!id) return;
  IoConnection* const connection = peer.find(*id);
  Transmit& transmit = connection->transmit();
  if (transmit.writing || !transmit.queue.empty()) return;
  peer.last_keepalive = now;
  transmit.queue.push_noop(0, kKeepaliveCookie);
  counters_.add(Counter::kKeepalivesSent);
  effects->flush.push_back(connection->shared_from_this());
}

void Ni::scan(Time now, Effects* effects) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  for (auto it = peers_.begin(); it != peers_.end();) {
    PeerLink& peer = *it->second;
    expire(peer, now, effects);
    // Without a message or a connection there is nothing left to dial for.
    const bool pointless = peer.waiting.empty() && peer.connections.empty();
    if (pointless && peer.logic.retry_at() != kNever) peer.logic.cancel_job();
    peer.logic.settle();
    if (peer.logic.retry_at() <= now && peer.logic.may_dial(now)) start_dial(peer, effects);
    keep_alive(peer, now, effects);
    const bool idle = peer.connections.empty() && peer.waiting.empty() &&
                      !peer.logic.job_running() && now >= peer.logic.not_before();
    it = idle ? peers_.erase(it) : std::next(it);
  }
}

void Ni::stop(Effects* effects) {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (auto& [key, peer] : peers_) fail_waiting(*peer, shutdown_completion(), effects);
}

// The peers are forgotten at once: a send that follows begins anew, whatever the old connections
// still do.
void Ni::close_peer(const Nid& nid, Effects* effects) {
  const std::lock_guard lock(mutex_);
  std::erase_if(peers_, [&](const auto& entry) {
    if (entry.first.nid != nid) return false;
    PeerLink& peer = *entry.second;
    peer.retired = true;
    fail_waiting(peer, failure(ENETDOWN, HealthStatus::kRemoteDropped), effects);
    close_all(peer, CloseReason::kClosedByNode, effects);
    return true;
  });
}

void Ni::close_all_peers(CloseReason reason, Effects* effects) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, peer] : peers_) close_all(*peer, reason, effects);
}

std::vector<std::shared_ptr<IoConnection>> Ni::connections(const Nid& nid) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<IoConnection>> all;
  for (const auto& [key, peer] : peers_) {
    if (key.nid == nid) all.insert(all.end(), peer->connections.begin(), peer->connections.end());
  }
  return all;
}

bool Ni::running() const {
  const std::lock_guard lock(mutex_);
  return !stopping_;
}

}  // namespace ulnet::tcp
