// Messages on their way up: checks, fault rules, matching, lazy portals, the answers they cause.
// Source: spec lnet-core 3.5 to 3.8, 10.1, 14.1, 14.2.
#pragma once

#include <functional>
#include <optional>

#include "lnet/core/memory.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class Receiver {
 public:
  Receiver(State& state, Memory& memory, Sender& sender, Health& health)
      : state_(state), memory_(memory), sender_(sender), health_(health) {}

  // Called when a push took our push buffer, so that another is posted before the next message.
  void set_push_taken(std::function<void()> handle) { push_taken_ = std::move(handle); }

  MessageVerdict handle_message(const IncomingMessage& message);
  void handle_receive_done(ReceiveId id, const Completion& completion);

  // An MD was attached to this portal, or the portal is not lazy any more: messages that wait there
  // may go on.
  void retry_parked(uint32_t portal);
  // A delay rule lets go of a message.
  void delay_over(ReceiveId id);
  // A loopback message has waited, on its portal or delayed, for as long as its sender may take.
  void held_expired(ReceiveId id);
  void shut_down();

 private:
  // A message on its way through the checks.
  struct Arrival {
    const IncomingMessage& message;
    Ni& ni;
    PeerNi* sender;      // last hop; nullptr: loopback, or not known yet
    Nid source_primary;  // primary NID of the peer that owns the header's source NID
    ReceiveId held = 0;  // of a message that was delayed: the driver waits with its payload
    PeerNiId sender_id() const { return sender != nullptr ? sender->id : 0; }
  };

  // Fills in who sent it; or why such a message is dropped.
  std::optional<DropReason> identify_sender(Arrival& arrival);
  MessageVerdict accept(const Arrival& arrival);
  MessageVerdict handle_put(const Arrival& arrival, const PutPart& put);
  MessageVerdict handle_get(const Arrival& arrival, const GetPart& get);
  MessageVerdict handle_ack(const Arrival& arrival, const AckPart& ack);
  MessageVerdict handle_reply(const Arrival& arrival, const ReplyPart& reply);
  MessageVerdict park(const Arrival& arrival, uint32_t portal);
  MessageVerdict delay(const Arrival& arrival, FaultRuleId rule);

  MatchRequest match_request(const Header& header, const Nid& source_primary) const;
  Md* find_response_md(const Arrival& arrival, const WireHandle& handle, bool is_ack);
  // That of a delayed message is there already.
  ReceiveMessage& make_receive(const Arrival& arrival);
  // Ends a matched message that moves no byte; a held one ends with its driver's report.
  MessageVerdict finish_empty(const Arrival& arrival, ReceiveId id);
  // Starts the operation of a matched PUT.
  void begin_put(ReceiveMessage& receive, Md& md, const Fit& fit);
  void start_reply(const Arrival& arrival, const GetPart& get, Md& md, const Fit& fit);
  void send_ack(const ReceiveMessage& receive);
  Time loopback_bound(const Header& header) const;
  void bound_if_loopback(ReceiveMessage& receive);
  // The driver has it back, to throw it away.
  void reject(const ReceiveMessage& receive);
  void forget_parked(ReceiveMessage& receive, DropReason reason);
  void forget_delayed(ReceiveMessage& receive, DropReason reason);
  void count_received(NiId ni, PeerNiId sender, MessageType type, uint32_t payload_bytes);

  MessageVerdict drop(const Arrival& arrival, DropReason reason);
  void count_drop(NiId ni, PeerNi* sender, const Header& header, DropReason reason);
  Event describe(const Arrival& arrival) const;

  State& state_;
  Memory& memory_;
  Sender& sender_;
  Health& health_;
  std::function<void()> push_taken_;
};

}  // namespace ulnet::core
