#include "lnet/core/net.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/base/assert.h"

namespace ulnet::core {

NetTable::NetTable() {
  NiSettings lo;
  lo.net = NetId::lo();
  lo.tunables = NetTunables{0, 0, 0, 0};
  const NiStarted started{.nid = Nid::lo(), .interface = ""};
  (void)add_ni(reserve_ni(), lo, started);
}

NiId NetTable::reserve_ni() {
  Ni& ni = nis_.emplace_back();
  ni.id = static_cast<NiId>(nis_.size() - 1);
  return ni.id;
}

Status NetTable::add_ni(NiId id, const NiSettings& settings, const NiStarted& started) {
  Ni& ni = nis_[id];
  ULNET_ASSERT(ni.state == NiState::kReserved, "a NI is added twice");
  if (is_local_nid(started.nid)) {
    return {EEXIST, fmt::format("NI {} exists already", started.nid.to_string())};
  }
  const NetId net = started.nid.net();
  ni.state = NiState::kActive;
  ni.nid = started.nid;
  ni.interface = started.interface;
  // All NIs of a net share the common tunables; the first one's win.
  const std::vector<NiId>& siblings = nis_of(net);
  ni.tunables = siblings.empty() ? settings.tunables : nis_[siblings.front()].tunables;
  ni.tunables.peer_credits = std::min(ni.tunables.peer_credits, ni.tunables.credits);
  ni.tcp = settings.tcp;
  ni.tcp.conns_per_peer = started.conns_per_peer;
  ni.lnd_timeout = started.lnd_timeout;
  ni.health_sensitivity = settings.health_sensitivity;
  ni.tx_credits = Credits(ni.tunables.credits);

  if (siblings.empty()) nets_.push_back(net);
  Net& home = by_net_[net];
  home.id = net;
  home.nis.push_back(id);
  by_nid_[started.nid] = id;
  return Status::ok();
}

void NetTable::remove_ni(NiId id) {
  Ni& ni = nis_[id];
  ULNET_ASSERT(ni.is_active(), "a NI that is not there is removed");
  ni.state = NiState::kRemoved;
  by_nid_.erase(ni.nid);
  const NetId net = ni.nid.net();
  std::vector<NiId>& siblings = by_net_.at(net).nis;
  std::erase(siblings, id);
  if (!siblings.empty()) return;
  by_net_.erase(net);
  std::erase(nets_, net);
}

Ni* NetTable::find_ni(const Nid& nid) {
  const auto it = by_nid_.find(nid);
  return it != by_nid_.end() ? &nis_[it->second] : nullptr;
}

Net* NetTable::find_net(NetId net) {
  const auto it = by_net_.find(net);
  return it != by_net_.end() ? &it->second : nullptr;
}

const std::vector<NiId>& NetTable::nis_of(NetId net) const {
  static const std::vector<NiId> kNone;
  const auto it = by_net_.find(net);
  return it != by_net_.end() ? it->second.nis : kNone;
}

int32_t NetTable::peer_credits(NetId net) const {
  const std::vector<NiId>& nis = nis_of(net);
  return nis.empty() ? 0 : nis_[nis.front()].tunables.peer_credits;
}

}  // namespace ulnet::core
