// The nouns of LNet as values: nets, NIDs, process ids, events, and the options of match entries
// and memory descriptors.
//
// Everything here is a plain value: copyable, comparable, without locks or pointers to internal
// state. Source: spec lnet-core 1 (NIDs, nets, pids) and 3 (Portals-like API).
#pragma once

#include <sys/uio.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ulnet/result.h"

namespace ulnet {

// ---------------------------------------------------------------- nets

// Network types (LND numbers). Source: spec lnet-core 1.1.
enum class NetType : uint8_t {
  kTcp = 2,
  kO2ib = 5,
  kLo = 9,
  kGni = 13,
  kGip = 14,
  kPtlf = 15,
  kKfi = 16,
  kEfa = 18,
  kBxi3f = 19,
  kAny = 0xFF,
};

// One LNet network: a type and a number, such as tcp1. `tcp` and `tcp0` are the same net.
struct NetId {
  NetType type = NetType::kAny;
  uint16_t number = 0;

  static constexpr NetId any() { return NetId{NetType::kAny, 0xFFFF}; }
  static constexpr NetId lo() { return NetId{NetType::kLo, 0}; }
  // From "tcp", "tcp1", "o2ib7", ... Errors: EINVAL that quotes the text: unknown name, number
  // above 65535, trailing characters, a number behind `lo`.
  static Result<NetId> parse(std::string_view text);
  static constexpr NetId from_u32(uint32_t value) {
    return NetId{static_cast<NetType>((value >> 16) & 0xFF), static_cast<uint16_t>(value)};
  }

  constexpr uint32_t to_u32() const { return static_cast<uint32_t>(type) << 16 | number; }
  constexpr bool is_any() const { return type == NetType::kAny; }
  // "tcp", "tcp1"; an unknown type prints "<type:number>".
  std::string to_string() const;

  friend constexpr auto operator<=>(const NetId&, const NetId&) = default;
};

// ---------------------------------------------------------------- NIDs

// Address of one interface on one net: "10.0.0.1@tcp", "2001:db8::1@tcp", "27@kfi", "0@lo".
// Shape:  20 bytes without padding, ordered and compared byte by byte as in its large wire form:
// `size` is 0 for a
//         4-byte address and 12 for a 16-byte one; address bytes are in network order, unused
//         trailing ones zero.
// Source: spec lnet-core 1.2 and 1.3 (NID4 and large NID).
struct Nid {
  uint8_t size = 0;
  uint8_t type = 0xFF;
  std::array<uint8_t, 2> number_be = {0xFF, 0xFF};
  std::array<uint8_t, 16> address = {};

  // The wildcard, "<?>". A default-constructed Nid is it, too.
  static constexpr Nid any() { return Nid{}; }
  static constexpr Nid lo() { return from_ipv4(NetId::lo(), 0); }
  // `address`: for IPv4 nets a.b.c.d as a<<24|b<<16|c<<8|d; for numeric nets the number.
  static constexpr Nid from_ipv4(NetId net, uint32_t address) {
    Nid nid;
    nid.set_net(net);
    for (int i = 0; i < 4; ++i)
      nid.address[static_cast<size_t>(i)] = static_cast<uint8_t>(address >> (24 - 8 * i));
    return nid;
  }
  static constexpr Nid from_ipv6(NetId net, const std::array<uint8_t, 16>& address) {
    Nid nid;
    nid.set_net(net);
    nid.size = 12;
    nid.address = address;
    return nid;
  }
  // From the 64-bit NID4; all ones is the wildcard. Bits 63..56 are ignored here; decoders check
  // them.
  static constexpr Nid from_nid4(uint64_t nid4) {
    if (nid4 == ~uint64_t{0}) return any();
    return from_ipv4(NetId::from_u32(static_cast<uint32_t>(nid4 >> 32)),
                     static_cast<uint32_t>(nid4));
  }
  // Without "@net" the net is tcp. "<?>" gives the wildcard. Errors: EINVAL that quotes the text
  // and says which part. Host names are not resolved here; tools do that.
  static Result<Nid> parse(std::string_view text);

