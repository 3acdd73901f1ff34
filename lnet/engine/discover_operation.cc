#include "lnet/engine/discover_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace ulnet {

void DiscoverOperation::start(Engine& engine, const DiscoverArgs& args,
                              Endpoint::DiscoverDone done) {
  auto* operation =
      new DiscoverOperation(engine, args, std::move(done));  // deletes itself with its event
  const Status status = engine.with_core([&](core::Core& core, Time now) {
    return core.discover(now, args.nid, args.force, *operation, nullptr);
  });
  if (status.is_ok()) return;
  const std::unique_ptr<DiscoverOperation> owned(operation);
  owned->done_(Failure(status));
}

void DiscoverOperation::handle_event(const Event& event) {
  const std::unique_ptr<DiscoverOperation> owned(this);
  done_(result(event.status));
}

Result<PeerInfo> DiscoverOperation::result(int32_t status) const {
  if (status != 0)
    return fail(-status, fmt::format("failed to discover {}", args_.nid.to_string()));
  return engine_.look([this](const core::Core& core) -> Result<PeerInfo> {
    const std::vector<Nid> own = core.nids();
    const bool is_self =
        args_.nid.is_lo() || std::find(own.begin(), own.end(), args_.nid) != own.end();
    if (is_self) {
      PeerInfo self{.primary_nid = own.empty() ? Nid::lo() : own.front(), .multi_rail = true};
      for (const Nid& nid : own) self.nis.push_back({.nid = nid});
      return self;
    }
    std::optional<PeerInfo> peer = core.find_peer(args_.nid);
    if (!peer) return fail(ENOENT, fmt::format("{} was removed", args_.nid.to_string()));
    return *std::move(peer);
  });
}

}  // namespace ulnet
