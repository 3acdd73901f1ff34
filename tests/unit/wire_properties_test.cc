// Properties of the decoders and parsers: any bytes are survived, what is encoded decodes to
// itself, and NID lists match as a slow, obvious twin does.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/wire/header.h"
#include "lnet/wire/nid.h"
#include "lnet/wire/ping_info.h"

namespace ulnet {
namespace {

using Buffer = std::vector<uint8_t>;

// ---------------------------------------------------------------- generators

template <typename T>
rc::Gen<T> any_number() {
  // RapidCheck's own numbers stay small at first; the wire's may be anything.
  return rc::gen::oneOf(rc::gen::arbitrary<T>(), rc::gen::element<T>(0, 1, static_cast<T>(~T{0})));
}

bool is_numeric(NetType type) {
  return type == NetType::kGni || type == NetType::kPtlf || type == NetType::kKfi ||
         type == NetType::kBxi3f;
}
bool takes_ipv6(NetType type) {
  return type == NetType::kTcp || type == NetType::kO2ib || type == NetType::kEfa;
}

rc::Gen<NetId> any_net() {
  return rc::gen::construct<NetId>(
      rc::gen::element(NetType::kTcp, NetType::kO2ib, NetType::kGni, NetType::kGip, NetType::kPtlf,
                       NetType::kKfi, NetType::kEfa, NetType::kBxi3f),
      any_number<uint16_t>());
}

rc::Gen<Nid> any_small_nid() {
  return rc::gen::oneOf(rc::gen::just(Nid::lo()), rc::gen::just(Nid::any()),
                        rc::gen::apply(Nid::from_ipv4, any_net(), any_number<uint32_t>()));
}

rc::Gen<Nid> any_large_nid() {
  const auto net =
      rc::gen::suchThat(any_net(), [](const NetId& id) { return takes_ipv6(id.type); });
  const auto byte = rc::gen::oneOf(rc::gen::just<uint8_t>(0), rc::gen::arbitrary<uint8_t>());
  const auto address = rc::gen::container<std::array<uint8_t, 16>>(byte);
  return rc::gen::apply(Nid::from_ipv6, net, address);
}

rc::Gen<Nid> any_nid() {
  return rc::gen::oneOf(any_small_nid(), any_large_nid());
}

rc::Gen<WireHandle> any_handle() {
  return rc::gen::construct<WireHandle>(any_number<uint64_t>(), any_number<uint64_t>());
}

rc::Gen<Header> any_header(HeaderForm form) {
  return rc::gen::exec([form] {
    const auto nid = form == HeaderForm::kNid4 ? any_small_nid() : any_nid();
    Header header;
    header.dest_nid = *nid;
    header.source_nid = *nid;
    if (form == HeaderForm::kNid16) RC_PRE(!header.dest_nid.is_any());
    header.dest_pid = *any_number<uint32_t>();
    header.source_pid = *any_number<uint32_t>();
    const WireHandle handle = *any_handle();
    const auto bits = *rc::gen::pair(any_number<uint64_t>(), any_number<uint64_t>());
    const auto words =
        *rc::gen::tuple(any_number<uint32_t>(), any_number<uint32_t>(), any_number<uint32_t>());
    const auto& [first, second, third] = words;
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        header.part = AckPart{handle, bits.first, first};
        break;
      case 1:
        header.part = PutPart{handle, bits.first, bits.second, first, second};
        break;
      case 2:
        header.part = GetPart{handle, bits.first, first, second, third};
        break;
      default:
        header.part = ReplyPart{handle};
        break;
    }
    if (header.type() == MessageType::kPut || header.type() == MessageType::kReply) {
      header.payload_bytes = *rc::gen::inRange<uint32_t>(0, kPayloadBytesMax + 1);
    }
    return header;
  });
}

// Without what a decoder leaves out: wildcards, loopbacks, duplicates; and with the primary first.
rc::Gen<PingInfo> any_ping_info() {
  return rc::gen::exec([] {
    PingInfo info;
    info.pid = *any_number<uint32_t>();
    info.sequence = *any_number<uint32_t>();
    const auto nids = *rc::gen::container<std::vector<Nid>>(any_nid());
    std::set<Nid> seen;
    for (const Nid& nid : nids) {
      if (nid.is_any() || nid.is_lo() || !seen.insert(nid).second) continue;
      info.nis.push_back(
          {nid, *rc::gen::element(kNiStatusUp, kNiStatusDown, kNiStatusInvalid, 7u)});
    }
    const bool primary_large = !info.nis.empty() && info.nis.front().nid.is_ipv6();
    std::stable_partition(info.nis.begin() + (primary_large ? 1 : 0), info.nis.end(),
                          [](const PingNi& ni) { return !ni.nid.is_ipv6(); });
    info.features = *any_number<uint32_t>() | kPingNiStatus;
    info.features &= ~uint32_t{kPingLargeAddress | kPingPrimaryLarge};
    if (std::any_of(info.nis.begin(), info.nis.end(),
                    [](const PingNi& ni) { return ni.nid.is_ipv6(); })) {
      info.features |= kPingLargeAddress;
    }
    if (primary_large) info.features |= kPingPrimaryLarge;
    return info;
  });
}

rc::Gen<tcp::Hello> any_hello() {
  return rc::gen::exec([] {
    tcp::Hello hello;
    hello.version = *rc::gen::inRange<uint32_t>(2, 5);
    const auto nid = hello.version == 4 ? any_nid() : any_small_nid();
    hello.source_nid = *rc::gen::suchThat(nid, [](const Nid& id) { return !id.is_any(); });
    hello.dest_nid = *nid;
    hello.source_pid = *any_number<uint32_t>();
    hello.dest_pid = *any_number<uint32_t>();
    hello.source_incarnation = *any_number<uint64_t>();
    hello.dest_incarnation = *any_number<uint64_t>();
    hello.type = *any_number<uint32_t>();
    return hello;
  });
}

rc::Gen<tcp::FrameHeader> any_frame() {
  return rc::gen::construct<tcp::FrameHeader>(any_number<uint32_t>(), any_number<uint32_t>(),
                                              any_number<uint64_t>(), any_number<uint64_t>());
}

Buffer header_buffer(HeaderForm form, const Header& header) {
  Buffer bytes(header_bytes(form));
  encode_header(form, header, bytes);
  return bytes;
}

// Some bytes of a good message changed, and it is cut or grows: gets further into a decoder than
// noise does.
Buffer damaged(Buffer bytes) {
  const auto changes = *rc::gen::inRange(0, 4);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<uint8_t>();
  }
  if (*rc::gen::inRange(0, 3) == 0) bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 40));
  return bytes;
}

