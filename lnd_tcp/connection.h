// Connection: the receiving half of one TCP connection, without its file descriptor.
//
// It says where the next bytes should be read to (window), is told how many came (handle_bytes),
// and yields what they mean, one event at a time (poll). Large payloads are read straight into the
// memory LNet names; everything else passes a staging buffer. The sending half is TransmitQueue.
//
//   passive: CONNECT_REQUEST --accept_request()--> HELLO --establish()--+
//   active:                                        HELLO --establish()--+
//                                                                       v
//            +------------------------------------------------------> HEADER <---------------+
//            |                                   kMessage event, then   |                    |
//            |                                   handle_verdict():      v                    |
//            |        +---- kDone ------------------------------------ VERDICT               |
//            |        |                                        kWait /  |  kReceive          |
//            |        |                                            WAIT | receive_into()     |
//            |        |                                               \ v                    |
//            |        |                                              PAYLOAD                 |
//            |        v                          memory is full         v                    |
//            +------ SLOP <----- kZcAck, kReceiveDone events --------- FINISH                |
//             all payload bytes thrown away                                                  |
//   any --close(), end of stream, or a protocol error--> CLOSED
//
// Thread: one at a time (the loop that owns the socket).
// Source: spec tcp-lnd 2.5, 3.5, 3.7, 4.2, 10.3; decisions D8 (staging).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lnd_tcp/counters.h"
#include "lnd_tcp/wire.h"
#include "lnet/lnd.h"
#include "lnet/wire/header.h"

namespace ulnet::tcp {

class Connection {
 public:
  enum class Role : uint8_t { kActive, kPassive };
  enum class State : uint8_t {
    kConnectRequest,
    kRequestJudged,  // kConnectRequest event is out
    kHello,
    kHelloJudged,  // kHello event is out
    kHeader,
    kVerdict,  // kMessage event is out
    kWait,     // LNet holds the message
    kPayload,
    kFinish,  // payload is in memory, events are due
    kSlop,
    kClosed,
  };

  struct Event {
    enum class Kind : uint8_t {
      kNone,            // nothing more until bytes or an answer come
      kConnectRequest,  // answer with accept_request() or close(); requested_nid()
      kHello,           // answer with establish() or close(); hello()
      kMessage,         // answer with handle_verdict(); header()
      kReceiveDone,     // `id` ended so
      kZcAck,           // send NOOP {0, cookie} on this connection
      kKeepalive,
      kClosed,  // `reason`, once; after this only kNone
    };
    Kind kind = Kind::kNone;
    CloseReason reason = CloseReason::kNone;
    ReceiveId id = 0;
    uint64_t cookie = 0;
    Completion completion;
  };

  // At most so many payload bytes pass the staging buffer while payloads are large ...
  static constexpr size_t kStagingMin = 4096;
  // ... and it grows to this while frames are small, so that one read brings in hundreds of them.
  static constexpr size_t kStagingMax = 65536;
  // Payloads above this are read directly, and shrink the staging window.
  static constexpr uint32_t kBulkBytes = 4096;
  static constexpr size_t kWindowFragmentsMax = 260;

  explicit Connection(Role role);

  // ---- bytes

  // Where to read to: fills `out` and returns how many pieces, 0 when nothing may be read now.
  // Lifetime: until the next call of any member. REQUIRES: poll() has yielded kNone; out.size()
  // >= 1.
  size_t window(std::span<iovec> out);
  // The first `n` bytes of the window have been filled. `n` <= its size; 0 is allowed and does
  // nothing.
  void handle_bytes(size_t n);
  // The peer has closed its side.
  void handle_end_of_stream();
  Event poll();

  // ---- answers to events

  void accept_request();
  // `form` is NID4 for HELLO versions 2 and 3, NID16 for 4; `flipped` peers are big-endian.
  void establish(HeaderForm form, bool flipped);
  void handle_verdict(const MessageVerdict& verdict);
  // For a message that waits. REQUIRES: state() == kWait.
  void receive_into(ReceiveId id, const PayloadView& into);
  // No more bytes are wanted. A payload that is not complete yields kReceiveDone with EIO,
  // REMOTE_ERROR (or `shutdown`: ESHUTDOWN, LOCAL_ERROR).
  void close(CloseReason reason);

  // ---- what events refer to

  const Nid& requested_nid() const { return requested_nid_; }
  // The HELLO that came; on an error of version, what is known is zero.
  const Hello& hello() const { return hello_; }
  const Header& header() const { return header_; }

  // True while LNet holds the message with this id.
  bool waits_for(ReceiveId id) const { return state_ == State::kWait && receive_id_ == id; }
  State state() const { return state_; }
  Role role() const { return role_; }
  // At least one byte of a frame has been received and the frame is not complete (the receive
  // deadline runs).
  bool mid_frame() const;
  bool established() const { return state_ >= State::kHeader && state_ != State::kClosed; }
  uint64_t frames() const { return frames_; }

 private:
  size_t available() const { return end_ - begin_; }
  std::span<const uint8_t> unread() const { return {staging_.get() + begin_, available()}; }
  void consume(size_t n) { begin_ += n; }
  void grow(size_t capacity);
  void note_frame(uint32_t payload_bytes);

  Event fail(CloseReason reason);
  Event parse_request();
  Event parse_hello();
  Event parse_frame();
  Event parse_noop();
  Event finish_payload();
  void begin_receive(ReceiveId id, const PayloadView& into);
  void advance_payload(size_t n);  // `n` bytes have been put at the payload's position
  void copy_staged_payload();

  const Role role_;
  State state_;
  HeaderForm form_ = HeaderForm::kNid4;
  bool flipped_ = false;

  // Staging: bytes [begin_, end_) are unread. capacity_ is allocated, limit_ <= capacity_ is what a
  // window may use.
  std::unique_ptr<uint8_t[]> staging_;
  size_t capacity_ = 0;
  size_t limit_ = kStagingMin;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool small_since_full_ = true;     // every frame since the last read was small
  size_t window_staging_bytes_ = 0;  // of the window that is out

  Nid requested_nid_;
  Hello hello_;

  // The frame being received.
  bool frame_seen_ = false;  // its 24 bytes are decoded
  FrameHeader frame_;
  Header header_;
  bool has_receive_ = false;  // a ReceiveId is owed a kReceiveDone
  ReceiveId receive_id_ = 0;
  std::vector<iovec> into_;  // pieces of the payload's memory ...
  size_t into_index_ = 0;    // ... next piece
  size_t into_done_ = 0;     // ... bytes of that piece already there
  uint32_t into_left_ = 0;   // bytes still to come into memory
  uint32_t slop_left_ = 0;   // bytes to throw away behind it
  bool verify_ = false;
  uint32_t crc_ = kChecksumSeed;
  bool ack_due_ = false;

  CloseReason close_reason_ = CloseReason::kNone;
  bool close_reported_ = true;
  uint64_t frames_ = 0;
};

}  // namespace ulnet::tcp
