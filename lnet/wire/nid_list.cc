// Parsing, printing and matching of NID lists; spec lnet-core 1.5.

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>

#include "lnet/base/bytes.h"
#include "lnet/wire/net_names.h"
#include "lnet/wire/nid.h"

namespace ulnet {
namespace {

constexpr uint32_t kOctetMax = 255;
constexpr uint32_t kNumberMax = 0xFFFFFFFF;
constexpr uint32_t kIpv4Bits = 32;
constexpr uint32_t kIpv6Bits = 128;

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// A piece of the list and the column of its first character, from 1.
struct Token {
  std::string_view text;
  size_t column = 1;

  Token sub(size_t begin, size_t count = std::string_view::npos) const {
    return {text.substr(begin, count), column + begin};
  }
  Token trimmed() const {
    size_t begin = 0;
    size_t end = text.size();
    while (begin < end && is_blank(text[begin])) ++begin;
    while (end > begin && is_blank(text[end - 1])) --end;
    return sub(begin, end - begin);
  }
};

Failure bad(const Token& token, std::string_view why) {
  return fail(EINVAL, fmt::format("column {}: '{}' {}", token.column, token.text, why));
}

// Splits at each `separator`; n separators give n + 1 pieces.
std::vector<Token> split(const Token& token, char separator) {
  std::vector<Token> pieces;
  size_t begin = 0;
  for (;;) {
    const size_t end = token.text.find(separator, begin);
    if (end == std::string_view::npos) break;
    pieces.push_back(token.sub(begin, end - begin));
    begin = end + 1;
  }
  pieces.push_back(token.sub(begin));
  return pieces;
}

// Ranges are separated by blanks outside brackets, so that "[1, 2]@kfi" is one of them.
std::vector<Token> split_ranges(std::string_view text) {
  std::vector<Token> ranges;
  bool in_brackets = false;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || (is_blank(text[at]) && !in_brackets)) {
      if (at > begin) ranges.push_back({text.substr(begin, at - begin), begin + 1});
      begin = at + 1;
    } else if (text[at] == '[') {
      in_brackets = true;
    } else if (text[at] == ']') {
      in_brackets = false;
    }
  }
  return ranges;
}

// Decimal, 0x hexadecimal or leading-0 octal, the whole token but for blanks around it.
Result<uint32_t> parse_number(const Token& token, uint32_t low, uint32_t high) {
  const Token number = token.trimmed();
  std::string_view digits = number.text;
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
    digits.remove_prefix(1);
  }
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::invalid_argument || stop != end) return bad(number, "is not a number");
  if (error != std::errc() || value < low || value > high) {
    return bad(number, fmt::format("is not within {} to {}", low, high));
  }
  return static_cast<uint32_t>(value);
}

// `a`, `*`, `a-b`, `a-b/s`.
Result<NumberRange> parse_item(const Token& token, uint32_t low, uint32_t high) {
  if (token.trimmed().text == "*") return NumberRange{low, high, 1};
  const size_t dash = token.text.find('-');
  const auto first = parse_number(token.sub(0, dash), low, high);
  if (!first) return tl::unexpected(first.error());
  if (dash == std::string_view::npos) return NumberRange{*first, *first, 1};

  const Token rest = token.sub(dash + 1);
  const size_t slash = rest.text.find('/');
  const auto last = parse_number(rest.sub(0, slash), low, high);
  if (!last) return tl::unexpected(last.error());
  if (*first > *last) return bad(token.trimmed(), "is a reversed range");
  NumberRange range{*first, *last, 1};
  if (slash != std::string_view::npos) {
    const auto stride = parse_number(rest.sub(slash + 1), 1, kNumberMax);
    if (!stride) return tl::unexpected(stride.error());
    range.stride = *stride;
  }
  if (range.low == range.high) range.stride = 1;  // says the same, and prints as a bare number
  return range;
}

Result<NumberSet> parse_part(const Token& token, uint32_t low, uint32_t high) {
  const Token part = token.trimmed();
  if (!part.text.starts_with('[')) {
    // Without brackets it is a single number or `*`.
    if (part.text == "*") return NumberSet{{low, high, 1}};
    const auto number = parse_number(part, low, high);
    if (!number) return tl::unexpected(number.error());
    return NumberSet{{*number, *number, 1}};
  }
  if (!part.text.ends_with(']')) return bad(part, "has no closing bracket");
  NumberSet set;
  for (const Token& item : split(part.sub(1, part.text.size() - 2), ',')) {
    const auto range = parse_item(item, low, high);
    if (!range) return tl::unexpected(range.error());
    set.push_back(*range);
  }
  return set;
}

bool is_mask_form(std::string_view addresses) {
  if (addresses.find(':') != std::string_view::npos) return true;
  const size_t slash = addresses.rfind('/');
  return slash != std::string_view::npos && addresses.find(']', slash) == std::string_view::npos;
}

void clear_host_bits(std::array<uint8_t, 16>& address, uint32_t prefix) {
  for (uint32_t bit = prefix; bit < kIpv6Bits; ++bit) {
    address[bit / 8] = static_cast<uint8_t>(address[bit / 8] & ~(0x80u >> (bit % 8)));
  }
}

