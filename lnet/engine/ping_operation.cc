#include "lnet/engine/ping_operation.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>

#include "lnet/wire/ping_info.h"

namespace ulnet {
namespace {

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void PingOperation::start(Engine& engine, const PingArgs& args, Endpoint::PingDone done) {
  auto* operation =
      new PingOperation(engine, args, std::move(done));  // deletes itself with its last event
  if (Status status = operation->begin(); !status.is_ok()) {
    const std::unique_ptr<PingOperation> owned(operation);
    owned->done_(Failure(std::move(status)));
  }
}

Status PingOperation::begin() {
  if (args_.nid.is_any())
    return {EINVAL, fmt::format("{} is no NID of a node", args_.nid.to_string())};
  MdSpec md;
  md.fragments = {{reply_.data(), reply_.size()}};
  md.options = kMdTruncate | kMdTrackResponse;
  md.threshold = 2;
  md.handler = this;
  GetArgs get;
  get.target = {args_.nid, kPidLustre};
  get.match_bits = kPingMatchBits;
  get.source = args_.source;
  get.timeout = args_.timeout;
  return engine_.with_core([&](core::Core& core, Time now) -> Status {
    started_ = now;
    const Result<MdHandle> handle = core.bind(md);
    if (!handle) return handle.error();
    get.md = *handle;
    const Status status = core.get(now, get);
    ULNET_ASSERT(status.is_ok(), "a GET into memory that was just bound");
    return status;
  });
}

void PingOperation::handle_event(const Event& event) {
  if (event.kind == EventKind::kReply && event.status == 0) {
    result_ = read_reply(event);
  } else if (event.status != 0) {
    result_ = describe_failure(event.status);
  }
  if (!event.unlinked) return;
  const std::unique_ptr<PingOperation> owned(this);
  done_(result_);
}

Result<PingResult> PingOperation::read_reply(const Event& event) const {
  const auto info = decode_ping_info({reply_.data(), event.mlength}, 200);
  if (!info) {
    return fail(EPROTO, fmt::format("{} answered with a ping info that is no good: {}",
                                    args_.nid.to_string(), to_string(info.error().error)));
  }
  PingResult result;
  result.primary_nid = info->primary_nid();
  result.multi_rail = (info->features & kPingMultiRail) != 0;
  result.routing = (info->features & kPingRoutingDisabled) == 0;
  result.features = info->features;
  result.rtt_ns = (engine_.now() - started_).count();
  for (const PingNi& ni : info->nis) result.nids.push_back(ni.nid);
  return result;
}

Failure PingOperation::describe_failure(int32_t status) const {
  const int code = -status;
  if (code == ETIMEDOUT) {
    return fail(code, fmt::format("no answer from {} within {} s", args_.nid.to_string(),
                                  seconds(args_.timeout)));
  }
  return fail(code, fmt::format("failed to ping {}", args_.nid.to_string()));
}

}  // namespace ulnet
