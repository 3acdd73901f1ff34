#include "lnet/core/discovery.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ulnet::core {
namespace {

constexpr uint32_t kBadAnswersMax = 3;
// No info that a node may send is longer: its limit of NIDs, all of them large.
constexpr uint32_t kInfoBytesMax = 64 * 1024;

constexpr uint32_t kKnown = kPeerDiscovered | kPeerNidsCurrent;

}  // namespace

// ---------------------------------------------------------------- what starts it

bool Discovery::takes_part(const Peer& peer) const {
  return state_.global.discovery && peer.is_multi_rail() && !peer.is(kPeerNoDiscovery);
}

bool Discovery::needs_push(const Peer& peer) const {
  if (!peer.is_multi_rail() || peer.discovery.push_again.is_set()) return false;
  if (peer.is(kPeerForcePush)) return true;
  return takes_part(peer) && peer.discovery.acked_sequence < state_.info_sequence;
}

bool Discovery::is_up_to_date(const Peer& peer) const {
  return (peer.state & (kKnown | kPeerDiscovering | kPeerForcePing | kPeerForcePush |
                        kPeerRediscover)) == kKnown &&
         !needs_push(peer);
}

// A peer that was discovered once is known well enough while it is only told something.
bool Discovery::must_wait(Peer& peer) {
  if (is_up_to_date(peer)) return false;
  state_.peers.forget_traffic(peer);
  if (!peer.is(kPeerDiscovering)) begin(peer);
  return (peer.state & (kKnown | kPeerRediscover)) != kKnown;
}

void Discovery::start(Peer& peer, bool force, const DiscoveryWaiter& waiter) {
  state_.peers.forget_traffic(peer);
  if (waiter.handler != nullptr) peer.discovery.waiters.push_back(waiter);
  if (force) {
    peer.set(kPeerForcePing);
    if (state_.global.discovery) peer.set(kPeerForcePush);
  }
  begin(peer);
}

void Discovery::ask(Peer& peer, const Nid& nid) {
  peer.discovery.asked = nid;
  if (!peer.discovery.ask_again.is_set()) ask_now(peer);
}

void Discovery::ask_now(Peer& peer) {
  PeerDiscovery& known = peer.discovery;
  known.ask_again.id = peer.id;
  known.ask_again.kind = TimerKind::kAskAgain;
  state_.timers.set(known.ask_again, state_.now + state_.backoff(known.asks++));
  known.ask = known.asked;
  peer.set(kPeerForcePing);
  begin(peer);
}

void Discovery::ask_due(PeerId id) {
  Peer& peer = *state_.peers.find_peer(id);
  const PeerNi* asked = state_.peers.find(peer.discovery.asked);
  if (asked != nullptr && asked->peer == id) return ask_now(peer);
  peer.discovery.asked = Nid::any();
  peer.discovery.asks = 0;
}

void Discovery::announce() {
  for (const PeerId id : state_.peers.order()) {
    Peer& peer = state_.peers.peer(id);
    if (!peer.is(kPeerDiscovered) || !takes_part(peer)) continue;
    peer.set(kPeerForcePush);
    begin(peer);
  }
}

void Discovery::begin(Peer& peer) {
  if (state_.shutting_down) return;
  peer.set(kPeerDiscovering);
  enqueue(peer);
  for (const PeerId id : peer.discovery.aliases) {
    Peer* alias = state_.peers.find_peer(id);
    if (alias == nullptr || alias->discovery.name.is_any()) continue;
    alias->set(kPeerDiscovering);
    enqueue(*alias);
  }
}

void Discovery::enqueue(Peer& peer) {
  // Probes that end behind shut_down() start nothing new.
  if (state_.shutting_down || std::exchange(peer.discovery.queued, true)) return;
  work_.push_back(peer.id);
}

