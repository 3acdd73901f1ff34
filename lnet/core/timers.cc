#include "lnet/core/timers.h"

#include <algorithm>

#include "lnet/base/assert.h"

namespace ulnet::core {
namespace {
constexpr size_t kChildren = 4;
}

void TimerHeap::set(Timer& timer, Time when) {
  timer.when = when;
  if (!timer.is_set()) {
    heap_.push_back(&timer);
    timer.position = static_cast<uint32_t>(heap_.size() - 1);
  }
  sift_up(timer.position);
  sift_down(timer.position);
}

void TimerHeap::cancel(Timer& timer) {
  if (!timer.is_set()) return;
  const size_t position = timer.position;
  ULNET_ASSERT(position < heap_.size() && heap_[position] == &timer,
               "a timer that is not where it says");
  timer.position = Timer::kIdle;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == &timer) return;
  place(position, last);
  sift_up(position);
  sift_down(last->position);
}

Timer* TimerHeap::pop_due(Time now) {
  if (heap_.empty() || heap_.front()->when > now) return nullptr;
  Timer* timer = heap_.front();
  cancel(*timer);
  return timer;
}

void TimerHeap::place(size_t position, Timer* timer) {
  heap_[position] = timer;
  timer->position = static_cast<uint32_t>(position);
}

void TimerHeap::sift_up(size_t position) {
  Timer* timer = heap_[position];
  while (position > 0) {
    const size_t parent = (position - 1) / kChildren;
    if (heap_[parent]->when <= timer->when) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, timer);
}

void TimerHeap::sift_down(size_t position) {
  Timer* timer = heap_[position];
  for (;;) {
    const size_t first = position * kChildren + 1;
    if (first >= heap_.size()) break;
    const size_t end = std::min(first + kChildren, heap_.size());
    size_t best = first;
    for (size_t child = first + 1; child < end; ++child) {
      if (heap_[child]->when < heap_[best]->when) best = child;
    }
    if (heap_[best]->when >= timer->when) break;
    place(position, heap_[best]);
    position = best;
  }
  place(position, timer);
}

}  // namespace ulnet::core
