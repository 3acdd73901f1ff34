// What a node shows of itself: snapshots for `net show`, `peer show`, `stats show`, `global show`.
// Names follow lnetctl's keys. Source: spec lnet-core 10.3, spec config 8.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ulnet/settings.h"
#include "ulnet/types.h"

namespace ulnet {

// Messages by type, counted by their real type.
struct TypeCounts {
  uint64_t put = 0;
  uint64_t get = 0;
  uint64_t reply = 0;
  uint64_t ack = 0;
  uint64_t hello = 0;
  uint64_t total() const { return put + get + reply + ack + hello; }
};

struct MessageStats {
  TypeCounts sent;
  TypeCounts received;
  TypeCounts dropped;
};

struct CounterInfo {
  std::string name;
  uint64_t value = 0;
};

// One connection of a driver, as `peer show -v` lists it under our own key `connections`.
struct ConnectionInfo {
  std::string type;       // "control", "bulk_in", "bulk_out"
  std::string direction;  // "active", "passive"
  std::string local;      // "10.0.0.1:1023"
  std::string remote;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t queued_bytes = 0;
  uint64_t unacked_bytes = 0;  // of sent_bytes: not yet acknowledged by the peer's TCP
  uint32_t path_mtu = 0;       // bytes; what our TCP takes it to be; 0: not known
  uint32_t mss = 0;            // bytes of one segment in use; 0: not known
};

// What selection policies say of an NI and its net; nothing prints -1.
struct UdspInfo {
  std::optional<uint32_t> net_priority;
  std::optional<uint32_t> nid_priority;
  std::vector<Nid> preferred_sources;  // of a peer NI: our NIDs preferred to reach it
};

struct NiInfo {
  Nid nid;  // of a NI that waits for its interface perhaps not known: then address 0 on its net
  std::string interface;  // empty for 0@lo
  bool up = true;
  std::string down_reason;  // "waiting for eth1"; empty when it is up
  MessageStats stats;
  int32_t health = 1000;
  int32_t health_sensitivity = 100;               // in force
  std::optional<int32_t> own_health_sensitivity;  // if it has one; the net's is in `tunables`
  bool fatal = false;
  UdspInfo udsp;
  // Failed attempts by health status (spec lnet-core 10.3).
  uint64_t interrupts = 0, dropped = 0, aborted = 0, no_route = 0, timeouts = 0, errors = 0;
  uint32_t ping_count = 0;
  int64_t next_ping_s = 0;
  NetTunables tunables;
  std::optional<TcpTunables> tcp;     // what is in force
  int32_t lnd_timeout_asked_s = 0;    // 0 = none, derived; `tcp->timeout_s` is what is in force
  int32_t lnd_timeout_s = 0;          // in force
  int32_t attempt_bound_s = 0;        // no attempt to send takes longer
  int32_t tx_credits = 0;             // free now
  int32_t tx_credits_min = 0;         // lowest ever
  uint32_t waiting = 0;               // messages that wait for an NI credit
  uint32_t delayed = 0;               // messages that have one and that a delay rule holds
  std::vector<CounterInfo> failures;  // seed 001's kinds
  std::vector<CounterInfo> driver;    // the LND's own counters
};

struct NetInfo {
  NetId net;
  std::vector<NiInfo> nis;
};

struct PeerNiInfo {
  Nid nid;
  std::optional<bool> up;  // nothing prints NA
  int32_t max_ni_tx_credits = 0;
  int32_t available_tx_credits = 0;
  int32_t min_tx_credits = 0;
  uint64_t tx_q_bytes = 0;
  int32_t available_rtr_credits = 0;
  int32_t min_rtr_credits = 0;
  uint32_t refcount = 1;
  uint32_t waiting = 0;  // messages that wait for a peer credit
  MessageStats stats;
  int32_t health = 1000;
  int32_t health_sensitivity = 100;  // in force
  UdspInfo udsp;
  uint64_t dropped = 0, timeouts = 0, errors = 0, network_timeouts = 0;
  uint32_t ping_count = 0;
  int64_t next_ping_s = 0;
  std::vector<CounterInfo> failures;
  std::vector<ConnectionInfo> connections;
};

struct PeerInfo {
  Nid primary_nid;
  bool multi_rail = false;
  uint32_t state = 0;  // bit mask of spec lnet-core 5.3
  std::vector<PeerNiInfo> nis;
  std::optional<int32_t> own_health_sensitivity;  // if it has one
};

// `statistics:` in lnetctl's order, then what only we count.
struct Statistics {
  uint64_t msgs_alloc = 0, msgs_max = 0, rst_alloc = 0, errors = 0;
  uint64_t send_count = 0, resend_count = 0, response_timeout_count = 0;
  uint64_t local_interrupt_count = 0, local_dropped_count = 0, local_aborted_count = 0,
           local_no_route_count = 0, local_timeout_count = 0, local_error_count = 0,
           remote_dropped_count = 0, remote_error_count = 0, remote_timeout_count = 0,
           network_timeout_count = 0;
  uint64_t failed_resends = 0, successful_resends = 0;
  uint64_t recovery_pings = 0;  // sent to sick NIs, own and others'
  uint64_t recv_count = 0, route_count = 0, drop_count = 0;
  uint64_t send_length = 0, recv_length = 0, route_length = 0, drop_length = 0;
  std::vector<CounterInfo> drops;  // one for each reason, zeroes included
};

struct PingResult {
  Nid primary_nid;
  bool multi_rail = false;
  bool routing = false;
  uint32_t features = 0;
  std::vector<Nid> nids;  // without 0@lo
  int64_t rtt_ns = 0;
};

}  // namespace ulnet
