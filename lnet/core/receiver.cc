#include "lnet/core/receiver.h"

#include <algorithm>
#include <cerrno>

#include "lnet/core/path_selection.h"

namespace ulnet::core {
namespace {

// `bytes` bytes of an MD from `offset` on.
PayloadView view_of(const Md& md, uint32_t offset, uint32_t bytes) {
  if (bytes == 0) return {};
  return PayloadView{md.fragments(), offset, bytes};
}

MessageVerdict protocol_error() {
  return {.kind = MessageVerdict::Kind::kProtocolError};
}

MessageVerdict receive_into(ReceiveId id, const PayloadView& into) {
  return {.kind = MessageVerdict::Kind::kReceive, .id = id, .into = into};
}

// Why a request that found no memory is dropped. REQUIRES: kind is not kMatched.
DropReason reason_of(MatchResult::Kind kind) {
  switch (kind) {
    case MatchResult::Kind::kTooLong:
      return DropReason::kTooLong;
    case MatchResult::Kind::kBadOffset:
      return DropReason::kBadOffset;
    case MatchResult::Kind::kNone:
    case MatchResult::Kind::kMatched:
      break;
  }
  return DropReason::kNoMatch;
}

}  // namespace

// The order of the checks is the kernel's (14.1).
MessageVerdict Receiver::handle_message(const IncomingMessage& message) {
  const Header& header = message.header;
  Ni& ni = state_.nets.ni(message.ni);
  Arrival arrival{message, ni, nullptr, header.source_nid};
  // Its driver was quicker than whoever starts the NI: the peer tries again.
  if (ni.state == NiState::kReserved) return protocol_error();
  if (state_.shutting_down) return drop(arrival, DropReason::kShutdown);
  // What answers a request of ours is still welcome; new ones would have no NI to be answered by.
  const MessageType type = header.type();
  const bool is_request = type == MessageType::kPut || type == MessageType::kGet;
  if (!ni.is_active() && is_request) return drop(arrival, DropReason::kShutdown);
  if (header.dest_nid != ni.nid) {
    if (header.dest_nid.net() == ni.nid.net() || state_.nets.is_local_nid(header.dest_nid))
      return protocol_error();
    return drop(arrival, DropReason::kNotRouting);
  }
  if (state_.faults.drops_received(header, ni.nid, state_.now))
    return drop(arrival, DropReason::kFaultRule);
  if (!ni.is_loopback()) {
    if (const auto refused = identify_sender(arrival)) return drop(arrival, *refused);
  }
  if (const FaultRuleId rule = state_.faults.find_delay(header, state_.now))
    return delay(arrival, rule);
  return accept(arrival);
}

std::optional<DropReason> Receiver::identify_sender(Arrival& arrival) {
  const Nid& source = arrival.message.header.source_nid;
  const Nid& last_hop = arrival.message.sender;
  if (source.is_any() || last_hop.is_any()) return DropReason::kSourceWildcard;
  if (source.is_lo()) return DropReason::kSourceLoopback;
  const bool direct = source == last_hop;
  if (!direct && state_.nets.is_local_nid(source) && !state_.nets.is_local_nid(last_hop))
    return DropReason::kSourceIsOwn;
  PeerNi* sender = find_or_create_peer_ni(state_, last_hop, true);
  if (sender == nullptr) return DropReason::kPeerLimit;
  sender->up = true;
  sender->last_heard = state_.now;
  if (!sender->heard) {
    sender->heard = true;
    if (sender->preferred_ni == kLoopbackNi && arrival.ni.is_active() &&
        !state_.peers.peer(sender->peer).is_multi_rail())
      sender->preferred_ni = arrival.message.ni;
  }
  health_.heard(*sender);
  arrival.sender = sender;
  arrival.source_primary =
      direct ? state_.peers.peer(sender->peer).primary_nid : state_.peers.primary_of(source);
  return std::nullopt;
}

MessageVerdict Receiver::accept(const Arrival& arrival) {
  const Header& header = arrival.message.header;
  switch (header.type()) {
    case MessageType::kAck:
      return handle_ack(arrival, std::get<AckPart>(header.part));
    case MessageType::kPut:
      return handle_put(arrival, std::get<PutPart>(header.part));
    case MessageType::kGet:
      return handle_get(arrival, std::get<GetPart>(header.part));
    case MessageType::kReply:
      return handle_reply(arrival, std::get<ReplyPart>(header.part));
    case MessageType::kHello:
      break;
  }
  return protocol_error();
}

// ---------------------------------------------------------------- PUT

MessageVerdict Receiver::handle_put(const Arrival& arrival, const PutPart& put) {
  if (put.portal >= kPortals) return drop(arrival, DropReason::kPortalOutOfRange);
  // A kernel would park it for ever (1.7).
  if (put.portal == kReservedPortal && put.match_bits != kPingMatchBits) {
    return drop(arrival, DropReason::kReservedPortal);
  }
  const MatchResult match = state_.matches.match(
      put.portal, match_request(arrival.message.header, arrival.source_primary));
  switch (match.kind) {
    case MatchResult::Kind::kMatched:
      break;
    case MatchResult::Kind::kTooLong:
      return drop(arrival, DropReason::kTooLong);
    case MatchResult::Kind::kBadOffset:
      return drop(arrival, DropReason::kBadOffset);
    case MatchResult::Kind::kNone:
      return state_.matches.is_lazy(put.portal) ? park(arrival, put.portal)
                                                : drop(arrival, DropReason::kNoMatch);
  }
  Md& md = state_.mds.at(match.md);
  ReceiveMessage& receive = make_receive(arrival);
  const ReceiveId id = receive.id;
  begin_put(receive, md, match.fit);
  if (match.fit.mlength == 0) return finish_empty(arrival, id);
  return receive_into(id, view_of(md, match.fit.offset, match.fit.mlength));
}

// Whatever was sent is thrown away by the driver.
MessageVerdict Receiver::finish_empty(const Arrival& arrival, ReceiveId id) {
  if (arrival.held == 0) handle_receive_done(id, Completion{});
  return {};
}

MatchRequest Receiver::match_request(const Header& header, const Nid& source_primary) const {
  MatchRequest request;
  request.source_primary = source_primary;
  request.source_pid = header.source_pid;
  if (const auto* put = std::get_if<PutPart>(&header.part)) {
    request.match_bits = put->match_bits;
    request.requested_bytes = header.payload_bytes;
    request.offset = put->offset;
  } else {
    const GetPart& get = std::get<GetPart>(header.part);
    request.is_put = false;
    request.match_bits = get.match_bits;
    request.requested_bytes = std::min(get.sink_length, kPayloadBytesMax);
    request.offset = get.source_offset;
  }
  return request;
}

ReceiveMessage& Receiver::make_receive(const Arrival& arrival) {
  if (arrival.held != 0) return state_.receives.at(arrival.held);
  const ReceiveId id = state_.receives.insert();
  ReceiveMessage& receive = state_.receives.at(id);
  receive.id = id;
  receive.ni = arrival.message.ni;
  receive.sender = arrival.sender_id();
  receive.driver_cookie = arrival.message.driver_cookie;
  receive.header = arrival.message.header;
  receive.deadline = state_.message_deadline(state_.nets.ni(receive.ni));
  receive.event = describe(arrival);
  state_.note_message_count();
  return receive;
}

void Receiver::begin_put(ReceiveMessage& receive, Md& md, const Fit& fit) {
  receive.md = md.id;
  receive.event.mlength = fit.mlength;
  receive.event.offset = fit.offset;
  if ((md.options & kMdManageRemote) == 0) md.offset = fit.offset + fit.mlength;
  memory_.begin_operation(md);
  if (md.owner == MdOwner::kPushTarget) push_taken_();
}

MessageVerdict Receiver::park(const Arrival& arrival, uint32_t portal) {
  std::deque<uint64_t>& parked = state_.matches.parked(portal);
  if (parked.size() >= static_cast<size_t>(state_.limits.parked_per_portal_max)) {
    return drop(arrival, DropReason::kParkedPortalLimit);
  }
  if (arrival.sender != nullptr) {
    if (arrival.sender->parked >= static_cast<uint32_t>(state_.limits.parked_per_peer_max)) {
      return drop(arrival, DropReason::kParkedPeerLimit);
    }
    ++arrival.sender->parked;
  }
  ReceiveMessage& receive = make_receive(arrival);
  receive.parked = true;
  bound_if_loopback(receive);
  parked.push_back(receive.id);
  return {.kind = MessageVerdict::Kind::kWait, .id = receive.id};
}

void Receiver::bound_if_loopback(ReceiveMessage& receive) {
  if (receive.sender != 0) return;
  receive.held_until.id = receive.id;
  receive.held_until.kind = TimerKind::kHeld;
  state_.timers.set(receive.held_until, loopback_bound(receive.header));
}

// When the message of our own that waits here must have ended: with its response, if it awaits one.
Time Receiver::loopback_bound(const Header& header) const {
  WireHandle awaiting;
  if (const auto* put = std::get_if<PutPart>(&header.part)) awaiting = put->ack_md;
  if (const auto* get = std::get_if<GetPart>(&header.part)) awaiting = get->return_md;
  const Md* md = awaiting.is_none() ? nullptr : state_.mds.find(awaiting.object_cookie);
  if (md != nullptr && md->response.is_set()) return md->response.when;
  return state_.now + std::chrono::seconds(state_.global.transaction_timeout_s);
}

void Receiver::reject(const ReceiveMessage& receive) {
  state_.actions.emplace_back(
      ReceiveAction{receive.id, receive.ni, receive.driver_cookie, PayloadView{}});
}

void Receiver::held_expired(ReceiveId id) {
  ReceiveMessage& receive = state_.receives.at(id);
  if (receive.delayed) {
    forget_delayed(receive, DropReason::kParkedTooLong);
    return reject(receive);
  }
  std::deque<uint64_t>& parked =
      state_.matches.parked(std::get<PutPart>(receive.header.part).portal);
  parked.erase(std::find(parked.begin(), parked.end(), id));
  forget_parked(receive, DropReason::kParkedTooLong);
  reject(receive);
}

void Receiver::retry_parked(uint32_t portal) {
  std::deque<uint64_t>& parked = state_.matches.parked(portal);
  for (size_t i = 0; i < parked.size();) {
    ReceiveMessage& receive = state_.receives.at(parked[i]);
    const MatchResult match =
        state_.matches.match(portal, match_request(receive.header, receive.event.initiator.nid));
    const bool lazy = state_.matches.is_lazy(portal);
    if (match.kind == MatchResult::Kind::kNone && lazy) {
      ++i;
      continue;
    }
    parked.erase(parked.begin() + static_cast<ptrdiff_t>(i));
    ReceiveAction action{receive.id, receive.ni, receive.driver_cookie, {}};
    if (match.kind == MatchResult::Kind::kMatched) {
      Md& md = state_.mds.at(match.md);
      receive.parked = false;
      state_.timers.cancel(receive.held_until);
      if (PeerNi* sender = receive.sender != 0 ? state_.peers.find_ni(receive.sender) : nullptr)
        --sender->parked;
      begin_put(receive, md, match.fit);
      action.into = view_of(md, match.fit.offset, match.fit.mlength);
    } else {
      forget_parked(receive, match.kind == MatchResult::Kind::kNone ? DropReason::kLazyCleared
                                                                    : reason_of(match.kind));
    }
    state_.actions.emplace_back(action);
  }
}

// The message stays alive until its driver says that the payload is gone, but has no MD.
void Receiver::forget_parked(ReceiveMessage& receive, DropReason reason) {
  receive.parked = false;
  state_.timers.cancel(receive.held_until);
  PeerNi* sender = receive.sender != 0 ? state_.peers.find_ni(receive.sender) : nullptr;
  if (sender != nullptr) --sender->parked;
  count_drop(receive.ni, sender, receive.header, reason);
}

// ---------------------------------------------------------------- delay rules

MessageVerdict Receiver::delay(const Arrival& arrival, FaultRuleId rule) {
  ReceiveMessage& receive = make_receive(arrival);
  receive.delayed = true;
  bound_if_loopback(receive);
  state_.faults.hold(rule, {.is_send = false, .id = receive.id}, state_.now);
  return {.kind = MessageVerdict::Kind::kWait, .id = receive.id};
}

// From here on it is as if it came in now; the driver's report ends it in any case.
void Receiver::delay_over(ReceiveId id) {
  ReceiveMessage* receive = state_.receives.find(id);
  if (receive == nullptr || !receive->delayed) return;
  receive->delayed = false;
  state_.timers.cancel(receive->held_until);
  const IncomingMessage message{receive->ni, receive->event.sender, receive->header,
                                receive->driver_cookie};
  Arrival arrival{message, state_.nets.ni(receive->ni), nullptr, receive->event.initiator.nid, id};
  if (receive->sender != 0) {
    // It may have been removed meanwhile.
    arrival.sender = find_or_create_peer_ni(state_, message.sender, true);
    receive->sender = arrival.sender_id();
    if (arrival.sender == nullptr) {
      drop(arrival, DropReason::kPeerLimit);
      return reject(*receive);
    }
  }
  const MessageVerdict verdict = accept(arrival);
  if (verdict.kind == MessageVerdict::Kind::kWait) return;  // on a lazy portal now
  state_.actions.emplace_back(ReceiveAction{id, message.ni, message.driver_cookie, verdict.into});
}

// As forget_parked().
void Receiver::forget_delayed(ReceiveMessage& receive, DropReason reason) {
  receive.delayed = false;
  state_.timers.cancel(receive.held_until);
  state_.faults.forget({.is_send = false, .id = receive.id});
  PeerNi* sender = receive.sender != 0 ? state_.peers.find_ni(receive.sender) : nullptr;
  count_drop(receive.ni, sender, receive.header, reason);
}

// ---------------------------------------------------------------- GET

MessageVerdict Receiver::handle_get(const Arrival& arrival, const GetPart& get) {
  if (get.portal >= kPortals) return drop(arrival, DropReason::kPortalOutOfRange);
  const MatchResult match = state_.matches.match(
      get.portal, match_request(arrival.message.header, arrival.source_primary));
  if (match.kind != MatchResult::Kind::kMatched) return drop(arrival, reason_of(match.kind));
  count_received(arrival.message.ni, arrival.sender_id(), MessageType::kGet, 0);
  start_reply(arrival, get, state_.mds.at(match.md), match.fit);
  return {};
}

void Receiver::start_reply(const Arrival& arrival, const GetPart& get, Md& md, const Fit& fit) {
  const Header& request = arrival.message.header;
  SendMessage& reply = sender_.make();
  reply.is_response = true;
  reply.ni = arrival.message.ni;
  reply.next_hop = arrival.sender_id();
  reply.md = md.id;
  reply.payload = view_of(md, fit.offset, fit.mlength);
  reply.header.dest_nid = request.source_nid;
  reply.header.dest_pid = request.source_pid;
  reply.header.payload_bytes = fit.mlength;
  reply.header.part = ReplyPart{get.return_md};
  reply.event = describe(arrival);
  reply.event.mlength = fit.mlength;
  reply.event.offset = fit.offset;
  if ((md.options & kMdManageRemote) == 0) md.offset = fit.offset + fit.mlength;
  memory_.begin_operation(md);
  sender_.start(reply, kNever);
}

// ---------------------------------------------------------------- ACK and REPLY

Md* Receiver::find_response_md(const Arrival& arrival, const WireHandle& handle, bool is_ack) {
  if (handle.interface_cookie != state_.interface_cookie) {
    drop(arrival, DropReason::kOtherIncarnation);
    return nullptr;
  }
  Md* md = memory_.find_active(handle.object_cookie);
  if (md == nullptr) {
    drop(arrival, DropReason::kUnknownMd);
    return nullptr;
  }
  if (md->passive || md->threshold == 0) {
    drop(arrival, DropReason::kMdNotWaiting);
    return nullptr;
  }
  if ((is_ack ? md->acks_awaited : md->replies_awaited) == 0) {
    drop(arrival, DropReason::kWrongResponse);
    return nullptr;
  }
  return md;
}

MessageVerdict Receiver::handle_ack(const Arrival& arrival, const AckPart& ack) {
  Md* md = find_response_md(arrival, ack.md, true);
  if (md == nullptr) return {.dropped = true};
  count_received(arrival.message.ni, arrival.sender_id(), MessageType::kAck, 0);
  Event event = describe(arrival);
  event.mlength = static_cast<uint32_t>(std::min<uint64_t>(ack.mlength, md->length));
  memory_.begin_operation(*md);
  memory_.response_settled(*md, true);
  memory_.end_operation(md->id, event);
  return {};
}

MessageVerdict Receiver::handle_reply(const Arrival& arrival, const ReplyPart& reply) {
  const uint32_t payload_bytes = arrival.message.header.payload_bytes;
  Md* md = find_response_md(arrival, reply.md, false);
  if (md == nullptr) return {.dropped = true};
  if (payload_bytes > md->length && (md->options & kMdTruncate) == 0) {
    return drop(arrival, DropReason::kReplyTooLong);
  }
  ReceiveMessage& receive = make_receive(arrival);
  const ReceiveId id = receive.id;
  receive.md = md->id;
  receive.event.mlength = static_cast<uint32_t>(std::min<uint64_t>(payload_bytes, md->length));
  memory_.begin_operation(*md);
  memory_.response_settled(*md, false);
  if (receive.event.mlength == 0) return finish_empty(arrival, id);
  return receive_into(id, view_of(*md, 0, receive.event.mlength));
}

// ---------------------------------------------------------------- completion

void Receiver::handle_receive_done(ReceiveId id, const Completion& completion) {
  ReceiveMessage* receive = state_.receives.find(id);
  ULNET_ASSERT(receive != nullptr, "a driver completed a receive that it does not have");
  if (receive->delayed) forget_delayed(*receive, DropReason::kDelayedGone);
  if (receive->parked) {
    // Its connection died while it waited.
    std::deque<uint64_t>& parked =
        state_.matches.parked(std::get<PutPart>(receive->header.part).portal);
    parked.erase(std::find(parked.begin(), parked.end(), id));
    forget_parked(*receive, DropReason::kLazyCleared);
  }
  if (receive->md != 0) {
    if (completion.error == 0) {
      count_received(receive->ni, receive->sender, receive->header.type(), receive->event.mlength);
    } else if (receive->sender != 0 && !state_.shutting_down && state_.now <= receive->deadline) {
      health_.attempt_failed(state_.nets.ni(receive->ni), state_.peers.find_ni(receive->sender),
                             completion);
    }
    const bool ack_disabled = (state_.mds.at(receive->md).options & kMdAckDisable) != 0;
    receive->event.status = -completion.error;
    memory_.end_operation(receive->md, receive->event);
    if (completion.error == 0 && !ack_disabled && receive->header.type() == MessageType::kPut)
      send_ack(*receive);
  }
  state_.receives.erase(id);
}

void Receiver::send_ack(const ReceiveMessage& receive) {
  const PutPart& put = std::get<PutPart>(receive.header.part);
  if (put.ack_md.is_none()) return;
  SendMessage& ack = sender_.make();
  ack.is_response = true;
  ack.ni = receive.ni;
  ack.next_hop = receive.sender;
  ack.header.dest_nid = receive.header.source_nid;
  ack.header.dest_pid = receive.header.source_pid;
  ack.header.part = AckPart{put.ack_md, put.match_bits, receive.event.mlength};
  sender_.start(ack, kNever);
}

void Receiver::shut_down() {
  state_.receives.for_each([this](ReceiveId, ReceiveMessage& receive) {
    if (!receive.delayed) return;
    forget_delayed(receive, DropReason::kShutdown);
    reject(receive);
  });
  for (uint32_t portal = 0; portal < kPortals; ++portal) {
    std::deque<uint64_t>& parked = state_.matches.parked(portal);
    for (const ReceiveId id : parked) {
      ReceiveMessage& receive = state_.receives.at(id);
      forget_parked(receive, DropReason::kShutdown);
      reject(receive);
    }
    parked.clear();
  }
}

// ---------------------------------------------------------------- bookkeeping

// What an event of this message says, but for the MD's part.
Event Receiver::describe(const Arrival& arrival) const {
  const Header& header = arrival.message.header;
  Event event;
  event.target = {header.dest_nid, header.dest_pid};
  event.initiator = {arrival.source_primary, header.source_pid};
  event.source = {header.source_nid, header.source_pid};
  event.sender = arrival.message.sender;
  if (const auto* put = std::get_if<PutPart>(&header.part)) {
    event.kind = EventKind::kPut;
    event.portal = put->portal;
    event.match_bits = put->match_bits;
    event.hdr_data = put->hdr_data;
    event.rlength = header.payload_bytes;
  } else if (const auto* get = std::get_if<GetPart>(&header.part)) {
    event.kind = EventKind::kGet;
    event.portal = get->portal;
    event.match_bits = get->match_bits;
    event.rlength = header.payload_bytes;
  } else if (const auto* ack = std::get_if<AckPart>(&header.part)) {
    event.kind = EventKind::kAck;
    event.match_bits = ack->match_bits;
  } else {
    event.kind = EventKind::kReply;
    event.rlength = header.payload_bytes;
  }
  return event;
}

void Receiver::count_received(NiId ni, PeerNiId sender, MessageType type, uint32_t payload_bytes) {
  ++state_.stats.recv_count;
  state_.stats.recv_length += payload_bytes;
  ++count_of(state_.nets.ni(ni).stats.received, type);
  PeerNi* peer_ni = state_.peers.find_ni(sender);
  if (peer_ni == nullptr) return;  // loopback, or gone meanwhile
  ++count_of(peer_ni->stats.received, type);
  health_.received(state_.nets.ni(ni), *peer_ni);
}

MessageVerdict Receiver::drop(const Arrival& arrival, DropReason reason) {
  count_drop(arrival.message.ni, arrival.sender, arrival.message.header, reason);
  return {.kind = MessageVerdict::Kind::kDone, .dropped = true};
}

void Receiver::count_drop(NiId ni, PeerNi* sender, const Header& header, DropReason reason) {
  ++state_.stats.drop_count;
  state_.stats.drop_length += header.payload_bytes;
  ++state_.stats.drops[static_cast<size_t>(reason)];
  ++count_of(state_.nets.ni(ni).stats.dropped, header.type());
  if (sender != nullptr) ++count_of(sender->stats.dropped, header.type());
}

}  // namespace ulnet::core