Buffer damaged_message() {
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      return damaged(header_buffer(HeaderForm::kNid4, *any_header(HeaderForm::kNid4)));
    case 1:
      return damaged(header_buffer(HeaderForm::kNid16, *any_header(HeaderForm::kNid16)));
    case 2:
      return damaged(encode_ping_info(*any_ping_info()));
    case 3:
      return damaged(tcp::encode_hello(*any_hello()));
    case 4:
      return damaged(tcp::encode_connect_request({*any_nid()}));
    default:
      return *rc::gen::arbitrary<Buffer>();
  }
}

// ---------------------------------------------------------------- any bytes

// Exactly as large as its contents, so that the sanitizer sees each byte read beyond them.
struct Exact {
  explicit Exact(const Buffer& from) : size(from.size()), bytes(new uint8_t[from.size()]) {
    std::copy(from.begin(), from.end(), bytes.get());
  }
  std::span<const uint8_t> span() const { return {bytes.get(), size}; }
  const size_t size;
  const std::unique_ptr<uint8_t[]> bytes;
};

RC_GTEST_PROP(AnyBytes, HeadersThatDecodeEncodeToTheSameValue, ()) {
  const Exact bytes(damaged_message());
  for (const HeaderForm form : {HeaderForm::kNid4, HeaderForm::kNid16}) {
    const auto header = decode_header(form, bytes.span());
    if (!header) continue;
    RC_ASSERT(header->payload_bytes <= kPayloadBytesMax);
    RC_ASSERT(decode_header(form, header_buffer(form, *header)).value() == *header);
  }
}

