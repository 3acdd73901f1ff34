#include "lnd_tcp/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

using Kind = Connection::Event::Kind;

CloseReason request_reason(WireError error) {
  switch (error) {
    case WireError::kHelloInsteadOfConnect:
      return CloseReason::kRequestHello;
    case WireError::kBadVersion:
      return CloseReason::kRequestVersion;
    case WireError::kBadNid:
      return CloseReason::kRequestNid;
    default:
      return CloseReason::kRequestMagic;
  }
}

CloseReason hello_reason(WireError error) {
  switch (error) {
    case WireError::kBadVersion:
      return CloseReason::kHelloVersion;
    case WireError::kBadNid:
      return CloseReason::kHelloNid;
    case WireError::kBadIpList:
      return CloseReason::kHelloIpList;
    default:
      return CloseReason::kHelloBadMagic;
  }
}

Completion receive_failure(CloseReason reason) {
  if (reason == CloseReason::kShutdown) return {ESHUTDOWN, HealthStatus::kLocalError};
  return {EIO, HealthStatus::kRemoteError};
}

}  // namespace

Connection::Connection(Role role)
    : role_(role), state_(role == Role::kPassive ? State::kConnectRequest : State::kHello) {
  grow(kStagingMin);
}

void Connection::grow(size_t capacity) {
  // Not value-initialised: pages that small traffic never reaches stay untouched.
  std::unique_ptr<uint8_t[]> larger(new uint8_t[capacity]);
  if (available() > 0) std::memcpy(larger.get(), staging_.get() + begin_, available());
  staging_ = std::move(larger);
  end_ -= begin_;
  begin_ = 0;
  capacity_ = capacity;
}

bool Connection::mid_frame() const {
  return (state_ == State::kHeader && (frame_seen_ || available() > 0)) ||
         (state_ > State::kHeader && state_ < State::kClosed);
}

// ---------------------------------------------------------------- bytes

size_t Connection::window(std::span<iovec> out) {
  window_staging_bytes_ = 0;
  if (limit_ > capacity_) grow(limit_);
  size_t pieces = 0;
  switch (state_) {
    case State::kRequestJudged:
    case State::kHelloJudged:
    case State::kVerdict:
    case State::kWait:
    case State::kFinish:
    case State::kClosed:
      return 0;
    case State::kSlop: {
      ULNET_ASSERT(available() == 0, "window() before poll() has yielded kNone");
      begin_ = end_ = 0;
      if (slop_left_ < limit_) break;
      // The same buffer over and over: what lands there is thrown away, and one call takes many
      // pieces of it.
      for (size_t left = slop_left_; left > 0 && pieces < std::min<size_t>(out.size(), 64);
           ++pieces) {
        const size_t bytes = std::min(left, limit_);
        out[pieces] = {staging_.get(), bytes};
        left -= bytes;
      }
      return pieces;
    }
    case State::kPayload: {
      ULNET_ASSERT(available() == 0, "window() before poll() has yielded kNone");
      begin_ = end_ = 0;
      size_t done = into_done_;
      size_t left = into_left_;
      for (size_t i = into_index_; left > 0 && pieces < out.size(); ++i) {
        const size_t bytes = std::min(left, into_[i].iov_len - done);
        if (bytes > 0) {
          out[pieces++] = {static_cast<uint8_t*>(into_[i].iov_base) + done, bytes};
        }
        left -= bytes;
        done = 0;
      }
      // The header of the next frame usually comes behind the payload; slop does not need the
      // place.
      if (left > 0 || pieces == out.size()) return pieces;
      break;
    }
    default:
      break;
  }
  if (begin_ > 0) {
    std::memmove(staging_.get(), staging_.get() + begin_, available());
    end_ -= begin_;
    begin_ = 0;
  }
  // A header that has begun is far shorter than kStagingMin, so there is always room.
  ULNET_ASSERT(end_ < limit_, "window() before poll() has yielded kNone");
  window_staging_bytes_ = limit_ - end_;
  out[pieces++] = {staging_.get() + end_, window_staging_bytes_};
  return pieces;
}

void Connection::handle_bytes(size_t n) {
  if (n == 0) return;
  if (state_ == State::kPayload) {
    const size_t direct = std::min<size_t>(n, into_left_);
    advance_payload(direct);
    n -= direct;
  } else if (state_ == State::kSlop && window_staging_bytes_ == 0) {
    ULNET_ASSERT(n <= slop_left_, "more bytes than the window had");
    slop_left_ -= static_cast<uint32_t>(n);
    return;
  }
  ULNET_ASSERT(n <= window_staging_bytes_, "more bytes than the window had");
  end_ += n;
  // A full window of small frames: more of them are likely behind it.
  if (state_ == State::kHeader && n == window_staging_bytes_ && small_since_full_) {
    limit_ = std::min(limit_ * 2, kStagingMax);
  }
  small_since_full_ = true;
}

