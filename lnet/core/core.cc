#include "lnet/core/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::core {

Core::Core(const GlobalSettings& global, const LimitSettings& limits, uint64_t interface_cookie,
           uint64_t seed)
    : state_(global, limits, interface_cookie, seed),
      memory_(state_),
      health_(state_),
      sender_(state_, memory_, health_),
      receiver_(state_, memory_, sender_, health_),
      requests_(state_, memory_, sender_),
      recovery_(state_, memory_, requests_, health_),
      ping_(state_, memory_),
      membership_(state_, sender_, health_),
      discovery_(state_, memory_, requests_, sender_, membership_, ping_),
      ni_life_(state_, sender_, membership_) {
  memory_.set_internal_events(
      [this](const Md& md, const Event& event) { handle_event(md, event); });
  receiver_.set_push_taken([this] { ping_.post_push_target(); });
  health_.set_sick([this](Ni& ni) { recovery_.enter(ni); },
                   [this](PeerNi& peer_ni) { recovery_.enter(peer_ni); });
  state_.peers.set_enlisted(
      [this](PeerNi& ni, PeerNet& net) { state_.udsps.apply_to(ni, net, state_.nets); });
  sender_.set_peer_needed([this](Peer& peer) { return discovery_.must_wait(peer); });
  membership_.set_hooks(
      {.ask = [this](Peer& peer, const Nid& nid) { discovery_.ask(peer, nid); },
       .leaves = [this](Peer& peer, Peer* heir) { discovery_.leaves(peer, heir); }});
  ping_.rebuild();
  ping_.post_push_target();
}

void Core::settle() {
  // Only here, where nothing is half done: putting up a new ping info unlinks the old one.
  if (state_.ping_info_stale && !state_.shutting_down) ping_.refresh();
  do {
    while (discovery_.has_work() || sender_.has_rerouted()) {
      discovery_.run();
      sender_.run_rerouted();
    }
  } while (ni_life_.forget_unreachable_peers());
}

// Events of MDs that the core itself owns.
void Core::handle_event(const Md& md, const Event& event) {
  switch (md.owner) {
    case MdOwner::kRecovery:
      return recovery_.handle_event(md, event);
    case MdOwner::kDiscovery:
      return discovery_.handle_event(md, event);
    case MdOwner::kPushTarget:
      if (event.kind == EventKind::kPut) discovery_.handle_push(event, ping_.pushed(md, event));
      return ping_.handle_event(md, event);
    case MdOwner::kPingTarget:
      return ping_.handle_event(md, event);
    case MdOwner::kApplication:
      break;
  }
}

// ---------------------------------------------------------------- local side

Status Core::add_ni(Time now, NiId id, const NiSettings& settings, const NiStarted& started,
                    NumaNode node) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  Status status = ni_life_.add_ni(id, settings, started);
  if (status.is_ok()) {
    state_.nets.ni(id).numa_node = node;
    update_lnd_timeout(state_.nets.ni(id));
    apply_udsps();
    // Peer NIs that fell sick and then could not be reached by any NI of ours are pinged again.
    recovery_.settings_changed();
    own_info_changed();
  }
  settle();
  return status;
}

Status Core::remove_ni(Time now, NiId id) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  Status status = ni_life_.remove_ni(id);
  if (status.is_ok()) {
    apply_udsps();
    own_info_changed();
    discovery_.restart();
  }
  settle();
  return status;
}

void Core::handle_ni_fatal(Time now, NiId id, bool fatal, std::string_view reason) {
  Ni& ni = state_.nets.ni(id);
  ni.down_reason = fatal ? reason : std::string_view();
  if (ni.fatal == fatal) return;
  state_.now = now;
  ni.fatal = fatal;
  if (!ni.is_active()) return;
  ++ni.failure_kinds[static_cast<size_t>(fatal ? FailureKind::kLocalNiDown
                                               : FailureKind::kLocalNiUp)];
  own_info_changed();
  settle();
}

void Core::own_info_changed() {
  if (state_.shutting_down) return;
  ping_.rebuild();
  discovery_.own_info_changed();
}

// ---------------------------------------------------------------- peers

Status Core::configure_peer(Time now, const PeerSettings& peer) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  Status status = membership_.configure(peer);
  settle();
  return status;
}

Status Core::delete_peer(Time now, const Nid& primary, std::span<const Nid> nids, bool force) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  Status status = membership_.remove(primary, nids, force);
  settle();
  return status;
}

Status Core::add_peer(Time now, std::span<const Nid> nids) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  const Result<PeerId> peer = membership_.name(nids);
  if (!peer) return peer.error();
  if (state_.global.discovery) discovery_.start(state_.peers.peer(*peer), false, {});
  settle();
  return Status::ok();
}

Status Core::discover(Time now, const Nid& nid, bool force, EventHandler& handler,
                      void* user_data) {
  if (state_.shutting_down) return State::stopping();
  if (nid.is_any()) return {EINVAL, fmt::format("{} is no NID of a node", nid.to_string())};
  state_.now = now;
  if (state_.nets.is_local_nid(nid)) {
    Event event;
    event.unlinked = true;
    event.user_data = user_data;
    state_.handled_events.push_back({event, &handler});
    return Status::ok();
  }
  PeerNi* peer_ni = find_or_create_peer_ni(state_, nid, false);
  discovery_.start(state_.peers.peer(peer_ni->peer), force, {&handler, user_data});
  settle();
  return Status::ok();
}

