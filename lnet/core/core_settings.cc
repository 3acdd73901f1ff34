// Settings of a Core that runs. Source: spec lnet-core 7.1, 8.3; decisions D3, D5.
#include <fmt/format.h>

#include <cerrno>

#include "lnet/core/core.h"
#include "lnet/core/global_rules.h"

namespace ulnet::core {
namespace {

Status check_sensitivity(int32_t value) {
  if (value == kInheritSensitivity) return Status::ok();
  return check_health_value("health_sensitivity", value);
}

std::optional<int32_t> override_of(int32_t sensitivity) {
  return sensitivity == kInheritSensitivity ? std::nullopt : std::optional(sensitivity);
}

}  // namespace

Status Core::set_global(Time now, std::string_view name, int64_t value) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  std::vector<AskedTimeout> asked;
  for (NiId id = 1; id < state_.nets.ni_count(); ++id) {
    const Ni& ni = state_.nets.ni(id);
    if (ni.is_active() && ni.tcp.timeout_s > 0) asked.push_back({ni.nid, ni.tcp.timeout_s});
  }
  const Result<GlobalSettings> changed = change_global(state_.global, name, value, asked);
  if (!changed) return changed.error();
  const GlobalSettings before = state_.global;
  state_.global = *changed;
  if (before != state_.global) handle_global_changed(before);
  return Status::ok();
}

void Core::handle_global_changed(const GlobalSettings& before) {
  for (NiId id = 1; id < state_.nets.ni_count(); ++id) update_lnd_timeout(state_.nets.ni(id));
  recovery_.settings_changed();
  if (state_.global.discovery != before.discovery) {
    ping_.refresh();
    discovery_.switched();
  }
  settle();
}

void Core::update_lnd_timeout(Ni& ni) {
  if (!ni.is_active() || ni.lnd_timeout == Duration::zero()) return;  // its driver has none
  const Duration timeout = std::chrono::seconds(state_.global.lnd_timeout_s(ni.tcp.timeout_s));
  if (timeout == ni.lnd_timeout) return;
  ni.lnd_timeout = timeout;
  state_.actions.emplace_back(LndTimeoutAction{ni.id, timeout});
}

Result<std::vector<NiId>> Core::select_nis(const NiSelection& which) const {
  std::vector<NiId> selected;
  for (NiId id = 0; id < state_.nets.ni_count(); ++id) {
    const Ni& ni = state_.nets.ni(id);
    if (!ni.is_active()) continue;
    if (which.nid && ni.nid != *which.nid) continue;
    if (which.net && ni.nid.net() != *which.net) continue;
    if (!ni.is_loopback()) {
      selected.push_back(id);
    } else if (which.nid || which.net) {
      return fail(EINVAL, "0@lo has nothing that could be set");
    }
  }
  if (selected.empty() && which.nid)
    return fail(ENOENT, fmt::format("no local NI {}", which.nid->to_string()));
  if (selected.empty() && which.net)
    return fail(ENOENT, fmt::format("no local net {}", which.net->to_string()));
  return selected;
}

Status Core::change_nis(Time now, const NiSelection& which, const NiChange& change) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  const Result<std::vector<NiId>> selected = select_nis(which);
  if (!selected) return selected.error();
  Status status;
  if (change.health) status = check_health_value("health", *change.health);
  if (status.is_ok() && change.health_sensitivity)
    status = check_sensitivity(*change.health_sensitivity);
  if (status.is_ok() && change.lnd_timeout_s)
    status = check_lnd_timeout(state_.global, *change.lnd_timeout_s);
  if (!status.is_ok()) return status;

  for (const NiId id : *selected) {
    Ni& ni = state_.nets.ni(id);
    if (change.health_sensitivity) {
      // All NIs of a net hold the net's tunables.
      (which.net && !which.nid ? ni.tunables.health_sensitivity : ni.health_sensitivity) =
          override_of(*change.health_sensitivity);
    }
    if (change.lnd_timeout_s) {
      ni.tcp.timeout_s = *change.lnd_timeout_s;
      update_lnd_timeout(ni);
    }
    if (change.health) health_.set(ni, *change.health);
  }
  recovery_.settings_changed();
  // By hand it is told at once (HL-16); what traffic moves is seen at the next ping (spec 4.5).
  if (state_.ping_info_stale) {
    ping_.refresh();
    discovery_.announce();
  }
  settle();
  return Status::ok();
}

Status Core::change_peers(Time now, const std::optional<Nid>& nid, const PeerChange& change) {
  if (state_.shutting_down) return State::stopping();
  state_.now = now;
  if (nid && state_.peers.find(*nid) == nullptr)
    return {ENOENT, fmt::format("no peer NI {}", nid->to_string())};
  Status status;
  if (change.health) status = check_health_value("health", *change.health);
  if (status.is_ok() && change.health_sensitivity)
    status = check_sensitivity(*change.health_sensitivity);
  if (!status.is_ok()) return status;

  state_.peers.nis().for_each([&](PeerNiId, PeerNi& peer_ni) {
    if (nid && peer_ni.nid != *nid) return;
    if (change.health_sensitivity) {
      state_.peers.peer(peer_ni.peer).health_sensitivity = override_of(*change.health_sensitivity);
    }
    if (change.health) health_.set(peer_ni, *change.health);
  });
  recovery_.settings_changed();
  return Status::ok();
}

}  // namespace ulnet::core
