// Health of local NIs and peer NIs: who loses for a failed attempt, who gains by a success.
//
// A value runs from 0 to 1000; a failure takes what a success gives back, the sensitivity. It ranks
// NIs in path selection and decides who is pinged for recovery; it never forbids anything. A local
// NI at 0 is published as DOWN, from then on until it is back at 1000.
//
// Source: spec lnet-core 7.1 to 7.5; decisions D1, D3.
#pragma once

#include <functional>

#include "lnet/core/state.h"

namespace ulnet::core {

enum class Blame : uint8_t { kNobody, kLocal, kRemote, kBoth };
// Whom a status blames (the table of 7.2).
Blame blame_of(HealthStatus status);

class Health {
 public:
  // Told of every NI whose health has fallen, so that it is pinged until it is well.
  using Sick = std::function<void(Ni&)>;
  using SickPeer = std::function<void(PeerNi&)>;

  explicit Health(State& state) : state_(state) {}
  void set_sick(Sick ni, SickPeer peer_ni) {
    sick_ = std::move(ni);
    sick_peer_ = std::move(peer_ni);
  }

  // An attempt to send, or a receive, ended with a failure. Counts it, too. A completion whose
  // errno and status disagree is nobody's fault, nor is one of a NI that has been removed.
  // `peer_ni`: nullptr when that is gone.
  void attempt_failed(Ni& ni, PeerNi* peer_ni, const Completion& completion);
  // A message left by `ni`.
  void sent(Ni& ni) { raise(ni); }
  // A message came in by `ni` from `peer_ni`.
  void received(Ni& ni, PeerNi& peer_ni);
  // Something came from it, wanted or not: it is there, and pinged for recovery from now on.
  void heard(PeerNi& peer_ni) {
    peer_ni.recovery_pings = 0;
    if (peer_ni.health < kHealthMax) sick_peer_(peer_ni);
  }
  // No response came to a request that went to `next_hop` (7.3).
  void response_lost(PeerNi& next_hop);
  // Its own node says that it is down (7.3).
  void reported_down(PeerNi& peer_ni) { lower(peer_ni); }

  // A local NI's own recovery ping was sent, or answered.
  void raise(Ni& ni);

  // By hand. REQUIRES: 0 <= health <= kHealthMax.
  void set(Ni& ni, int32_t health);
  void set(PeerNi& peer_ni, int32_t health);

  // What a failure takes and a success gives: the NI's own, else its net's, else the global
  // sensitivity; of a peer NI the peer's, else that of the local net it is on (decisions D3).
  int32_t sensitivity(const Ni& ni) const;
  int32_t sensitivity(const PeerNi& peer_ni) const;

 private:
  void lower(Ni& ni);
  void lower(PeerNi& peer_ni);
  // A single-rail peer's health tells nothing: there is nobody to prefer to it (7.2, (R)).
  bool remote_health_counts(const PeerNi& peer_ni) const;

  State& state_;
  Sick sick_;
  SickPeer sick_peer_;
};

}  // namespace ulnet::core