void Discovery::own_info_changed() {
  for (const PeerId id : state_.peers.order()) {
    Peer& peer = state_.peers.peer(id);
    if (peer.is(kPeerDiscovered) && needs_push(peer)) begin(peer);
  }
}

void Discovery::switched() {
  const bool on = state_.global.discovery;
  for (const PeerId id : state_.peers.order()) {
    Peer& peer = state_.peers.peer(id);
    if (!peer.is(kPeerDiscovered) && !membership_.is_live(peer)) continue;
    if (on) {
      peer.discovery.acked_sequence = 0;  // it has seen our info without the bit
      peer.set(kPeerForcePing);
      begin(peer);
    } else if (peer.is_multi_rail()) {
      // Its last word with us as one node of several NIDs; see said_goodbye.
      peer.set(kPeerForcePush);
      begin(peer);
    }
  }
}

// ---------------------------------------------------------------- the work

void Discovery::run() {
  while (!work_.empty()) {
    Peer* peer = state_.peers.find_peer(work_.front());
    work_.pop_front();
    if (peer == nullptr) continue;
    peer->discovery.queued = false;
    step(*peer);
  }
}

void Discovery::step(Peer& peer) {
  if (std::exchange(peer.discovery.said_goodbye, false) && !state_.global.discovery) {
    // From now on either side knows the other by one NID.
    peer.set(kPeerNoDiscovery);
    membership_.reduce(peer);
  }
  if (peer.is(kPeerDataPresent)) return merge(peer);
  if (peer.is(kPeerPingFailed)) {
    // The application may have told us other NIDs of that node.
    if (peer.discovery.error != 0 && waits_for_alias(peer)) return;
    peer.clear(kPeerPingFailed);
    peer.set(kPeerForcePing);
    if (const int32_t error = std::exchange(peer.discovery.error, 0)) return finish(peer, error);
  }
  if (peer.is(kPeerForcePing) || !peer.is(kPeerNidsCurrent)) {
    if (!peer.is(kPeerPingSent)) ping(peer);
  } else if (needs_push(peer)) {
    if (!peer.is(kPeerPushSent)) push(peer);
  } else if (!peer.is(kPeerPingSent | kPeerPushSent)) {
    finish(peer, 0);
  }
}

bool Discovery::waits_for_alias(const Peer& peer) const {
  const std::vector<PeerId>& aliases = peer.discovery.aliases;
  return std::any_of(aliases.begin(), aliases.end(), [&](PeerId id) {
    const Peer* alias = state_.peers.find_peer(id);
    return alias != nullptr && alias->is(kPeerDiscovering) &&
           alias->discovery.name == peer.primary_nid;
  });
}

void Discovery::merge(Peer& peer) {
  const PingInfo info = std::move(*std::exchange(peer.discovery.info, std::nullopt));
  const Nid source = peer.discovery.info_source;
  const bool settled = std::exchange(peer.discovery.info_settled, false);
  peer.clear(kPeerDataPresent);
  peer.set(kPeerNidsCurrent);
  if (info.primary_nid().is_any()) return enqueue(peer);
  take_features(peer, info);
  const bool alone = !takes_part(peer);
  Peer* subject = alone || settled ? &peer : membership_.subject_of(peer, info, source);
  if (subject == nullptr || subject == &peer) {
    membership_.merge(peer, info, source, alone || subject == nullptr);
  } else {
    hand_over(peer, *subject, info, source);
  }
  // Behind the other, into which it may have been merged by then.
  enqueue(peer);
}

void Discovery::keep_info(Peer& peer, const PingInfo& info, const Nid& source, bool settled) {
  peer.discovery.info = info;
  peer.discovery.info_source = source;
  peer.discovery.info_settled = settled;
  peer.set(kPeerDataPresent);
}

