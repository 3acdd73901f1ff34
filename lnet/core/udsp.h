// User-defined selection policies (UDSP): an ordered list, and what it says of nets, NIs and the
// NIDs of peers. Purely local; they rank paths among equally healthy ones and forbid none.
//
// The list is the truth: priorities and preferred NIs of the objects are a copy, written by
// apply_to() whenever the list or the objects change, so that path selection reads plain fields.
// Source: spec lnet-core 10.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lnet/wire/nid.h"
#include "ulnet/settings.h"

namespace ulnet::core {

class NetTable;
class PeerTable;
struct PeerNet;
struct PeerNi;

inline constexpr uint32_t kLowestPriority = UINT32_MAX;  // of what no policy names; 0 is the best
inline constexpr size_t kUdspsMax = 1024;

// `[ addresses "@" ] netname [ netnumber ]`: NIDs, or with no addresses whole nets.
class UdspDescriptor {
 public:
  // Errors: EINVAL that quotes the text and says what is wrong with it. CIDR and IPv6 addresses are
  // not in the grammar.
  static Result<UdspDescriptor> parse(std::string_view text);

  bool is_net() const { return !addresses_.has_value(); }
  bool matches(NetId net) const;
  // Of a whole net: every NID on it. Octets match 4-byte addresses only.
  bool matches(const Nid& nid) const;
  // Canonical; parses to an equal descriptor.
  std::string to_string() const;
  friend bool operator==(const UdspDescriptor&, const UdspDescriptor&) = default;

 private:
  NetType type_ = NetType::kAny;
  NumberSet numbers_;
  std::optional<NidList> addresses_;  // one range, as if on number 0 of the net type
};

class UdspList {
 public:
  // See Endpoint.
  Status add(const Udsp& udsp, std::optional<uint32_t> index);
  Status del(uint32_t index);
  void clear() { policies_.clear(); }
  std::vector<Udsp> list() const;
  bool empty() const { return policies_.empty(); }

  // Writes what the policies say into all local nets and NIs, all peer NIs, or a new peer NI and
  // its net.
  void apply_to(NetTable& nets) const;
  void apply_to(PeerTable& peers, const NetTable& nets) const;
  void apply_to(PeerNi& peer_ni, PeerNet& peer_net, const NetTable& nets) const;

  // Whether a gateway with this primary NID is preferred to reach `dest`.
  bool prefers_router(const Nid& dest, const Nid& gateway) const;

 private:
  struct Policy {
    std::optional<UdspDescriptor> src;
    std::optional<UdspDescriptor> dst;
    std::optional<UdspDescriptor> rte;
    std::optional<uint32_t> priority;

    bool has_descriptors_of(const Policy& other) const {
      return src == other.src && dst == other.dst && rte == other.rte;
    }
  };
  using End = std::optional<UdspDescriptor> Policy::*;

  static Result<Policy> parse(const Udsp& udsp);
  // Priority by the first policy of this one end alone that matches.
  uint32_t priority_of(End end, NetId net) const;
  uint32_t priority_of(End end, const Nid& nid) const;
  bool prefers(End other_end, const Nid& dest, const Nid& nid) const;

  std::vector<Policy> policies_;
};

}  // namespace ulnet::core
