// Discovery: finding out who a peer is, and telling it who we are.
//
// One peer at a time is looked at; the first line that applies is done, and it is looked at again:
//
//   - its ping info is here: merge it (membership.h);
//   - a ping of it failed: end with the error; after a bad answer ask again, at most 3 times;
//   - its NIDs are not current: ping it, wait;
//   - it lacks our latest info: push to it, wait for the ACK; a failed push is tried again later;
//   - nothing: end. It is known; what waited for it goes on.
//
// The work is done by run(), after the call that caused it: merging removes peer NIs, which the
// paths up and down would otherwise still hold.
//
// Source: spec lnet-core 4.5 to 4.12; decisions D6; cases DS-3, DS-4, DS-10.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "lnet/core/membership.h"
#include "lnet/core/memory.h"
#include "lnet/core/ping_service.h"
#include "lnet/core/requests.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class Discovery {
 public:
  Discovery(State& state, Memory& memory, Requests& requests, Sender& sender,
            Membership& membership, PingService& ping_service)
      : state_(state),
        memory_(memory),
        requests_(requests),
        sender_(sender),
        membership_(membership),
        ping_service_(ping_service) {}

  // A message of ours wants to go to it. True: it must wait until discovery is done, which is
  // started; false: go on.
  bool must_wait(Peer& peer);
  // Starts it unless the peer is up to date; `waiter` (its handler may be nullptr) hears of the
  // end. `force`: asks and tells it, whatever is known.
  void start(Peer& peer, bool force, const DiscoveryWaiter& waiter);
  // Asks exactly this NID of the peer who it is, again and again until it answers: with back-off,
  // so that conflicting claims make no storm of questions.
  void ask(Peer& peer, const Nid& nid);
  void ask_due(PeerId id);
  // A NI has gone, and with it perhaps the answers to what is under way: asks and tells again.
  void restart();
  // A status in our ping info has changed: tells every peer that knows us.
  void announce();

  // Of the MDs of its pings and pushes.
  void handle_event(const Md& md, const Event& event);
  // A push came in: `event` of kind PUT, and what is in the buffer.
  void handle_push(const Event& event, std::span<const uint8_t> bytes);
  // Our ping info has a new sequence number.
  void own_info_changed();
  // Discovery was switched on or off here; the ping info says so already.
  void switched();
  // A peer is about to go; what waits for it goes to `heir`, or starts again.
  void leaves(Peer& peer, Peer* heir);
  void push_due(PeerId id);

  bool has_work() const { return !work_.empty(); }
  void run();
  void shut_down();

 private:
  // A ping or push under way.
  struct Probe {
    PeerId peer = 0;
    bool is_push = false;
    std::vector<uint8_t> bytes;
    int32_t error = 0;
    bool answered = false;
  };

  bool is_up_to_date(const Peer& peer) const;
  bool needs_push(const Peer& peer) const;
  bool takes_part(const Peer& peer) const;
  void ask_now(Peer& peer);
  void enqueue(Peer& peer);
  void begin(Peer& peer);
  void step(Peer& peer);
  void merge(Peer& peer);
  // For the next step. `settled`: it is known to be about this peer.
  void keep_info(Peer& peer, const PingInfo& info, const Nid& source, bool settled);
  void hand_over(Peer& from, Peer& to, const PingInfo& info, const Nid& source);
  void ping(Peer& peer);
  void push(Peer& peer);
  void withdraw_ping(Peer& peer);
  void withdraw_push(Peer& peer);
  void withdraw(MdId& probe);
  void finish(Peer& peer, int32_t error);
  void end_waiters(Peer& peer, int32_t error);
  bool waits_for_alias(const Peer& peer) const;

  void take_answer(Peer& peer, const Event& event, std::span<const uint8_t> bytes);
  void take_features(Peer& peer, const PingInfo& info);
  void ping_ended(Peer& peer, const Probe& probe);
  void push_ended(Peer& peer, const Probe& probe);

  State& state_;
  Memory& memory_;
  Requests& requests_;
  Sender& sender_;
  Membership& membership_;
  PingService& ping_service_;
  std::map<MdId, Probe> probes_;
  std::deque<PeerId> work_;
};

}  // namespace ulnet::core
