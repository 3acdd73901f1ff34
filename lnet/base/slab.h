// Slab: objects named by ids with a generation. An id is never used again, so a late id finds
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "lnet/base/assert.h"

namespace ulnet {

// Shape:    ids are generation << 24 | index, never 0: at most 2^24 objects alive, 2^40 lives of
// one slot. Lifetime: an object's address is stable from insert() to erase(). Order:    freed slots
// are reused last-in first-out: deterministic, and warm in the cache. Thread:   none; its owner
// serialises.
template <typename T>
class Slab {
 public:
  using Id = uint64_t;
  static constexpr uint32_t kIndexBits = 24;
  static constexpr uint32_t kObjectsMax = 1U << kIndexBits;

  // Makes T from `args`. REQUIRES: size() < kObjectsMax.
  template <typename... Args>
  Id insert(Args&&... args) {
    const uint32_t index = take_slot();
    Slot& slot = slot_at(index);
    slot.generation |= kLiveBit;
    new (slot.storage) T(std::forward<Args>(args)...);
    ++size_;
    return id_of(index, slot.generation & ~kLiveBit);
  }

  // nullptr when `id` names nothing that is alive.
  T* find(Id id) {
    const uint64_t index = id & (kObjectsMax - 1);
    if (index >= slots_) return nullptr;
    Slot& slot = slot_at(static_cast<uint32_t>(index));
    return slot.generation == ((id >> kIndexBits) | kLiveBit) ? object(slot) : nullptr;
  }
  const T* find(Id id) const { return const_cast<Slab*>(this)->find(id); }

  // REQUIRES: `id` is alive.
  T& at(Id id) {
    T* found = find(id);
    ULNET_ASSERT(found != nullptr, "an id that must be alive is not");
    return *found;
  }
  const T& at(Id id) const { return const_cast<Slab*>(this)->at(id); }

  // Asks for the first cache line of an object that is about to be used, without waiting for it.
  // REQUIRES: `id` is alive.
  void prefetch(Id id) const {
    const auto index = static_cast<uint32_t>(id & (kObjectsMax - 1));
    __builtin_prefetch(&chunks_[index >> kChunkBits][index & (kChunkSlots - 1)]);
  }

  // REQUIRES: `id` is alive.
  void erase(Id id) {
    at(id).~T();
    const auto index = static_cast<uint32_t>(id & (kObjectsMax - 1));
    Slot& slot = slot_at(index);
    slot.generation = (slot.generation & ~kLiveBit) + 1;
    slot.next_free = free_head_;
    free_head_ = index;
    --size_;
  }

  size_t size() const { return size_; }

  // Calls visit(id, object) for each live object, by slot. `visit` may erase the object it is
  // given, and insert.
  template <typename Visit>
  void for_each(Visit visit) {
    for (uint32_t index = 0; index < slots_; ++index) {
      Slot& slot = slot_at(index);
      if (slot.generation & kLiveBit)
        visit(id_of(index, slot.generation & ~kLiveBit), *object(slot));
    }
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    const_cast<Slab*>(this)->for_each([&visit](Id id, const T& object) { visit(id, object); });
  }

  Slab() = default;
  ~Slab() {
    for_each([](Id, T& object) { object.~T(); });
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

 private:
  static constexpr uint64_t kLiveBit = uint64_t{1} << 63;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kChunkBits = 8;
  static constexpr uint32_t kChunkSlots = 1U << kChunkBits;

  // Large objects begin with their slot's cache line: what their first kCacheLine - 16 bytes hold
  // costs no line of its own to whoever looks at many of them.
  static constexpr size_t kCacheLine = 64;
  struct alignas(sizeof(T) < kCacheLine ? alignof(T) : kCacheLine) Slot {
    uint64_t generation = 1;  // of the present or next life; kLiveBit while alive
    uint32_t next_free = kNone;
    alignas(T) std::byte storage[sizeof(T)];
  };

  static Id id_of(uint32_t index, uint64_t generation) { return generation << kIndexBits | index; }
  Slot& slot_at(uint32_t index) { return chunks_[index >> kChunkBits][index & (kChunkSlots - 1)]; }
  static T* object(Slot& slot) { return std::launder(reinterpret_cast<T*>(slot.storage)); }

  uint32_t take_slot() {
    if (free_head_ != kNone) {
      const uint32_t index = free_head_;
      free_head_ = slot_at(index).next_free;
      return index;
    }
    ULNET_ASSERT(slots_ < kObjectsMax, "more objects than a slab can name");
    if (slots_ == chunks_.size() * kChunkSlots)
      chunks_.push_back(std::make_unique<Slot[]>(kChunkSlots));
    return slots_++;
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  uint32_t slots_ = 0;
  uint32_t free_head_ = kNone;
  size_t size_ = 0;
};

}  // namespace ulnet
