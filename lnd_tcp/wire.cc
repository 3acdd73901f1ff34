#include "lnd_tcp/wire.h"

#include <zlib.h>

#include "lnet/base/assert.h"
#include "lnet/base/bytes.h"
#include "lnet/wire/nid.h"

namespace ulnet::tcp {
namespace {

// Both the connect request and the HELLO begin with these.
constexpr size_t kMagic = 0;
constexpr size_t kVersion = 4;
constexpr size_t kPrefixBytes = 8;

constexpr size_t kRequestNid = 8;

// HELLO: offsets of spec tcp-lnd 2.2 and 2.3, the part behind the NIDs relative to its start.
constexpr size_t kHelloSourceNid = 8;
constexpr size_t kNid4Bytes = 8;
constexpr size_t kHelloSourcePid = 0;
constexpr size_t kHelloDestPid = 4;
constexpr size_t kHelloSourceIncarnation = 8;
constexpr size_t kHelloDestIncarnation = 16;
constexpr size_t kHelloType = 24;
constexpr size_t kHelloIpCount = 28;
constexpr size_t kHelloTailBytes = 32;
static_assert(kHelloSourceNid + 2 * kNid4Bytes + kHelloTailBytes == kHelloV3Bytes);
static_assert(kHelloSourceNid + 2 * kLargeNidBytes + kHelloTailBytes == kHelloV4Bytes);

constexpr size_t kFrameType = 0;
constexpr size_t kFrameChecksum = 4;
constexpr size_t kFrameCookie0 = 8;
constexpr size_t kFrameCookie1 = 16;

struct Reader : SenderOrderBytes {
  bool read_nid4(size_t offset, Nid* nid) const {
    const uint64_t nid4 = u64(offset);
    if (nid4 >> 56 != 0 && nid4 != ~uint64_t{0}) return false;
    *nid = Nid::from_nid4(nid4);
    return true;
  }
  // Has one order everywhere.
  bool read_large_nid(size_t offset, Nid* nid) const {
    const auto decoded = decode_large_nid(bytes.subspan(offset).first<kLargeNidBytes>());
    if (decoded) *nid = *decoded;
    return decoded.has_value();
  }
};

void put_large_nid(std::vector<uint8_t>& out, size_t offset, const Nid& nid) {
  encode_large_nid(nid, std::span(out).subspan(offset).first<kLargeNidBytes>());
}

// Reads the legacy addresses of versions 2 and 3, to be dropped. Gives the HELLO's length.
tl::expected<size_t, WireError> skip_ip_list(const Reader& in, uint32_t count) {
  const size_t end = kHelloV3Bytes + size_t{4} * count;
  if (in.bytes.size() < end) return tl::unexpected(WireError::kNeedMore);
  for (size_t at = kHelloV3Bytes; at < end; at += 4) {
    if (in.u32(at) == 0) return tl::unexpected(WireError::kBadIpList);
  }
  return end;
}

// REQUIRES: the prefix is that of a version 2, 3 or 4 HELLO.
tl::expected<Decoded<Hello>, WireError> decode_hello_body(const Reader& in, uint32_t version) {
  const bool large = version == 4;
  const size_t nid_bytes = large ? kLargeNidBytes : kNid4Bytes;
  const size_t tail = kHelloSourceNid + 2 * nid_bytes;
  if (in.bytes.size() < tail + kHelloTailBytes) return tl::unexpected(WireError::kNeedMore);

  Hello hello{.version = version, .flipped = in.flipped};
  const size_t dest = kHelloSourceNid + nid_bytes;
  const bool nids_ok = large ? in.read_large_nid(kHelloSourceNid, &hello.source_nid) &&
                                   in.read_large_nid(dest, &hello.dest_nid)
                             : in.read_nid4(kHelloSourceNid, &hello.source_nid) &&
                                   in.read_nid4(dest, &hello.dest_nid);
  if (!nids_ok || hello.source_nid.is_any()) return tl::unexpected(WireError::kBadNid);
  hello.source_pid = in.u32(tail + kHelloSourcePid);
  hello.dest_pid = in.u32(tail + kHelloDestPid);
  hello.source_incarnation = in.u64(tail + kHelloSourceIncarnation);
  hello.dest_incarnation = in.u64(tail + kHelloDestIncarnation);
  hello.type = in.u32(tail + kHelloType);

  const uint32_t ip_count = in.u32(tail + kHelloIpCount);
  if (ip_count > (large ? 0 : kHelloIpsMax)) return tl::unexpected(WireError::kBadIpList);
  if (large) return Decoded<Hello>{hello, kHelloV4Bytes};
  const auto end = skip_ip_list(in, ip_count);
  if (!end) return tl::unexpected(end.error());
  return Decoded<Hello>{hello, *end};
}

}  // namespace

std::string_view to_string(WireError error) {
  switch (error) {
    case WireError::kNeedMore:
      return "incomplete";
    case WireError::kBadMagic:
      return "unknown magic";
    case WireError::kHelloInsteadOfConnect:
      return "HELLO without a connect request";
    case WireError::kBadVersion:
      return "unknown version";
    case WireError::kBadNid:
      return "malformed or wildcard NID";
    case WireError::kBadIpList:
      return "bad legacy address list";
  }
  return "?error?";
}

std::string_view to_string(ConnType type) {
  switch (type) {
    case ConnType::kAny:
      return "any";
    case ConnType::kControl:
      return "control";
    case ConnType::kBulkIn:
      return "bulk_in";
    case ConnType::kBulkOut:
      return "bulk_out";
    case ConnType::kNone:
      return "none";
  }
  return "?type?";
}

// ---------------------------------------------------------------- connect request

std::vector<uint8_t> encode_connect_request(const ConnectRequest& request) {
  const bool large = request.nid.is_ipv6();
  std::vector<uint8_t> out(large ? kConnectRequestV2Bytes : kConnectRequestV1Bytes);
  store_le32(&out[kMagic], kAcceptorMagic);
  store_le32(&out[kVersion], large ? 2 : 1);
  if (large) {
    put_large_nid(out, kRequestNid, request.nid);
  } else {
    store_le64(&out[kRequestNid], request.nid.to_nid4());
  }
  return out;
}

std::array<uint8_t, kConnectRequestV1Bytes> encode_acceptor_refusal() {
  std::array<uint8_t, kConnectRequestV1Bytes> out = {};
  store_le32(&out[kMagic], kAcceptorMagic);
  store_le32(&out[kVersion], 1);
  return out;
}

tl::expected<Decoded<ConnectRequest>, WireError> decode_connect_request(
    std::span<const uint8_t> bytes) {
  if (bytes.size() < kVersion) return tl::unexpected(WireError::kNeedMore);
  Reader in{bytes};
  const uint32_t magic = in.u32(kMagic);
  if (magic == kHelloMagic || magic == byte_swap(kHelloMagic)) {
    return tl::unexpected(WireError::kHelloInsteadOfConnect);
  }
  in.flipped = magic == byte_swap(kAcceptorMagic);
  if (in.u32(kMagic) != kAcceptorMagic) return tl::unexpected(WireError::kBadMagic);
  if (bytes.size() < kPrefixBytes) return tl::unexpected(WireError::kNeedMore);

  const uint32_t version = in.u32(kVersion);
  if (version != 1 && version != 2) return tl::unexpected(WireError::kBadVersion);
  const size_t request_bytes = version == 1 ? kConnectRequestV1Bytes : kConnectRequestV2Bytes;
  if (bytes.size() < request_bytes) return tl::unexpected(WireError::kNeedMore);
  ConnectRequest request;
  const bool nid_ok = version == 1 ? in.read_nid4(kRequestNid, &request.nid)
                                   : in.read_large_nid(kRequestNid, &request.nid);
  if (!nid_ok || request.nid.is_any()) return tl::unexpected(WireError::kBadNid);
  return Decoded<ConnectRequest>{request, request_bytes};
}

// ---------------------------------------------------------------- HELLO

std::vector<uint8_t> encode_hello(const Hello& hello) {
  ULNET_ASSERT(hello.version >= 2 && hello.version <= 4, "a HELLO of another version");
  const bool large = hello.version == 4;
  const size_t nid_bytes = large ? kLargeNidBytes : kNid4Bytes;
  const size_t tail = kHelloSourceNid + 2 * nid_bytes;
  std::vector<uint8_t> out(tail + kHelloTailBytes);
  store_le32(&out[kMagic], kHelloMagic);
  store_le32(&out[kVersion], hello.version);
  if (large) {
    put_large_nid(out, kHelloSourceNid, hello.source_nid);
    put_large_nid(out, kHelloSourceNid + nid_bytes, hello.dest_nid);
  } else {
    ULNET_ASSERT(!hello.source_nid.is_ipv6() && !hello.dest_nid.is_ipv6(),
                 "a large NID does not fit into a version 3 HELLO");
    store_le64(&out[kHelloSourceNid], hello.source_nid.to_nid4());
    store_le64(&out[kHelloSourceNid + nid_bytes], hello.dest_nid.to_nid4());
  }
  store_le32(&out[tail + kHelloSourcePid], hello.source_pid);
  store_le32(&out[tail + kHelloDestPid], hello.dest_pid);
  store_le64(&out[tail + kHelloSourceIncarnation], hello.source_incarnation);
  store_le64(&out[tail + kHelloDestIncarnation], hello.dest_incarnation);
  store_le32(&out[tail + kHelloType], hello.type);
  return out;
}

tl::expected<Decoded<Hello>, WireError> decode_hello(std::span<const uint8_t> bytes) {
  if (bytes.size() < kVersion) return tl::unexpected(WireError::kNeedMore);
  Reader in{bytes};
  const uint32_t magic = in.u32(kMagic);
  const bool version_1 = magic == kHelloMagicV1;  // little-endian whatever the sender
  in.flipped = magic == byte_swap(kHelloMagic);
  if (in.u32(kMagic) != kHelloMagic && !version_1) return tl::unexpected(WireError::kBadMagic);
  if (bytes.size() < kPrefixBytes) return tl::unexpected(WireError::kNeedMore);

  const uint32_t version = in.u32(kVersion);
  if (version_1 || version < 2 || version > 4) return tl::unexpected(WireError::kBadVersion);
  return decode_hello_body(in, version);
}

// ---------------------------------------------------------------- frames

FrameHeader decode_frame_header(std::span<const uint8_t> bytes, bool flipped) {
  ULNET_ASSERT(bytes.size() >= kFrameHeaderBytes, "less than a frame header");
  const Reader in{bytes, flipped};
  return {.type = in.u32(kFrameType),
          .checksum = in.u32(kFrameChecksum),
          .cookie0 = in.u64(kFrameCookie0),
          .cookie1 = in.u64(kFrameCookie1)};
}

void encode_frame_header(const FrameHeader& header, std::span<uint8_t> out) {
  ULNET_ASSERT(out.size() >= kFrameHeaderBytes, "no room for a frame header");
  store_le32(&out[kFrameType], header.type);
  store_le32(&out[kFrameChecksum], header.checksum);
  store_le64(&out[kFrameCookie0], header.cookie0);
  store_le64(&out[kFrameCookie1], header.cookie1);
}

// ---------------------------------------------------------------- checksum

// zlib inverts before and after; undoing both leaves the bare register, which is what travels.
uint32_t checksum(uint32_t seed, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return seed;  // zlib takes a null pointer for "give me the initial value"
  const uLong inverted = ~seed & 0xFFFFFFFFu;
  return ~static_cast<uint32_t>(crc32_z(inverted, bytes.data(), bytes.size()));
}

}  // namespace ulnet::tcp