  constexpr bool is_any() const { return type == 0xFF; }
  constexpr bool is_lo() const { return *this == lo(); }
  constexpr bool is_ipv6() const { return size == 12 && type != 0xFF; }
  constexpr NetId net() const {
    return NetId{static_cast<NetType>(type),
                 static_cast<uint16_t>(number_be[0] << 8 | number_be[1])};
  }
  // First four address bytes as a number: the IPv4 address, or the number of a numeric net.
  constexpr uint32_t address32() const {
    return static_cast<uint32_t>(address[0]) << 24 | static_cast<uint32_t>(address[1]) << 16 |
           static_cast<uint32_t>(address[2]) << 8 | address[3];
  }
  // REQUIRES: size == 0 or is_any(): a large NID does not fit and is never cut.
  constexpr uint64_t to_nid4() const {
    return is_any() ? ~uint64_t{0} : static_cast<uint64_t>(net().to_u32()) << 32 | address32();
  }
  std::string to_string() const;

  friend constexpr bool operator==(const Nid& a, const Nid& b) {
    if (a.is_any() || b.is_any()) return a.is_any() == b.is_any();
    if (std::is_constant_evaluated()) {
      return a.size == b.size && a.type == b.type && a.number_be == b.number_be &&
             a.address == b.address;
    }
    // No padding, so whole words may be compared; peers are looked up by NID for every message.
    uint64_t words_a[2];
    uint64_t words_b[2];
    uint32_t tail_a;
    uint32_t tail_b;
    __builtin_memcpy(words_a, &a, sizeof words_a);
    __builtin_memcpy(words_b, &b, sizeof words_b);
    __builtin_memcpy(&tail_a, reinterpret_cast<const char*>(&a) + sizeof words_a, sizeof tail_a);
    __builtin_memcpy(&tail_b, reinterpret_cast<const char*>(&b) + sizeof words_b, sizeof tail_b);
    return words_a[0] == words_b[0] && words_a[1] == words_b[1] && tail_a == tail_b;
  }
  // As unsigned bytes of the large form: decides connection races (spec tcp-lnd 2.10).
  friend constexpr std::strong_ordering operator<=>(const Nid& a, const Nid& b) {
    if (a == b) return std::strong_ordering::equal;
    if (auto c = a.size <=> b.size; c != 0) return c;
    if (auto c = a.type <=> b.type; c != 0) return c;
    if (auto c = a.number_be <=> b.number_be; c != 0) return c;
    return a.address <=> b.address;
  }

 private:
  constexpr void set_net(NetId net) {
    type = static_cast<uint8_t>(net.type);
    number_be = {static_cast<uint8_t>(net.number >> 8), static_cast<uint8_t>(net.number)};
  }
};
static_assert(sizeof(Nid) == 20, "a Nid is its large wire form, byte for byte");

// ---------------------------------------------------------------- processes

using Pid = uint32_t;
inline constexpr Pid kPidLustre = 12345;    // every kernel node's pid
inline constexpr Pid kPidAny = 0xFFFFFFFF;  // wildcard in match entries; never on the wire
inline constexpr Pid kPidUserFlag =
    0x80000000;  // set by a receiver for a peer from an unprivileged port

struct ProcessId {
  Nid nid;
  Pid pid = kPidAny;

  static constexpr ProcessId any() { return ProcessId{}; }
  // "12345-10.0.0.1@tcp"; a leading U when the user flag is set.
  std::string to_string() const;
  friend constexpr bool operator==(const ProcessId&, const ProcessId&) = default;
};

// ---------------------------------------------------------------- limits

inline constexpr uint32_t kPortals = 64;
inline constexpr uint32_t kReservedPortal = 0;  // ping and push
inline constexpr uint64_t kPingMatchBits =
    0x8000'0000'0000'0000;                             // of both, on the reserved portal
inline constexpr uint32_t kPayloadBytesMax = 1 << 20;  // LNET_MTU
inline constexpr uint32_t kFragmentsMax = 256;         // LNET_MAX_IOV
inline constexpr int32_t kThresholdInfinite = -1;

// ---------------------------------------------------------------- match entries and memory
// descriptors

// Names of a match entry and of a memory descriptor. A handle names one object for the life of the
// endpoint and is never used again, so a stale handle finds nothing (ENOENT) rather than something
// else.
struct MeHandle {
  uint64_t value = 0;
  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const MeHandle&, const MeHandle&) = default;
};
struct MdHandle {
  uint64_t value = 0;
  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(const MdHandle&, const MdHandle&) = default;
};

