// Credits: how many messages may be on the way, and who waits.
//
// As in LNet the count goes below zero: then its negative is the number of waiters. A returned
// credit wakes the oldest. Source: spec lnet-core 5.5.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lnet/base/slab.h"

namespace ulnet::core {

// FIFO of messages linked through their `next_waiting` ids.
// Invariant: available() == limit - taken; waiting messages count as taken.
class Credits {
 public:
  explicit Credits(int32_t limit) : available_(limit), limit_(limit), min_(limit) {}

  // Takes a credit. False: none was free; the caller's message waits and must be queued with
  // wait().
  bool take() {
    --available_;
    min_ = std::min(min_, available_);
    return available_ >= 0;
  }

  template <typename Message>
  void wait(Slab<Message>& messages, uint64_t id) {
    messages.at(id).next_waiting = 0;
    (tail_ != 0 ? messages.at(tail_).next_waiting : head_) = id;
    tail_ = id;
    ++waiting_;
  }

  // Gives a credit back. The id of the message that gets it, or 0.
  template <typename Message>
  uint64_t give(Slab<Message>& messages) {
    ++available_;
    if (head_ == 0) return 0;
    const uint64_t id = head_;
    head_ = messages.at(id).next_waiting;
    if (head_ == 0) tail_ = 0;
    --waiting_;
    return id;
  }

  // Takes a waiting message out of the queue, with its credit. O(waiting).
  template <typename Message>
  void remove(Slab<Message>& messages, uint64_t id) {
    uint64_t previous = 0;
    for (uint64_t at = head_; at != id; at = messages.at(at).next_waiting) previous = at;
    const uint64_t next = messages.at(id).next_waiting;
    (previous != 0 ? messages.at(previous).next_waiting : head_) = next;
    if (tail_ == id) tail_ = previous;
    --waiting_;
    ++available_;
  }

  // Those that are taken stay taken, also when that leaves fewer than none. REQUIRES: nobody waits.
  void set_limit(int32_t limit) {
    available_ += limit - limit_;
    limit_ = limit;
    min_ = available_;
  }

  int32_t limit() const { return limit_; }
  int32_t available() const { return available_; }
  int32_t min() const { return min_; }
  uint32_t waiting() const { return waiting_; }
  uint64_t oldest() const { return head_; }

 private:
  int32_t available_;  // first: path selection looks at it in many objects
  int32_t limit_;
  int32_t min_;
  uint32_t waiting_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace ulnet::core
