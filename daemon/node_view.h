// What the control socket asks of a node: the Endpoint in ulnetd, a stand-in in tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/path_check.h"
#include "ulnet/endpoint.h"

namespace ulnet::daemon {

// Thread: any, all calls.
class NodeView {
 public:
  virtual ~NodeView() = default;

  virtual std::vector<NetInfo> nets() const = 0;
  virtual std::vector<PeerInfo> peers() const = 0;
  virtual Statistics statistics() const = 0;
  virtual void reset_statistics() = 0;
  virtual GlobalSettings global() const = 0;
  virtual Status set_global(std::string_view name, int64_t value) = 0;
  virtual Status change_nis(const NiSelection& which, const NiChange& change) = 0;
  virtual Status change_peers(const std::optional<Nid>& nid, const PeerChange& change) = 0;
  // See Endpoint.
  virtual Status add_fault(const FaultRule& rule) = 0;
  virtual size_t del_faults(FaultKind kind, const Nid& source, const Nid& dest) = 0;
  virtual void reset_faults(FaultKind kind) = 0;
  virtual std::vector<FaultInfo> faults(FaultKind kind) const = 0;
  // See Endpoint.
  virtual Result<Nid> add_ni(const NiSettings& ni) = 0;
  virtual Status del_ni(const Nid& nid) = 0;
  virtual Status del_net(NetId net, const std::string& interface) = 0;
  virtual Status configure_peer(const PeerSettings& peer) = 0;
  virtual Status delete_peer(const Nid& primary, const std::vector<Nid>& nids, bool force) = 0;
  // `done` runs exactly once, on any thread, perhaps before this returns.
  virtual void ping(const PingArgs& args, Endpoint::PingDone done) = 0;
  virtual void discover(const DiscoverArgs& args, Endpoint::DiscoverDone done) = 0;
  virtual void check_path(const PathCheckArgs& args, PathChecker::Done done) = 0;
};

}  // namespace ulnet::daemon
