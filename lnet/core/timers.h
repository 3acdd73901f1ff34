// Deadlines of the core: an intrusive heap, so that setting, moving and cancelling one allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lnet/base/time.h"

namespace ulnet::core {

// What a deadline is for, and of which object.
enum class TimerKind : uint8_t {
  kResponse,       // an ACK or REPLY for this MD
  kSendWaiting,    // a message that waits for credits
  kHeld,           // a message of our own that waits on a lazy portal or for a delay rule of ours
  kRecoverNi,      // the next ping of a sick local NI
  kRecoverPeerNi,  // ... of a sick peer NI
  kPushAgain,      // to a peer that did not take our ping info
  kAskAgain,       // a peer whose word is wanted
  kDelayRule,      // the first message that a delay rule holds may go on
};

// Embedded in the object it belongs to.
// Lifetime: cancelled before its object dies; the object does not move.
struct Timer {
  Time when = kNever;
  uint64_t id = 0;            // of the object
  uint32_t position = kIdle;  // in the heap
  TimerKind kind = TimerKind::kResponse;

  static constexpr uint32_t kIdle = UINT32_MAX;
  bool is_set() const { return position != kIdle; }
};

// Order: earliest first; equal times in an order that depends only on the calls made
// (deterministic).
class TimerHeap {
 public:
  // Sets or moves. O(1) for the latest deadline of all, which is the usual case; else O(log n).
  void set(Timer& timer, Time when);
  void cancel(Timer& timer);
  // kNever when none is set.
  Time next() const { return heap_.empty() ? kNever : heap_.front()->when; }
  // Takes the earliest that is due at `now`, or nullptr.
  Timer* pop_due(Time now);
  size_t size() const { return heap_.size(); }

 private:
  void sift_up(size_t position);
  void sift_down(size_t position);
  void place(size_t position, Timer* timer);

  std::vector<Timer*> heap_;  // 4-ary
};

}  // namespace ulnet::core
