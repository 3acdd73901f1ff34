#include "lnet/wire/ping_info.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>

#include "lnet/base/bytes.h"
#include "lnet/wire/nid.h"

namespace ulnet {
namespace {

// Offsets and sizes of spec lnet-core 4.2.
constexpr size_t kMagic = 0;
constexpr size_t kFeatures = 4;
constexpr size_t kPid = 8;
constexpr size_t kCount = 12;
constexpr size_t kInfoHeaderBytes = 16;

constexpr size_t kEntryNid = 0;
constexpr size_t kEntryStatus = 8;        // entry 0: the sequence number
constexpr size_t kEntryMessageSize = 12;  // entry 0 only: ns_msg_size
constexpr size_t kEntryBytes = 16;

constexpr size_t kLargeEntryNid = 4;
constexpr size_t kLargeEntryBytes = 24;  // of a 16-byte address
constexpr size_t kLargeEntryNid4Bytes =
    16;  // how kernels step over a 4-byte address in the large list

constexpr size_t kInfoBytesMin = kInfoHeaderBytes + kEntryBytes;
constexpr uint32_t kInterfacesFloor = 200;
constexpr uint64_t kLoopbackNid4 = 0x0009'0000'0000'0000;

// Collects entries, without those of row 13.
class EntryList {
 public:
  explicit EntryList(std::vector<PingNi>& nis) : nis_(nis) {}

  void add_nid4(uint64_t nid4, uint32_t status) {
    if (nid4 >> 56 != 0) return;  // the wildcard, or a NID that is no NID4
    add(Nid::from_nid4(nid4), status);
  }
  void add(const Nid& nid, uint32_t status) {
    if (nid.is_any() || nid.is_lo() || !seen_.insert(nid).second) return;
    nis_.push_back({nid, status});
  }

