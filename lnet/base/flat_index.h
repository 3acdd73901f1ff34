// FlatIndex: finds ids by the hash of what they name, in one or two cache lines.
//
// A node looks a NID up for each message. std::unordered_map walks three or four lines in a row to
// find one, each of which must come from memory when a node knows many peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lnet/base/assert.h"

namespace ulnet {

// Open addressing with linear probing; at most half full. Ids are never 0. The caller keeps what an
// id names, and compares it.
class FlatIndex {
 public:
  // The id under this hash for which is(id), or 0. `is` is asked about ids of equal hashes only.
  template <typename Is>
  uint64_t find(uint64_t hash, Is is) const {
    if (entries_.empty()) return 0;
    for (size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Entry& entry = entries_[at];
      if (entry.id == 0) return 0;
      if (entry.hash == hash && is(entry.id)) return entry.id;
    }
  }

  // REQUIRES: id != 0, and it is not there.
  void insert(uint64_t hash, uint64_t id) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    place({hash, id});
    ++size_;
  }

  // REQUIRES: it was inserted under this hash.
  void erase(uint64_t hash, uint64_t id) {
    size_t hole = hash & mask();
    while (entries_[hole].id != id) {
      ULNET_ASSERT(entries_[hole].id != 0, "an id that is not in the index");
      hole = (hole + 1) & mask();
    }
    // What was pushed behind the hole moves up, so that no search ends before it.
    for (size_t at = (hole + 1) & mask(); entries_[at].id != 0; at = (at + 1) & mask()) {
      const size_t home = entries_[at].hash & mask();
      const bool may_move = ((at - home) & mask()) >= ((at - hole) & mask());
      if (may_move) entries_[std::exchange(hole, at)] = entries_[at];
    }
    entries_[hole] = {};
    --size_;
  }

  size_t size() const { return size_; }

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t id = 0;  // 0: free
  };
  static constexpr size_t kEntriesMin = 16;

  size_t mask() const { return entries_.size() - 1; }

  void place(const Entry& entry) {
    size_t at = entry.hash & mask();
    while (entries_[at].id != 0) at = (at + 1) & mask();
    entries_[at] = entry;
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? kEntriesMin : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.id != 0) place(entry);
    }
  }

  std::vector<Entry> entries_;  // a power of two, or none
  size_t size_ = 0;
};

}  // namespace ulnet
