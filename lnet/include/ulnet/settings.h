// What a node is told: nets, NIs, limits, timers; with units and defaults. Plain data: the YAML
// loader fills it, tests write it by hand, the engine reads it.
//
// Names follow lnetctl and the kernel's module parameters. Source: spec config 2, spec tcp-lnd 6,
// spec lnet-core 12.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ulnet/fault.h"
#include "ulnet/types.h"

namespace ulnet {

// `tunables:` of a NI; those of the first NI of a net win.
struct NetTunables {
  int32_t peer_timeout_s = 180;     // routers only; <= 0 switches aliveness off
  int32_t peer_credits = 8;         // messages on the way to one peer NI; capped by credits
  int32_t peer_buffer_credits = 0;  // router buffers for one peer; 0 = derive
  int32_t credits = 256;            // messages on the way on one NI
  // Of the net's NIs, and of peer NIs on it, instead of the global one (decisions D3). 0..1000.
  std::optional<int32_t> health_sensitivity;
  friend bool operator==(const NetTunables&, const NetTunables&) = default;
};

// `lnd tunables:` of a tcp NI. Source: spec tcp-lnd 6.1 and 6.3.
struct TcpTunables {
  int32_t conns_per_peer = 0;   // connections of each bulk type; 0 = by link speed; 0..127
  int32_t timeout_s = 0;        // LND timeout; 0 = derived from transaction_timeout and retry_count
  int32_t tos = -1;             // IP type of service; -1 = leave; -1..255
  int32_t tx_buffer_bytes = 0;  // SO_SNDBUF; 0 = the system's tuning
  int32_t rx_buffer_bytes = 0;  // SO_RCVBUF; 0 = the system's tuning
  int32_t min_bulk_bytes = 1024;     // frames at least this long go to a bulk connection
  int32_t min_reconnect_ms = 1000;   // back-off after a failed connect: first wait ...
  int32_t max_reconnect_ms = 60000;  // ... and ceiling
  int32_t keepalive_s = 30;          // LNet-level keepalive after this silence; <= 0 off
  int32_t keepalive_idle_s = 30;     // TCP keepalive; any of the three <= 0: off
  int32_t keepalive_intvl_s = 5;
  int32_t keepalive_count = 5;
  bool nagle = false;
  bool enable_csum = false;  // send the payload checksum that version 3 and 4 receivers verify
  bool accept_foreign_address =
      false;                   // accept a HELLO whose NID differs from the TCP source address
  std::string tcp_congestion;  // TCP_CONGESTION of our sockets; empty = the system's default
  friend bool operator==(const TcpTunables&, const TcpTunables&) = default;
};

// One local interface on one net. At least one of `nid` and `interface` is given.
struct NiSettings {
  NetId net;
  std::optional<Nid> nid;  // exact address; any of 127/8 is legal on lo
  std::string interface;   // device or alias name ("eth0", "eth0:1"); the LND finds its address
  NetTunables tunables;
  TcpTunables tcp;                            // read when net.type is tcp
  std::optional<int32_t> health_sensitivity;  // instead of the net's; 0..1000
  std::string cpt;                            // kept and exported, no effect
  std::string where;  // "FILE:LINE" for messages; empty when written by hand
};

// `global:`. Source: spec config 2.2 and 8.6, decisions D5.
struct GlobalSettings {
  int32_t numa_range = 0;
  int32_t max_interfaces = 200;
  bool discovery = true;
  bool drop_asym_route = false;
  int32_t retry_count = 2;
  int32_t transaction_timeout_s = 150;
  int32_t health_sensitivity = 100;  // 0..1000
  int32_t recovery_interval_s = 1;   // obsolete; kept and shown
  int32_t router_sensitivity = 100;  // percent
  int32_t response_tracking = 3;     // 0 none, 1 GET, 2 PUT, 3 both
  int32_t recovery_limit_s = 0;
  int32_t max_recovery_ping_interval_s = 900;

