// Portals and match entries: which MD a request lands in.
//
// Each portal keeps its MEs in two places: those with ignore bits in one list, exact ones in lists
// by match bits. The whole first list is searched before the exact one, each in list order; so the
// order between the two groups is not the order of insertion. The first ME fixes the portal's type
// for ever.
//
// Source: spec lnet-core 3.2, 3.6, 3.7.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "lnet/base/slab.h"
#include "lnet/core/md.h"
#include "ulnet/types.h"

namespace ulnet::core {

enum class PortalType : uint8_t {
  kUnset,
  kUnique,    // ignore bits 0, one NID, one pid: bulk and reply buffers
  kWildcard,  // anything else: request buffers
};

struct Me {
  MeId id = 0;
  MeSpec spec;
  MdId md = 0;  // 0: none yet; such an ME never matches
  MeId previous = 0;
  MeId next = 0;
};

// A request that looks for memory.
struct MatchRequest {
  bool is_put = true;
  Nid source_primary;  // primary NID of the peer that owns the header's source NID
  Pid source_pid = 0;
  uint64_t match_bits = 0;
  uint32_t requested_bytes = 0;
  uint32_t offset = 0;
};

struct MatchResult {
  enum class Kind : uint8_t { kNone, kMatched, kTooLong, kBadOffset };
  Kind kind = Kind::kNone;
  MdId md = 0;
  Fit fit;
};

class MatchTable {
 public:
  explicit MatchTable(Slab<Md>& mds) : mds_(mds) {}

  // Errors: EINVAL portal out of range, EPERM portal of the other type.
  Result<MeId> attach(const MeSpec& spec);
  Me* find(MeId id) { return mes_.find(id); }
  // REQUIRES: the ME is alive; its MD, if any, is not its business any more.
  void erase(MeId id);

  // The first ME with an MD that takes `request`. REQUIRES: portal < kPortals.
  MatchResult match(uint32_t portal, const MatchRequest& request);
  // As if `md`'s ME were the only one: for messages that wait on a lazy portal.
  MatchResult match_md(const Md& md, const MatchRequest& request) const;

  bool is_lazy(uint32_t portal) const { return portals_[portal].lazy; }
  void set_lazy(uint32_t portal, bool lazy) { portals_[portal].lazy = lazy; }
  // Messages that wait on a lazy portal, oldest first.
  std::deque<uint64_t>& parked(uint32_t portal) { return portals_[portal].parked; }

  size_t me_count() const { return mes_.size(); }
  template <typename Visit>
  void for_each_me(Visit visit) {
    mes_.for_each(visit);
  }

 private:
  struct List {
    MeId head = 0;
    MeId tail = 0;
  };
  struct Portal {
    PortalType type = PortalType::kUnset;
    bool lazy = false;
    List with_ignore_bits;
    std::unordered_map<uint64_t, List> exact;  // looked up, never walked
    std::deque<uint64_t> parked;               // ReceiveIds
  };

  List& list_of(const MeSpec& spec);
  MatchResult search(const List& list, const MatchRequest& request) const;
  MatchResult try_me(const Me& me, const MatchRequest& request) const;

  Slab<Md>& mds_;
  Slab<Me> mes_;
  std::array<Portal, kPortals> portals_;
};

}  // namespace ulnet::core