void Discovery::hand_over(Peer& from, Peer& to, const PingInfo& info, const Nid& source) {
  if (to.is(kPeerDataPresent) && info.sequence <= to.discovery.info->sequence) return;
  keep_info(to, info, source, true);
  to.discovery.answer_local = std::exchange(from.discovery.answer_local, Nid::any());
  to.discovery.answer_remote = std::exchange(from.discovery.answer_remote, Nid::any());
  to.clear(kPeerNidsCurrent | kPeerForcePing | kPeerPingFailed);
  to.discovery.error = 0;
  withdraw_ping(to);
  begin(to);
}

// The rules of 4.10, steps 1 and 2.
void Discovery::take_features(Peer& peer, const PingInfo& info) {
  if ((info.features & kPingRoutingDisabled) != 0) {
    peer.clear(kPeerRouting);
  } else {
    peer.set(kPeerRouting);
  }
  const bool discovers = (info.features & kPingDiscovery) != 0 && state_.global.discovery;
  const bool multi_rail = (info.features & kPingMultiRail) != 0;
  if (discovers) {
    peer.clear(kPeerNoDiscovery);
  } else {
    peer.set(kPeerNoDiscovery);
  }
  if (peer.is(kPeerConfigured)) return;
  if (!discovers || !multi_rail) return membership_.reduce(peer);
  if (peer.is_multi_rail()) return;
  state_.peers.make_multi_rail(peer);
}

void Discovery::finish(Peer& peer, int32_t error) {
  peer.clear(kPeerDiscovering);
  peer.discovery.ask = Nid::any();
  if (error != 0) {
    peer.set(kPeerRediscover);
  } else {
    peer.clear(kPeerRediscover);
    peer.set(kPeerDiscovered);
  }
  if (!peer.discovery.name.is_any()) {
    // It stays a peer of its own; whoever hopes for it looks again.
    if (PeerNi* named = state_.peers.find(peer.discovery.name)) {
      Peer& other = state_.peers.peer(named->peer);
      if (error != 0 && other.is(kPeerDiscovered)) peer.set(kPeerBadConfig);
      if (other.is(kPeerDiscovering)) enqueue(other);
    }
  }
  end_waiters(peer, error);
  // Last: what goes on may start discoveries.
  sender_.end_waiting(std::exchange(peer.discovery.sends, {}), error);
}

void Discovery::end_waiters(Peer& peer, int32_t error) {
  for (const DiscoveryWaiter& waiter : std::exchange(peer.discovery.waiters, {})) {
    Event event;
    event.kind = EventKind::kUnlink;
    event.unlinked = true;
    event.status = -error;
    event.user_data = waiter.user_data;
    state_.handled_events.push_back({event, waiter.handler});
  }
}

// ---------------------------------------------------------------- pings

void Discovery::ping(Peer& peer) {
  Probe probe{.peer = peer.id, .bytes = std::vector<uint8_t>(peer.discovery.sink_bytes)};
  MdSpec md;
  md.fragments = {{probe.bytes.data(), probe.bytes.size()}};
  md.options = kMdTruncate | kMdTrackResponse;
  md.threshold = 2;
  const Result<MdHandle> handle = memory_.bind(md, MdOwner::kDiscovery);
  if (!handle) return finish(peer, handle.error().code());
  probes_.emplace(handle->value, std::move(probe));
  peer.discovery.ping = handle->value;
  peer.clear(kPeerForcePing);
  peer.set(kPeerPingSent);
  GetArgs get;
  get.md = *handle;
  get.match_bits = kPingMatchBits;
  const Nid ask = std::exchange(peer.discovery.ask, Nid::any());
  get.target = {ask.is_any() ? peer.primary_nid : ask, kPidLustre};
  const Status status = ask.is_any() ? requests_.get(get) : requests_.get_pinned(get);
  ULNET_ASSERT(status.is_ok(), "a GET into memory that was just bound");
}

// Their answers are not needed any more.
void Discovery::withdraw_ping(Peer& peer) {
  peer.clear(kPeerPingSent);
  withdraw(peer.discovery.ping);
}

