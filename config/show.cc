#include "config/show.h"

#include <fmt/format.h>
#include <charconv>

namespace ulnet::config {
namespace {

// There is one CPU partition, 0.
constexpr const char* kCpt = "[0]";
// What lnetctl prints for a tcp NI; it means unknown.
constexpr int kDeviceCptUnknown = -1;

Json totals(const MessageStats& stats) {
  return {{"send_count", stats.sent.total()},
          {"recv_count", stats.received.total()},
          {"drop_count", stats.dropped.total()}};
}

Json by_type(const TypeCounts& counts) {
  return {{"put", counts.put},
          {"get", counts.get},
          {"reply", counts.reply},
          {"ack", counts.ack},
          {"hello", counts.hello}};
}

void add_by_type(Json& into, const MessageStats& stats) {
  into["sent_stats"] = by_type(stats.sent);
  into["received_stats"] = by_type(stats.received);
  into["dropped_stats"] = by_type(stats.dropped);
}

Json priority(const std::optional<uint32_t>& value) {
  return value ? Json(*value) : Json(-1);
}

Json udsp_info(const UdspInfo& udsp) {
  Json map = {{"net priority", priority(udsp.net_priority)},
              {"nid priority", priority(udsp.nid_priority)}};
  for (size_t i = 0; i < udsp.preferred_sources.size(); ++i) {
    map["Preferred source NIDs"][fmt::format("NID-{}", i)] = udsp.preferred_sources[i].to_string();
  }
  return map;
}

Json counters(const std::vector<CounterInfo>& list) {
  Json map = Json::object();
  for (const CounterInfo& counter : list) map[counter.name] = counter.value;
  return map;
}

// A word of a fault rule as what it stands for.
Json value_of(const std::string& word) {
  if (word == "true") return true;
  uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && stop == end ? Json(number) : Json(word);
}

Json in_words(const FaultRule& rule) {
  Json map = Json::object();
  for (const FaultWords& each : fault_words(rule)) {
    Json list = Json::array();
    for (const std::string& word : each.words) list.push_back(value_of(word));
    map[std::string(each.field)] = each.is_list ? std::move(list) : list.front();
  }
  return map;
}

Json show_fault(const FaultInfo& info, bool own_keys) {
  const FaultRule& rule = info.rule;
  const bool drops = rule.kind == FaultKind::kDrop;
  Json map = {{"rule_type", to_string(rule.kind)},
              {"fa_src", rule.source.to_string()},
              {"fa_dst", rule.dest.to_string()},
              {"fa_ptl_mask", rule.portals},
              {"fa_msg_mask", rule.messages},
              {drops ? "da_rate" : "la_rate", rule.rate},
              {drops ? "da_interval" : "la_interval", rule.interval_s}};
  if (!drops) map["la_latency"] = rule.latency_s;
  map[drops ? "ds_dropped" : "ls_delayed"] = info.acted;
  map["fs_count"] = info.examined;
  map["fs_put"] = info.put;
  map["fs_ack"] = info.ack;
  map["fs_get"] = info.get;
  map["fs_reply"] = info.reply;
  if (own_keys) map["ulnet"] = in_words(rule);
  return map;
}

Json ni_health(const NiInfo& ni) {
  return {{"fatal_error", ni.fatal ? 1 : 0}, {"health value", ni.nid.is_lo() ? 0 : ni.health},
          {"interrupts", ni.interrupts},     {"dropped", ni.dropped},
          {"aborted", ni.aborted},           {"no route", ni.no_route},
          {"timeouts", ni.timeouts},         {"error", ni.errors},
          {"ping_count", ni.ping_count},     {"next_ping", ni.next_ping_s}};
}

// Ours, and so printed only where somebody set it.
void add_sensitivity(Json& into, const std::optional<int32_t>& sensitivity) {
  if (sensitivity) into["health_sensitivity"] = *sensitivity;
}

Json net_tunables(const NetTunables& tunables) {
  Json map = {{"peer_timeout", tunables.peer_timeout_s},
              {"peer_credits", tunables.peer_credits},
              {"peer_buffer_credits", tunables.peer_buffer_credits},
              {"credits", tunables.credits}};
  add_sensitivity(map, tunables.health_sensitivity);
  return map;
}

Json tcp_tunables(const TcpTunables& tunables) {
  return {{"conns_per_peer", tunables.conns_per_peer},
          {"timeout", tunables.timeout_s},
          {"tos", tunables.tos}};
}

// Where the LND timeout in force comes from.
std::string timeout_reason(const NiInfo& ni) {
  if (ni.lnd_timeout_asked_s == 0) return "derived";
  if (ni.lnd_timeout_asked_s == ni.lnd_timeout_s) return "set";
  return fmt::format("clamped: {} is more than transaction_timeout leaves for an attempt",
                     ni.lnd_timeout_asked_s);
}

Json lnd_timeout(const NiInfo& ni) {
  return {{"in_force", ni.lnd_timeout_s},
          {"reason", timeout_reason(ni)},
          {"attempt_bound", ni.attempt_bound_s}};
}

Json ni_own_keys(const NiInfo& ni) {
  return {{"health_sensitivity", ni.health_sensitivity},
          {"lnd_timeout", lnd_timeout(ni)},
          {"tx_credits", ni.tx_credits},
          {"tx_credits_min", ni.tx_credits_min},
          {"waiting", ni.waiting},
          {"delayed", ni.delayed},
          {"failures", counters(ni.failures)},
          {"driver", counters(ni.driver)}};
}

Json show_ni(const NiInfo& ni, const ShowOptions& options) {
  const bool lo = ni.nid.is_lo();
  Json map = {{"nid", ni.nid.to_string()}, {"status", ni.up ? "up" : "down"}};
  if (!lo) map["interfaces"] = {{"0", ni.interface}};
  if (options.level >= 1) map["statistics"] = totals(ni.stats);
  if (options.level >= 4) map["udsp info"] = udsp_info(ni.udsp);
  if (options.level >= 2) {
    add_by_type(map, ni.stats);
    map["health stats"] = ni_health(ni);
  }
  if (options.level >= 1) {
    map["tunables"] = net_tunables(lo ? NetTunables{0, 0, 0, 0} : ni.tunables);
    if (ni.tcp && !lo) map["lnd tunables"] = tcp_tunables(*ni.tcp);
    map["dev cpt"] = lo ? 0 : kDeviceCptUnknown;
    map["CPT"] = kCpt;
    add_sensitivity(map, ni.own_health_sensitivity);
  }
  Json own = options.own_keys && !lo ? ni_own_keys(ni) : Json::object();
  if (!ni.down_reason.empty()) own["down_reason"] = ni.down_reason;
  if (!own.empty()) map["ulnet"] = std::move(own);
  return map;
}

Json show_connection(const ConnectionInfo& connection) {
  return {{"type", connection.type},
          {"direction", connection.direction},
          {"local", connection.local},
          {"remote", connection.remote},
          {"sent_bytes", connection.sent_bytes},
          {"received_bytes", connection.received_bytes},
          {"queued_bytes", connection.queued_bytes},
          {"unacked_bytes", connection.unacked_bytes},
          {"path_mtu", connection.path_mtu},
          {"mss", connection.mss}};
}

Json peer_ni_own_keys(const PeerNiInfo& ni) {
  Json connections = Json::array();
  for (const ConnectionInfo& connection : ni.connections)
    connections.push_back(show_connection(connection));
  return {{"health_sensitivity", ni.health_sensitivity},
          {"waiting", ni.waiting},
          {"failures", counters(ni.failures)},
          {"connections", std::move(connections)}};
}

Json show_peer_ni(const PeerNiInfo& ni, const ShowOptions& options) {
  Json map = {{"nid", ni.nid.to_string()}};
  if (options.level >= 4) map["udsp info"] = udsp_info(ni.udsp);
  map["state"] = !ni.up ? "NA" : *ni.up ? "up" : "down";
  if (options.level >= 1) {
    map["max_ni_tx_credits"] = ni.max_ni_tx_credits;
    map["available_tx_credits"] = ni.available_tx_credits;
    map["min_tx_credits"] = ni.min_tx_credits;
    map["tx_q_num_of_buf"] = ni.tx_q_bytes;
    map["available_rtr_credits"] = ni.available_rtr_credits;
    map["min_rtr_credits"] = ni.min_rtr_credits;
    map["refcount"] = ni.refcount;
    map["statistics"] = totals(ni.stats);
  }
  if (options.level >= 2) {
    add_by_type(map, ni.stats);
    map["health stats"] = {{"health value", ni.health},
                           {"dropped", ni.dropped},
                           {"timeout", ni.timeouts},
                           {"error", ni.errors},
                           {"network timeout", ni.network_timeouts},
                           {"ping_count", ni.ping_count},
                           {"next_ping", ni.next_ping_s}};
  }
  if (options.own_keys) map["ulnet"] = peer_ni_own_keys(ni);
  return map;
}

}  // namespace

Json show_nets(const std::vector<NetInfo>& nets, const ShowOptions& options) {
  Json list = Json::array();
  for (const NetInfo& net : nets) {
    Json nis = Json::array();
    for (const NiInfo& ni : net.nis) nis.push_back(show_ni(ni, options));
    list.push_back({{"net type", net.net.to_string()}, {"local NI(s)", std::move(nis)}});
  }
  return {{"net", std::move(list)}};
}

Json show_peers(const std::vector<PeerInfo>& peers, const ShowOptions& options) {
  if (peers.empty()) return Json::object();
  Json list = Json::array();
  for (const PeerInfo& peer : peers) {
    Json map = {{"primary nid", peer.primary_nid.to_string()}, {"Multi-Rail", peer.multi_rail}};
    if (options.level >= 3) map["peer state"] = peer.state;
    if (options.level >= 1) add_sensitivity(map, peer.own_health_sensitivity);
    Json nis = Json::array();
    for (const PeerNiInfo& ni : peer.nis) nis.push_back(show_peer_ni(ni, options));
    map["peer ni"] = std::move(nis);
    list.push_back(std::move(map));
  }
  return {{"peer", std::move(list)}};
}

Json list_peers(const std::vector<PeerInfo>& peers) {
  if (peers.empty()) return Json::object();
  Json list = Json::array();
  for (const PeerInfo& peer : peers) list.push_back({{"nid", peer.primary_nid.to_string()}});
  return {{"peer list", std::move(list)}};
}

Json show_statistics(const Statistics& s, bool own_keys) {
  Json map = {{"msgs_alloc", s.msgs_alloc},
              {"msgs_max", s.msgs_max},
              {"rst_alloc", s.rst_alloc},
              {"errors", s.errors},
              {"send_count", s.send_count},
              {"resend_count", s.resend_count},
              {"response_timeout_count", s.response_timeout_count},
              {"local_interrupt_count", s.local_interrupt_count},
              {"local_dropped_count", s.local_dropped_count},
              {"local_aborted_count", s.local_aborted_count},
              {"local_no_route_count", s.local_no_route_count},
              {"local_timeout_count", s.local_timeout_count},
              {"local_error_count", s.local_error_count},
              {"remote_dropped_count", s.remote_dropped_count},
              {"remote_error_count", s.remote_error_count},
              {"remote_timeout_count", s.remote_timeout_count},
              {"network_timeout_count", s.network_timeout_count},
              {"failed_resends", s.failed_resends},
              {"successful_resends", s.successful_resends},
              {"recv_count", s.recv_count},
              {"route_count", s.route_count},
              {"drop_count", s.drop_count},
              {"send_length", s.send_length},
              {"recv_length", s.recv_length},
              {"route_length", s.route_length},
              {"drop_length", s.drop_length}};
  if (own_keys) map["ulnet"] = {{"recovery_pings", s.recovery_pings}, {"drops", counters(s.drops)}};
  return {{"statistics", std::move(map)}};
}

Json show_global(const GlobalSettings& g) {
  return {{"global",
           {{"numa_range", g.numa_range},
            {"max_interfaces", g.max_interfaces},
            {"discovery", g.discovery ? 1 : 0},
            {"drop_asym_route", g.drop_asym_route ? 1 : 0},
            {"retry_count", g.retry_count},
            {"transaction_timeout", g.transaction_timeout_s},
            {"health_sensitivity", g.health_sensitivity},
            {"recovery_interval", g.recovery_interval_s},
            {"router_sensitivity", g.router_sensitivity},
            {"lnd_timeout", g.lnd_timeout_s()},
            {"response_tracking", g.response_tracking},
            {"recovery_limit", g.recovery_limit_s},
            {"max_recovery_ping_interval", g.max_recovery_ping_interval_s}}}};
}

Json show_global(const GlobalSettings& global, const std::vector<NetInfo>& nets) {
  Json timeouts = Json::array();
  for (const NetInfo& net : nets) {
    for (const NiInfo& ni : net.nis) {
      if (ni.nid.is_lo()) continue;
      Json map = {{"nid", ni.nid.to_string()}};
      map.update(lnd_timeout(ni));
      timeouts.push_back(std::move(map));
    }
  }
  Json tree = show_global(global);
  tree["global"]["ulnet"] = {{"operation_bound", global.transaction_timeout_s},
                             {"lnd_timeouts", std::move(timeouts)}};
  return tree;
}

Json show_faults(const std::vector<FaultInfo>& faults, bool own_keys) {
  if (faults.empty()) return Json::object();
  Json list = Json::array();
  for (const FaultInfo& info : faults) list.push_back(show_fault(info, own_keys));
  return {{"fault", std::move(list)}};
}

Json show_ping(const PingResult& result) {
  Json nis = Json::array();
  for (const Nid& nid : result.nids) nis.push_back({{"nid", nid.to_string()}});
  return {{"primary nid", result.primary_nid.to_string()},
          {"Multi-Rail", result.multi_rail},
          {"peer_ni", std::move(nis)}};
}

Json show_ping(const PeerInfo& peer) {
  Json nis = Json::array();
  for (const PeerNiInfo& ni : peer.nis) nis.push_back({{"nid", ni.nid.to_string()}});
  return {{"primary nid", peer.primary_nid.to_string()},
          {"Multi-Rail", peer.multi_rail},
          {"peer_ni", std::move(nis)}};
}

}  // namespace ulnet::config
