// Which local NI and which next hop a message takes. The one place that decides it.
// Source: spec lnet-core 6.
#pragma once

#include "lnet/core/state.h"

namespace ulnet::core {

struct PathRequest {
  Nid dest;
  Nid source;  // wildcard: choose
  // Of an ACK or REPLY: the NI the request came in by, from which the answer goes back; and who it
  // came from last (nullptr: loopback).
  const Ni* response_ni = nullptr;
  PeerNi* response_sender = nullptr;
  bool reserved_portal = false;
  bool pinned = false;  // to exactly `dest`, also if that is a NID of ours
  // Of a resend (decisions D2): avoided while another is usable; kept while as good as any. 0@lo
  // and 0 name nobody.
  NiId avoid_ni = kLoopbackNi;
  NiId keep_ni = kLoopbackNi;
  PeerNiId avoid_peer_ni = 0;
  PeerNiId keep_peer_ni = 0;

  bool is_response() const { return response_ni != nullptr; }
};

struct Path {
  NiId ni = kLoopbackNi;
  PeerNiId next_hop = 0;  // 0: loopback
  Nid final_dest;
};

// Errors: EINVAL the source is no NID of ours; EHOSTUNREACH no local NI or no route; ENOMEM too
// many peers. May create the peer; counts the choice for round robin.
Result<Path> select_path(State& state, const PathRequest& request);

// Whether a message that goes as `request` says has another way than by these two: what is fixed
// (a given source, a response, a single-rail peer) has none.
struct Alternatives {
  bool ni = false;
  bool peer_ni = false;
};
Alternatives find_alternatives(State& state, const PathRequest& request, NiId ni, PeerNiId peer_ni);

// The NI of `net` that is best for a peer NI of `dest`'s address family, or nullptr (6.5).
Ni* best_local_ni(State& state, NetId net, const Nid& dest);

// The peer NI with this NID; made when unknown. nullptr when `by_traffic` and the limit of such
// peers is reached.
PeerNi* find_or_create_peer_ni(State& state, const Nid& nid, bool by_traffic);

}  // namespace ulnet::core