Nid Core::primary_nid(const Nid& nid) const {
  if (nid.is_lo()) return nid;
  if (state_.nets.is_local_nid(nid)) return nids().front();
  return state_.peers.primary_of(nid);
}

// ---------------------------------------------------------------- selection policies

Status Core::add_udsp(const Udsp& udsp, std::optional<uint32_t> index) {
  if (state_.shutting_down) return State::stopping();
  Status status = state_.udsps.add(udsp, index);
  if (status.is_ok()) apply_udsps();
  return status;
}

Status Core::del_udsp(uint32_t index) {
  if (state_.shutting_down) return State::stopping();
  Status status = state_.udsps.del(index);
  if (status.is_ok()) apply_udsps();
  return status;
}

void Core::del_udsps() {
  state_.udsps.clear();
  apply_udsps();
}

// To everything there is. Peer NIs that come later are told as they come.
void Core::apply_udsps() {
  state_.udsps.apply_to(state_.nets);
  state_.udsps.apply_to(state_.peers, state_.nets);
}

// ---------------------------------------------------------------- memory

Result<MdHandle> Core::md_attach(Time now, MeHandle handle, const MdSpec& spec) {
  state_.now = now;
  const Me* me = state_.matches.find(handle.value);
  const uint32_t portal = me != nullptr ? me->spec.portal : 0;
  const Result<MdHandle> md = memory_.md_attach(handle, spec);
  if (md) receiver_.retry_parked(portal);
  settle();
  return md;
}

Result<MdHandle> Core::bind(const MdSpec& spec, NumaNode node) {
  const Result<MdHandle> md = memory_.bind(spec);
  if (md) state_.mds.at(md->value).numa_node = node;
  return md;
}

Status Core::set_lazy(Time now, uint32_t portal, bool lazy) {
  if (state_.shutting_down) return State::stopping();
  if (portal >= kPortals)
    return {EINVAL, fmt::format("portal {} is not in 0..{}", portal, kPortals - 1)};
  state_.now = now;
  state_.matches.set_lazy(portal, lazy);
  if (!lazy) receiver_.retry_parked(portal);
  settle();
  return Status::ok();
}

// ---------------------------------------------------------------- operations

Status Core::put(Time now, const PutArgs& args) {
  state_.now = now;
  Status status = requests_.put(args);
  settle();
  return status;
}

Status Core::get(Time now, const GetArgs& args) {
  state_.now = now;
  Status status = requests_.get(args);
  settle();
  return status;
}

// ---------------------------------------------------------------- faults

Status Core::add_fault(Time now, const FaultRule& rule) {
  if (state_.shutting_down) return State::stopping();
  return state_.faults.add(rule, now);
}

size_t Core::del_faults(Time now, FaultKind kind, const Nid& source, const Nid& dest) {
  state_.now = now;
  const size_t removed = state_.faults.remove(kind, source, dest);
  run_released();
  settle();
  return removed;
}

// What delay rules have let go of goes on, in their order.
void Core::run_released() {
  while (const std::optional<Delayed> message = state_.faults.pop_released()) {
    if (message->is_send) {
      sender_.delay_over(message->id);
    } else {
      receiver_.delay_over(message->id);
    }
  }
}

// ---------------------------------------------------------------- drivers

MessageVerdict Core::handle_message(Time now, const IncomingMessage& message) {
  state_.now = now;
  const MessageVerdict verdict = receiver_.handle_message(message);
  settle();
  return verdict;
}

void Core::handle_receive_done(Time now, ReceiveId id, const Completion& completion) {
  state_.now = now;
  receiver_.handle_receive_done(id, completion);
  settle();
}

void Core::handle_send_done(Time now, SendId id, const Completion& completion) {
  state_.now = now;
  sender_.handle_send_done(id, completion);
  settle();
}

void Core::handle_peer_down(Time now, NiId, const Nid& peer, Time last_heard) {
  state_.now = now;
  PeerNi* peer_ni = state_.peers.find(peer);
  // An old notification is overtaken by what was heard since.
  if (peer_ni != nullptr && (!peer_ni->heard || last_heard >= peer_ni->last_heard))
    peer_ni->up = false;
}

void Core::handle_timeout(Time now) {
  state_.now = now;
  while (const Timer* timer = state_.timers.pop_due(now)) {
    switch (timer->kind) {
      case TimerKind::kSendWaiting:
        sender_.waiting_expired(timer->id);
        break;
      case TimerKind::kResponse:
        ++state_.stats.response_timeout_count;
        if (const PeerNiId next_hop = memory_.response_expired(timer->id))
          if (PeerNi* peer_ni = state_.peers.find_ni(next_hop)) health_.response_lost(*peer_ni);
        break;
      case TimerKind::kHeld:
        receiver_.held_expired(timer->id);
        break;
      case TimerKind::kDelayRule:
        state_.faults.rule_due(timer->id, now);
        run_released();
        break;
      case TimerKind::kRecoverNi:
        recovery_.ni_due(static_cast<NiId>(timer->id));
        break;
      case TimerKind::kRecoverPeerNi:
        recovery_.peer_ni_due(timer->id);
        break;
      case TimerKind::kPushAgain:
        discovery_.push_due(timer->id);
        break;
      case TimerKind::kAskAgain:
        discovery_.ask_due(timer->id);
        break;
    }
    settle();
  }
}

void Core::shut_down(Time now) {
  if (state_.shutting_down) return;
  state_.now = now;
  state_.shutting_down = true;
  discovery_.shut_down();
  recovery_.shut_down();
  sender_.shut_down();
  receiver_.shut_down();
  memory_.shut_down();
}

}  // namespace ulnet::core
