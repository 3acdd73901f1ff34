#include "lnet/wire/nid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "lnet/base/bytes.h"
#include "lnet/wire/net_names.h"

namespace ulnet {
namespace {

// In the order in which parsers try them (spec lnet-core 1.4).
constexpr std::array<NetName, 9> kNetNames = {{
    {NetType::kLo, "lo", AddressForm::kZero},
    {NetType::kTcp, "tcp", AddressForm::kIpv4OrIpv6},
    {NetType::kO2ib, "o2ib", AddressForm::kIpv4OrIpv6},
    {NetType::kGni, "gni", AddressForm::kNumber},
    {NetType::kGip, "gip", AddressForm::kIpv4},
    {NetType::kPtlf, "ptlf", AddressForm::kNumber},
    {NetType::kKfi, "kfi", AddressForm::kNumber},
    {NetType::kEfa, "efa", AddressForm::kIpv4OrIpv6},
    {NetType::kBxi3f, "bxi3f", AddressForm::kNumber},
}};

// A number that uses up the whole text: digits only, no sign, no blank.
template <typename T>
std::optional<T> parse_whole(std::string_view text, int base) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint32_t> parse_address_number(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    return parse_whole<uint32_t>(text.substr(2), 16);
  }
  return parse_whole<uint32_t>(text, 10);
}

// inet_pton wants a terminator, so the text is copied; one that has its own is no address.
template <size_t N>
bool parse_ip(int family, std::string_view text, std::array<uint8_t, N>& address) {
  std::array<char, INET6_ADDRSTRLEN> terminated = {};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) return false;
  std::copy(text.begin(), text.end(), terminated.begin());
  return inet_pton(family, terminated.data(), address.data()) == 1;
}

// The address part of a NID on `net`, whose kind is `kind`.
std::optional<Nid> parse_address(const NetName& kind, NetId net, std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (kind.form == AddressForm::kZero) return Nid::from_ipv4(net, 0);  // any text means 0 there
  if (kind.form == AddressForm::kNumber) {
    const auto number = parse_address_number(text);
    if (!number) return std::nullopt;
    return Nid::from_ipv4(net, *number);
  }
  std::array<uint8_t, 4> ipv4;
  if (parse_ip(AF_INET, text, ipv4)) return Nid::from_ipv4(net, load_be32(ipv4.data()));
  std::array<uint8_t, 16> ipv6;
  if (kind.form == AddressForm::kIpv4OrIpv6 && parse_ip(AF_INET6, text, ipv6)) {
    return Nid::from_ipv6(net, ipv6);
  }
  return std::nullopt;
}

std::string_view form_text(AddressForm form) {
  switch (form) {
    case AddressForm::kZero:
      return "0";
    case AddressForm::kNumber:
      return "a decimal or 0x number of 32 bits";
    case AddressForm::kIpv4:
      return "an IPv4 address";
    case AddressForm::kIpv4OrIpv6:
      return "an IPv4 or IPv6 address";
  }
  return "an address";
}

std::string ip_text(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

// For NIDs without a text form: an unknown net type, or a 16-byte address on a net that has none.
std::string fallback_text(const Nid& nid) {
  const NetId net = nid.net();
  const std::string suffix = fmt::format("@<{}:{}>", static_cast<unsigned>(net.type), net.number);
  const uint8_t* a = nid.address.data();
  if (nid.size == 0) return fmt::format("{:x}{}", nid.address32(), suffix);
  return fmt::format("{:x}:{:x}:{:x}:{:x}{}", load_be32(a), load_be32(a + 4), load_be32(a + 8),
                     load_be32(a + 12), suffix);
}

}  // namespace

const NetName* find_net_name(NetType type) {
  const auto it = std::find_if(kNetNames.begin(), kNetNames.end(),
                               [type](const NetName& entry) { return entry.type == type; });
  return it == kNetNames.end() ? nullptr : &*it;
}

const NetName* find_net_name_prefix(std::string_view text) {
  const auto it = std::find_if(kNetNames.begin(), kNetNames.end(), [text](const NetName& entry) {
    return text.starts_with(entry.name);
  });
  return it == kNetNames.end() ? nullptr : &*it;
}

std::string_view net_type_name(NetType type) {
  const NetName* entry = find_net_name(type);
  return entry != nullptr ? entry->name : "?type?";
}

// ---------------------------------------------------------------- nets

Result<NetId> NetId::parse(std::string_view text) {
  const NetName* entry = find_net_name_prefix(text);
  if (entry == nullptr) return fail(EINVAL, fmt::format("net '{}': unknown name", text));
  const std::string_view digits = text.substr(entry->name.size());
  if (digits.empty()) return NetId{entry->type, 0};
  if (entry->type == NetType::kLo) {
    return fail(EINVAL, fmt::format("net '{}': 'lo' takes no number", text));
  }
  const auto parsed = parse_whole<uint16_t>(digits, 10);
  if (!parsed) {
    return fail(EINVAL,
                fmt::format("net '{}': '{}' is not a number from 0 to 65535", text, digits));
  }
  return NetId{entry->type, *parsed};
}