void Discovery::withdraw_push(Peer& peer) {
  peer.clear(kPeerPushSent);
  withdraw(peer.discovery.push);
}

void Discovery::withdraw(MdId& probe) {
  const MdId md = std::exchange(probe, 0);
  if (md == 0) return;
  probes_.at(md).peer = 0;
  (void)memory_.unlink(MdHandle{md});
}

void Discovery::restart() {
  std::vector<PeerId> peers;
  for (const auto& [md, probe] : probes_) peers.push_back(probe.peer);
  for (const PeerId id : peers) {
    Peer* peer = state_.peers.find_peer(id);
    if (peer == nullptr) continue;
    if (peer->is(kPeerPingSent)) peer->set(kPeerForcePing);
    if (peer->is(kPeerPushSent)) peer->set(kPeerForcePush);
    withdraw_ping(*peer);
    withdraw_push(*peer);
    begin(*peer);
  }
}

void Discovery::take_answer(Peer& peer, const Event& event, std::span<const uint8_t> bytes) {
  PeerDiscovery& known = peer.discovery;
  const auto info = decode_ping_info(bytes, static_cast<uint32_t>(state_.global.max_interfaces));
  if (info) {
    known.bad_answers = 0;
    if (known.asked == event.source.nid) known.asked = Nid::any();
    known.answer_local = event.target.nid;
    known.answer_remote = event.source.nid;
    return keep_info(peer, *info, event.source.nid, false);
  }
  const uint32_t needed = info.error().needed_bytes;
  const bool grows = info.error().error == PingInfoError::kTruncated && needed > known.sink_bytes &&
                     needed <= kInfoBytesMax;
  if (grows) {
    known.sink_bytes = needed;
    ping_service_.grow_push_target(needed);
  } else if (++known.bad_answers >= kBadAnswersMax) {
    known.bad_answers = 0;
    known.error = EPROTO;
  }
  peer.set(kPeerPingFailed);
}

void Discovery::ping_ended(Peer& peer, const Probe& probe) {
  peer.discovery.ping = 0;
  peer.clear(kPeerPingSent);
  if (!probe.answered) {
    peer.discovery.error = probe.error;
    peer.set(kPeerPingFailed);
  }
}

// ---------------------------------------------------------------- pushes

void Discovery::push(Peer& peer) {
  Probe probe{.peer = peer.id, .is_push = true, .bytes = ping_service_.info()};
  MdSpec md;
  md.fragments = {{probe.bytes.data(), probe.bytes.size()}};
  md.options = kMdTrackResponse;
  md.threshold = 2;
  const Result<MdHandle> handle = memory_.bind(md, MdOwner::kDiscovery);
  if (!handle) return finish(peer, handle.error().code());
  probes_.emplace(handle->value, std::move(probe));
  PeerDiscovery& known = peer.discovery;
  known.push = handle->value;
  known.pushed_sequence = state_.info_sequence;
  peer.clear(kPeerForcePush);
  peer.set(kPeerPushSent);
  PutArgs put;
  put.md = *handle;
  put.match_bits = kPingMatchBits;
  put.target = {peer.primary_nid, kPidLustre};
  const Nid local = std::exchange(known.answer_local, Nid::any());
  const Nid remote = std::exchange(known.answer_remote, Nid::any());
  const PeerNi* peer_ni = remote.is_any() ? nullptr : state_.peers.find(remote);
  if (peer_ni != nullptr && peer_ni->peer == peer.id && state_.nets.is_local_nid(local)) {
    put.target.nid = remote;
    put.source = local;
  }
  const Status status = requests_.put(put);
  ULNET_ASSERT(status.is_ok(), "a PUT of memory that was just bound");
}

