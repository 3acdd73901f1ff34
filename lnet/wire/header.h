// The LNet message header: Put, Ack, Get, Reply; in its NID4 (72 bytes) and NID16 (96 bytes) wire
// forms.
//
// Source: spec lnet-core 2 (layout, byte order), 14.1 (checks). Scalars are little-endian on the
// wire whatever the host; large NIDs and wire handles are raw bytes. Unused bytes are sent as zero
// and ignored on receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet {

enum class MessageType : uint32_t { kAck = 0, kPut = 1, kGet = 2, kReply = 3, kHello = 4 };
std::string_view to_string(MessageType type);

// Names an MD of one start of one node; opaque to everybody else, who echo it. Both halves all
// ones: no handle.
struct WireHandle {
  uint64_t interface_cookie = ~uint64_t{0};
  uint64_t object_cookie = ~uint64_t{0};

  static constexpr WireHandle none() { return WireHandle{}; }
  constexpr bool is_none() const {
    return interface_cookie == ~uint64_t{0} && object_cookie == ~uint64_t{0};
  }
  friend constexpr bool operator==(const WireHandle&, const WireHandle&) = default;
};

struct AckPart {
  WireHandle md;            // the ack handle of the PUT being acknowledged
  uint64_t match_bits = 0;  // those of the PUT
  uint32_t mlength = 0;     // bytes the target accepted
  friend constexpr bool operator==(const AckPart&, const AckPart&) = default;
};
struct PutPart {
  WireHandle ack_md;  // where to send the ACK; none = no ACK wanted
  uint64_t match_bits = 0;
  uint64_t hdr_data = 0;
  uint32_t portal = 0;
  uint32_t offset = 0;  // in the target MD, if that is remote-managed
  friend constexpr bool operator==(const PutPart&, const PutPart&) = default;
};
struct GetPart {
  WireHandle return_md;  // handle to put in the REPLY
  uint64_t match_bits = 0;
  uint32_t portal = 0;
  uint32_t source_offset = 0;
  uint32_t sink_length = 0;  // the most the initiator can take
  friend constexpr bool operator==(const GetPart&, const GetPart&) = default;
};
struct ReplyPart {
  WireHandle md;  // the return handle of the GET
  friend constexpr bool operator==(const ReplyPart&, const ReplyPart&) = default;
};

struct Header {
  Nid dest_nid;    // final destination
  Nid source_nid;  // initiator's NI; routers leave it alone
  Pid dest_pid = 0;
  Pid source_pid = 0;
  uint32_t payload_bytes = 0;
  std::variant<AckPart, PutPart, GetPart, ReplyPart> part;

  // The variant's order is the wire's numbering.
  MessageType type() const { return static_cast<MessageType>(part.index()); }
  friend bool operator==(const Header&, const Header&) = default;
};

inline constexpr size_t kHeaderNid4Bytes = 72;
inline constexpr size_t kHeaderNid16Bytes = 96;
enum class HeaderForm : uint8_t { kNid4, kNid16 };
constexpr size_t header_bytes(HeaderForm form) {
  return form == HeaderForm::kNid4 ? kHeaderNid4Bytes : kHeaderNid16Bytes;
}

// Why bytes are not a header. Each is a protocol error: the connection closes and the kind is
// counted.
enum class HeaderError : uint8_t {
  kShort,              // fewer bytes than the form has
  kUnknownType,        // HELLO, or above 4
  kPayloadOnAckOrGet,  // ACK or GET with payload_length > 0
  kPayloadTooLong,     // PUT or REPLY above 1 MiB
  kBadNid,             // NID16: nid_size not 0 or 12, wildcard destination, non-zero padding; NID4:
                       // bits 63..56 not 0
};
std::string_view to_string(HeaderError error);

// Decodes the first header_bytes(form) bytes. Takes any bytes; never reads beyond `bytes`.
// A wildcard or loopback source decodes: the core drops such messages with its own counter.
tl::expected<Header, HeaderError> decode_header(HeaderForm form, std::span<const uint8_t> bytes);

// Writes exactly header_bytes(form) bytes, all of them defined.
// REQUIRES: out.size() >= header_bytes(form); with kNid4, both NIDs have 4-byte addresses.
void encode_header(HeaderForm form, const Header& header, std::span<uint8_t> out);

}  // namespace ulnet
