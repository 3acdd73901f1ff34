// What a Core shows of itself. Source: spec lnet-core 10.3.
#include "lnet/core/core.h"

namespace ulnet::core {
namespace {

uint64_t failures_of(const HealthCounts& counts, HealthStatus status) {
  return counts[static_cast<size_t>(status)];
}

// When the next recovery ping is due, in seconds of the node's clock; 0: none is planned.
int64_t next_ping_s(const Timer& recovery) {
  if (!recovery.is_set()) return 0;
  return std::chrono::ceil<std::chrono::seconds>(recovery.when.time_since_epoch()).count();
}

std::optional<uint32_t> set_priority(uint32_t priority) {
  return priority == kLowestPriority ? std::nullopt : std::optional(priority);
}

NiInfo describe(const Ni& ni, const Net& net, const GlobalSettings& global) {
  NiInfo info;
  info.nid = ni.nid;
  info.interface = ni.interface;
  info.up = ni.published_up && !ni.fatal;
  info.down_reason = ni.down_reason;
  info.stats = ni.stats;
  info.health = ni.is_loopback() ? 0 : ni.health;
  info.ping_count = ni.recovery_pings;
  info.next_ping_s = next_ping_s(ni.recovery);
  info.fatal = ni.fatal;
  info.udsp = {set_priority(net.priority), set_priority(ni.priority), {}};
  info.interrupts = failures_of(ni.failures, HealthStatus::kLocalInterrupt);
  info.dropped = failures_of(ni.failures, HealthStatus::kLocalDropped);
  info.aborted = failures_of(ni.failures, HealthStatus::kLocalAborted);
  info.no_route = failures_of(ni.failures, HealthStatus::kLocalNoRoute);
  info.timeouts = failures_of(ni.failures, HealthStatus::kLocalTimeout);
  info.errors = failures_of(ni.failures, HealthStatus::kLocalError);
  info.tunables = ni.tunables;
  info.own_health_sensitivity = ni.health_sensitivity;
  info.lnd_timeout_asked_s = ni.tcp.timeout_s;
  info.lnd_timeout_s = static_cast<int32_t>(ni.lnd_timeout / std::chrono::seconds(1));
  info.attempt_bound_s = ni.lnd_timeout > Duration::zero()
                             ? global.attempt_bound_s(info.lnd_timeout_s)
                             : global.transaction_timeout_s;
  if (ni.nid.net().type == NetType::kTcp) {
    info.tcp = ni.tcp;
    info.tcp->timeout_s = info.lnd_timeout_s;
  }
  info.tx_credits = ni.tx_credits.available();
  info.tx_credits_min = ni.tx_credits.min();
  info.waiting = ni.tx_credits.waiting();
  info.failures = named(ni.failure_kinds);
  return info;
}

PeerNiInfo describe(const PeerNi& ni, const PeerNet& net, const NetTable& nets) {
  PeerNiInfo info;
  info.nid = ni.nid;
  info.max_ni_tx_credits = ni.tx_credits.limit();
  info.available_tx_credits = ni.tx_credits.available();
  info.min_tx_credits = ni.tx_credits.min();
  info.tx_q_bytes = ni.tx_queue_bytes;
  info.available_rtr_credits = ni.tx_credits.limit();
  info.min_rtr_credits = ni.tx_credits.limit();
  info.waiting = ni.tx_credits.waiting();
  info.stats = ni.stats;
  info.health = ni.health;
  info.udsp = {set_priority(net.priority), set_priority(ni.priority), {}};
  for (const NiId source : ni.preferred_sources)
    info.udsp.preferred_sources.push_back(nets.ni(source).nid);
  info.ping_count = ni.recovery_pings;
  info.next_ping_s = next_ping_s(ni.recovery);
  info.dropped = failures_of(ni.failures, HealthStatus::kRemoteDropped);
  info.timeouts = failures_of(ni.failures, HealthStatus::kRemoteTimeout);
  info.errors = failures_of(ni.failures, HealthStatus::kRemoteError);
  info.network_timeouts = failures_of(ni.failures, HealthStatus::kNetworkTimeout);
  info.failures = named(ni.failure_kinds);
  return info;
}

PeerInfo describe(const State& state, const Health& health, const Peer& peer) {
  PeerInfo info{peer.primary_nid, peer.is_multi_rail(), peer.state, {}};
  info.own_health_sensitivity = peer.health_sensitivity;
  for (const PeerNet& net : peer.nets) {
    for (const PeerNiId id : net.nis) {
      const PeerNi& ni = state.peers.ni(id);
      info.nis.push_back(describe(ni, net, state.nets));
      info.nis.back().health_sensitivity = health.sensitivity(ni);
    }
  }
  return info;
}

}  // namespace

std::vector<Nid> Core::nids() const {
  std::vector<Nid> nids;
  for (const NetId net : state_.nets.nets()) {
    for (const NiId id : state_.nets.nis_of(net)) {
      if (id != kLoopbackNi) nids.push_back(state_.nets.ni(id).nid);
    }
  }
  return nids;
}

std::vector<NetInfo> Core::nets() const {
  std::vector<uint32_t> delayed(state_.nets.ni_count());
  state_.sends.for_each([&delayed](SendId, const SendMessage& message) {
    delayed[message.ni] += message.state == SendMessage::State::kDelayed ? 1 : 0;
  });
  std::vector<NetInfo> nets;
  for (const NetId net_id : state_.nets.nets()) {
    const Net& net = *state_.nets.find_net(net_id);
    NetInfo info{net_id, {}};
    for (const NiId id : net.nis) {
      const Ni& ni = state_.nets.ni(id);
      info.nis.push_back(describe(ni, net, state_.global));
      info.nis.back().health_sensitivity = health_.sensitivity(ni);
      info.nis.back().delayed = delayed[id];
    }
    nets.push_back(std::move(info));
  }
  return nets;
}

std::vector<PeerInfo> Core::peers() const {
  std::vector<PeerInfo> peers;
  for (const PeerId id : state_.peers.order())
    peers.push_back(describe(state_, health_, state_.peers.peer(id)));
  return peers;
}

std::optional<PeerInfo> Core::find_peer(const Nid& nid) const {
  const PeerNi* ni = state_.peers.find(nid);
  if (ni == nullptr) return std::nullopt;
  return describe(state_, health_, state_.peers.peer(ni->peer));
}

Statistics Core::statistics() const {
  const CoreStats& core = state_.stats;
  Statistics out;
  out.msgs_alloc = state_.sends.size() + state_.receives.size();
  out.msgs_max = core.msgs_max;
  state_.mds.for_each(
      [&out](MdId, const Md& md) { out.rst_alloc += md.response.is_set() ? 1 : 0; });
  out.send_count = core.send_count;
  out.resend_count = core.resend_count;
  out.failed_resends = core.failed_resends;
  out.successful_resends = core.successful_resends;
  out.recovery_pings = core.recovery_pings;
  out.response_timeout_count = core.response_timeout_count;
  out.local_interrupt_count = failures_of(core.health, HealthStatus::kLocalInterrupt);
  out.local_dropped_count = failures_of(core.health, HealthStatus::kLocalDropped);
  out.local_aborted_count = failures_of(core.health, HealthStatus::kLocalAborted);
  out.local_no_route_count = failures_of(core.health, HealthStatus::kLocalNoRoute);
  out.local_timeout_count = failures_of(core.health, HealthStatus::kLocalTimeout);
  out.local_error_count = failures_of(core.health, HealthStatus::kLocalError);
  out.remote_dropped_count = failures_of(core.health, HealthStatus::kRemoteDropped);
  out.remote_error_count = failures_of(core.health, HealthStatus::kRemoteError);
  out.remote_timeout_count = failures_of(core.health, HealthStatus::kRemoteTimeout);
  out.network_timeout_count = failures_of(core.health, HealthStatus::kNetworkTimeout);
  out.recv_count = core.recv_count;
  out.drop_count = core.drop_count;
  out.send_length = core.send_length;
  out.recv_length = core.recv_length;
  out.drop_length = core.drop_length;
  out.drops = named(core.drops);
  return out;
}

void Core::reset_statistics() {
  state_.stats = CoreStats{};
  for (NiId id = 0; id < state_.nets.ni_count(); ++id) state_.nets.ni(id).stats = MessageStats{};
  state_.peers.nis().for_each([](PeerNiId, PeerNi& ni) { ni.stats = MessageStats{}; });
}

}  // namespace ulnet::core
