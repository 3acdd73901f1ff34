#include "lnet/core/requests.h"

#include <fmt/format.h>

#include <cerrno>

namespace ulnet::core {

Status Requests::put(const PutArgs& args) {
  const Result<Md*> found = find_source(args.md, args.target);
  if (!found) return found.error();
  Md& md = **found;
  const bool wants_ack = args.ack == AckRequest::kAck;

  SendMessage& message = make(md, args);
  message.awaits_response = wants_ack;
  message.payload = PayloadView{md.fragments(), 0, static_cast<uint32_t>(md.length)};
  message.header.payload_bytes = static_cast<uint32_t>(md.length);
  message.header.part =
      PutPart{wants_ack ? WireHandle{state_.interface_cookie, md.id} : WireHandle::none(),
              args.match_bits, args.hdr_data, args.portal, args.offset};
  message.event.hdr_data = args.hdr_data;

  const Time deadline = response_deadline(args.timeout);
  memory_.begin_operation(md);
  if (wants_ack) memory_.expect_response(md, true, tracks_response(md, true) ? deadline : kNever);
  sender_.start(message, wants_ack ? deadline : kNever);
  return Status::ok();
}

Status Requests::get(const GetArgs& args) {
  return start_get(args, false);
}

Status Requests::get_pinned(const GetArgs& args) {
  return start_get(args, true);
}

Status Requests::start_get(const GetArgs& args, bool pinned) {
  const Result<Md*> found = find_source(args.md, args.target);
  if (!found) return found.error();
  Md& md = **found;

  SendMessage& message = make(md, args);
  message.awaits_response = true;
  message.pinned = pinned;
  message.header.part = GetPart{WireHandle{state_.interface_cookie, md.id}, args.match_bits,
                                args.portal, args.offset, static_cast<uint32_t>(md.length)};

  const Time deadline = response_deadline(args.timeout);
  memory_.begin_operation(md);
  memory_.expect_response(md, false, tracks_response(md, false) ? deadline : kNever);
  sender_.start(message, deadline);
  return Status::ok();
}

template <typename Args>
SendMessage& Requests::make(const Md& md, const Args& args) {
  SendMessage& message = sender_.make();
  message.source = args.source;
  message.md = md.id;
  message.header.dest_nid = args.target.nid;
  message.header.dest_pid = args.target.pid;
  message.event.kind = EventKind::kSend;
  message.event.portal = args.portal;
  message.event.match_bits = args.match_bits;
  message.event.rlength = message.event.mlength = static_cast<uint32_t>(md.length);
  message.event.offset = args.offset;
  message.event.target = args.target;
  message.event.initiator.pid = message.event.source.pid = state_.pid;
  return message;
}

Result<Md*> Requests::find_source(MdHandle handle, const ProcessId& target) {
  if (state_.shutting_down) return Failure(State::stopping());
  if (target.nid.is_any())
    return fail(EINVAL, fmt::format("the target {} is no NID of a node", target.nid.to_string()));
  Md* md = memory_.find_active(handle.value);
  if (md == nullptr) return fail(ENOENT, fmt::format("no memory descriptor {:#x}", handle.value));
  if (md->passive)
    return fail(ENOENT, fmt::format("memory descriptor {:#x} is attached to an ME", handle.value));
  if (md->threshold == 0)
    return fail(ENOENT, fmt::format("memory descriptor {:#x} is exhausted", handle.value));
  return md;
}

Time Requests::response_deadline(std::chrono::nanoseconds timeout) const {
  if (timeout > std::chrono::nanoseconds::zero()) return state_.now + timeout;
  return state_.now + std::chrono::seconds(state_.global.transaction_timeout_s);
}

bool Requests::tracks_response(const Md& md, bool is_put) const {
  if ((md.options & kMdNoTrackResponse) != 0) return false;
  if ((md.options & kMdTrackResponse) != 0) return true;
  const int32_t tracking = state_.global.response_tracking;  // 1 GET, 2 PUT, 3 both
  return (tracking & (is_put ? 2 : 1)) != 0;
}

}  // namespace ulnet::core