 private:
  std::vector<PingNi>& nis_;
  std::set<Nid> seen_;
};

// Large entries fill [begin, end) of the info. The first one that is not understood ends the list
// (rows 10 to 12).
void read_large_entries(const SenderOrderBytes& in, size_t begin, size_t end, EntryList& entries) {
  size_t at = begin;
  while (end - at >= kLargeEntryNid4Bytes) {
    const uint8_t nid_size = in.bytes[at + kLargeEntryNid];
    const uint32_t status = in.u32(at);
    Nid nid;
    if (nid_size == 12 && end - at >= kLargeEntryBytes) {
      std::memcpy(&nid, in.bytes.data() + at + kLargeEntryNid, kLargeNidBytes);
      at += kLargeEntryBytes;
    } else if (nid_size == 0) {
      // The significant bytes of a large NID with a 4-byte address are a big-endian NID4.
      nid = Nid::from_nid4(load_be64(in.bytes.data() + at + kLargeEntryNid));
      at += kLargeEntryNid4Bytes;
    } else {
      return;
    }
    entries.add(nid, status);
  }
}

bool is_large(const PingNi& ni) {
  return ni.nid.is_ipv6();
}

// Brings the primary NID of a PRIMARY_LARGE info to the front, so that nis.front() is the primary
// in every valid info.
void move_large_primary_to_front(PingInfo& info) {
  if ((info.features & kPingPrimaryLarge) == 0) return;
  const auto primary = std::find_if(info.nis.begin(), info.nis.end(), is_large);
  if (primary != info.nis.end()) std::rotate(info.nis.begin(), primary, primary + 1);
}

tl::unexpected<PingInfoFailure> failure(PingInfoError error, uint32_t needed_bytes = 0) {
  return tl::unexpected(PingInfoFailure{error, needed_bytes});
}

}  // namespace

std::string_view to_string(PingInfoError error) {
  switch (error) {
    case PingInfoError::kShort:
      return "shorter than 32 bytes";
    case PingInfoError::kBadMagic:
      return "bad magic";
    case PingInfoError::kNoNiStatus:
      return "without NI status";
    case PingInfoError::kBadCount:
      return "bad number of entries";
    case PingInfoError::kNoLoopback:
      return "first entry is not 0@lo";
    case PingInfoError::kTruncated:
      return "truncated";
    case PingInfoError::kBadSize:
      return "size smaller than its entries";
  }
  return "?error?";
}

Nid PingInfo::primary_nid() const {
  if ((features & kPingPrimaryLarge) != 0) {
    const auto large = std::find_if(nis.begin(), nis.end(), is_large);
    if (large != nis.end()) return large->nid;
  }
  const auto small = std::find_if_not(nis.begin(), nis.end(), is_large);
  return small != nis.end() ? small->nid : Nid::any();
}

tl::expected<PingInfo, PingInfoFailure> decode_ping_info(std::span<const uint8_t> bytes,
                                                         uint32_t interfaces_max) {
  if (bytes.size() < kInfoBytesMin) return failure(PingInfoError::kShort);
  SenderOrderBytes in{bytes};
  in.flipped = in.u32(kMagic) == byte_swap(kPingMagic);
  if (in.u32(kMagic) != kPingMagic) return failure(PingInfoError::kBadMagic);

  PingInfo info;
  info.features = in.u32(kFeatures);
  info.pid = in.u32(kPid);
  info.sequence = in.u32(kInfoHeaderBytes + kEntryStatus);
  if ((info.features & kPingNiStatus) == 0) return failure(PingInfoError::kNoNiStatus);
  const uint32_t count = in.u32(kCount);
  if (count == 0 || count > std::max(interfaces_max, kInterfacesFloor)) {
    return failure(PingInfoError::kBadCount);
  }
  if (in.u64(kInfoHeaderBytes + kEntryNid) != kLoopbackNid4) {
    return failure(PingInfoError::kNoLoopback);
  }

  const uint64_t entries_end = kInfoHeaderBytes + uint64_t{count} * kEntryBytes;
  uint64_t info_bytes = entries_end;
  if ((info.features & kPingLargeAddress) != 0) {
    info_bytes = in.u32(kInfoHeaderBytes + kEntryMessageSize) & ~uint32_t{3};
    if (info_bytes < entries_end) return failure(PingInfoError::kBadSize);
  }
  if (info_bytes > bytes.size()) {
    // A count near 2^32 needs more than 32 bits can say; so does no buffer of ours.
    const uint64_t needed = std::min<uint64_t>(info_bytes, ~uint32_t{0});
    return failure(PingInfoError::kTruncated, static_cast<uint32_t>(needed));
  }

  EntryList entries(info.nis);
  for (size_t at = kInfoBytesMin; at < entries_end; at += kEntryBytes) {
    entries.add_nid4(in.u64(at + kEntryNid), in.u32(at + kEntryStatus));
  }
  read_large_entries(in, static_cast<size_t>(entries_end), static_cast<size_t>(info_bytes),
                     entries);
  move_large_primary_to_front(info);
  return info;
}

std::vector<uint8_t> encode_ping_info(const PingInfo& info) {
  const auto large_count =
      static_cast<size_t>(std::count_if(info.nis.begin(), info.nis.end(), is_large));
  const size_t entry_count = 1 + info.nis.size() - large_count;
  std::vector<uint8_t> out(kInfoHeaderBytes + entry_count * kEntryBytes +
                           large_count * kLargeEntryBytes);

  uint32_t features = info.features & ~uint32_t{kPingLargeAddress | kPingPrimaryLarge};
  if (large_count > 0) features |= kPingLargeAddress;
  if (large_count > 0 && is_large(info.nis.front())) features |= kPingPrimaryLarge;
  store_le32(&out[kMagic], kPingMagic);
  store_le32(&out[kFeatures], features);
  store_le32(&out[kPid], info.pid);
  store_le32(&out[kCount], static_cast<uint32_t>(entry_count));

  uint8_t* small = &out[kInfoHeaderBytes];
  store_le64(small + kEntryNid, kLoopbackNid4);
  store_le32(small + kEntryStatus, info.sequence);
  if (large_count > 0) {
    store_le32(small + kEntryMessageSize, static_cast<uint32_t>(out.size()));
  }
  uint8_t* large = small + entry_count * kEntryBytes;
  for (const PingNi& ni : info.nis) {
    if (is_large(ni)) {
      store_le32(large, ni.status);
      encode_large_nid(ni.nid,
                       std::span<uint8_t, kLargeNidBytes>(large + kLargeEntryNid, kLargeNidBytes));
      large += kLargeEntryBytes;
    } else {
      small += kEntryBytes;
      store_le64(small + kEntryNid, ni.nid.to_nid4());
      store_le32(small + kEntryStatus, ni.status);
    }
  }
  return out;
}

}  // namespace ulnet
