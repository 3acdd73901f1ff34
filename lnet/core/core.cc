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
      ping_(state_, memory_) {
  memory_.set_internal_events(
      [this](const Md& md, const Event& event) { handle_event(md, event); });
  receiver_.set_push_taken([this] { ping_.post_push_target(); });
  health_.set_sick([this](Ni& ni) { recovery_.enter(ni); },
                   [this](PeerNi& peer_ni) { recovery_.enter(peer_ni); });
  ping_.rebuild();
  ping_.post_push_target();
}

// Events of MDs that the core itself owns.
void Core::handle_event(const Md& md, const Event& event) {
  if (md.owner == MdOwner::kRecovery) {
    recovery_.handle_event(md, event);
  } else {
    ping_.handle_event(md, event);
  }
}

// ---------------------------------------------------------------- local side

Result<NiId> Core::add_ni(const NiSettings& settings, const NiStarted& started) {
  const Result<NiId> ni = state_.nets.add_ni(settings, started);
  if (ni) ping_.rebuild();
  return ni;
}

void Core::handle_ni_fatal(NiId id, bool fatal) {
  Ni& ni = state_.nets.ni(id);
  if (ni.fatal == fatal) return;
  ni.fatal = fatal;
  ++ni.failure_kinds[static_cast<size_t>(fatal ? FailureKind::kLocalNiDown
                                               : FailureKind::kLocalNiUp)];
  ping_.rebuild();
}

// ---------------------------------------------------------------- peers by hand

Status Core::add_peer(const PeerSettings& settings) {
  std::vector<Nid> nids = {settings.primary_nid};
  for (const Nid& nid : settings.nids) {
    if (nid != settings.primary_nid) nids.push_back(nid);
  }
  for (const Nid& nid : nids) {
    if (nid.is_any() || nid.is_lo())
      return {EINVAL, fmt::format("{} is no NID of a peer", nid.to_string())};
    if (const PeerNi* known = state_.peers.find(nid)) {
      return {EEXIST, fmt::format("{} belongs to peer {}", nid.to_string(),
                                  state_.peers.peer(known->peer).primary_nid.to_string())};
    }
  }
  const PeerId peer =
      state_.peers.create(nids.front(), state_.nets.peer_credits(nids.front().net()), false).peer;
  for (size_t i = 1; i < nids.size(); ++i) {
    state_.peers.add(peer, nids[i], state_.nets.peer_credits(nids[i].net()));
  }
  state_.peers.peer(peer).state = kPeerConfigured | (settings.multi_rail ? kPeerMultiRail : 0U);
  return Status::ok();
}

// ---------------------------------------------------------------- memory

Result<MdHandle> Core::md_attach(Time now, MeHandle handle, const MdSpec& spec) {
  state_.now = now;
  const Me* me = state_.matches.find(handle.value);
  const uint32_t portal = me != nullptr ? me->spec.portal : 0;
  const Result<MdHandle> md = memory_.md_attach(handle, spec);
  if (md) receiver_.retry_parked(portal);
  return md;
}

Status Core::set_lazy(Time now, uint32_t portal, bool lazy) {
  if (portal >= kPortals)
    return {EINVAL, fmt::format("portal {} is not in 0..{}", portal, kPortals - 1)};
  state_.now = now;
  state_.matches.set_lazy(portal, lazy);
  if (!lazy) receiver_.retry_parked(portal);
  return Status::ok();
}

// ---------------------------------------------------------------- operations

Status Core::put(Time now, const PutArgs& args) {
  state_.now = now;
  return requests_.put(args);
}

Status Core::get(Time now, const GetArgs& args) {
  state_.now = now;
  return requests_.get(args);
}

// ---------------------------------------------------------------- drivers

MessageVerdict Core::handle_message(Time now, const IncomingMessage& message) {
  state_.now = now;
  return receiver_.handle_message(message);
}

void Core::handle_receive_done(Time now, ReceiveId id, const Completion& completion) {
  state_.now = now;
  receiver_.handle_receive_done(id, completion);
}

void Core::handle_send_done(Time now, SendId id, const Completion& completion) {
  state_.now = now;
  sender_.handle_send_done(id, completion);
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
        if (const PeerNiId next_hop = memory_.response_expired(timer->id); next_hop != 0)
          health_.response_lost(state_.peers.ni(next_hop));
        break;
      case TimerKind::kParked:
        receiver_.parked_expired(timer->id);
        break;
      case TimerKind::kRecoverNi:
        recovery_.ni_due(static_cast<NiId>(timer->id));
        break;
      case TimerKind::kRecoverPeerNi:
        recovery_.peer_ni_due(timer->id);
        break;
    }
  }
}

void Core::shut_down(Time now) {
  if (state_.shutting_down) return;
  state_.now = now;
  state_.shutting_down = true;
  recovery_.shut_down();
  sender_.shut_down();
  receiver_.shut_down();
  memory_.shut_down();
}

}  // namespace ulnet::core
