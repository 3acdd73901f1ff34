#include "lnd_tcp/peer.h"

#include <algorithm>

#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

constexpr uint32_t kRandomRange = 1 << 16;

// Between half of `full` and all of it (decisions D6).
Duration spread(Duration full, uint32_t random) {
  const Duration half = full / 2;
  return half + half * static_cast<int64_t>(random % kRandomRange) / (kRandomRange - 1);
}

enum class Fit : uint8_t { kNever, kMay, kYes };

// Versions 3 and 4, LNET frames.
Fit fit(ConnType type, bool bulk) {
  switch (type) {
    case ConnType::kControl:
      return bulk ? Fit::kMay : Fit::kYes;
    case ConnType::kBulkOut:
      return bulk ? Fit::kYes : Fit::kMay;
    default:
      return Fit::kNever;
  }
}

}  // namespace

// ---------------------------------------------------------------- the set

PeerLogic::Admission PeerLogic::judge_incoming(ConnType type, uint32_t version,
                                               uint64_t incarnation, bool from_nid_address) const {
  // The order is the kernel's: race, incarnation, duplicates (spec 2.8).
  if (job_ != Job::kIdle && from_nid_address && settings_.nid < settings_.own)
    return Admission::kRace;
  if (is_stale(version, incarnation)) return Admission::kStale;
  // Late races: what the peer dials is what our own finished job has dialled already. Accepting
  // would leave the type twice. It costs the peer nothing, as the set is complete.
  const auto dialled =
      static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), [type](const Slot& slot) {
        return slot.active && slot.type == type;
      }));
  if (from_nid_address && settings_.nid < settings_.own && !missing() && wanted(type) > 0 &&
      dialled >= wanted(type)) {
    return Admission::kDuplicate;
  }
  const size_t limit =
      std::max<size_t>(kAcceptedPerTypeMin, static_cast<size_t>(settings_.conns_per_peer));
  return count(type) >= limit ? Admission::kDuplicate : Admission::kAccept;
}

bool PeerLogic::is_stale(uint32_t version, uint64_t incarnation) const {
  return recorded_ && (version != version_ || incarnation != incarnation_);
}

void PeerLogic::record(uint32_t version, uint64_t incarnation) {
  recorded_ = true;
  version_ = version;
  incarnation_ = incarnation;
}

void PeerLogic::add(ConnectionId id, ConnType type, bool active) {
  slots_.push_back({id, type, active});
  // Any connection that gets established, in either role, proves that the peer can be reached.
  back_off_ = Duration{};
  not_before_ = Time::min();
}

void PeerLogic::remove(ConnectionId id) {
  std::erase_if(slots_, [id](const Slot& slot) { return slot.id == id; });
  if (!slots_.empty()) return;
  recorded_ = false;
  content_ = false;
  refusals_ = 0;
}

size_t PeerLogic::count(ConnType type) const {
  return static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(),
                                           [type](const Slot& slot) { return slot.type == type; }));
}

bool PeerLogic::has_all_types() const {
  return count(ConnType::kControl) > 0 && count(ConnType::kBulkIn) > 0 &&
         count(ConnType::kBulkOut) > 0;
}

// ---------------------------------------------------------------- the connect job

size_t PeerLogic::wanted(ConnType type) const {
  switch (type) {
    case ConnType::kControl:
      return 1;
    case ConnType::kBulkIn:
    case ConnType::kBulkOut:
      return static_cast<size_t>(settings_.conns_per_peer);
    default:
      return 0;
  }
}

std::optional<ConnType> PeerLogic::missing() const {
  if (content_) return std::nullopt;
  if (count(ConnType::kControl) == 0) return ConnType::kControl;
  const size_t in = count(ConnType::kBulkIn);
  const size_t out = count(ConnType::kBulkOut);
  if (in < wanted(ConnType::kBulkIn) && in <= out) return ConnType::kBulkIn;
  if (out < wanted(ConnType::kBulkOut)) return ConnType::kBulkOut;
  if (in < wanted(ConnType::kBulkIn)) return ConnType::kBulkIn;
  return std::nullopt;
}

