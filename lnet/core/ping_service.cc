#include "lnet/core/ping_service.h"

#include "lnet/base/assert.h"
#include "lnet/wire/ping_info.h"

namespace ulnet::core {
namespace {

MeSpec reserved_me() {
  MeSpec spec;
  spec.portal = kReservedPortal;
  spec.match_bits = kPingMatchBits;
  return spec;
}

}  // namespace

void PingService::rebuild() {
  ++state_.info_sequence;
  put_up();
}

void PingService::refresh() {
  put_up();
}

void PingService::put_up() {
  PingInfo info;
  info.features = kPingNiStatus | kPingRoutingDisabled | kPingMultiRail;
  if (state_.global.discovery) info.features |= kPingDiscovery;
  info.pid = state_.pid;
  info.sequence = state_.info_sequence;
  for (const NetId net : state_.nets.nets()) {
    for (const NiId id : state_.nets.nis_of(net)) {
      const Ni& ni = state_.nets.ni(id);
      if (ni.is_loopback()) continue;
      const bool up = ni.published_up && !ni.fatal;
      info.nis.push_back({ni.nid, up ? kNiStatusUp : kNiStatusDown});
    }
  }
  state_.ping_info_stale = false;
  std::vector<uint8_t> bytes = encode_ping_info(info);

  MdSpec md;
  md.fragments = {{bytes.data(), bytes.size()}};
  md.options = kMdGet | kMdTruncate | kMdManageRemote;
  const Result<MeHandle> me = memory_.me_attach(reserved_me());
  ULNET_ASSERT(me.has_value(), "portal 0 takes our own entries");
  const Result<MdHandle> target = memory_.md_attach(*me, md, MdOwner::kPingTarget);
  ULNET_ASSERT(target.has_value(), "the ping info is a valid MD");
  buffers_.emplace(target->value, std::move(bytes));
  if (target_) (void)memory_.unlink(target_);
  target_ = *target;
}

void PingService::post_push_target() {
  std::vector<uint8_t> bytes(push_bytes_);
  MdSpec md;
  md.fragments = {{bytes.data(), bytes.size()}};
  md.options = kMdPut | kMdTruncate;
  md.threshold = 1;
  const Result<MeHandle> me = memory_.me_attach(reserved_me());
  ULNET_ASSERT(me.has_value(), "portal 0 takes our own entries");
  const Result<MdHandle> target = memory_.md_attach(*me, md, MdOwner::kPushTarget);
  ULNET_ASSERT(target.has_value(), "the push buffer is a valid MD");
  buffers_.emplace(target->value, std::move(bytes));
}

std::span<const uint8_t> PingService::pushed(const Md& md, const Event& event) const {
  return std::span(buffers_.at(md.id)).subspan(event.offset, event.mlength);
}

void PingService::handle_event(const Md& md, const Event& event) {
  if (event.kind == EventKind::kPut && event.status == 0) ++state_.stats.pushes_received;
  if (event.unlinked) buffers_.erase(md.id);
}

}  // namespace ulnet::core
