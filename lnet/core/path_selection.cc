#include "lnet/core/path_selection.h"

#include <fmt/format.h>

#include <cerrno>
#include <tuple>

namespace ulnet::core {
namespace {

// Order of preference, smaller is better: fatal last, healthier, more free credits, longest unused.
std::tuple<bool, int32_t, int32_t, uint64_t> rank(const Ni& ni) {
  return {ni.fatal, -ni.health, -ni.tx_credits.available(), ni.sequence};
}

// A non-multi-rail peer sees one steady source NID: the first NI used with it stays its preferred
// one (5.4).
Ni* preferred_or_best_ni(State& state, PeerNi& peer_ni, const PathRequest& request) {
  if (peer_ni.preferred_ni != kLoopbackNi && !request.reserved_portal)
    return &state.nets.ni(peer_ni.preferred_ni);
  Ni* ni = best_local_ni(state, request.dest.net(), request.dest);
  const bool multi_rail = (state.peers.peer(peer_ni.peer).state & kPeerMultiRail) != 0;
  if (ni != nullptr && !multi_rail && !request.reserved_portal && !request.is_response())
    peer_ni.preferred_ni = ni->id;
  return ni;
}

Path commit(State& state, Ni& ni, PeerNi& peer_ni, const Nid& final_dest) {
  ++state.selections;
  ni.sequence = state.selections;
  peer_ni.sequence = state.selections;
  return Path{ni.id, peer_ni.id, final_dest};
}

}  // namespace

Ni* best_local_ni(State& state, NetId net, const Nid& dest) {
  Ni* best = nullptr;
  for (const NiId id : state.nets.nis_of(net)) {
    Ni& candidate = state.nets.ni(id);
    // A kernel pairs an IPv6 NI with an IPv4 NID and truncates its own; we never do (14.4 row 19).
    if (candidate.nid.is_ipv6() != dest.is_ipv6()) continue;
    if (best == nullptr || rank(candidate) < rank(*best)) best = &candidate;
  }
  return best;
}

PeerNi* find_or_create_peer_ni(State& state, const Nid& nid, bool by_traffic) {
  if (PeerNi* known = state.peers.find(nid); known != nullptr) return known;
  if (by_traffic &&
      state.peers.by_traffic_count() >= static_cast<size_t>(state.limits.peers_by_traffic_max)) {
    return nullptr;
  }
  const std::vector<NiId>& nis = state.nets.nis_of(nid.net());
  const int32_t credits = nis.empty() ? 0 : state.nets.ni(nis.front()).tunables.peer_credits;
  return &state.peers.create(nid, credits, by_traffic);
}

Result<Path> select_path(State& state, const PathRequest& request) {
  const Ni* source = request.response_ni;
  if (source == nullptr && !request.source.is_any()) {
    source = state.nets.find_ni(request.source);
    if (source == nullptr) {
      return fail(EINVAL,
                  fmt::format("source {} is no NID of this node", request.source.to_string()));
    }
  }
  if (request.dest.is_lo() || (!request.is_response() && state.nets.is_local_nid(request.dest))) {
    return Path{kLoopbackNi, 0, Nid::lo()};
  }
  const NetId net = request.dest.net();
  const bool local = source != nullptr ? source->nid.net() == net : state.nets.is_local_net(net);
  if (!local) {
    return fail(EHOSTUNREACH,
                fmt::format("no route to net {} of {}", net.to_string(), request.dest.to_string()));
  }
  const bool back_to_sender =
      request.response_sender != nullptr && request.response_sender->nid == request.dest;
  PeerNi* peer_ni =
      back_to_sender ? request.response_sender : find_or_create_peer_ni(state, request.dest, false);
  Ni* ni = source != nullptr ? &state.nets.ni(source->id)
                             : preferred_or_best_ni(state, *peer_ni, request);
  if (ni == nullptr) {
    return fail(
        EHOSTUNREACH,
        fmt::format("no NI on net {} that can reach {}: none has an {} address", net.to_string(),
                    request.dest.to_string(), request.dest.is_ipv6() ? "IPv6" : "IPv4"));
  }
  return commit(state, *ni, *peer_ni, request.dest);
}

}  // namespace ulnet::core