std::string NetId::to_string() const {
  const NetName* entry = find_net_name(type);
  if (entry == nullptr) return fmt::format("<{}:{}>", static_cast<unsigned>(type), number);
  return number == 0 ? std::string(entry->name) : fmt::format("{}{}", entry->name, number);
}

// ---------------------------------------------------------------- NIDs

Result<Nid> Nid::parse(std::string_view text) {
  if (text == "<?>") return any();
  const size_t at = text.find('@');
  const std::string_view address_text = text.substr(0, at);
  NetId net{NetType::kTcp, 0};
  if (at != std::string_view::npos) {
    const auto parsed = NetId::parse(text.substr(at + 1));
    if (!parsed) return fail(EINVAL, fmt::format("NID '{}': {}", text, parsed.error().text()));
    net = *parsed;
  }
  const NetName* kind = find_net_name(net.type);
  const auto nid = parse_address(*kind, net, address_text);
  if (!nid) {
    return fail(EINVAL,
                fmt::format("NID '{}': '{}' is not {}", text, address_text, form_text(kind->form)));
  }
  return *nid;
}

std::string Nid::to_string() const {
  if (is_any()) return "<?>";
  const NetName* kind = find_net_name(net().type);
  if (kind == nullptr) return fallback_text(*this);
  if (size != 0) {
    if (kind->form != AddressForm::kIpv4OrIpv6) return fallback_text(*this);
    return fmt::format("{}@{}", ip_text(AF_INET6, address.data()), net().to_string());
  }
  if (kind->is_dotted()) {
    return fmt::format("{}@{}", ip_text(AF_INET, address.data()), net().to_string());
  }
  return fmt::format("{}@{}", address32(), net().to_string());
}

std::string ProcessId::to_string() const {
  if (pid == kPidAny) return fmt::format("LNET_PID_ANY-{}", nid.to_string());
  const bool user = (pid & kPidUserFlag) != 0;
  return fmt::format("{}{}-{}", user ? "U" : "", pid & ~kPidUserFlag, nid.to_string());
}

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kGet:
      return "GET";
    case EventKind::kPut:
      return "PUT";
    case EventKind::kReply:
      return "REPLY";
    case EventKind::kAck:
      return "ACK";
    case EventKind::kSend:
      return "SEND";
    case EventKind::kUnlink:
      return "UNLINK";
  }
  return "?event?";
}

// ---------------------------------------------------------------- large form

Result<Nid> decode_large_nid(std::span<const uint8_t, kLargeNidBytes> bytes) {
  Nid nid;
  std::memcpy(&nid, bytes.data(), kLargeNidBytes);
  if (nid.is_any()) return Nid::any();
  if (nid.size != 0 && nid.size != 12) {
    return fail(EPROTO, fmt::format("large NID: nid_size {} is neither 0 nor 12", nid.size));
  }
  const auto padding = nid.address.begin() + 4 + nid.size;
  if (std::any_of(padding, nid.address.end(), [](uint8_t byte) { return byte != 0; })) {
    return fail(EPROTO, fmt::format("large NID {}: bytes behind the address are not zero",
                                    nid.to_string()));
  }
  return nid;
}

void encode_large_nid(const Nid& nid, std::span<uint8_t, kLargeNidBytes> out) {
  if (nid.is_any()) {
    std::fill(out.begin(), out.end(), uint8_t{0xFF});
    return;
  }
  std::memcpy(out.data(), &nid, kLargeNidBytes);
}

}  // namespace ulnet

// Peers and NIs are looked up by it for each message. Two multiplications mix all 20 bytes; the
// high half of a product depends on every bit of its factors, which a plain 64-bit multiplication
// does not give to the low bits that tables use.
size_t std::hash<ulnet::Nid>::operator()(const ulnet::Nid& nid) const noexcept {
  if (nid.is_any()) return ~size_t{0};  // all wildcards are equal, whatever their other bytes
  __extension__ using Wide = unsigned __int128;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&nid);
  const uint64_t head = ulnet::load_native<uint64_t>(bytes);
  const uint64_t middle = ulnet::load_native<uint64_t>(bytes + 8);
  const uint64_t tail = ulnet::load_native<uint32_t>(bytes + 16);
  const Wide first = static_cast<Wide>(head ^ 0x9E3779B97F4A7C15ULL) *
                     (middle ^ (tail << 32 | tail) ^ 0xD1B54A32D192ED03ULL);
  const uint64_t folded = static_cast<uint64_t>(first) ^ static_cast<uint64_t>(first >> 64);
  const Wide second = static_cast<Wide>(folded ^ head) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<size_t>(static_cast<uint64_t>(second) ^ static_cast<uint64_t>(second >> 64));
}