RC_GTEST_PROP(AnyBytes, PingInfosThatDecodeKeepTheirPromises, ()) {
  const Exact bytes(damaged_message());
  const auto info = decode_ping_info(bytes.span(), 200);
  if (!info) {
    if (info.error().error == PingInfoError::kTruncated) {
      RC_ASSERT(info.error().needed_bytes > bytes.size);
    }
    return;
  }
  std::set<Nid> seen;
  for (const PingNi& ni : info->nis) {
    RC_ASSERT(!ni.nid.is_any());
    RC_ASSERT(!ni.nid.is_lo());
    RC_ASSERT(seen.insert(ni.nid).second);
  }
  const auto again = decode_ping_info(encode_ping_info(*info), 200);
  RC_ASSERT(again.has_value());
  RC_ASSERT(again->sequence == info->sequence);
  RC_ASSERT(std::is_permutation(again->nis.begin(), again->nis.end(), info->nis.begin(),
                                info->nis.end()));
}

RC_GTEST_PROP(AnyBytes, ConnectRequestsConsumeWhatTheySay, ()) {
  const Exact bytes(damaged_message());
  const auto request = tcp::decode_connect_request(bytes.span());
  if (!request) return;
  RC_ASSERT(request->bytes <= bytes.size);
  RC_ASSERT(!request->value.nid.is_any());
  // A decision never changes when more bytes come.
  Buffer longer(bytes.span().begin(), bytes.span().end());
  longer.push_back(*rc::gen::arbitrary<uint8_t>());
  RC_ASSERT(tcp::decode_connect_request(longer)->value == request->value);
}

RC_GTEST_PROP(AnyBytes, HellosDecideOnceAndForAll, ()) {
  const Exact bytes(damaged_message());
  const auto whole = tcp::decode_hello(bytes.span());
  if (whole) {
    RC_ASSERT(whole->bytes <= bytes.size);
    RC_ASSERT(!whole->value.source_nid.is_any());
  }
  for (size_t length = 0; length <= bytes.size; ++length) {
    const auto part = tcp::decode_hello(bytes.span().first(length));
    if (part) {
      RC_ASSERT(whole.has_value());
      RC_ASSERT(whole->value == part->value);
    } else if (part.error() != tcp::WireError::kNeedMore) {
      RC_ASSERT(!whole.has_value());
      RC_ASSERT(whole.error() == part.error());
    }
  }
}

RC_GTEST_PROP(AnyBytes, LargeNidsThatDecodeEncodeToTheSameBytes, (std::array<uint8_t, 20> bytes)) {
  bytes[0] = *rc::gen::element<uint8_t>(0, 12, 12, 4, 255);
  if (bytes[0] == 0) std::fill(bytes.begin() + 8, bytes.end(), *rc::gen::element<uint8_t>(0, 0, 1));
  const auto nid = decode_large_nid(bytes);
  if (!nid || nid->is_any()) return;
  std::array<uint8_t, 20> again;
  encode_large_nid(*nid, again);
  RC_ASSERT(again == bytes);
}

rc::Gen<std::string> texts_like(const std::string& alphabet) {
  return rc::gen::container<std::string>(
      rc::gen::oneOf(rc::gen::elementOf(alphabet), rc::gen::elementOf(alphabet),
                     rc::gen::elementOf(alphabet), rc::gen::arbitrary<char>()));
}

