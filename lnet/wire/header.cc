#include "lnet/wire/header.h"

#include <cstring>

#include "lnet/base/assert.h"
#include "lnet/base/bytes.h"
#include "lnet/wire/nid.h"

namespace ulnet {
namespace {

// Offsets behind the two NIDs, and those of the per-type part (spec lnet-core 2.1, 2.2).
constexpr size_t kDestPid = 0;
constexpr size_t kSourcePid = 4;
constexpr size_t kType = 8;
constexpr size_t kPayloadBytes = 12;
constexpr size_t kPart = 16;
constexpr size_t kPartBytes = 40;

constexpr size_t kWireHandleBytes = 16;
constexpr size_t kAckMatchBits = 16;
constexpr size_t kAckMlength = 24;
constexpr size_t kPutMatchBits = 16;
constexpr size_t kPutHdrData = 24;
constexpr size_t kPutPortal = 32;
constexpr size_t kPutOffset = 36;
constexpr size_t kGetMatchBits = 16;
constexpr size_t kGetPortal = 24;
constexpr size_t kGetSourceOffset = 28;
constexpr size_t kGetSinkLength = 32;

constexpr size_t kNid4Bytes = 8;
constexpr size_t nid_bytes(HeaderForm form) {
  return form == HeaderForm::kNid4 ? kNid4Bytes : kLargeNidBytes;
}
static_assert(2 * kNid4Bytes + kPart + kPartBytes == kHeaderNid4Bytes);
static_assert(2 * kLargeNidBytes + kPart + kPartBytes == kHeaderNid16Bytes);
static_assert(kPutOffset + 4 == kPartBytes);

// Handles are opaque; both sides of these copies use the memory order of this host, so the bytes
// come back unchanged.
WireHandle load_handle(const uint8_t* from) {
  return {load_native<uint64_t>(from), load_native<uint64_t>(from + 8)};
}
void store_handle(uint8_t* to, const WireHandle& handle) {
  store_native(to, handle.interface_cookie);
  store_native(to + 8, handle.object_cookie);
}
static_assert(sizeof(WireHandle) == kWireHandleBytes);

// Without the Status text of decode_large_nid: this runs for every message of a version 4
// connection.
bool load_large_nid(const uint8_t* from, Nid* nid) {
  std::memcpy(nid, from, kLargeNidBytes);
  if (nid->is_any()) {
    *nid = Nid::any();
    return true;
  }
  if (nid->size == 12) return true;
  return nid->size == 0 && load_native<uint64_t>(from + 8) == 0 &&
         load_native<uint32_t>(from + 16) == 0;
}

bool load_nid4(const uint8_t* from, Nid* nid) {
  const uint64_t nid4 = load_le64(from);
  if (nid4 >> 56 != 0 && nid4 != ~uint64_t{0}) return false;
  *nid = Nid::from_nid4(nid4);
  return true;
}

bool load_nids(HeaderForm form, const uint8_t* from, Header* header) {
  if (form == HeaderForm::kNid4) {
    return load_nid4(from, &header->dest_nid) && load_nid4(from + kNid4Bytes, &header->source_nid);
  }
  return load_large_nid(from, &header->dest_nid) && !header->dest_nid.is_any() &&
         load_large_nid(from + kLargeNidBytes, &header->source_nid);
}

AckPart load_ack(const uint8_t* part) {
  return {.md = load_handle(part),
          .match_bits = load_le64(part + kAckMatchBits),
          .mlength = load_le32(part + kAckMlength)};
}
PutPart load_put(const uint8_t* part) {
  return {.ack_md = load_handle(part),
          .match_bits = load_le64(part + kPutMatchBits),
          .hdr_data = load_le64(part + kPutHdrData),
          .portal = load_le32(part + kPutPortal),
          .offset = load_le32(part + kPutOffset)};
}
GetPart load_get(const uint8_t* part) {
  return {.return_md = load_handle(part),
          .match_bits = load_le64(part + kGetMatchBits),
          .portal = load_le32(part + kGetPortal),
          .source_offset = load_le32(part + kGetSourceOffset),
          .sink_length = load_le32(part + kGetSinkLength)};
}

void store_part(uint8_t* part, const AckPart& ack) {
  store_handle(part, ack.md);
  store_le64(part + kAckMatchBits, ack.match_bits);
  store_le32(part + kAckMlength, ack.mlength);
}
void store_part(uint8_t* part, const PutPart& put) {
  store_handle(part, put.ack_md);
  store_le64(part + kPutMatchBits, put.match_bits);
  store_le64(part + kPutHdrData, put.hdr_data);
  store_le32(part + kPutPortal, put.portal);
  store_le32(part + kPutOffset, put.offset);
}
void store_part(uint8_t* part, const GetPart& get) {
  store_handle(part, get.return_md);
  store_le64(part + kGetMatchBits, get.match_bits);
  store_le32(part + kGetPortal, get.portal);
  store_le32(part + kGetSourceOffset, get.source_offset);
  store_le32(part + kGetSinkLength, get.sink_length);
}
void store_part(uint8_t* part, const ReplyPart& reply) {
  store_handle(part, reply.md);
}

}  // namespace

std::string_view to_string(MessageType type) {
  switch (type) {
    case MessageType::kAck:
      return "ACK";
    case MessageType::kPut:
      return "PUT";
    case MessageType::kGet:
      return "GET";
    case MessageType::kReply:
      return "REPLY";
    case MessageType::kHello:
      return "HELLO";
  }
  return "?type?";
}

std::string_view to_string(HeaderError error) {
  switch (error) {
    case HeaderError::kShort:
      return "header too short";
    case HeaderError::kUnknownType:
      return "unknown message type";
    case HeaderError::kPayloadOnAckOrGet:
      return "ACK or GET with payload";
    case HeaderError::kPayloadTooLong:
      return "payload longer than 1 MiB";
    case HeaderError::kBadNid:
      return "malformed NID";
  }
  return "?error?";
}

tl::expected<Header, HeaderError> decode_header(HeaderForm form, std::span<const uint8_t> bytes) {
  if (bytes.size() < header_bytes(form)) return tl::unexpected(HeaderError::kShort);
  const uint8_t* fixed = bytes.data() + 2 * nid_bytes(form);
  const uint8_t* part = fixed + kPart;

  Header header;
  header.dest_pid = load_le32(fixed + kDestPid);
  header.source_pid = load_le32(fixed + kSourcePid);
  header.payload_bytes = load_le32(fixed + kPayloadBytes);
  switch (static_cast<MessageType>(load_le32(fixed + kType))) {
    case MessageType::kAck:
      header.part = load_ack(part);
      break;
    case MessageType::kPut:
      header.part = load_put(part);
      break;
    case MessageType::kGet:
      header.part = load_get(part);
      break;
    case MessageType::kReply:
      header.part = ReplyPart{load_handle(part)};
      break;
    default:
      return tl::unexpected(HeaderError::kUnknownType);
  }
  const bool carries_payload =
      header.type() == MessageType::kPut || header.type() == MessageType::kReply;
  if (!carries_payload && header.payload_bytes != 0) {
    return tl::unexpected(HeaderError::kPayloadOnAckOrGet);
  }
  if (header.payload_bytes > kPayloadBytesMax) return tl::unexpected(HeaderError::kPayloadTooLong);
  if (!load_nids(form, bytes.data(), &header)) return tl::unexpected(HeaderError::kBadNid);
  return header;
}

void encode_header(HeaderForm form, const Header& header, std::span<uint8_t> out) {
  ULNET_ASSERT(out.size() >= header_bytes(form), "no room for a header");
  uint8_t* const to = out.data();
  std::memset(to, 0, header_bytes(form));
  if (form == HeaderForm::kNid4) {
    ULNET_ASSERT(!header.dest_nid.is_ipv6() && !header.source_nid.is_ipv6(),
                 "a large NID does not fit into a NID4 header");
    store_le64(to, header.dest_nid.to_nid4());
    store_le64(to + kNid4Bytes, header.source_nid.to_nid4());
  } else {
    encode_large_nid(header.dest_nid, out.first<kLargeNidBytes>());
    encode_large_nid(header.source_nid, out.subspan(kLargeNidBytes).first<kLargeNidBytes>());
  }
  uint8_t* fixed = to + 2 * nid_bytes(form);
  store_le32(fixed + kDestPid, header.dest_pid);
  store_le32(fixed + kSourcePid, header.source_pid);
  store_le32(fixed + kType, static_cast<uint32_t>(header.type()));
  store_le32(fixed + kPayloadBytes, header.payload_bytes);
  std::visit([fixed](const auto& part) { store_part(fixed + kPart, part); }, header.part);
}

}  // namespace ulnet
