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

void Health::received(Ni& ni, PeerNi& peer_ni) {
  raise(ni);
  ni.recovery_pings = 0;
  if (ni.health < kHealthMax) sick_(ni);
  peer_ni.recovery_pings = 0;
  peer_ni.health = std::min(kHealthMax, peer_ni.health + state_.global.health_sensitivity);
  if (peer_ni.health < kHealthMax) sick_peer_(peer_ni);
}

void Health::raise(Ni& ni) {
  ni.health = std::min(kHealthMax, ni.health + state_.global.health_sensitivity);
}

void Health::lower(Ni& ni) {
  ni.health = std::max(0, ni.health - state_.global.health_sensitivity);
  if (ni.health < kHealthMax) sick_(ni);
}

void Health::lower(PeerNi& peer_ni) {
  peer_ni.health = std::max(0, peer_ni.health - state_.global.health_sensitivity);
  if (peer_ni.health < kHealthMax) sick_peer_(peer_ni);
}

}  // namespace ulnet::core
