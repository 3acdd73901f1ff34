// Messages on their way down: path, credits, the driver's completion.
// Source: spec lnet-core 5.5, 7.2, 8.5, 10.1 (fault rules); decisions D1, D5.
#pragma once

#include <functional>
#include <vector>

#include "lnet/core/health.h"
#include "lnet/core/memory.h"
#include "lnet/core/path_selection.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class Sender {
 public:
  Sender(State& state, Memory& memory, Health& health)
      : state_(state), memory_(memory), health_(health) {}

  // A message to fill in and start: header.dest_nid, dest_pid, part, payload_bytes; md, payload,
  // event and awaits_response; source (wildcard: choose), or for a response is_response, ni and
  // next_hop (who the request came from).
  SendMessage& make();
  // Starts a message of make(); it may be gone on return. Ends exactly once: by an action and its
  // completion, or at once when there is no path. The MD's operation has begun already.
  // `response_deadline` bounds all attempts together; kNever, where no response is awaited: the
  // transaction timeout does.
  void start(SendMessage& message, Time response_deadline);

  // Told of a peer that a message waits for; the call answers whether it must wait.
  using PeerNeeded = std::function<bool(Peer&)>;
  void set_peer_needed(PeerNeeded needed) { peer_needed_ = std::move(needed); }
  // Messages that waited for a discovery go on, or fail with `error` (0: none).
  void end_waiting(const std::vector<SendId>& sends, int32_t error);
  // A peer NI is about to go: what waits for its credits finds another way at run_rerouted(); what
  // a driver has ends by its completion.
  void peer_ni_leaves(PeerNi& peer_ni);
  // The peer is about to go, or what is known of it is void: messages that wait for it start again.
  void reroute(const std::vector<SendId>& sends);
  bool has_rerouted() const { return !rerouted_.empty(); }
  void run_rerouted();

  void handle_send_done(SendId id, const Completion& completion);
  // The deadline of a message that waits for credits, or is delayed, passed.
  void waiting_expired(SendId id);

  // A delay rule lets go of a message.
  void delay_over(SendId id);

  // `ni` has been removed: what waits to leave by it takes another path, or fails, at
  // run_rerouted(). What its driver has ends by completions, and is sent again where that is safe.
  void leave_ni(NiId ni);

  // Completes what waits for credits, or is delayed, with ESHUTDOWN.
  void shut_down();

 private:
  // What path selection is to know of a message of ours.
  PathRequest request_of(const SendMessage& message) const;
  // Finds a path for an attempt and goes down it; or finishes the message.
  void attempt(SendMessage& message, PathRequest request);
  bool waits_for_discovery(SendMessage& message, PathRequest& request);
  void attempt_again(SendMessage& message);
  void set_path(SendMessage& message, const Path& path);
  std::vector<SendId> waiting_for(NiId ni) const;
  void remember_failure(SendMessage& message, HealthStatus health) const;
  // REQUIRES: remember_failure().
  bool may_resend(const SendMessage& message, const Completion& completion) const;
  void resend(SendMessage& message);
  void advance(SendMessage& message);
  bool take_peer_credit(SendMessage& message);
  bool take_ni_credit(SendMessage& message);
  bool may_go_on(SendMessage& message);
  bool next_hop_is_there(SendMessage& message);
  // REQUIRES (both): it has its credits. A fault rule may hold it instead, or fail it in a moment.
  void hand_to_driver(SendMessage& message);
  void hand_down(SendMessage& message);
  void withdraw(SendMessage& message);
  void finish(SendMessage& message, const Completion& completion);
  void count_sent(const SendMessage& message);
  void count_expired(const SendMessage& message);
  void release_credits(const SendMessage& message);
  void run_ready();
  void run_woken(SendId id);

  State& state_;
  Memory& memory_;
  Health& health_;
  // Woken by a credit, and failed by a drop rule: run one after another, so that they never nest.
  std::vector<SendId> ready_;
  std::vector<std::pair<SendId, HealthStatus>> failed_;
  bool running_ready_ = false;
  std::vector<SendId> rerouted_;
  PeerNeeded peer_needed_;
};

}  // namespace ulnet::core
