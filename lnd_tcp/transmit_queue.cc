#include "lnd_tcp/transmit_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lnet/base/assert.h"
#include "lnet/base/bytes.h"

namespace ulnet::tcp {
namespace {

// Calls `visit(piece)` for the bytes [offset, offset + bytes) of the fragments, piece by piece,
// until it returns false.
template <typename Visit>
void for_each_piece(std::span<const iovec> fragments, size_t offset, size_t bytes, Visit visit) {
  for (const iovec& fragment : fragments) {
    if (bytes == 0) return;
    if (offset >= fragment.iov_len) {
      offset -= fragment.iov_len;
      continue;
    }
    const size_t n = std::min(bytes, fragment.iov_len - offset);
    if (!visit(iovec{static_cast<uint8_t*>(fragment.iov_base) + offset, n})) return;
    bytes -= n;
    offset = 0;
  }
}

constexpr size_t kChecksumOffset = 4;  // in the frame header

}  // namespace

TransmitFrame& FrameRing::push_slot() {
  if (count_ == slots_.size()) {
    std::vector<TransmitFrame> larger(std::max<size_t>(8, slots_.size() * 2));
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    slots_.swap(larger);
    head_ = 0;
  }
  return (*this)[count_++];
}

void FrameRing::remove(size_t i) {
  for (; i + 1 < count_; ++i) std::swap((*this)[i], (*this)[i + 1]);
  --count_;
}

uint32_t TransmitQueue::push_message(const SendAction& send, HeaderForm form, bool with_checksum) {
  ULNET_ASSERT(send.header.payload_bytes == send.payload.bytes, "the payload is the header's");
  TransmitFrame& frame = queued_.push_slot();
  frame.id = send.id;
  frame.is_message = true;
  frame.deadline = send.deadline;
  encode_frame_header({.type = kFrameLnet}, {frame.head.data(), kFrameHeaderBytes});
  encode_header(form, send.header, {frame.head.data() + kFrameHeaderBytes, header_bytes(form)});
  frame.head_bytes = static_cast<uint32_t>(kFrameHeaderBytes + header_bytes(form));
  frame.payload_bytes = send.payload.bytes;
  frame.sum_payload = with_checksum && send.payload.bytes > 0;
  frame.fragment_count = 0;
  if (send.payload.bytes > 0 && send.payload.bytes <= kInlinePayloadMax) {
    uint8_t* to = frame.head.data() + frame.head_bytes;
    for_each_piece(send.payload.fragments, send.payload.offset, send.payload.bytes,
                   [&to](const iovec& piece) {
                     std::memcpy(to, piece.iov_base, piece.iov_len);
                     to += piece.iov_len;
                     return true;
                   });
    if (frame.sum_payload) {
      const uint32_t sum =
          checksum(kChecksumSeed, {frame.head.data() + frame.head_bytes, send.payload.bytes});
      store_native(frame.head.data() + kChecksumOffset, sum);
      frame.sum_payload = false;
    }
    frame.head_bytes += send.payload.bytes;
    frame.payload_bytes = 0;
  } else if (send.payload.bytes > 0) {
    frame.offset = send.payload.offset;
    frame.fragment_count = static_cast<uint32_t>(send.payload.fragments.size());
    if (frame.fragment_count <= frame.few.size()) {
      std::copy(send.payload.fragments.begin(), send.payload.fragments.end(), frame.few.begin());
    } else {
      frame.many.assign(send.payload.fragments.begin(), send.payload.fragments.end());
    }
  }
  queued_bytes_ += frame.bytes();
  return frame.bytes();
}

uint32_t TransmitQueue::push_noop(uint64_t cookie0, uint64_t cookie1) {
  std::array<uint8_t, kFrameHeaderBytes> bytes;
  encode_frame_header({.type = kFrameNoop, .cookie0 = cookie0, .cookie1 = cookie1}, bytes);
  return push_bytes(bytes);
}

uint32_t TransmitQueue::push_bytes(std::span<const uint8_t> bytes) {
  TransmitFrame& frame = queued_.push_slot();
  ULNET_ASSERT(bytes.size() <= frame.head.size(), "bytes of our own fit a frame's head");
  frame.is_message = false;
  frame.sum_payload = false;
  frame.deadline = kNever;
  std::memcpy(frame.head.data(), bytes.data(), bytes.size());
  frame.head_bytes = static_cast<uint32_t>(bytes.size());
  frame.payload_bytes = 0;
  frame.fragment_count = 0;
  queued_bytes_ += bytes.size();
  return frame.head_bytes;
}

uint64_t TransmitQueue::expire_ring(FrameRing& ring, size_t first, Time now,
                                    std::vector<SendId>* expired) {
  uint64_t bytes = 0;
  for (size_t i = first; i < ring.size();) {
    TransmitFrame& frame = ring[i];
    if (!frame.is_message || frame.deadline > now) {
      ++i;
      continue;
    }
    expired->push_back(frame.id);
    bytes += frame.bytes();
    ring.remove(i);
  }
  return bytes;
}

uint64_t TransmitQueue::expire(Time now, bool writer_idle, std::vector<SendId>* expired) {
  uint64_t bytes = expire_ring(queued_, 0, now, expired);
  queued_bytes_ -= bytes;
  if (writer_idle) bytes += expire_ring(sending_, front_written_ > 0 ? 1 : 0, now, expired);
  return bytes;
}

void TransmitQueue::abandon_queued(std::vector<Abandoned>* abandoned) {
  for (size_t i = 0; i < queued_.size(); ++i) {
    if (queued_[i].is_message) abandoned->push_back({queued_[i].id, true});
  }
  queued_.clear();
  queued_bytes_ = 0;
}

bool TransmitQueue::start_batch() {
  if (!sending_.empty()) return true;
  if (queued_.empty()) return false;
  swap(queued_, sending_);
  queued_bytes_ = 0;
  return true;
}

size_t TransmitQueue::gather(std::span<iovec> out, size_t bytes_max) {
  size_t pieces = 0;
  size_t total = 0;
  size_t skip = front_written_;
  for (size_t i = 0; i < sending_.size() && pieces < out.size() && total < bytes_max; ++i) {
    TransmitFrame& frame = sending_[i];
    if (frame.sum_payload) {
      uint32_t sum = kChecksumSeed;
      for_each_piece(
          frame.fragments(), frame.offset, frame.payload_bytes, [&sum](const iovec& piece) {
            sum = checksum(sum, {static_cast<const uint8_t*>(piece.iov_base), piece.iov_len});
            return true;
          });
      store_native(frame.head.data() + kChecksumOffset, sum);
      frame.sum_payload = false;
    }
    if (skip < frame.head_bytes) {
      out[pieces++] = {frame.head.data() + skip, frame.head_bytes - skip};
      total += frame.head_bytes - skip;
      skip = 0;
    } else {
      skip -= frame.head_bytes;
    }
    for_each_piece(frame.fragments(), frame.offset + skip, frame.payload_bytes - skip,
                   [&](const iovec& piece) {
                     if (pieces == out.size()) return false;
                     out[pieces++] = piece;
                     total += piece.iov_len;
                     return true;
                   });
    skip = 0;
  }
  return pieces;
}

size_t TransmitQueue::handle_written(size_t n, std::vector<SendId>* done) {
  size_t frames = 0;
  while (n > 0) {
    ULNET_ASSERT(!sending_.empty(), "more was written than gathered");
    TransmitFrame& frame = sending_[0];
    const size_t left = frame.bytes() - front_written_;
    if (n < left) {
      front_written_ += static_cast<uint32_t>(n);
      return frames;
    }
    n -= left;
    front_written_ = 0;
    if (frame.is_message) done->push_back(frame.id);
    last_end_ += frame.bytes();
    ends_[frames_written_++ % kRememberedMax] = last_end_;
    sending_.pop_front();
    ++frames;
  }
  return frames;
}

void TransmitQueue::abandon_batch(std::vector<Abandoned>* abandoned) {
  for (size_t i = 0; i < sending_.size(); ++i) {
    if (sending_[i].is_message)
      abandoned->push_back({sending_[i].id, i > 0 || front_written_ == 0});
  }
  sending_.clear();
  front_written_ = 0;
}

std::optional<TransmitQueue::Unacknowledged> TransmitQueue::first_unacknowledged(
    uint64_t acknowledged) {
  // Where frame number `i` began is where the one before it ended: one of what is kept is that.
  const uint64_t oldest =
      frames_written_ < kRememberedMax ? 0 : frames_written_ - kRememberedMax + 1;
  for (uint64_t i = oldest; i < frames_written_; ++i) {
    const uint64_t begin = i == 0 ? 0 : ends_[(i - 1) % kRememberedMax];
    const uint64_t end = ends_[i % kRememberedMax];
    if (acknowledged < begin) return std::nullopt;
    if (acknowledged >= end) continue;
    const auto bytes = static_cast<uint32_t>(end - begin);
    return Unacknowledged{bytes, static_cast<uint32_t>(acknowledged - begin), bytes};
  }
  if (sending_.empty() || front_written_ == 0) return std::nullopt;
  return Unacknowledged{sending_[0].bytes(), static_cast<uint32_t>(acknowledged - last_end_),
                        front_written_};
}

}  // namespace ulnet::tcp