RC_GTEST_PROP(AnyText, ParsersSurviveIt, ()) {
  const auto text = *texts_like("0123456789abcdefgiklnoptx.:@[]*-/, <>?");
  const auto suffix = *rc::gen::element<std::string>("", "@tcp", "@kfi1", "@o2ib 1@gni", "@lo");
  for (const std::string& candidate : {text, text + suffix}) {
    if (const auto nid = Nid::parse(candidate)) RC_ASSERT(Nid::parse(nid->to_string()) == *nid);
    if (const auto net = NetId::parse(candidate)) RC_ASSERT(NetId::parse(net->to_string()) == *net);
    if (const auto list = NidList::parse(candidate)) {
      RC_ASSERT(NidList::parse(list->to_string()) == *list);
      (void)list->matches(Nid::lo());
      (void)list->expand(100);
    }
  }
}

// ---------------------------------------------------------------- encode and decode, print and
// parse

RC_GTEST_PROP(Identity, HeaderNid4, ()) {
  const auto header = *any_header(HeaderForm::kNid4);
  RC_ASSERT(decode_header(HeaderForm::kNid4, header_buffer(HeaderForm::kNid4, header)).value() ==
            header);
}

RC_GTEST_PROP(Identity, HeaderNid16, ()) {
  const auto header = *any_header(HeaderForm::kNid16);
  RC_ASSERT(decode_header(HeaderForm::kNid16, header_buffer(HeaderForm::kNid16, header)).value() ==
            header);
}

RC_GTEST_PROP(Identity, PingInfo, ()) {
  const auto info = *any_ping_info();
  RC_ASSERT(decode_ping_info(encode_ping_info(info), 200).value() == info);
}

RC_GTEST_PROP(Identity, ConnectRequest, ()) {
  const auto nid = *rc::gen::suchThat(any_nid(), [](const Nid& id) { return !id.is_any(); });
  const auto bytes = tcp::encode_connect_request({nid});
  const auto decoded = tcp::decode_connect_request(bytes);
  RC_ASSERT(decoded->value.nid == nid);
  RC_ASSERT(decoded->bytes == bytes.size());
}

RC_GTEST_PROP(Identity, Hello, ()) {
  const auto hello = *any_hello();
  const auto bytes = tcp::encode_hello(hello);
  const auto decoded = tcp::decode_hello(bytes);
  RC_ASSERT(decoded->value == hello);
  RC_ASSERT(decoded->bytes == bytes.size());
}

RC_GTEST_PROP(Identity, Frame, ()) {
  const auto frame = *any_frame();
  Buffer bytes(tcp::kFrameHeaderBytes);
  tcp::encode_frame_header(frame, bytes);
  RC_ASSERT(tcp::decode_frame_header(bytes, false) == frame);
  std::reverse(bytes.begin(), bytes.begin() + 4);
  std::reverse(bytes.begin() + 4, bytes.begin() + 8);
  std::reverse(bytes.begin() + 8, bytes.begin() + 16);
  std::reverse(bytes.begin() + 16, bytes.end());
  RC_ASSERT(tcp::decode_frame_header(bytes, true) == frame);
}

RC_GTEST_PROP(Identity, NidText, ()) {
  const auto nid = *any_nid();
  const auto text = nid.to_string();
  RC_ASSERT(text.size() < kNidTextBytesMax);
  RC_ASSERT(Nid::parse(text).value() == nid);
}

RC_GTEST_PROP(Identity, NetText, ()) {
  const auto net = *any_net();
  RC_ASSERT(NetId::parse(net.to_string()).value() == net);
  RC_ASSERT(NetId::from_u32(net.to_u32()) == net);
}

RC_GTEST_PROP(Identity, Nid4, ()) {
  const auto nid = *any_small_nid();
  RC_ASSERT(Nid::from_nid4(nid.to_nid4()) == nid);
}

