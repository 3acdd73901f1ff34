// The local side: nets and NIs. Source: spec lnet-core 5.1.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lnet/core/credits.h"
#include "lnet/core/numa.h"
#include "lnet/core/stats.h"
#include "lnet/core/timers.h"
#include "lnet/core/udsp.h"
#include "lnet/lnd.h"
#include "ulnet/settings.h"

namespace ulnet::core {

inline constexpr int32_t kHealthMax = 1000;

// RESERVED ──add_ni──> ACTIVE ──remove_ni──> REMOVED
// Its driver may know a NI a little earlier and a little longer than ACTIVE lasts, and so may call
// with its id; the entry of a removed NI stays for that, and nothing chooses or shows it.
enum class NiState : uint8_t { kReserved, kActive, kRemoved };

struct Ni {
  NiId id = 0;
  NiState state = NiState::kReserved;
  Nid nid;
  std::string interface;
  NetTunables tunables;
  TcpTunables tcp;
  Duration lnd_timeout{};                     // in force; zero: the driver has none
  std::optional<int32_t> health_sensitivity;  // its own
  Credits tx_credits{0};
  uint64_t sequence = 0;                // of its last use, for round robin
  uint32_t priority = kLowestPriority;  // by selection policies
  NumaNode numa_node = kNoNumaNode;     // of its device
  int32_t health = kHealthMax;
  Timer recovery;               // of its next recovery ping
  uint32_t recovery_pings = 0;  // since something came in by it
  uint64_t recovery_ping = 0;   // MdId of the one on its way
  bool fatal = false;           // link or address lost
  bool published_up = true;     // by health (spec 4.5); a fatal NI is published as DOWN anyway
  std::string down_reason;      // why it is fatal
  MessageStats stats;
  HealthCounts failures = {};
  FailureCounts failure_kinds = {};

  bool is_loopback() const { return id == kLoopbackNi; }
  bool is_active() const { return state == NiState::kActive; }
};

struct Net {
  NetId id;
  std::vector<NiId> nis;                // in the order in which they came
  uint64_t sequence = 0;                // of its last use, for round robin
  uint32_t priority = kLowestPriority;  // by selection policies
};

// Nets in the order in which they came, lo first. Ids are indices: an entry stays when its NI goes.
class NetTable {
 public:
  NetTable();

  // An entry for a NI that is about to be started.
  NiId reserve_ni();
  // Errors: EEXIST when the NID is already there. REQUIRES: `id` is reserved.
  Status add_ni(NiId id, const NiSettings& settings, const NiStarted& started);
  // REQUIRES: `id` is active.
  void remove_ni(NiId id);

  Ni& ni(NiId id) { return nis_[id]; }
  const Ni& ni(NiId id) const { return nis_[id]; }
  size_t ni_count() const { return nis_.size(); }
  // The NI with exactly this NID, or nullptr.
  Ni* find_ni(const Nid& nid);
  bool is_local_nid(const Nid& nid) const { return by_nid_.contains(nid); }
  bool is_local_net(NetId net) const { return by_net_.contains(net); }
  // nullptr when it is not local.
  Net* find_net(NetId net);
  const Net* find_net(NetId net) const { return const_cast<NetTable*>(this)->find_net(net); }
  const std::vector<NiId>& nis_of(NetId net) const;
  // What a peer NI on `net` gets; 0 when that net is not local.
  int32_t peer_credits(NetId net) const;
  const std::vector<NetId>& nets() const { return nets_; }  // lo first

 private:
  std::deque<Ni> nis_;
  std::vector<NetId> nets_;
  std::unordered_map<NetId, Net> by_net_;  // looked up, never walked
  std::unordered_map<Nid, NiId> by_nid_;
};

}  // namespace ulnet::core
