#include "tests/interop/matcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "lnet/base/bytes.h"
#include "lnet/wire/ping_info.h"

namespace ulnet::interop {
namespace {

constexpr size_t kCookie0At = 8;   // in a frame
constexpr size_t kFeaturesAt = 4;  // in a ping info
constexpr size_t kHelloNidsAt = 8;

// Where the incarnations of a HELLO stand: the sender's, and eight bytes further the receiver's.
size_t incarnation_at(const Piece& hello) {
  return kHelloNidsAt + 2 * (hello.hello.version == 4 ? 20 : 8) + 8;
}

// PUT with an ACK wanted, and GET: they carry a handle of their sender.
bool names_own_md(const Piece& piece) {
  if (!piece.message) return false;
  const MessageType type = piece.message->type();
  if (type != MessageType::kPut && type != MessageType::kGet) return false;
  return !handle_of(piece).is_none();
}

std::string describe_difference(const Bytes& wanted, const Bytes& actual) {
  if (wanted.size() != actual.size()) {
    return fmt::format("{} bytes instead of {}", actual.size(), wanted.size());
  }
  const auto [want, got] = std::mismatch(wanted.begin(), wanted.end(), actual.begin());
  return fmt::format("byte {} is {:#04x} instead of {:#04x}", want - wanted.begin(), *got, *want);
}

}  // namespace

std::optional<std::string> Matcher::match(const Step& step, const Piece& actual) {
  const Piece& recorded = step.piece;
  if (recorded.kind != actual.kind) return "another kind of piece";
  if (recorded.message.has_value() != actual.message.has_value()) return "another frame type";
  Bytes wanted = recorded.bytes;
  Exceptions used;
  if (recorded.kind == Piece::Kind::kHello) {
    if (recorded.hello.version != actual.hello.version) return "another HELLO version";
    if (actual.hello.source_incarnation == 0) return "incarnation 0";
    wanted = wanted_hello(recorded, actual);
  } else if (recorded.kind == Piece::Kind::kFrame) {
    if (recorded.message && recorded.message->type() != actual.message->type()) {
      return "another message type";
    }
    wanted = wanted_frame(step, actual, used);
  }
  if (wanted != actual.bytes) return describe_difference(wanted, actual.bytes);
  learn(recorded, actual);
  for (const auto& [name, count] : used) exceptions_[name] += count;
  return std::nullopt;
}

Bytes Matcher::wanted_hello(const Piece& recorded, const Piece& actual) const {
  Bytes wanted = recorded.bytes;
  const auto known = incarnations_.find(recorded.hello.source_incarnation);
  store_le64(&wanted[incarnation_at(recorded)],
             known != incarnations_.end() ? known->second : actual.hello.source_incarnation);
  return wanted;
}

Bytes Matcher::wanted_frame(const Step& step, const Piece& actual, Exceptions& used) const {
  const Piece& recorded = step.piece;
  Bytes wanted = recorded.bytes;
  if (recorded.message && recorded.frame.cookie0 != 0) {
    store_le64(&wanted[kCookie0At], 0);
    ++used["no zero-copy request"];
  }
  if (names_own_md(recorded) && names_own_md(actual)) {
    const WireHandle handle = handle_of(recorded);
    WireHandle ours = handle_of(actual);
    const auto known = handles_.find({handle.interface_cookie, handle.object_cookie});
    const auto interface = interfaces_.find(handle.interface_cookie);
    const bool taken = recorded_.contains({ours.interface_cookie, ours.object_cookie});
    // A handle of ours that stands for another recorded one already is a difference.
    if (known != handles_.end()) {
      ours = {known->second.first, known->second.second};
    } else if (taken) {
      ours = handle;
    } else if (interface != interfaces_.end()) {
      ours.interface_cookie = interface->second;
    }
    store_le64(&wanted[recorded.part_at()], ours.interface_cookie);
    store_le64(&wanted[recorded.part_at() + 8], ours.object_cookie);
  }
  if (step.ping_info) {
    adapt_features(std::span(wanted).last(recorded.payload().size()), actual.payload(), used);
  }
  return wanted;
}

// Until our node forwards, it does not claim to by itself.
void Matcher::adapt_features(std::span<uint8_t> wanted, std::span<const uint8_t> actual,
                             Exceptions& used) const {
  constexpr size_t kEnd = kFeaturesAt + sizeof(uint32_t);
  if (!router_ || wanted.size() < kEnd || actual.size() < kEnd) return;
  const uint32_t features = load_le32(&wanted[kFeaturesAt]);
  const uint32_t disabled = load_le32(&actual[kFeaturesAt]) & kPingRoutingDisabled;
  if ((features & kPingRoutingDisabled) != 0 || disabled == 0) return;
  store_le32(&wanted[kFeaturesAt], features | disabled);
  ++used["routing bit"];
}

bool Matcher::is_same_info(const Step& step, std::span<const uint8_t> info) const {
  const auto payload = step.piece.payload();
  Bytes wanted(payload.begin(), payload.end());
  Exceptions used;
  adapt_features(wanted, info, used);
  return std::equal(wanted.begin(), wanted.end(), info.begin(), info.end());
}

void Matcher::learn(const Piece& recorded, const Piece& actual) {
  if (recorded.kind == Piece::Kind::kHello) {
    incarnations_.emplace(recorded.hello.source_incarnation, actual.hello.source_incarnation);
  } else if (names_own_md(recorded)) {
    const WireHandle from = handle_of(recorded);
    const WireHandle to = handle_of(actual);
    const Handle theirs{from.interface_cookie, from.object_cookie};
    const Handle ours{to.interface_cookie, to.object_cookie};
    handles_.emplace(theirs, ours);
    recorded_.emplace(ours, theirs);
    interfaces_.emplace(theirs.first, ours.first);
  }
}

std::optional<Bytes> Matcher::to_send(const Piece& recorded) {
  Bytes bytes = recorded.bytes;
  if (recorded.kind == Piece::Kind::kHello) {
    const auto known = incarnations_.find(recorded.hello.dest_incarnation);
    if (known != incarnations_.end())
      store_le64(&bytes[incarnation_at(recorded) + 8], known->second);
    return bytes;
  }
  if (recorded.kind != Piece::Kind::kFrame) return bytes;
  if (!recorded.message) {
    // It acknowledges what our node has never asked for.
    if (recorded.frame.cookie1 > tcp::kKeepaliveCookie) {
      ++exceptions_["ZC-ACK for us not sent"];
      return std::nullopt;
    }
    return bytes;
  }
  const MessageType type = recorded.message->type();
  if (type == MessageType::kAck || type == MessageType::kReply) {
    const WireHandle handle = handle_of(recorded);
    const auto known = handles_.find({handle.interface_cookie, handle.object_cookie});
    if (known == handles_.end()) return std::nullopt;
    store_le64(&bytes[recorded.part_at()], known->second.first);
    store_le64(&bytes[recorded.part_at() + 8], known->second.second);
  }
  return bytes;
}

}  // namespace ulnet::interop
