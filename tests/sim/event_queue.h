// The simulator's clock and its one queue of what will happen: ordered by time, then by order of
// entry. Nothing else moves time, so a run depends on its inputs only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lnet/base/time.h"

namespace ulnet::sim {

class EventQueue {
 public:
  using What = std::function<void()>;

  Time now() const { return now_; }

  // `when` in the past means now, behind what is already due now.
  void at(Time when, What what) {
    heap_.push_back({std::max(when, now_), next_sequence_++, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void in(Duration delay, What what) { at(now_ + delay, std::move(what)); }

  // Runs the next entry if it is due at `end` or before; false, and the clock stands at `end`, if
  // none is.
  bool run_next(Time end) {
    if (heap_.empty() || heap_.front().when > end) {
      now_ = std::max(now_, end);
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.when;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    Time when;
    uint64_t sequence;
    What what;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
  }

  Time now_ = Time(std::chrono::seconds(1000));
  uint64_t next_sequence_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace ulnet::sim
