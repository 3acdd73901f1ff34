#include "lnet/core/path_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

namespace ulnet::core {
namespace {

// ---------------------------------------------------------------- orders of preference
// Each is a tuple of which the smaller is better; a full tie leaves the earlier in the list.

// 6.5, local NI: not fatal, healthier, more credits, longest unused. A resend puts the NI that just
// failed behind every usable one, and the one that did not before its equals.
auto rank(const Ni& ni, const PathRequest& request) {
  return std::tuple(ni.fatal, ni.id == request.avoid_ni, -ni.health, ni.id != request.keep_ni,
                    -ni.tx_credits.available(), ni.sequence);
}

// 6.5, peer NI: healthier, more credits, longest unused; resends likewise.
auto rank(const PeerNi& peer_ni, const PathRequest& request) {
  return std::tuple(peer_ni.id == request.avoid_peer_ni, -peer_ni.health,
                    peer_ni.id != request.keep_peer_ni, -peer_ni.tx_credits.available(),
                    peer_ni.sequence);
}

template <typename T, typename Rank>
void keep_better(T*& best, T& candidate, Rank rank_of) {
  if (best == nullptr || rank_of(candidate) < rank_of(*best)) best = &candidate;
}

// ---------------------------------------------------------------- multi-rail (6.4, 6.5)

struct Pair {
  Ni* ni;
  PeerNi* peer_ni;
  PeerNet* net;
};

bool has_family(const State& state, const PeerNet& net, bool ipv6) {
  return std::any_of(net.nis.begin(), net.nis.end(), [&](PeerNiId id) {
    const PeerNi& peer_ni = state.peers.ni(id);
    return peer_ni.nid.is_ipv6() == ipv6 && !peer_ni.disowned;
  });
}

// The best pair on one net, or nothing: no NI of ours there, or none of the peer's address family.
std::optional<Pair> best_pair_on(State& state, PeerNet& net, const PathRequest& request) {
  Ni* ni = nullptr;
  for (const NiId id : state.nets.nis_of(net.net)) {
    Ni& candidate = state.nets.ni(id);
    // A kernel pairs an IPv6 NI with an IPv4 NID and truncates its own; we never do (14.4 row 19).
    if (!has_family(state, net, candidate.nid.is_ipv6())) continue;
    keep_better(ni, candidate, [&](const Ni& each) { return rank(each, request); });
  }
  if (ni == nullptr) return std::nullopt;
  PeerNi* peer_ni = nullptr;
  for (const PeerNiId id : net.nis) {
    PeerNi& candidate = state.peers.ni(id);
    if (candidate.nid.is_ipv6() != ni->nid.is_ipv6() || candidate.disowned) continue;
    keep_better(peer_ni, candidate, [&](const PeerNi& each) { return rank(each, request); });
  }
  if (peer_ni == nullptr) return std::nullopt;
  return Pair{ni, peer_ni, &net};
}

int32_t peer_net_health(const State& state, const PeerNet& net) {
  int32_t best = 0;
  for (const PeerNiId id : net.nis) best = std::max(best, state.peers.ni(id).health);
  return best;
}

// Best of the NIs that are not fatal; 0 if all are.
int32_t local_net_health(const State& state, NetId net) {
  int32_t best = 0;
  for (const NiId id : state.nets.nis_of(net)) {
    if (!state.nets.ni(id).fatal) best = std::max(best, state.nets.ni(id).health);
  }
  return best;
}

// 6.4: among the peer's nets that are local, too. A resend prefers a net where neither half is the
// one that just failed.
std::optional<Pair> best_pair(State& state, Peer& peer, const PathRequest& request) {
  std::optional<Pair> best;
  const auto rank_of = [&](const Pair& pair) {
    const int failed_halves = (pair.ni->id == request.avoid_ni ? 1 : 0) +
                              (pair.peer_ni->id == request.avoid_peer_ni ? 1 : 0);
    return std::tuple(pair.ni->fatal, failed_halves, -peer_net_health(state, *pair.net),
                      -local_net_health(state, pair.net->net), pair.net->sequence,
                      state.nets.sequence(pair.net->net));
  };
  for (PeerNet& net : peer.nets) {
    if (!state.nets.is_local_net(net.net)) continue;
    const std::optional<Pair> pair = best_pair_on(state, net, request);
    if (pair && (!best || rank_of(*pair) < rank_of(*best))) best = pair;
  }
  return best;
}

// ---------------------------------------------------------------- single-rail (6.3)

// Of the NIs that reach `dest`, the first in configuration order that is as healthy as any.
Ni* first_healthy_ni(State& state, const Nid& dest) {
  Ni* best = nullptr;
  for (const NiId id : state.nets.nis_of(dest.net())) {
    Ni& candidate = state.nets.ni(id);
    if (candidate.nid.is_ipv6() != dest.is_ipv6()) continue;
    keep_better(best, candidate, [](const Ni& ni) { return std::tuple(ni.fatal, -ni.health); });
  }
  return best;
}

// A non-multi-rail peer sees one steady source NID: the first NI used with it stays its preferred
// one (5.4), for pings, too. A node that takes no part in discovery is one NID to everybody: its
// first healthy one (DS-9).
Ni* preferred_or_best_ni(State& state, PeerNi& peer_ni, const PathRequest& request) {
  if (request.pinned) return best_local_ni(state, request.dest.net(), request.dest);
  if (peer_ni.preferred_ni != kLoopbackNi) return &state.nets.ni(peer_ni.preferred_ni);
  Ni* ni = state.global.discovery ? best_local_ni(state, request.dest.net(), request.dest)
                                  : first_healthy_ni(state, request.dest);
  const bool multi_rail = state.peers.peer(peer_ni.peer).is_multi_rail();
  if (ni != nullptr && !multi_rail && !request.is_response()) peer_ni.preferred_ni = ni->id;
  return ni;
}

// ---------------------------------------------------------------- commit (6.7)

Path commit(State& state, Ni& ni, PeerNi& peer_ni) {
  ++state.selections;
  ni.sequence = state.selections;
  state.nets.set_sequence(ni.nid.net(), state.selections);
  Peer& peer = state.peers.peer(peer_ni.peer);
  ++peer.sends;
  peer_ni.sequence = peer.sends;
  for (PeerNet& net : peer.nets) {
    if (net.net == peer_ni.nid.net()) net.sequence = peer.sends;
  }
  return Path{ni.id, peer_ni.id, peer_ni.nid};
}

Failure no_way(const PathRequest& request) {
  const NetId net = request.dest.net();
  return fail(EHOSTUNREACH,
              fmt::format("no route to net {} of {}", net.to_string(), request.dest.to_string()));
}

bool is_multi_rail(const State& state, const PeerNi& peer_ni, const PathRequest& request) {
  return state.peers.peer(peer_ni.peer).is_multi_rail() && !request.pinned;
}

}  // namespace

Ni* best_local_ni(State& state, NetId net, const Nid& dest) {
  Ni* best = nullptr;
  for (const NiId id : state.nets.nis_of(net)) {
    Ni& candidate = state.nets.ni(id);
    if (candidate.nid.is_ipv6() != dest.is_ipv6()) continue;
    keep_better(best, candidate, [](const Ni& each) { return rank(each, PathRequest{}); });
  }
  return best;
}

PeerNi* find_or_create_peer_ni(State& state, const Nid& nid, bool by_traffic) {
  if (PeerNi* known = state.peers.find(nid); known != nullptr) return known;
  if (by_traffic &&
      state.peers.by_traffic_count() >= static_cast<size_t>(state.limits.peers_by_traffic_max)) {
    return nullptr;
  }
  return &state.peers.create(nid, state.nets.peer_credits(nid.net()), by_traffic);
}

Alternatives find_alternatives(State& state, const PathRequest& request, NiId ni,
                               PeerNiId peer_ni) {
  Alternatives found;
  const PeerNi* dest = state.peers.find(request.dest);
  if (dest == nullptr || !request.source.is_any() || request.is_response() ||
      !is_multi_rail(state, *dest, request)) {
    return found;
  }
  for (const PeerNet& net : state.peers.peer(dest->peer).nets) {
    for (const NiId local : state.nets.nis_of(net.net)) {
      const Ni& candidate = state.nets.ni(local);
      if (!has_family(state, net, candidate.nid.is_ipv6())) continue;
      found.ni |= local != ni && !candidate.fatal;
      found.peer_ni |= std::any_of(net.nis.begin(), net.nis.end(),
                                   [&](PeerNiId remote) { return remote != peer_ni; });
    }
  }
  return found;
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
  const bool to_self =
      !request.is_response() && !request.pinned && state.nets.is_local_nid(request.dest);
  if (request.dest.is_lo() || to_self) return Path{kLoopbackNi, 0, Nid::lo()};

  const bool back_to_sender =
      request.response_sender != nullptr && request.response_sender->nid == request.dest;
  PeerNi* peer_ni = back_to_sender ? request.response_sender : state.peers.find(request.dest);
  if (source == nullptr && peer_ni != nullptr && is_multi_rail(state, *peer_ni, request)) {
    const std::optional<Pair> pair = best_pair(state, state.peers.peer(peer_ni->peer), request);
    if (!pair) return no_way(request);
    return commit(state, *pair->ni, *pair->peer_ni);
  }
  const NetId net = request.dest.net();
  const bool local = source != nullptr ? source->nid.net() == net : state.nets.is_local_net(net);
  if (!local) return no_way(request);
  if (peer_ni == nullptr) peer_ni = find_or_create_peer_ni(state, request.dest, false);
  Ni* ni = source != nullptr ? &state.nets.ni(source->id)
                             : preferred_or_best_ni(state, *peer_ni, request);
  if (ni == nullptr) {
    return fail(
        EHOSTUNREACH,
        fmt::format("no NI on net {} that can reach {}: none has an {} address", net.to_string(),
                    request.dest.to_string(), request.dest.is_ipv6() ? "IPv6" : "IPv4"));
  }
  return commit(state, *ni, *peer_ni);
}

}  // namespace ulnet::core