Result<NidList::Mask> parse_mask(const Token& token) {
  const size_t slash = token.text.find('/');
  const std::string address(token.text.substr(0, slash));
  NidList::Mask mask;
  mask.ipv6 = address.find(':') != std::string::npos;
  const bool terminated = address.find('\0') != std::string::npos;
  if (terminated ||
      inet_pton(mask.ipv6 ? AF_INET6 : AF_INET, address.c_str(), mask.address.data()) != 1) {
    return bad(token.sub(0, slash), "is not an IPv4 or IPv6 address");
  }
  mask.prefix = kIpv6Bits;  // an IPv4 mask always has a slash: that made it a mask
  if (slash != std::string_view::npos) {
    const auto prefix = parse_number(token.sub(slash + 1), 1, mask.ipv6 ? kIpv6Bits : kIpv4Bits);
    if (!prefix) return tl::unexpected(prefix.error());
    mask.prefix = *prefix;
  }
  clear_host_bits(mask.address, mask.prefix);
  return mask;
}

Result<NidList::Octets> parse_octets(const Token& token, bool dotted) {
  NidList::Octets octets;
  const std::vector<Token> parts = dotted ? split(token, '.') : std::vector<Token>{token};
  if (dotted && parts.size() != 4) return bad(token, "does not have four parts");
  for (const Token& part : parts) {
    auto set = parse_part(part, 0, dotted ? kOctetMax : kNumberMax);
    if (!set) return tl::unexpected(set.error());
    octets.parts.push_back(std::move(*set));
  }
  return octets;
}

// A single address may be written as a mask of full length; as octets it prints without one.
NidList::Octets octets_of(const std::array<uint8_t, 16>& ipv4) {
  NidList::Octets octets;
  for (size_t i = 0; i < 4; ++i) octets.parts.push_back({{ipv4[i], ipv4[i], 1}});
  return octets;
}

Result<NetId> parse_range_net(const Token& token, const NetName** kind) {
  *kind = find_net_name_prefix(token.text);
  if (*kind == nullptr) return bad(token, "is not a net");
  const Token number = token.sub((*kind)->name.size());
  if (number.text.empty()) return NetId{(*kind)->type, 0};
  if ((*kind)->type == NetType::kLo) return bad(token, "is not a net: 'lo' takes no number");
  const auto parsed = parse_number(number, 0, 0xFFFF);
  if (!parsed) return tl::unexpected(parsed.error());
  return NetId{(*kind)->type, static_cast<uint16_t>(*parsed)};
}

Result<NidList::Range> parse_range(const Token& token) {
  const size_t at = token.text.find('@');
  if (at == std::string_view::npos) return bad(token, "has no @net");
  const NetName* kind = nullptr;
  const auto net = parse_range_net(token.sub(at + 1), &kind);
  if (!net) return tl::unexpected(net.error());

  NidList::Range range;
  range.net = *net;
  const Token addresses = token.sub(0, at);
  if (addresses.text == "*") {
    range.all = true;
  } else if (is_mask_form(addresses.text)) {
    if (net->type != NetType::kTcp && net->type != NetType::kO2ib) {
      return bad(token, "is a mask on a net other than tcp and o2ib, where masks never match");
    }
    const auto mask = parse_mask(addresses);
    if (!mask) return tl::unexpected(mask.error());
    if (!mask->ipv6 && mask->prefix == kIpv4Bits) {
      range.octets.push_back(octets_of(mask->address));
    } else {
      range.masks.push_back(*mask);
    }
  } else {
    auto octets = parse_octets(addresses, kind->is_dotted());
    if (!octets) return tl::unexpected(octets.error());
    // Every number of a numeric net is "*", and has that one representation.
    range.all = !kind->is_dotted() && octets->parts[0] == NumberSet{{0, kNumberMax, 1}};
    if (!range.all) range.octets.push_back(std::move(*octets));
  }
  return range;
}

bool contains(const NumberSet& set, uint32_t value) {
  return std::any_of(set.begin(), set.end(),
                     [value](const NumberRange& range) { return range.contains(value); });
}

bool matches_octets(const NidList::Octets& octets, const Nid& nid) {
  if (nid.size != 0) return false;
  if (octets.parts.size() == 1) return contains(octets.parts[0], nid.address32());
  for (size_t i = 0; i < 4; ++i) {
    if (!contains(octets.parts[i], nid.address[i])) return false;
  }
  return true;
}

bool matches_mask(const NidList::Mask& mask, const Nid& nid) {
  if (mask.ipv6 != nid.is_ipv6()) return false;
  std::array<uint8_t, 16> network = nid.address;
  clear_host_bits(network, mask.prefix);
  return network == mask.address;
}

bool matches_range(const NidList::Range& range, const Nid& nid) {
  if (range.net != nid.net()) return false;
  if (range.all) return true;
  if (!range.octets.empty()) return matches_octets(range.octets.front(), nid);
  return matches_mask(range.masks.front(), nid);
}

