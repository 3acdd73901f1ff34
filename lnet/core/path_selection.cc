#include "lnet/core/path_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <tuple>

namespace ulnet::core {
namespace {

// ---------------------------------------------------------------- orders of preference
// The smaller is better; the order of the fields is the order of the criteria.

// 6.5, local NI. What just failed stands behind all that is usable, however ill that is; what did
// not fail stands before its equals in health (D2).
struct NiRank {
  bool fatal;
  bool just_failed;
  int32_t illness;
  bool leaves_kept;
  uint32_t priority;
  uint32_t numa_distance;
  int32_t credits_lacking;
  uint64_t sequence;
  auto operator<=>(const NiRank&) const = default;
};

// 6.5, peer NI for a local NI.
struct PeerNiRank {
  bool just_failed;
  int32_t illness;
  bool leaves_kept;
  uint32_t priority;
  bool source_not_preferred;
  int32_t credits_lacking;
  uint64_t sequence;
  auto operator<=>(const PeerNiRank&) const = default;
};

// 6.4, the best pair of one net against those of others; a net is as healthy as the best of its
// NIs, which is the one in the pair. Beside the spec's six criteria: a link that is down carries
// nothing, so a net with no other is the last choice even if its peer NIs are the healthiest (the
// spec counts it as local health 0 only; HL-10); and D2 as above.
//
// A net that both ends have IPv4 and IPv6 NIDs on is two nets side by side, since a kernel's habit
// of pairing an IPv6 NI with an IPv4 NID, with its own truncated, is not ours (14.4 row 19). Only
// these two, and nets that were never used, are equal up to the last field.
struct PairRank {
  bool fatal;
  int failed_halves;
  int32_t peer_illness;
  bool leaves_kept_peer_ni;
  uint32_t peer_priority;
  int32_t local_illness;
  bool leaves_kept_ni;
  uint32_t local_priority;
  uint64_t peer_sequence;
  uint64_t local_sequence;
  NiRank ni;
  auto operator<=>(const PairRank&) const = default;
};

// The candidate with the lowest rank; of equals the one that came first.
template <typename T, typename Rank>
class Best {
 public:
  void offer(const T& candidate, const Rank& rank) {
    if (any_ && !(rank < rank_)) return;
    any_ = true;
    found_ = candidate;
    rank_ = rank;
  }
  // A null T when nothing was offered.
  const T& found() const { return found_; }
  const Rank& rank() const { return rank_; }

