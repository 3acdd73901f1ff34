// Ping info: what a node tells of itself in a ping's REPLY and in a push.
//
// Source: spec lnet-core 4.2 (layout), 4.3 (features), 4.4 (byte order), 14.3 (checks, row by row).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet {

// Bits of PingInfo::features. Receivers ignore unknown bits.
enum PingFeature : uint32_t {
  kPingBase = 0x01,
  kPingNiStatus = 0x02,  // required
  kPingRoutingDisabled = 0x04,
  kPingMultiRail = 0x08,
  kPingDiscovery = 0x10,
  kPingLargeAddress = 0x20,
  kPingPrimaryLarge = 0x40,
  kPingMetadata = 0x80,
};

inline constexpr uint32_t kPingMagic = 0x70696E67;
inline constexpr uint32_t kNiStatusUp = 0x15AAC0DE;
inline constexpr uint32_t kNiStatusDown = 0xDEADFACE;
inline constexpr uint32_t kNiStatusInvalid = 0;
inline constexpr uint32_t kPingBufferBytesMin = 272;
inline constexpr uint32_t kPingToolBytes = 3960;  // sink of `lnetctl ping` from 2.16 on

struct PingNi {
  Nid nid;
  uint32_t status = kNiStatusUp;  // unknown values are kept
  friend bool operator==(const PingNi&, const PingNi&) = default;
};

struct PingInfo {
  uint32_t features = 0;
  Pid pid = kPidLustre;
  uint32_t sequence = 1;
  std::vector<PingNi> nis;  // without 0@lo; the primary NID first, as in a node's configuration

  // The node's primary NID: first large entry with kPingPrimaryLarge, else the first NID4 entry;
  // wildcard if none.
  Nid primary_nid() const;
  friend bool operator==(const PingInfo&, const PingInfo&) = default;
};

enum class PingInfoError : uint8_t {
  kShort,  // fewer than 32 bytes
  kBadMagic,
  kNoNiStatus,
  kBadCount,    // pi_nnis 0 or above the limit
  kNoLoopback,  // entry 0 is not 0@lo
  kTruncated,   // claims more bytes than came; `needed_bytes` tells how many
  kBadSize,     // ns_msg_size smaller than the NID4 entries
};
std::string_view to_string(PingInfoError error);

struct PingInfoFailure {
  PingInfoError error;
  uint32_t needed_bytes = 0;  // with kTruncated
};

// Decodes from the `bytes` really received; surplus is ignored. Entries that are wildcards, second
// loopbacks or duplicates are left out (14.3 row 13); bad large entries end the list (rows 10 to
// 12). The others keep the order of the wire, but for the primary NID of a kPingPrimaryLarge info,
// which comes first. `interfaces_max` bounds pi_nnis; at least 200 is used.
tl::expected<PingInfo, PingInfoFailure> decode_ping_info(std::span<const uint8_t> bytes,
                                                         uint32_t interfaces_max);

// kPingLargeAddress, kPingPrimaryLarge (the first NID is large) and ns_msg_size are set from `nis`:
// whatever `features` says of those two bits is replaced. 0@lo is put in front; NID4 entries go
// before large ones.
std::vector<uint8_t> encode_ping_info(const PingInfo& info);

}  // namespace ulnet
