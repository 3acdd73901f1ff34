#include "lnet/core/recovery.h"

#include <algorithm>
#include <utility>

#include "lnet/wire/ping_info.h"

namespace ulnet::core {

void Recovery::enter(Ni& ni) {
  if (ni.is_loopback() || !ni.is_active() || state_.shutting_down) return;
  if (health_.sensitivity(ni) == 0) return;
  ni.recovery.id = ni.id;
  ni.recovery.kind = TimerKind::kRecoverNi;
  plan(ni.recovery, ni.recovery_pings);
}

void Recovery::enter(PeerNi& peer_ni) {
  if (!may_ping(peer_ni) || state_.shutting_down) return;
  peer_ni.recovery.id = peer_ni.id;
  peer_ni.recovery.kind = TimerKind::kRecoverPeerNi;
  plan(peer_ni.recovery, peer_ni.recovery_pings);
}

void Recovery::plan(Timer& recovery, uint32_t pings) {
  // What is silent keeps its schedule; what was heard is pinged soon, not after the long interval
  // of its silence.
  if (recovery.is_set() && pings > 0) return;
  const Time when = state_.now + state_.backoff(pings);
  if (!recovery.is_set() || when < recovery.when) state_.timers.set(recovery, when);
}

bool Recovery::may_ping(const PeerNi& peer_ni) const {
  if (!peer_ni.heard || state_.nets.is_local_nid(peer_ni.nid)) return false;
  if (health_.sensitivity(peer_ni) == 0) return false;
  if (!state_.nets.is_local_net(peer_ni.nid.net())) return false;
  const int32_t limit = state_.global.recovery_limit_s;
  return limit == 0 || state_.now - peer_ni.last_heard <= std::chrono::seconds(limit);
}

void Recovery::bring_forward(Timer& recovery, uint32_t pings) {
  const Time latest = state_.now + state_.backoff(pings);
  if (recovery.when > latest) state_.timers.set(recovery, latest);
}

void Recovery::settings_changed() {
  for (NiId id = 0; id < state_.nets.ni_count(); ++id) {
    Ni& ni = state_.nets.ni(id);
    if (ni.recovery.is_set()) {
      bring_forward(ni.recovery, ni.recovery_pings);
    } else if (ni.health < kHealthMax) {
      enter(ni);
    }
  }
  state_.peers.nis().for_each([this](PeerNiId, PeerNi& peer_ni) {
    if (peer_ni.recovery.is_set()) {
      bring_forward(peer_ni.recovery, peer_ni.recovery_pings);
    } else if (peer_ni.health < kHealthMax) {
      enter(peer_ni);
    }
  });
}

void Recovery::ni_due(NiId id) {
  Ni& ni = state_.nets.ni(id);
  if (ni.health == kHealthMax || health_.sensitivity(ni) == 0) return;
  const Duration next = state_.backoff(++ni.recovery_pings);
  state_.timers.set(ni.recovery, state_.now + next);
  ping({.ni = id}, ni.recovery_ping, ni.nid, std::min(next, ni.lnd_timeout));
}

void Recovery::peer_ni_due(PeerNiId id) {
  PeerNi& peer_ni = state_.peers.ni(id);
  if (peer_ni.health == kHealthMax) return;
  if (!may_ping(peer_ni)) {
    peer_ni.recovery_pings = 0;  // ages out, until it is heard again
    return;
  }
  const Duration next = state_.backoff(++peer_ni.recovery_pings);
  state_.timers.set(peer_ni.recovery, state_.now + next);
  const NiId ni = state_.nets.nis_of(peer_ni.nid.net()).front();
  const Duration limit = std::min(next, state_.nets.ni(ni).lnd_timeout);
  ping({.peer_ni = id}, peer_ni.recovery_ping, peer_ni.nid, limit);
}

void Recovery::ping(Ping ping, MdId& slot, const Nid& nid, Duration limit) {
  // Still there is only one of a slower schedule, from before the NI was heard.
  if (const MdId old = std::exchange(slot, 0)) (void)memory_.unlink(MdHandle{old});
  ping.answer.resize(kPingBufferBytesMin);
  MdSpec md;
  md.fragments = {{ping.answer.data(), ping.answer.size()}};
  md.options = kMdTruncate | kMdTrackResponse;
  md.threshold = 2;
  GetArgs get;
  const Result<MdHandle> handle = memory_.bind(md, MdOwner::kRecovery);
  if (!handle) return;  // shutting down, or out of MDs: the next interval tries again
  ++state_.stats.recovery_pings;
  pings_.emplace(handle->value, std::move(ping));
  slot = handle->value;
  get.md = *handle;
  get.target = {nid, kPidLustre};
  get.match_bits = kPingMatchBits;
  get.timeout = std::max<Duration>(limit, std::chrono::milliseconds(1));
  const Status status = requests_.get_pinned(get);
  ULNET_ASSERT(status.is_ok(), "a GET into memory that was just bound");
}

void Recovery::handle_event(const Md& md, const Event& event) {
  const auto found = pings_.find(md.id);
  ULNET_ASSERT(found != pings_.end(), "a recovery ping that nobody sent");
  const Ping& ping = found->second;
  const bool succeeded =
      event.status == 0 && (event.kind == EventKind::kSend || event.kind == EventKind::kReply);
  if (ping.peer_ni == 0 && succeeded) health_.raise(state_.nets.ni(ping.ni));
  if (!event.unlinked) return;
  PeerNi* peer_ni = state_.peers.find_ni(ping.peer_ni);
  MdId* slot = ping.peer_ni == 0    ? &state_.nets.ni(ping.ni).recovery_ping
               : peer_ni != nullptr ? &peer_ni->recovery_ping
                                    : nullptr;
  if (slot != nullptr && *slot == md.id) *slot = 0;
  pings_.erase(found);
}

void Recovery::shut_down() {
  for (NiId id = 0; id < state_.nets.ni_count(); ++id) {
    state_.timers.cancel(state_.nets.ni(id).recovery);
  }
  state_.peers.nis().for_each(
      [this](PeerNiId, PeerNi& peer_ni) { state_.timers.cancel(peer_ni.recovery); });
}

}  // namespace ulnet::core