 private:
  T found_ = {};
  Rank rank_ = {};
  bool any_ = false;
};

int32_t illness_of(int32_t health) {
  return kHealthMax - health;
}

NiRank rank_of(const State& state, const Ni& ni, const PathRequest& request) {
  const uint32_t distance = state.numa.between(request.memory_node, ni.numa_node);
  const auto near_enough = static_cast<uint32_t>(std::max(0, state.global.numa_range));
  return {.fatal = ni.fatal,
          .just_failed = &ni == request.avoid_ni,
          .illness = illness_of(ni.health),
          .leaves_kept = &ni != request.keep_ni,
          .priority = ni.priority,
          .numa_distance = std::max(distance, near_enough),
          .credits_lacking = -ni.tx_credits.available(),
          .sequence = ni.sequence};
}

bool prefers(const PeerNi& peer_ni, const Ni& ni) {
  const std::vector<NiId>& preferred = peer_ni.preferred_sources;
  return std::find(preferred.begin(), preferred.end(), ni.id) != preferred.end();
}

PeerNiRank rank_of(const State& state, const PeerNi& peer_ni, const Ni& ni,
                   const PathRequest& request) {
  return {.just_failed = &peer_ni == request.avoid_peer_ni,
          .illness = illness_of(peer_ni.health),
          .leaves_kept = &peer_ni != request.keep_peer_ni,
          .priority = peer_ni.priority,
          .source_not_preferred = state.udsps.empty() || !prefers(peer_ni, ni),
          .credits_lacking = -peer_ni.tx_credits.available(),
          .sequence = peer_ni.sequence};
}

// ---------------------------------------------------------------- the best (6.4, 6.5)

struct Choice {
  Ni* ni = nullptr;
  PeerNi* peer_ni = nullptr;
};

using BestNi = Best<Ni*, NiRank>;

// Of our NIs on `net` in one address family.
BestNi best_ni(State& state, const Net& net, bool ipv6, const PathRequest& request) {
  BestNi best;
  for (const NiId id : net.nis) {
    Ni& ni = state.nets.ni(id);
    if (ni.nid.is_ipv6() == ipv6) best.offer(&ni, rank_of(state, ni, request));
  }
  return best;
}

// A node that takes no part in discovery is one NID to everybody: that of its first healthy NI
// (DS-9).
Ni* first_healthy_ni(State& state, const Net& net, bool ipv6, const PathRequest& request) {
  Best<Ni*, std::tuple<bool, bool, int32_t>> best;
  for (const NiId id : net.nis) {
    Ni& ni = state.nets.ni(id);
    if (ni.nid.is_ipv6() == ipv6)
      best.offer(&ni, {ni.fatal, &ni == request.avoid_ni, illness_of(ni.health)});
  }
  return best.found();
}

// Of the peer's NIs on `net` in the address family of `ni`.
PeerNi* best_peer_ni(State& state, const PeerNet& net, const Ni& ni, const PathRequest& request) {
  Best<PeerNi*, PeerNiRank> best;
  for (const PeerNiId id : net.nis) {
    PeerNi& peer_ni = state.peers.ni(id);
    if (peer_ni.nid.is_ipv6() == ni.nid.is_ipv6() && !peer_ni.disowned)
      best.offer(&peer_ni, rank_of(state, peer_ni, ni, request));
  }
  return best.found();
}

PairRank rank_of(const Choice& pair, const NiRank& ni, const Net& local, const PeerNet& remote,
                 const PathRequest& request) {
  const PeerNi& peer_ni = *pair.peer_ni;
  return {.fatal = ni.fatal,
          .failed_halves = (ni.just_failed ? 1 : 0) + (&peer_ni == request.avoid_peer_ni ? 1 : 0),
          .peer_illness = illness_of(peer_ni.health),
          .leaves_kept_peer_ni = &peer_ni != request.keep_peer_ni,
          .peer_priority = remote.priority,
          .local_illness = ni.fatal ? kHealthMax : ni.illness,
          .leaves_kept_ni = ni.leaves_kept,
          .local_priority = local.priority,
          .peer_sequence = remote.sequence,
          .local_sequence = local.sequence,
          .ni = ni};
}

// Over all nets that both this node and the peer are on; nothing when there is none.
Choice best_pair(State& state, const Peer& peer, const PathRequest& request) {
  Best<Choice, PairRank> best;
  for (const PeerNet& remote : peer.nets) {
    const Net* local = state.nets.find_net(remote.net);
    if (local == nullptr) continue;
    state.peers.prefetch(remote);
    for (const bool ipv6 : {false, true}) {
      const BestNi ni = best_ni(state, *local, ipv6, request);
      if (ni.found() == nullptr) continue;
      const Choice pair{ni.found(), best_peer_ni(state, remote, *ni.found(), request)};
      if (pair.peer_ni == nullptr) continue;
      best.offer(pair, rank_of(pair, ni.rank(), *local, remote, request));
    }
  }
  return best.found();
}

// ---------------------------------------------------------------- the cases (6.3)

bool is_multi_rail(const State& state, const PeerNi& peer_ni) {
  return state.peers.peer(peer_ni.peer).is_multi_rail();
}

// The NI that the message must leave by, or nullptr: free.
Result<Ni*> fixed_source(State& state, const PathRequest& request) {
  if (request.is_response()) return &state.nets.ni(request.response_ni->id);
  if (request.source.is_any()) return nullptr;
  Ni* ni = state.nets.find_ni(request.source);
  if (ni != nullptr) return ni;
  return fail(EINVAL, fmt::format("source {} is no NID of this node", request.source.to_string()));
}

// The peer NI with the NID that was asked for; nullptr when it is not known.
PeerNi* find_dest(State& state, const PathRequest& request) {
  PeerNi* likely = request.likely_dest;
  return likely != nullptr && likely->nid == request.dest ? likely : state.peers.find(request.dest);
}

Failure no_route(const Nid& dest) {
  return fail(EHOSTUNREACH,
              fmt::format("no route to net {} of {}", dest.net().to_string(), dest.to_string()));
}

Failure no_ni_of_family(const Nid& dest) {
  return fail(EHOSTUNREACH, fmt::format("no NI on net {} that can reach {}: none has an {} address",
                                        dest.net().to_string(), dest.to_string(),
                                        dest.is_ipv6() ? "IPv6" : "IPv4"));
}

Failure families_differ(const Nid& source, const Nid& dest) {
  return fail(EHOSTUNREACH, fmt::format("source {} cannot reach {}: one is IPv4, the other IPv6",
                                        source.to_string(), dest.to_string()));
}

// To exactly the NID asked for; it may be unknown yet (`peer_ni` is nullptr).
Result<Choice> choose_for_one_nid(State& state, Ni* source, PeerNi* peer_ni,
                                  const PathRequest& request) {
  const Nid& dest = request.dest;
  const Net* net = state.nets.find_net(dest.net());
  if (net == nullptr || (source != nullptr && source->nid.net() != net->id)) return no_route(dest);
  if (source != nullptr) {
    // An answer goes back on the connection that its request has come by: a kernel asks an IPv6 NI
    // from its IPv4 NID (spec tcp-lnd 2.1, capture tcp46-mixed-to-v4only).
    if (!request.is_response() && source->nid.is_ipv6() != dest.is_ipv6())
      return families_differ(source->nid, dest);
    return Choice{source, peer_ni};
  }
  if (!request.pinned && peer_ni != nullptr && peer_ni->preferred_ni != kLoopbackNi)
    return Choice{&state.nets.ni(peer_ni->preferred_ni), peer_ni};
  Ni* best = request.pinned || state.global.discovery
                 ? best_ni(state, *net, dest.is_ipv6(), request).found()
                 : first_healthy_ni(state, *net, dest.is_ipv6(), request);
  if (best == nullptr) return no_ni_of_family(dest);
  return Choice{best, peer_ni};
}

Result<Choice> choose(State& state, const PathRequest& request) {
  const Result<Ni*> source = fixed_source(state, request);
  if (!source) return Failure(source.error());
  PeerNi* peer_ni = find_dest(state, request);
  const bool any_of_its_nids =
      *source == nullptr && !request.pinned && peer_ni != nullptr && is_multi_rail(state, *peer_ni);
  if (!any_of_its_nids) return choose_for_one_nid(state, *source, peer_ni, request);
  const Choice pair = best_pair(state, state.peers.peer(peer_ni->peer), request);
  if (pair.ni == nullptr) return no_route(request.dest);
  return pair;
}

bool goes_to_this_node(const State& state, const PathRequest& request) {
  if (request.dest.is_lo()) return true;
  return !request.is_response() && !request.pinned && state.nets.is_local_nid(request.dest);
}

// ---------------------------------------------------------------- commit (6.7)

// A single-rail peer takes each of our NIDs for a node of its own: it sees one, that of the first
// message (5.4).
void remember_source(State& state, const Ni& ni, PeerNi& peer_ni, const PathRequest& request) {
  if (peer_ni.preferred_ni != kLoopbackNi || request.is_response() || request.pinned) return;
  if (!is_multi_rail(state, peer_ni)) peer_ni.preferred_ni = ni.id;
}

Path commit(State& state, Ni& ni, PeerNi& peer_ni) {
  ++state.selections;
  ni.sequence = state.selections;
  state.nets.find_net(ni.nid.net())->sequence = state.selections;
  Peer& peer = state.peers.peer(peer_ni.peer);
  ++peer.sends;
  peer_ni.sequence = peer.sends;
  for (PeerNet& net : peer.nets) {
    if (net.net == peer_ni.nid.net()) net.sequence = peer.sends;
  }
  return Path{ni.id, peer_ni.id, peer_ni.nid};
}

}  // namespace

Result<Path> select_path(State& state, const PathRequest& request) {
  if (goes_to_this_node(state, request)) {
    const Result<Ni*> source = fixed_source(state, request);
    if (!source) return Failure(source.error());
    return Path{kLoopbackNi, 0, Nid::lo()};
  }
  const Result<Choice> choice = choose(state, request);
  if (!choice) return Failure(choice.error());
  PeerNi* peer_ni = choice->peer_ni;
  if (peer_ni == nullptr) peer_ni = find_or_create_peer_ni(state, request.dest, false);
  remember_source(state, *choice->ni, *peer_ni, request);
  return commit(state, *choice->ni, *peer_ni);
}

bool has_other_way(State& state, const PathRequest& request) {
  if (goes_to_this_node(state, request)) return false;
  const Result<Choice> choice = choose(state, request);
  if (!choice || choice->peer_ni == nullptr || choice->ni->fatal) return false;
  const bool other_ni = request.avoid_ni != nullptr && choice->ni != request.avoid_ni;
  const bool other_peer_ni =
      request.avoid_peer_ni != nullptr && choice->peer_ni != request.avoid_peer_ni;
  return other_ni || other_peer_ni;
}

PeerNi* find_or_create_peer_ni(State& state, const Nid& nid, bool by_traffic) {
  if (PeerNi* known = state.peers.find(nid); known != nullptr) return known;
  if (by_traffic &&
      state.peers.by_traffic_count() >= static_cast<size_t>(state.limits.peers_by_traffic_max)) {
    return nullptr;
  }
  return &state.peers.create(nid, state.nets.peer_credits(nid.net()), by_traffic);
}

}  // namespace ulnet::core
