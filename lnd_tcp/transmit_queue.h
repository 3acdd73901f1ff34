// TransmitQueue: the sending half of one TCP connection, without its file descriptor.
//
// Frames enter at the back under the lock of whoever owns the connection; one writer at a time
// takes them out, without that lock, and turns them into pieces for one gathering write. So a
// system call never happens under a lock and a caller that queues never waits for one.
//
//   push_*()  -->  queued_  --start_batch()-->  sending_  --gather(), handle_written()-->  SendIds
//   that are done [owner's lock]          [lock + writer]               [writer]
//
// Source: spec tcp-lnd 3.1 to 3.5, 3.7.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/lnd.h"
#include "lnet/wire/header.h"

namespace ulnet::tcp {

// Payloads up to this are copied behind their header: cheaper than one more piece for the kernel to
// walk.
inline constexpr size_t kInlinePayloadMax = 256;

struct TransmitFrame {
  SendId id = 0;
  bool is_message = false;  // else bytes of our own: HELLO, NOOP
  bool sum_payload =
      false;  // the payload's checksum goes into the frame header when sending starts
  Time deadline = kNever;
  uint32_t head_bytes = 0;
  uint32_t payload_bytes = 0;  // behind the head, in `fragments`
  uint32_t offset = 0;         // into the fragments
  uint32_t fragment_count = 0;
  std::array<iovec, 2> few = {};  // fragments of most messages ...
  std::vector<iovec> many;        // ... and of the rest; kept for its capacity
  std::array<uint8_t, kFrameHeaderBytes + kHeaderNid16Bytes + kInlinePayloadMax> head;

  uint32_t bytes() const { return head_bytes + payload_bytes; }
  std::span<const iovec> fragments() const {
    return fragment_count <= few.size() ? std::span<const iovec>(few.data(), fragment_count)
                                        : std::span<const iovec>(many);
  }
};

// A queue whose slots are used again, without allocation in the steady state.
class FrameRing {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  TransmitFrame& operator[](size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  TransmitFrame& push_slot();
  void pop_front() {
    head_ = (head_ + 1) & (slots_.size() - 1);
    --count_;
  }
  // Takes frame `i` out; those behind it move up.
  void remove(size_t i);
  void clear() { head_ = count_ = 0; }
  friend void swap(FrameRing& a, FrameRing& b) noexcept {
    a.slots_.swap(b.slots_);
    std::swap(a.head_, b.head_);
    std::swap(a.count_, b.count_);
  }

 private:
  std::vector<TransmitFrame> slots_;  // size 0 or a power of two
  size_t head_ = 0;
  size_t count_ = 0;
};

class TransmitQueue {
 public:
  // A frame that cannot be sent any more.
  struct Abandoned {
    SendId id = 0;
    bool nothing_posted = true;
  };

  // ---- REQUIRES: the owner's lock.

  // Returns the bytes of the frame. Lifetime: the payload's memory is borrowed until the id is
  // returned as done or abandoned; its list of fragments is copied.
  uint32_t push_message(const SendAction& send, HeaderForm form, bool with_checksum);
  uint32_t push_noop(uint64_t cookie0, uint64_t cookie1);
  // REQUIRES: at most as many bytes as a frame's head takes.
  uint32_t push_bytes(std::span<const uint8_t> bytes);
  bool has_queued() const { return !queued_.empty(); }
  // REQUIRES: nobody is writing.
  bool empty() const { return queued_.empty() && sending_.empty(); }
  uint64_t queued_bytes() const { return queued_bytes_; }
  // Takes messages out whose deadline has passed and of which no byte has left; returns their
  // bytes. The writer's side is looked at when `writer_idle`.
  uint64_t expire(Time now, bool writer_idle, std::vector<SendId>* expired);
  // Takes all messages that still wait out; those the writer has are its business.
  void abandon_queued(std::vector<Abandoned>* abandoned);

  // ---- REQUIRES: the owner's lock, and being the writer.

  // Moves what is queued to the writer's side, if that is empty. False when there is nothing to
  // write.
  bool start_batch();

  // ---- REQUIRES: being the writer.

  bool batch_empty() const { return sending_.empty(); }
  // Fills `out` with the next pieces, at most `bytes_max` bytes but at least one piece; returns how
  // many.
  size_t gather(std::span<iovec> out, size_t bytes_max);
  // `n` bytes of what was gathered are gone; ids of messages that are complete are appended to
  // `done`. Returns the number of frames completed.
  size_t handle_written(size_t n, std::vector<SendId>* done);
  void abandon_batch(std::vector<Abandoned>* abandoned);

  // The first frame that was begun and is not within the first `acknowledged` of all bytes written
  // so far; nothing when there is none, or when it lies further back than this queue remembers.
  struct Unacknowledged {
    uint32_t bytes = 0;  // of the frame
    uint32_t acknowledged = 0;
    uint32_t written = 0;
  };
  std::optional<Unacknowledged> first_unacknowledged(uint64_t acknowledged);

 private:
  static constexpr size_t kRememberedMax = 64;  // frames, for first_unacknowledged()

  static uint64_t expire_ring(FrameRing& ring, size_t first, Time now,
                              std::vector<SendId>* expired);

  FrameRing queued_;
  uint64_t queued_bytes_ = 0;
  FrameRing sending_;
  uint32_t front_written_ = 0;  // bytes of sending_[0] that are gone
  // Of whole frames, among all bytes written: where each ended; the last ones, by number modulo.
  std::array<uint64_t, kRememberedMax> ends_ = {};
  uint64_t frames_written_ = 0;
  uint64_t last_end_ = 0;
};

}  // namespace ulnet::tcp
