// NID lists and ranges ("10.0.[1-4].*@tcp 192.168.0.0/16@tcp1"), and the raw large form of a NID.
// Parsing and printing of single NIDs and nets is declared in ulnet/types.h and defined beside
// these.
//
// Source: spec lnet-core 1.3 to 1.5.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulnet/result.h"
#include "ulnet/types.h"

namespace ulnet {

std::string_view net_type_name(NetType type);  // "tcp"; "?type?" when unknown

// Longest text a NID prints to, with the terminator (spec lnet-core 1.4).
inline constexpr size_t kNidTextBytesMax = 64;

inline constexpr size_t kLargeNidBytes = 20;

// Decodes a 20-byte large NID. The wildcard is type 0xFF, whatever the rest.
// Errors: EPROTO: nid_size neither 0 nor 12, or non-zero bytes behind the significant ones.
Result<Nid> decode_large_nid(std::span<const uint8_t, kLargeNidBytes> bytes);
void encode_large_nid(const Nid& nid, std::span<uint8_t, kLargeNidBytes> out);

// A set of numbers: items `a`, `a-b`, `a-b/s`, as in octets of a range. The stride of a single
// number is 1.
struct NumberRange {
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t stride = 1;
  bool contains(uint32_t value) const {
    return value >= low && value <= high && (value - low) % stride == 0;
  }
  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};
using NumberSet = std::vector<NumberRange>;  // in the order written; never empty

// A list of NID ranges. Octet ranges match 4-byte addresses only; masks match on tcp and o2ib only.
class NidList {
 public:
  // Errors: EINVAL with the column (from 1) and the token: empty list, unknown net, reversed range,
  // stride 0, octet above 255, a dotted address without four parts, a mask out of range or on
  // another net than tcp and o2ib, trailing text.
  static Result<NidList> parse(std::string_view text);

  bool matches(const Nid& nid) const;
  // Canonical text; parses to an equal list.
  std::string to_string() const;
  // Every NID of the list, in order, each once. Errors: E2BIG when there are more than `limit`;
  // EINVAL for "*@net" and for masks shorter than an address.
  Result<std::vector<Nid>> expand(size_t limit) const;

  struct Octets {  // dotted nets: four sets; numeric nets: one
    std::vector<NumberSet> parts;
    friend bool operator==(const Octets&, const Octets&) = default;
  };
  struct Mask {
    bool ipv6 = false;
    std::array<uint8_t, 16> address =
        {};  // host bits zero; an IPv4 /32 is kept as four octets instead
    uint32_t prefix = 0;
    friend bool operator==(const Mask&, const Mask&) = default;
  };
  struct Range {
    NetId net;
    bool all = false;            // "*@net"
    std::vector<Octets> octets;  // zero or one
    std::vector<Mask> masks;     // zero or one
    friend bool operator==(const Range&, const Range&) = default;
  };
  const std::vector<Range>& ranges() const { return ranges_; }
  friend bool operator==(const NidList&, const NidList&) = default;

 private:
  std::vector<Range> ranges_;
};

// Parses "[1-4,7]", "3", "*" within low..high (spec lnet-core 1.5: `part`). `column` is that of
// text[0], for messages.
Result<NumberSet> parse_number_set(std::string_view text, uint32_t low, uint32_t high,
                                   size_t column = 1);
std::string to_string(const NumberSet& set, uint32_t low, uint32_t high);

}  // namespace ulnet
