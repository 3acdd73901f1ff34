// socklnd's own bytes: connect request, HELLO, frame header, checksum.
//
// Source: spec tcp-lnd 1.2, 1.3 (connect request), 2.2 to 2.5 (HELLO), 3.1 to 3.7 (frames, cookies,
// checksum).
#pragma once

#include <sys/uio.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet::tcp {

inline constexpr uint32_t kAcceptorMagic = 0xACCE7100;
inline constexpr uint32_t kHelloMagic = 0x45726963;
inline constexpr uint32_t kHelloMagicV1 = 0xEEBC0DED;

// ---------------------------------------------------------------- connect request

inline constexpr size_t kConnectRequestV1Bytes = 16;
inline constexpr size_t kConnectRequestV2Bytes = 28;

struct ConnectRequest {
  Nid nid;  // target NI
  friend bool operator==(const ConnectRequest&, const ConnectRequest&) = default;
};

// Version 1 for a NID with a 4-byte address, else version 2.
std::vector<uint8_t> encode_connect_request(const ConnectRequest& request);
// The acceptor's answer to what it does not understand: {magic, version 1, NID 0}.
std::array<uint8_t, kConnectRequestV1Bytes> encode_acceptor_refusal();

enum class WireError : uint8_t {
  kNeedMore,               // not enough bytes yet: no verdict
  kBadMagic,               // close without answer
  kHelloInsteadOfConnect,  // HELLO magic where a connect request belongs: answer
                           // encode_acceptor_refusal(), close
  kBadVersion,             // known magic, unknown version: answer, close
  kBadNid,                 // nid_size, padding, or a wildcard
  kBadIpList,              // more than 16 legacy addresses, a zero one, or any in version 4
};
std::string_view to_string(WireError error);

template <typename T>
struct Decoded {
  T value;
  size_t bytes = 0;  // consumed
};

// Either byte order of magic, version and (version 1) NID. Surplus bytes are left alone.
tl::expected<Decoded<ConnectRequest>, WireError> decode_connect_request(
    std::span<const uint8_t> bytes);

// ---------------------------------------------------------------- HELLO

enum class ConnType : uint32_t {
  kAny = 0,
  kControl = 1,
  kBulkIn = 2,
  kBulkOut = 3,
  kNone = 0xFFFFFFFF
};
std::string_view to_string(ConnType type);  // "any", "control", "bulk_in", "bulk_out", "none"
// The other end's name for a connection: BULK_IN and BULK_OUT change places.
constexpr ConnType mirror(ConnType type) {
  if (type == ConnType::kBulkIn) return ConnType::kBulkOut;
  if (type == ConnType::kBulkOut) return ConnType::kBulkIn;
  return type;
}

inline constexpr size_t kHelloV3Bytes = 56;  // without the legacy address list, which we never send
inline constexpr size_t kHelloV4Bytes = 80;
inline constexpr uint32_t kHelloIpsMax = 16;

struct Hello {
  uint32_t version = 3;  // 3 or 4 (2 decodes, too)
  bool flipped = false;  // the sender is big-endian
  Nid source_nid;
  Nid dest_nid;
  Pid source_pid = 0;
  Pid dest_pid = 0;
  uint64_t source_incarnation = 0;
  uint64_t dest_incarnation = 0;
  uint32_t type = 1;  // ConnType as it came; any value decodes
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Versions 2 and 3: 56 bytes, version 4: 80 bytes; little-endian. REQUIRES: versions 2, 3: NIDs
// with 4-byte addresses.
std::vector<uint8_t> encode_hello(const Hello& hello);

// kBadVersion: versions 0, 1 (either magic) and above 4; decided on the first 8 bytes. Versions 2,
// 3: NIDs of a flipped sender are swapped, too; the address list is read and dropped. Surplus bytes
// are left alone.
tl::expected<Decoded<Hello>, WireError> decode_hello(std::span<const uint8_t> bytes);

// ---------------------------------------------------------------- frames

inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr uint32_t kFrameNoop = 0xC0;
inline constexpr uint32_t kFrameLnet = 0xC1;
inline constexpr uint64_t kKeepaliveCookie = 1;

struct FrameHeader {
  uint32_t type = kFrameLnet;  // any value decodes
  uint32_t checksum = 0;       // 0 = none
  uint64_t cookie0 = 0;        // zero-copy request
  uint64_t cookie1 = 0;        // zero-copy ACK; 1 = keepalive
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// REQUIRES: 24 bytes each.
FrameHeader decode_frame_header(std::span<const uint8_t> bytes, bool flipped);
void encode_frame_header(const FrameHeader& header, std::span<uint8_t> out);

// ---------------------------------------------------------------- checksum

// CRC-32, reflected 0x04C11DB7, initial value all ones, no final inversion. Start with
// kChecksumSeed and feed in order.
inline constexpr uint32_t kChecksumSeed = 0xFFFFFFFF;
uint32_t checksum(uint32_t seed, std::span<const uint8_t> bytes);

}  // namespace ulnet::tcp