void Connection::note_frame(uint32_t payload_bytes) {
  ++frames_;
  if (payload_bytes <= kBulkBytes) return;
  small_since_full_ = false;
  limit_ = kStagingMin;
}

void Connection::handle_end_of_stream() {
  if (state_ == State::kClosed) return;
  // Before the first frame it is the end of an attempt, whoever calls it an error decides (spec
  // tcp-lnd 2.14).
  close(mid_frame() ? CloseReason::kEndInFrame : CloseReason::kEndOfStream);
}

// ---------------------------------------------------------------- events

Connection::Event Connection::poll() {
  for (;;) {
    Event event;
    switch (state_) {
      case State::kConnectRequest:
        return parse_request();
      case State::kHello:
        return parse_hello();
      case State::kHeader: {
        const size_t before = available();
        event = parse_frame();
        if (event.kind == Kind::kNone && state_ == State::kHeader && available() != before) {
          continue;  // a NOOP, or the frame header of what follows
        }
        return event;
      }
      case State::kPayload:
        copy_staged_payload();
        if (into_left_ > 0) return event;
        state_ = State::kFinish;
        continue;
      case State::kFinish:
        return finish_payload();
      case State::kSlop: {
        if (ack_due_) {
          ack_due_ = false;
          event.kind = Kind::kZcAck;
          event.cookie = frame_.cookie0;
          return event;
        }
        const size_t bytes = std::min<size_t>(available(), slop_left_);
        consume(bytes);
        slop_left_ -= static_cast<uint32_t>(bytes);
        if (slop_left_ > 0) return event;
        state_ = State::kHeader;
        continue;
      }
      case State::kClosed:
        if (has_receive_) {
          has_receive_ = false;
          event.kind = Kind::kReceiveDone;
          event.id = receive_id_;
          event.completion = receive_failure(close_reason_);
          return event;
        }
        if (!close_reported_) {
          close_reported_ = true;
          event.kind = Kind::kClosed;
          event.reason = close_reason_;
        }
        return event;
      default:
        return event;
    }
  }
}

Connection::Event Connection::fail(CloseReason reason) {
  close(reason);
  return poll();
}

void Connection::close(CloseReason reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  close_reason_ = reason;
  close_reported_ = false;
  into_.clear();
  into_left_ = 0;
}

Connection::Event Connection::parse_request() {
  const auto request = decode_connect_request(unread());
  if (!request) {
    if (request.error() == WireError::kNeedMore) return {};
    return fail(request_reason(request.error()));
  }
  consume(request->bytes);
  requested_nid_ = request->value.nid;
  state_ = State::kRequestJudged;
  return {.kind = Kind::kConnectRequest};
}

Connection::Event Connection::parse_hello() {
  const auto hello = decode_hello(unread());
  if (!hello) {
    if (hello.error() == WireError::kNeedMore) return {};
    return fail(hello_reason(hello.error()));
  }
  consume(hello->bytes);
  hello_ = hello->value;
  state_ = State::kHelloJudged;
  return {.kind = Kind::kHello};
}

Connection::Event Connection::parse_frame() {
  if (!frame_seen_) {
    if (available() < kFrameHeaderBytes) return {};
    frame_ = decode_frame_header(unread().first(kFrameHeaderBytes), flipped_);
    // Judged before the cookies are looked at, stricter than a kernel (spec 10.3).
    if (frame_.type == kFrameNoop) return parse_noop();
    if (frame_.type != kFrameLnet) return fail(CloseReason::kFrameType);
    // We never ask for zero-copy ACKs, so none can be due (spec 3.5).
    if (frame_.cookie1 != 0 && frame_.cookie1 != kKeepaliveCookie)
      return fail(CloseReason::kFrameAck);
    frame_seen_ = true;
    consume(kFrameHeaderBytes);
  }
  if (available() < header_bytes(form_)) return {};
  const auto header = decode_header(form_, unread());
  if (!header) return fail(CloseReason::kFrameHeader);
  consume(header_bytes(form_));
  header_ = *header;
  // Versions 3 and 4 cover the payload only: without one the sum keeps its seed (spec 3.7).
  if (header_.payload_bytes == 0 && frame_.checksum != 0 && frame_.checksum != kChecksumSeed) {
    return fail(CloseReason::kFrameChecksum);
  }
  frame_seen_ = false;
  note_frame(header_.payload_bytes);
  state_ = State::kVerdict;
  return {.kind = Kind::kMessage};
}