std::string octets_text(const NidList::Octets& octets) {
  if (octets.parts.size() == 1) return to_string(octets.parts[0], 0, kNumberMax);
  std::string text;
  for (const NumberSet& part : octets.parts) {
    if (!text.empty()) text += '.';
    text += to_string(part, 0, kOctetMax);
  }
  return text;
}

std::string mask_text(const NidList::Mask& mask) {
  std::array<char, INET6_ADDRSTRLEN> address = {};
  inet_ntop(mask.ipv6 ? AF_INET6 : AF_INET, mask.address.data(), address.data(), address.size());
  if (mask.prefix == (mask.ipv6 ? kIpv6Bits : kIpv4Bits)) return address.data();
  return fmt::format("{}/{}", address.data(), mask.prefix);
}

std::string range_text(const NidList::Range& range) {
  std::string text = "*";
  if (!range.octets.empty()) text = octets_text(range.octets.front());
  if (!range.masks.empty()) text = mask_text(range.masks.front());
  return text + "@" + range.net.to_string();
}

// The values of a set in the order written, each once; false when there are more than `limit`.
bool list_values(const NumberSet& set, size_t limit, std::vector<uint32_t>* values) {
  std::set<uint32_t> seen;
  for (const NumberRange& range : set) {
    for (uint64_t value = range.low; value <= range.high; value += range.stride) {
      const auto number = static_cast<uint32_t>(value);
      if (!seen.insert(number).second) continue;
      if (values->size() == limit) return false;
      values->push_back(number);
    }
  }
  return true;
}

// Appends the addresses of `octets` to `addresses`; false when there are more than `limit`.
bool list_addresses(const NidList::Octets& octets, size_t limit, std::vector<uint32_t>* addresses) {
  const unsigned part_bits = octets.parts.size() == 1 ? 0 : 8;
  *addresses = {0};
  for (const NumberSet& part : octets.parts) {
    std::vector<uint32_t> values;
    if (!list_values(part, limit, &values)) return false;
    if (values.size() > limit / addresses->size()) return false;
    std::vector<uint32_t> longer;
    longer.reserve(addresses->size() * values.size());
    for (const uint32_t prefix : *addresses) {
      for (const uint32_t value : values) longer.push_back(prefix << part_bits | value);
    }
    *addresses = std::move(longer);
  }
  return true;
}

}  // namespace

Result<NumberSet> parse_number_set(std::string_view text, uint32_t low, uint32_t high,
                                   size_t column) {
  return parse_part({text, column}, low, high);
}

std::string to_string(const NumberSet& set, uint32_t low, uint32_t high) {
  const auto item_text = [&](const NumberRange& item) -> std::string {
    if (item.low == item.high) return fmt::format("{}", item.low);
    if (item == NumberRange{low, high, 1}) return "*";
    if (item.stride == 1) return fmt::format("{}-{}", item.low, item.high);
    return fmt::format("{}-{}/{}", item.low, item.high, item.stride);
  };
  std::string text;
  for (const NumberRange& item : set) {
    if (!text.empty()) text += ',';
    text += item_text(item);
  }
  const bool bare = set.size() == 1 && text.find('-') == std::string::npos;
  return bare ? text : "[" + text + "]";
}

Result<NidList> NidList::parse(std::string_view text) {
  NidList list;
  for (const Token& token : split_ranges(text)) {
    auto range = parse_range(token);
    if (!range) {
      return fail(EINVAL, fmt::format("NID list '{}': {}", text, range.error().text()));
    }
    list.ranges_.push_back(std::move(*range));
  }
  if (list.ranges_.empty()) return fail(EINVAL, fmt::format("NID list '{}': empty", text));
  return list;
}

bool NidList::matches(const Nid& nid) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&nid](const Range& range) { return matches_range(range, nid); });
}

std::string NidList::to_string() const {
  std::string text;
  for (const Range& range : ranges_) {
    if (!text.empty()) text += ' ';
    text += range_text(range);
  }
  return text;
}

Result<std::vector<Nid>> NidList::expand(size_t limit) const {
  std::vector<Nid> nids;
  std::set<Nid> seen;
  const auto too_many = [&] {
    return fail(E2BIG, fmt::format("NID list '{}': more than {} NIDs", to_string(), limit));
  };
  const auto add = [&](const Nid& nid) {
    if (seen.insert(nid).second) nids.push_back(nid);
    return nids.size() <= limit;
  };
  for (const Range& range : ranges_) {
    if (!range.masks.empty() && range.masks.front().prefix == kIpv6Bits) {
      if (!add(Nid::from_ipv6(range.net, range.masks.front().address))) return too_many();
      continue;
    }
    if (range.octets.empty()) {
      return fail(EINVAL, fmt::format("'{}' does not list single NIDs", range_text(range)));
    }
    std::vector<uint32_t> addresses;
    if (!list_addresses(range.octets.front(), limit, &addresses)) return too_many();
    for (const uint32_t address : addresses) {
      if (!add(Nid::from_ipv4(range.net, address))) return too_many();
    }
  }
  return nids;
}

}  // namespace ulnet