RC_GTEST_PROP(Identity, EqualNidsHashAlike, ()) {
  const auto nid = *any_nid();
  RC_ASSERT(std::hash<Nid>()(Nid::parse(nid.to_string()).value()) == std::hash<Nid>()(nid));
}

// The register of CRC-32/JAMCRC, a bit at a time.
uint32_t slow_checksum(uint32_t seed, const Buffer& bytes) {
  for (const uint8_t byte : bytes) {
    seed ^= byte;
    for (int bit = 0; bit < 8; ++bit) seed = (seed >> 1) ^ ((seed & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return seed;
}

RC_GTEST_PROP(Twin, Checksum, (uint32_t seed, const Buffer& bytes)) {
  RC_ASSERT(tcp::checksum(seed, bytes) == slow_checksum(seed, bytes));
}

// ---------------------------------------------------------------- NID lists against a naive twin

// A part of a range as text, and the set of numbers that it means, written out.
struct TwinPart {
  std::string text;
  std::set<uint32_t> numbers;
};

std::string number_text(uint32_t number) {
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return fmt::format("{:#x}", number);
    case 1:
      return fmt::format("0{:o}", number);
    default:
      return fmt::format("{}", number);
  }
}

TwinPart any_item(uint32_t high) {
  const auto number = rc::gen::inRange<uint32_t>(0, high + 1);
  TwinPart item;
  const uint32_t a = *number;
  if (*rc::gen::inRange(0, 3) == 0) return {number_text(a), {a}};
  const uint32_t b = std::max(a, *number);
  const uint32_t stride = *rc::gen::inRange<uint32_t>(1, 12);
  const std::string blank = *rc::gen::element<std::string>("", "", " ");
  item.text = number_text(a) + blank + "-" + blank + number_text(b);
  if (stride != 1) item.text += "/" + number_text(stride);
  for (uint32_t value = a; value <= b; value += stride) item.numbers.insert(value);
  return item;
}

TwinPart any_part(uint32_t high) {
  TwinPart part;
  const int kind = *rc::gen::inRange(0, 4);
  if (kind == 0) {
    for (uint32_t value = 0; value <= 255; ++value) part.numbers.insert(value);
    part.text = "*";
  } else if (kind == 1) {
    const auto number = *rc::gen::inRange<uint32_t>(0, high + 1);
    part = {number_text(number), {number}};
  } else {
    const auto items = *rc::gen::inRange(1, 4);
    for (int i = 0; i < items; ++i) {
      const TwinPart item = any_item(high);
      part.text += (i == 0 ? "[" : ",") + item.text;
      part.numbers.insert(item.numbers.begin(), item.numbers.end());
    }
    part.text += "]";
  }
  return part;
}

struct TwinRange {
  std::string text;
  NetId net;
  std::vector<TwinPart> parts;  // of a dotted or numeric range
  bool all = false;
  std::string bits;  // of a mask: the leading bits, as text
  bool ipv6 = false;

  bool matches(const Nid& nid) const {
    if (nid.net() != net) return false;
    if (all) return true;
    if (!bits.empty()) return nid.is_ipv6() == ipv6 && bits_of(nid).starts_with(bits);
    if (nid.size != 0) return false;
    if (parts.size() == 1) return parts[0].numbers.contains(nid.address32());
    for (size_t i = 0; i < 4; ++i) {
      if (!parts[i].numbers.contains(nid.address[i])) return false;
    }
    return true;
  }
  static std::string bits_of(const Nid& nid) {
    std::string text;
    for (size_t i = 0; i < (nid.is_ipv6() ? 16 : 4); ++i)
      text += fmt::format("{:08b}", nid.address[i]);
    return text;
  }
};

// Few nets and numbers, so that NIDs hit ranges often.
constexpr uint32_t kTwinHigh = 40;

Nid any_twin_nid() {
  const NetId net =
      *rc::gen::element(NetId{NetType::kTcp, 0}, NetId{NetType::kTcp, 1}, NetId{NetType::kKfi, 0});
  const auto octet = rc::gen::inRange<uint32_t>(0, kTwinHigh + 2);
  if (net.type == NetType::kKfi) return Nid::from_ipv4(net, *octet);
  if (*rc::gen::inRange(0, 3) > 0) {
    return Nid::from_ipv4(net, *octet << 24 | *octet << 16 | *octet << 8 | *octet);
  }
  std::array<uint8_t, 16> address = {0xFD, 0x77};
  address[*rc::gen::inRange<size_t>(0, 16)] ^= static_cast<uint8_t>(*rc::gen::inRange(0, 4));
  return Nid::from_ipv6(net, address);
}

TwinRange any_twin_range(const Nid& near) {
  TwinRange range;
  range.net = *rc::gen::element(near.net(), NetId{NetType::kTcp, 1});
  const bool dotted = !is_numeric(range.net.type);
  const int kind = *rc::gen::inRange(0, 6);
  if (kind == 0) {
    range.all = true;
    range.text = "*";
  } else if (kind <= 2 && dotted) {
    // A mask around the NID, or around one that differs in one bit.
    Nid base = is_numeric(near.net().type) ? Nid::from_ipv4(range.net, 0x0A000001) : near;
    base.address[*rc::gen::inRange<size_t>(0, 4)] ^= *rc::gen::element<uint8_t>(0, 0, 1, 0x80);
    range.ipv6 = base.is_ipv6();
    const auto prefix = *rc::gen::inRange<size_t>(1, range.ipv6 ? 129 : 33);
    range.bits = TwinRange::bits_of(base).substr(0, prefix);
    const std::string text = base.to_string();
    range.text = fmt::format("{}/{}", text.substr(0, text.find('@')), prefix);
  } else {
    for (int i = 0; i < (dotted ? 4 : 1); ++i) {
      range.parts.push_back(any_part(kTwinHigh));
      // A numeric net's `*` goes up to 2^32; the twin knows 0..255, and no NID of the test is
      // larger.
      range.text += (i == 0 ? "" : ".") + range.parts.back().text;
    }
  }
  range.text += "@" + range.net.to_string();
  return range;
}

RC_GTEST_PROP(Twin, NidListMatches, ()) {
  const Nid nid = any_twin_nid();
  std::vector<TwinRange> ranges;
  std::string text;
  const auto count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) {
    ranges.push_back(any_twin_range(nid));
    text += ranges.back().text + " ";
  }
  const bool expected = std::any_of(ranges.begin(), ranges.end(),
                                    [&nid](const TwinRange& range) { return range.matches(nid); });
  RC_LOG() << nid.to_string() << " in " << text;
  RC_CLASSIFY(expected, "matches");
  const auto list = NidList::parse(text);
  RC_ASSERT(list.has_value());
  RC_ASSERT(list->matches(nid) == expected);
  const auto again = NidList::parse(list->to_string());
  RC_ASSERT(again == *list);
  RC_ASSERT(again->matches(nid) == expected);
}

RC_GTEST_PROP(Twin, NidListExpandsToWhatItMatches, ()) {
  std::vector<TwinPart> parts;
  std::string text;
  size_t product = 1;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(any_part(kTwinHigh));
    text += (i == 0 ? "" : ".") + parts.back().text;
    product *= parts.back().numbers.size();
  }
  const size_t limit = 5000;
  const auto list = NidList::parse(text + "@tcp");
  RC_ASSERT(list.has_value());
  const auto nids = list->expand(limit);
  RC_CLASSIFY(nids.has_value(), "expands");
  RC_ASSERT(nids.has_value() == (product <= limit));
  if (!nids) return;
  RC_ASSERT(nids->size() == product);
  RC_ASSERT(std::set<Nid>(nids->begin(), nids->end()).size() == product);
  for (const Nid& nid : *nids) RC_ASSERT(list->matches(nid));
}

}  // namespace
}  // namespace ulnet
