// Which local NI and which next hop a message takes. The one place that decides it.
//
//   source     dst     peer         local NI                       peer NI            dest_nid
//   ---------  ------  -----------  -----------------------------  -----------------  -------------
//   given      local   any          the source                     dst                dst
//   wildcard   local   single-rail  the peer NI's preferred NI,    dst                dst
//                                   else the best on its net
//   wildcard   local   any, pinned  the best on its net            dst                dst
//   wildcard   any     multi-rail   the best on the best net that  the best on that   that peer NI
//                                   both ends are on               net
//
// A response has its source given: the NI that its request came in by. "Best" is in the order of
// the fields of PairRank, NiRank and PeerNiRank in the .cc: a field is looked at only among equals
// in all before it. Health ranks and never forbids: with nothing better, the
// worst is used.
//
// Spreading: each choice gives the net, the NI and the peer NI it takes the highest sequence, and
// the lowest sequence is taken next. So equals take turns, and whatever is unusable has no turn
// that a neighbour could inherit (decisions D6); a new one has its first turn at once, and no
// arrears.
//
// Source: spec lnet-core 6; decisions D2, D6.
#pragma once

#include "lnet/core/state.h"

namespace ulnet::core {

struct PathRequest {
  Nid dest;
  Nid source;  // wildcard: choose
  // Who `dest` is, where the caller has just seen: the last hop of the request that is answered, or
  // whom discovery knows. Looked up when it is nullptr or another.
  PeerNi* likely_dest = nullptr;
  // Of an ACK or REPLY: the NI the request came in by, from which the answer goes back.
  const Ni* response_ni = nullptr;
  bool reserved_portal = false;
  bool pinned = false;                 // to exactly `dest`, also if that is a NID of ours
  NumaNode memory_node = kNoNumaNode;  // where the payload is
  // Of a resend (decisions D2): avoided while another is usable; kept while as healthy as any.
  // Counts only where there is a choice.
  const Ni* avoid_ni = nullptr;
  const Ni* keep_ni = nullptr;
  const PeerNi* avoid_peer_ni = nullptr;
  const PeerNi* keep_peer_ni = nullptr;

  bool is_response() const { return response_ni != nullptr; }
};

struct Path {
  NiId ni = kLoopbackNi;
  PeerNiId next_hop = 0;  // 0: loopback
  Nid final_dest;
};

// Errors: EINVAL the source is no NID of ours; EHOSTUNREACH no local NI or no route. May create the
// peer; counts the choice for round robin.
Result<Path> select_path(State& state, const PathRequest& request);

// Of a resend: whether select_path() would take it past one of the halves it avoids, by an NI that
// is not fatal. What is fixed (a given source, a response, a single-rail peer's NIs) cannot be
// avoided.
bool has_other_way(State& state, const PathRequest& request);

// The peer NI with this NID; made when unknown. nullptr when `by_traffic` and the limit of such
// peers is reached.
PeerNi* find_or_create_peer_ni(State& state, const Nid& nid, bool by_traffic);

}  // namespace ulnet::core