void Discovery::push_ended(Peer& peer, const Probe& probe) {
  PeerDiscovery& known = peer.discovery;
  known.push = 0;
  peer.clear(kPeerPushSent);
  if (probe.answered) {
    known.acked_sequence = known.pushed_sequence;
    known.pushes_failed = 0;
  } else {
    known.push_again.id = peer.id;
    known.push_again.kind = TimerKind::kPushAgain;
    state_.timers.set(known.push_again, state_.now + state_.backoff(known.pushes_failed++));
  }
  if (!state_.global.discovery && !peer.is(kPeerConfigured)) known.said_goodbye = true;
}

void Discovery::push_due(PeerId id) {
  if (Peer* peer = state_.peers.find_peer(id); peer != nullptr && needs_push(*peer)) begin(*peer);
}

void Discovery::handle_push(const Event& event, std::span<const uint8_t> bytes) {
  PeerNi* peer_ni = state_.peers.find(event.source.nid);
  if (peer_ni == nullptr) return;  // came through a router from somebody unknown
  Peer& peer = state_.peers.peer(peer_ni->peer);
  const auto info = decode_ping_info(bytes, static_cast<uint32_t>(state_.global.max_interfaces));
  if (event.status != 0 || !info) {
    const uint32_t needed = info ? 0 : info.error().needed_bytes;
    if (needed <= kInfoBytesMax) ping_service_.grow_push_target(needed);
    peer.clear(kPeerNidsCurrent);
    peer.set(kPeerForcePing);
    return begin(peer);
  }
  if ((info->features & kPingMultiRail) == 0) return;
  if (peer.is(kPeerDataPresent) && info->sequence <= peer.discovery.info->sequence) return;
  keep_info(peer, *info, event.source.nid, false);
  peer.clear(kPeerNidsCurrent);
  begin(peer);
}

// ---------------------------------------------------------------- events and ends

void Discovery::handle_event(const Md& md, const Event& event) {
  const auto found = probes_.find(md.id);
  ULNET_ASSERT(found != probes_.end(), "a probe that nobody sent");
  Probe& probe = found->second;
  Peer* peer = state_.peers.find_peer(probe.peer);
  const bool is_answer = event.kind == (probe.is_push ? EventKind::kAck : EventKind::kReply);
  if (event.status != 0) {
    probe.error = -event.status;
  } else if (is_answer) {
    probe.answered = true;
    if (peer != nullptr && !probe.is_push) {
      take_answer(*peer, event, std::span(probe.bytes).first(event.mlength));
      enqueue(*peer);
    }
  } else if (event.kind == EventKind::kUnlink) {
    probe.error = ETIMEDOUT;
  }
  if (!event.unlinked) return;
  if (peer != nullptr) {
    probe.is_push ? push_ended(*peer, probe) : ping_ended(*peer, probe);
    enqueue(*peer);
  }
  probes_.erase(found);
}

void Discovery::leaves(Peer& peer, Peer* heir) {
  withdraw_ping(peer);
  withdraw_push(peer);
  state_.timers.cancel(peer.discovery.push_again);
  state_.timers.cancel(peer.discovery.ask_again);
  const std::vector<uint64_t> sends = std::exchange(peer.discovery.sends, {});
  if (heir == nullptr) {
    sender_.reroute(sends);
    return end_waiters(peer, ECANCELED);
  }
  PeerDiscovery& to = heir->discovery;
  to.sends.insert(to.sends.end(), sends.begin(), sends.end());
  to.waiters.insert(to.waiters.end(), peer.discovery.waiters.begin(), peer.discovery.waiters.end());
  peer.discovery.waiters.clear();
  begin(*heir);
}

void Discovery::shut_down() {
  work_.clear();
  for (const PeerId id : state_.peers.order()) {
    Peer& peer = state_.peers.peer(id);
    peer.discovery.queued = false;
    state_.timers.cancel(peer.discovery.push_again);
    state_.timers.cancel(peer.discovery.ask_again);
    end_waiters(peer, ESHUTDOWN);
  }
}

}  // namespace ulnet::core