enum class UnlinkPolicy : uint8_t {
  kRetain,
  kUnlink
};  // of an ME, when its MD goes; of an MD, when exhausted
enum class MePosition : uint8_t { kBefore, kAfter };  // head or tail of its list
enum class AckRequest : uint8_t { kAck, kNoAck };

// A match entry: which requests the MD behind it takes. Source: spec lnet-core 3.2.
struct MeSpec {
  uint32_t portal = 0;  // 0..63
  ProcessId match_id;   // wildcards allowed; compared with the primary NID of the sender
  uint64_t match_bits = 0;
  uint64_t ignore_bits = 0;  // a set bit is not compared
  UnlinkPolicy unlink = UnlinkPolicy::kUnlink;
  MePosition position = MePosition::kAfter;
};

// Bits of MdSpec::options. Names and meaning: spec lnet-core 3.4.
enum MdOption : uint32_t {
  kMdPut = 0x0001,              // PUT allowed (attached MDs only)
  kMdGet = 0x0002,              // GET allowed (attached MDs only)
  kMdManageRemote = 0x0004,     // the request's offset counts; otherwise the MD keeps its own,
                                // advanced by each operation
  kMdTruncate = 0x0010,         // cut what does not fit instead of dropping it
  kMdAckDisable = 0x0020,       // never ACK a PUT into this MD
  kMdMaxSize = 0x0080,          // max_size counts
  kMdTrackResponse = 0x0400,    // track responses whatever response_tracking says
  kMdNoTrackResponse = 0x0800,  // never track; wins over the above
};

class EventHandler;

// A memory descriptor: memory, and what may be done with it.
// Shape:    `fragments` is 0..256 pieces, in order, sum = the MD's length; at most 1 MiB in all for
// a bound (active) MD. Lifetime: the memory is borrowed from attach or bind until the event marked
// `unlinked`; before that event the
//           application reads it only after an event that says so, and never changes what is being
//           sent.
struct MdSpec {
  std::vector<iovec> fragments;
  uint32_t options = 0;                    // MdOption bits
  int32_t threshold = kThresholdInfinite;  // operations it takes; PUT with ACK needs 2, GET needs 2
  uint32_t max_size = 0;  // with kMdMaxSize: exhausted when offset + max_size > length
  UnlinkPolicy unlink = UnlinkPolicy::kUnlink;  // what happens when it is exhausted
  EventHandler* handler = nullptr;              // nullptr: events go to Endpoint::poll_events()
  void* user_data = nullptr;                    // returned in each event
};

// ---------------------------------------------------------------- events

enum class EventKind : uint8_t { kGet = 1, kPut = 2, kReply = 3, kAck = 4, kSend = 5, kUnlink = 6 };
std::string_view to_string(EventKind kind);

// Which response did not come in time. Only in an event whose status is -ETIMEDOUT.
enum class MissingResponse : uint8_t { kNone, kAck, kReply };

// What happened to an MD. Field by field: spec lnet-core 3.10.
struct Event {
  EventKind kind = EventKind::kUnlink;
  bool unlinked = false;  // the MD is gone; this is its last event
  MissingResponse missing = MissingResponse::kNone;
  int32_t status = 0;  // 0, or a negative errno
  uint32_t portal = 0;
  uint32_t rlength = 0;  // bytes requested
  uint32_t mlength = 0;  // bytes moved
  uint32_t offset = 0;   // in the target MD
  uint64_t match_bits = 0;
  uint64_t hdr_data = 0;
  MdHandle md;
  void* user_data = nullptr;
  ProcessId target;
  ProcessId initiator;  // primary NID of the peer
  ProcessId source;     // NID it used
  Nid sender;           // last hop
};

// Receives the events of the MDs that name it.
// Thread:   one call at a time for each MD, and for each handler; from the endpoint's event thread,
// or from poll() with
//           `threads: 0`. Calls into the endpoint are allowed. A slow handler delays other
//           handlers, never the wire.
// Lifetime: must outlive the last MD that names it, that is, until that MD's `unlinked` event has
// been handled.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void handle_event(const Event& event) = 0;
};

}  // namespace ulnet

template <>
struct std::hash<ulnet::NetId> {
  size_t operator()(ulnet::NetId net) const noexcept {
    return net.to_u32() * 0x9E3779B97F4A7C15ULL;
  }
};
template <>
struct std::hash<ulnet::Nid> {
  size_t operator()(const ulnet::Nid& nid) const noexcept;
};