  // lnet_lnd_timeout: max(1, (T - 1) div (R + 1)), seconds.
  constexpr int32_t lnd_timeout_s() const {
    const int32_t derived = (transaction_timeout_s - 1) / (retry_count + 1);
    return derived < 1 ? 1 : derived;
  }
  // The LND timeout in force where `asked_s` was asked for (0: nothing was): never more than what
  // transaction_timeout leaves for one attempt.
  constexpr int32_t lnd_timeout_s(int32_t asked_s) const {
    const int32_t derived = lnd_timeout_s();
    return asked_s > 0 && asked_s < derived ? asked_s : derived;
  }
  // No attempt to send takes longer than this, where `lnd_timeout` is in force.
  constexpr int32_t attempt_bound_s(int32_t lnd_timeout) const {
    const int64_t attempts = int64_t{lnd_timeout} * (retry_count + 1) + 1;
    return attempts < transaction_timeout_s ? static_cast<int32_t>(attempts)
                                            : transaction_timeout_s;
  }
  friend bool operator==(const GlobalSettings&, const GlobalSettings&) = default;
};

// Who may connect to the acceptor: source ports up to 1023 only, everybody, or no listener. Source:
// spec tcp-lnd 1.1.
enum class AcceptPolicy : uint8_t { kSecure, kAll, kNone };

struct AcceptorSettings {
  AcceptPolicy policy = AcceptPolicy::kSecure;
  uint16_t port = 988;  // listened on and dialled
  int32_t backlog = 127;
  int32_t timeout_s = 5;                // connect request and HELLO together
  int32_t setups_per_address_max = 64;  // half-open set-ups from one source address
};

// Bounds on what peers can make us hold.
struct LimitSettings {
  int32_t parked_per_portal_max = 1024;  // messages waiting on a lazy portal
  int32_t parked_per_peer_max = 256;
  int32_t peers_by_traffic_max = 65536;       // peers that only traffic has created
  int32_t waiting_for_discovery_max = 65536;  // messages of ours that wait to know one peer
};

// What happens when the interface of a NI that was configured by name has another address than when
// the NI came up.
enum class AddressChange : uint8_t {
  kKeep,    // the NI is down until its address is back
  kFollow,  // a NI with the new address takes its place
};

// Our own key `ulnet:`.
struct NodeSettings {
  int32_t threads = 1;   // loops; 0 = the application drives everything by Endpoint::poll()
  int32_t spin_us = 50;  // a loop polls this long before it sleeps; 0 = never
  int32_t shutdown_grace_ms = 2000;  // how long stop() lets accepted messages leave
  std::string socket;                // control socket path; empty = the daemon's default
  std::string log_level = "info";    // trace, debug, info, warn, error, off
  // Whether a NI whose interface or address is not there at start-up is waited for; otherwise the
  // start fails. Not given: ulnetd waits, other applications do not.
  std::optional<bool> wait_for_interfaces;
  AddressChange address_change = AddressChange::kKeep;
};

// One entry of `peer:`: a node with several NIDs, told by hand.
struct PeerSettings {
  Nid primary_nid;
  std::vector<Nid> nids;  // may repeat the primary
  bool multi_rail = true;
  bool lock_primary = false;                  // discovery does not rename it
  std::optional<int32_t> health_sensitivity;  // of all its NIs; 0..1000
  std::string where;                          // "FILE:LINE" for messages
};

// Which local NIs a change is for: one, those of a net, or with neither all but 0@lo.
struct NiSelection {
  std::optional<Nid> nid;
  std::optional<NetId> net;
};

// Back to what holds without an override of its own.
inline constexpr int32_t kInheritSensitivity = -1;

// What `net set` changes of local NIs; what is not given stays.
struct NiChange {
  std::optional<int32_t> health;              // 0..1000
  std::optional<int32_t> health_sensitivity;  // 0..1000, or kInheritSensitivity; with a net, the
                                              // net's, else the NI's own
  std::optional<int32_t> lnd_timeout_s;       // 0 = derived
};

// What `peer set` changes.
struct PeerChange {
  std::optional<int32_t> health;              // of one peer NI; 0..1000
  std::optional<int32_t> health_sensitivity;  // of its peer; 0..1000, or kInheritSensitivity
};

// One user-defined selection policy: which paths are preferred among equally healthy ones.
//
//   descriptor = [ addresses "@" ] netname [ netnumber ]     "tcp1", "10.1.0.[2-9]@tcp", "*@o2ib*"
//
//   src, or dst          priority (0 is the best) of our nets or NIs, or of peers' nets or NIDs
//   dst with src         these of our NIDs are preferred to reach these NIDs of peers
//   dst with rte         these gateways are preferred to reach these NIDs of peers
// Source: spec lnet-core 10.2.
struct Udsp {
  std::string src;  // descriptors; empty: none
  std::string dst;
  std::string rte;
  std::optional<uint32_t> priority;  // of src or dst alone, where it is 0 when left out
  std::string where;                 // "FILE:LINE" for messages
};

struct Settings {
  std::vector<PeerSettings> peers;
  std::vector<FaultRule> faults;  // of both kinds; each is put before those ahead of it
  std::vector<Udsp> udsps;        // in order: of contradictory ones the first counts
  std::vector<NiSettings>
      nis;  // order is configuration order: the first NI's NID is the primary NID
  GlobalSettings global;
  AcceptorSettings acceptor;
  LimitSettings limits;
  NodeSettings node;
};

}  // namespace ulnet