bool PeerLogic::may_dial(Time now) const {
  if (job_ == Job::kDialling || !missing()) return false;
  return job_ == Job::kDelayed ? now >= retry_at_ : now >= not_before_;
}

ConnType PeerLogic::begin_dial() {
  const auto type = missing();
  ULNET_ASSERT(type.has_value(), "a dial needs a missing type");
  job_ = Job::kDialling;
  retry_at_ = kNever;
  return *type;
}

void PeerLogic::settle() {
  if (job_ == Job::kDelayed && !missing()) job_ = Job::kIdle;
}

PeerLogic::DialNext PeerLogic::handle_dialled(DialResult result, Time now, uint32_t random) {
  ULNET_ASSERT(job_ == Job::kDialling, "a dial ends once");
  job_ = Job::kIdle;
  if (result == DialResult::kOk) {
    refusals_ = 0;
    return missing() ? DialNext::kDialNext : DialNext::kDone;
  }
  if (result == DialResult::kRefused || result == DialResult::kStale) {
    if (!missing()) {
      refusals_ = 0;
      return DialNext::kDone;
    }
    if (++refusals_ < kRefusalsMax) {
      if (result == DialResult::kStale) return DialNext::kDialNext;
      // Not less than a kernel's delay: the winner of the race dials its whole set meanwhile.
      job_ = Job::kDelayed;
      retry_at_ = now + settings_.reconnect_min + spread(settings_.reconnect_min, random) -
                  settings_.reconnect_min / 2;
      return DialNext::kRetryAt;
    }
    refusals_ = 0;
    if (has_all_types()) {
      content_ = true;
      return DialNext::kDone;
    }
  }
  back_off_ = std::clamp(2 * back_off_, settings_.reconnect_min, settings_.reconnect_max);
  not_before_ = now + spread(back_off_, random);
  return DialNext::kJobFailed;
}

// ---------------------------------------------------------------- choice

std::optional<ConnectionId> PeerLogic::choose(uint64_t frame_bytes) {
  const bool bulk = frame_bytes >= settings_.min_bulk_bytes;
  Slot* best = nullptr;
  Fit best_fit = Fit::kNever;
  for (Slot& slot : slots_) {
    const Fit slot_fit = fit(slot.type, bulk);
    if (slot_fit == Fit::kNever || slot_fit < best_fit) continue;
    const bool better = slot_fit > best_fit || slot.pending_bytes < best->pending_bytes ||
                        (slot.pending_bytes == best->pending_bytes && slot.chosen < best->chosen);
    if (!better) continue;
    best = &slot;
    best_fit = slot_fit;
  }
  if (best == nullptr) return std::nullopt;
  best->chosen = ++choices_;
  return best->id;
}

std::optional<ConnectionId> PeerLogic::choose_for_keepalive() const {
  const Slot* any = nullptr;
  for (const Slot& slot : slots_) {
    if (slot.type == ConnType::kBulkIn) return slot.id;
    if (slot.type != ConnType::kAny) any = &slot;
  }
  return any == nullptr ? std::nullopt : std::optional(any->id);
}

PeerLogic::Slot* PeerLogic::find(ConnectionId id) {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [id](const Slot& slot) { return slot.id == id; });
  return found == slots_.end() ? nullptr : &*found;
}

void PeerLogic::add_pending(ConnectionId id, uint64_t bytes) {
  if (Slot* slot = find(id)) slot->pending_bytes += bytes;
}

void PeerLogic::sub_pending(ConnectionId id, uint64_t bytes) {
  if (Slot* slot = find(id)) slot->pending_bytes -= std::min(bytes, slot->pending_bytes);
}

}  // namespace ulnet::tcp