Connection::Event Connection::parse_noop() {
  consume(kFrameHeaderBytes);
  if (frame_.checksum != 0 && frame_.checksum != kChecksumSeed) {
    return fail(CloseReason::kFrameChecksum);
  }
  note_frame(0);
  if (frame_.cookie1 == 0) return {};
  if (frame_.cookie1 != kKeepaliveCookie) return fail(CloseReason::kFrameAck);
  if (frame_.cookie0 > kKeepaliveCookie) return fail(CloseReason::kFrameKeepalive);
  return {.kind = Kind::kKeepalive};
}

// Order as a kernel's: the zero-copy ACK, then LNet hears, then the rest is skipped (spec 4.2).
Connection::Event Connection::finish_payload() {
  if (verify_ && crc_ != frame_.checksum) return fail(CloseReason::kFrameChecksum);
  if (ack_due_) {
    ack_due_ = false;
    return {.kind = Kind::kZcAck, .cookie = frame_.cookie0};
  }
  has_receive_ = false;
  state_ = State::kSlop;
  return {.kind = Kind::kReceiveDone, .id = receive_id_};
}

// ---------------------------------------------------------------- answers

void Connection::accept_request() {
  ULNET_ASSERT(state_ == State::kRequestJudged, "accept_request() answers kConnectRequest");
  state_ = State::kHello;
}

void Connection::establish(HeaderForm form, bool flipped) {
  ULNET_ASSERT(state_ == State::kHelloJudged, "establish() answers kHello");
  form_ = form;
  flipped_ = flipped;
  state_ = State::kHeader;
}

void Connection::handle_verdict(const MessageVerdict& verdict) {
  ULNET_ASSERT(state_ == State::kVerdict, "handle_verdict() answers kMessage");
  ack_due_ = frame_.cookie0 != 0;
  switch (verdict.kind) {
    case MessageVerdict::Kind::kDone:
      slop_left_ = header_.payload_bytes;
      state_ = State::kSlop;
      return;
    case MessageVerdict::Kind::kReceive:
      begin_receive(verdict.id, verdict.into);
      return;
    case MessageVerdict::Kind::kWait:
      has_receive_ = true;
      receive_id_ = verdict.id;
      state_ = State::kWait;
      return;
    case MessageVerdict::Kind::kProtocolError:
      close(CloseReason::kVerdict);
      return;
  }
}

void Connection::receive_into(ReceiveId id, const PayloadView& into) {
  ULNET_ASSERT(state_ == State::kWait, "receive_into() answers a message that waits");
  begin_receive(id, into);
}

void Connection::begin_receive(ReceiveId id, const PayloadView& into) {
  ULNET_ASSERT(into.bytes <= header_.payload_bytes, "LNet wants more than the message has");
  has_receive_ = true;
  receive_id_ = id;
  into_.assign(into.fragments.begin(), into.fragments.end());
  into_index_ = 0;
  into_done_ = into.offset;
  into_left_ = into.bytes;
  while (into_left_ > 0 && into_done_ >= into_[into_index_].iov_len) {
    into_done_ -= into_[into_index_++].iov_len;
    ULNET_ASSERT(into_index_ < into_.size(), "the view ends behind its fragments");
  }
  slop_left_ = header_.payload_bytes - into.bytes;
  // A part of a payload cannot be verified: the sum is over all of it.
  verify_ = frame_.checksum != 0 && into.bytes > 0 && slop_left_ == 0;
  crc_ = kChecksumSeed;
  state_ = State::kPayload;
}

void Connection::advance_payload(size_t n) {
  into_left_ -= static_cast<uint32_t>(n);
  while (n > 0) {
    const iovec& piece = into_[into_index_];
    const size_t bytes = std::min(n, piece.iov_len - into_done_);
    if (verify_) {
      crc_ = checksum(crc_, {static_cast<const uint8_t*>(piece.iov_base) + into_done_, bytes});
    }
    into_done_ += bytes;
    n -= bytes;
    if (into_done_ == piece.iov_len && n > 0) {
      ++into_index_;
      into_done_ = 0;
    }
  }
}

void Connection::copy_staged_payload() {
  while (available() > 0 && into_left_ > 0) {
    const iovec& piece = into_[into_index_];
    if (into_done_ == piece.iov_len) {
      ++into_index_;
      into_done_ = 0;
      continue;
    }
    const size_t bytes =
        std::min({available(), static_cast<size_t>(into_left_), piece.iov_len - into_done_});
    std::memcpy(static_cast<uint8_t*>(piece.iov_base) + into_done_, staging_.get() + begin_, bytes);
    advance_payload(bytes);
    consume(bytes);
  }
}

}  // namespace ulnet::tcp
