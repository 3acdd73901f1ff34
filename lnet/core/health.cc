#include "lnet/core/health.h"

#include <algorithm>

namespace ulnet::core {

Blame blame_of(HealthStatus status) {
  switch (status) {
    case HealthStatus::kOk:
      return Blame::kNobody;
    case HealthStatus::kLocalInterrupt:
    case HealthStatus::kLocalDropped:
    case HealthStatus::kLocalAborted:
    case HealthStatus::kLocalNoRoute:
    case HealthStatus::kLocalError:
    case HealthStatus::kLocalTimeout:
      return Blame::kLocal;
    case HealthStatus::kRemoteError:
    case HealthStatus::kRemoteDropped:
    case HealthStatus::kRemoteTimeout:
      return Blame::kRemote;
    case HealthStatus::kNetworkTimeout:
      break;
  }
  return Blame::kBoth;
}

void Health::attempt_failed(Ni& ni, PeerNi* peer_ni, const Completion& completion) {
  if (completion.health == HealthStatus::kOk) return;
  if (!ni.is_active()) return;  // we have ended it ourselves, by taking the NI away
  const auto status = static_cast<size_t>(completion.health);
  const auto kind = static_cast<size_t>(completion.kind);
  ++state_.stats.health[status];
  ++ni.failures[status];
  ++ni.failure_kinds[kind];
  if (peer_ni != nullptr) {
    ++peer_ni->failures[status];
    ++peer_ni->failure_kinds[kind];
  }

  const Blame blame = blame_of(completion.health);
  if (blame == Blame::kLocal || blame == Blame::kBoth) lower(ni);
  if (blame == Blame::kRemote || blame == Blame::kBoth) {
    if (peer_ni != nullptr && remote_health_counts(*peer_ni)) lower(*peer_ni);
  }
}

void Health::response_lost(PeerNi& next_hop) {
  // One of our own NIDs, whose recovery ping went unanswered, is judged as a local NI only.
  if (!state_.nets.is_local_nid(next_hop.nid)) lower(next_hop);
}

bool Health::remote_health_counts(const PeerNi& peer_ni) const {
  if (state_.nets.is_local_nid(peer_ni.nid)) return false;
  return state_.peers.ni_count(peer_ni.peer) > 1;
}

int32_t Health::sensitivity(const Ni& ni) const {
  if (ni.health_sensitivity) return *ni.health_sensitivity;
  return ni.tunables.health_sensitivity.value_or(state_.global.health_sensitivity);
}

int32_t Health::sensitivity(const PeerNi& peer_ni) const {
  const Peer& peer = state_.peers.peer(peer_ni.peer);
  if (peer.health_sensitivity) return *peer.health_sensitivity;
  const std::vector<NiId>& nis = state_.nets.nis_of(peer_ni.nid.net());
  if (nis.empty()) return state_.global.health_sensitivity;
  const NetTunables& net = state_.nets.ni(nis.front()).tunables;
  return net.health_sensitivity.value_or(state_.global.health_sensitivity);
}

void Health::received(Ni& ni, PeerNi& peer_ni) {
  raise(ni);
  ni.recovery_pings = 0;
  if (ni.health < kHealthMax) sick_(ni);
  if (peer_ni.health < kHealthMax)
    set(peer_ni, std::min(kHealthMax, peer_ni.health + sensitivity(peer_ni)));
}

void Health::raise(Ni& ni) {
  if (ni.health < kHealthMax) set(ni, std::min(kHealthMax, ni.health + sensitivity(ni)));
}

void Health::lower(Ni& ni) {
  set(ni, std::max(0, ni.health - sensitivity(ni)));
}

void Health::lower(PeerNi& peer_ni) {
  set(peer_ni, std::max(0, peer_ni.health - sensitivity(peer_ni)));
}

void Health::set(Ni& ni, int32_t health) {
  ni.health = health;
  const bool up = health == kHealthMax || (health > 0 && ni.published_up);
  if (up != ni.published_up) {
    ni.published_up = up;
    state_.ping_info_stale = true;
  }
  if (health < kHealthMax) sick_(ni);
}

void Health::set(PeerNi& peer_ni, int32_t health) {
  peer_ni.health = health;
  if (health < kHealthMax) sick_peer_(peer_ni);
}

}  // namespace ulnet::core
