#include "lnet/core/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::core {

Core::Core(const GlobalSettings& global, const LimitSettings& limits, uint64_t interface_cookie,
           uint64_t seed)
    : state_(global, limits, interface_cookie, seed),
      memory_(state_),
      sender_(state_, memory_),
      receiver_(state_, memory_, sender_),
      ping_(state_, memory_) {
  memory_.set_internal_events(
      [this](const Md& md, const Event& event) { ping_.handle_event(md, event); });
  receiver_.set_push_taken([this] { ping_.post_push_target(); });
  ping_.rebuild();
  ping_.post_push_target();
}

// ---------------------------------------------------------------- local side

Result<NiId> Core::add_ni(const NiSettings& settings, const NiStarted& started) {
  const Result<NiId> ni = state_.nets.add_ni(settings, started);
  if (ni) ping_.rebuild();
  return ni;
}

void Core::handle_ni_fatal(NiId id, bool fatal) {
  Ni& ni = state_.nets.ni(id);
  if (ni.fatal == fatal) return;
  ni.fatal = fatal;
  ++ni.failure_kinds[static_cast<size_t>(fatal ? FailureKind::kLocalNiDown
                                               : FailureKind::kLocalNiUp)];
  ping_.rebuild();
}

// ---------------------------------------------------------------- memory

Result<MdHandle> Core::md_attach(Time now, MeHandle handle, const MdSpec& spec) {
  state_.now = now;
  const Me* me = state_.matches.find(handle.value);
  const uint32_t portal = me != nullptr ? me->spec.portal : 0;
  const Result<MdHandle> md = memory_.md_attach(handle, spec);
  if (md) receiver_.retry_parked(portal);
  return md;
}

Status Core::set_lazy(Time now, uint32_t portal, bool lazy) {
  if (portal >= kPortals)
    return {EINVAL, fmt::format("portal {} is not in 0..{}", portal, kPortals - 1)};
  state_.now = now;
  state_.matches.set_lazy(portal, lazy);
  if (!lazy) receiver_.retry_parked(portal);
  return Status::ok();
}

// ---------------------------------------------------------------- operations

Status Core::put(Time now, const PutArgs& args) {
  state_.now = now;
  const Result<Md*> found = find_source(args.md);
  if (!found) return found.error();
  Md& md = **found;
  const bool wants_ack = args.ack == AckRequest::kAck;

  SendMessage& message = sender_.make();
  message.source = args.source;
  message.md = md.id;
  message.awaits_response = wants_ack;
  message.payload = PayloadView{md.fragments(), 0, static_cast<uint32_t>(md.length)};
  message.header.dest_nid = args.target.nid;
  message.header.dest_pid = args.target.pid;
  message.header.payload_bytes = static_cast<uint32_t>(md.length);
  message.header.part =
      PutPart{wants_ack ? WireHandle{state_.interface_cookie, md.id} : WireHandle::none(),
              args.match_bits, args.hdr_data, args.portal, args.offset};
  message.event.kind = EventKind::kSend;
  message.event.portal = args.portal;
  message.event.match_bits = args.match_bits;
  message.event.rlength = message.event.mlength = message.header.payload_bytes;
  message.event.offset = args.offset;
  message.event.hdr_data = args.hdr_data;
  message.event.target = args.target;
  message.event.initiator.pid = message.event.source.pid = state_.pid;

  const Time deadline = response_deadline(args.timeout);
  memory_.begin_operation(md);
  if (wants_ack) memory_.expect_response(md, true, tracks_response(md, true) ? deadline : kNever);
  sender_.start(message, wants_ack ? deadline : kNever);
  return Status::ok();
}

Status Core::get(Time now, const GetArgs& args) {
  state_.now = now;
  const Result<Md*> found = find_source(args.md);
  if (!found) return found.error();
  Md& md = **found;

  SendMessage& message = sender_.make();
  message.source = args.source;
  message.md = md.id;
  message.awaits_response = true;
  message.header.dest_nid = args.target.nid;
  message.header.dest_pid = args.target.pid;
  message.header.part = GetPart{WireHandle{state_.interface_cookie, md.id}, args.match_bits,
                                args.portal, args.offset, static_cast<uint32_t>(md.length)};
  message.event.kind = EventKind::kSend;
  message.event.portal = args.portal;
  message.event.match_bits = args.match_bits;
  message.event.rlength = message.event.mlength = static_cast<uint32_t>(md.length);
  message.event.offset = args.offset;
  message.event.target = args.target;
  message.event.initiator.pid = message.event.source.pid = state_.pid;

  const Time deadline = response_deadline(args.timeout);
  memory_.begin_operation(md);
  memory_.expect_response(md, false, tracks_response(md, false) ? deadline : kNever);
  sender_.start(message, deadline);
  return Status::ok();
}

Result<Md*> Core::find_source(MdHandle handle) {
  if (state_.shutting_down) return fail(ESHUTDOWN, "the node is stopping");
  Md* md = memory_.find_active(handle.value);
  if (md == nullptr) return fail(ENOENT, fmt::format("no memory descriptor {:#x}", handle.value));
  if (md->passive)
    return fail(ENOENT, fmt::format("memory descriptor {:#x} is attached to an ME", handle.value));
  if (md->threshold == 0)
    return fail(ENOENT, fmt::format("memory descriptor {:#x} is exhausted", handle.value));
  return md;
}

Time Core::response_deadline(std::chrono::nanoseconds timeout) const {
  if (timeout > std::chrono::nanoseconds::zero()) return state_.now + timeout;
  return state_.now + std::chrono::seconds(state_.global.transaction_timeout_s);
}

bool Core::tracks_response(const Md& md, bool is_put) const {
  if ((md.options & kMdNoTrackResponse) != 0) return false;
  if ((md.options & kMdTrackResponse) != 0) return true;
  const int32_t tracking = state_.global.response_tracking;  // 1 GET, 2 PUT, 3 both
  return (tracking & (is_put ? 2 : 1)) != 0;
}

// ---------------------------------------------------------------- drivers

MessageVerdict Core::handle_message(Time now, const IncomingMessage& message) {
  state_.now = now;
  return receiver_.handle_message(message);
}

void Core::handle_receive_done(Time now, ReceiveId id, const Completion& completion) {
  state_.now = now;
  receiver_.handle_receive_done(id, completion);
}

void Core::handle_send_done(Time now, SendId id, const Completion& completion) {
  state_.now = now;
  sender_.handle_send_done(id, completion);
}

void Core::handle_peer_down(Time now, NiId, const Nid& peer, Time last_heard) {
  state_.now = now;
  PeerNi* peer_ni = state_.peers.find(peer);
  // An old notification is overtaken by what was heard since.
  if (peer_ni != nullptr && (!peer_ni->heard || last_heard >= peer_ni->last_heard))
    peer_ni->up = false;
}

void Core::handle_timeout(Time now) {
  state_.now = now;
  while (const Timer* timer = state_.timers.pop_due(now)) {
    switch (timer->kind) {
      case TimerKind::kSendWaiting:
        sender_.waiting_expired(timer->id);
        break;
      case TimerKind::kResponse:
        ++state_.stats.response_timeout_count;
        (void)memory_.response_expired(timer->id);
        break;
    }
  }
}

void Core::shut_down(Time now) {
  if (state_.shutting_down) return;
  state_.now = now;
  state_.shutting_down = true;
  sender_.shut_down();
  receiver_.shut_down();
  memory_.shut_down();
}

}  // namespace ulnet::core
