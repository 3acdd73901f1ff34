// Recovery: sick NIs are pinged until they are well, at intervals that double up to a cap.
//
//   health falls ──enter──> WAITING ──due──> ping sent, WAITING for the next interval ──> ...
//                              └── well again at the due time ──> out
//
// A ping ends before the next one is due, answered or not, so that a silent peer does not stretch
// the schedule. Never pinged: a peer NI that was never heard of, or not for recovery_limit; and
// whoever has sensitivity 0, since no answer would make it any healthier.
// Source: spec lnet-core 7.6; decisions D3, D6.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lnet/core/health.h"
#include "lnet/core/requests.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class Recovery {
 public:
  Recovery(State& state, Memory& memory, Requests& requests, Health& health)
      : state_(state), memory_(memory), requests_(requests), health_(health) {}

  // Plans the next ping, if none is planned, or none that is early enough for an NI that was just
  // heard.
  void enter(Ni& ni);
  void enter(PeerNi& peer_ni);
  // After a change of settings, or of our NIs: whoever is sick and not pinged is, and nobody waits
  // longer than the cap of now.
  void settings_changed();
  void ni_due(NiId id);
  void peer_ni_due(PeerNiId id);
  // Of a recovery ping's MD.
  void handle_event(const Md& md, const Event& event);
  void shut_down();

 private:
  struct Ping {
    NiId ni = kLoopbackNi;  // being recovered; 0@lo: a peer NI is
    PeerNiId peer_ni = 0;
    std::vector<uint8_t> answer;  // its content is not looked at
  };
  void plan(Timer& recovery, uint32_t pings);
  bool may_ping(const PeerNi& peer_ni) const;
  // REQUIRES: it is set.
  void bring_forward(Timer& recovery, uint32_t pings);
  // `slot` names the ping on its way to this NI, if any: it is given up for the new one.
  void ping(Ping ping, MdId& slot, const Nid& nid, Duration limit);

  State& state_;
  Memory& memory_;
  Requests& requests_;
  Health& health_;
  std::map<MdId, Ping> pings_;
};

}  // namespace ulnet::core
