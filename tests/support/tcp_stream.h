// Bytes of the TCP driver's protocol for tests, and a reader that feeds a Connection and writes
// down what it says.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lnd_tcp/connection.h"
#include "lnd_tcp/handshake.h"
#include "lnd_tcp/wire.h"
#include "lnet/base/bytes.h"
#include "tests/support/tcp_node.h"

namespace ulnet::testing {

using Bytes = std::vector<uint8_t>;

inline void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// What the reader does with a payload, chosen by the match bits of the PUT.
enum class Wish : uint64_t { kDrop, kAll, kHalf, kWaitThenAll, kProtocolError };

struct FrameSpec {
  Wish wish = Wish::kAll;
  uint32_t payload_bytes = 0;
  uint8_t seed = 0;
  uint64_t cookie0 = 0;
  uint64_t cookie1 = 0;
  bool with_checksum = false;
  uint32_t wrong_by = 0;  // added to the checksum
};

inline Bytes noop(uint64_t cookie0, uint64_t cookie1, uint32_t checksum = 0) {
  Bytes bytes(tcp::kFrameHeaderBytes);
  tcp::encode_frame_header({tcp::kFrameNoop, checksum, cookie0, cookie1}, bytes);
  return bytes;
}

inline Bytes put_frame(const FrameSpec& spec, const Nid& from, const Nid& to) {
  const HeaderForm form = from.is_ipv6() || to.is_ipv6() ? HeaderForm::kNid16 : HeaderForm::kNid4;
  Bytes payload(spec.payload_bytes);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = pattern(spec.seed, i);
  Header header;
  header.source_nid = from;
  header.dest_nid = to;
  header.source_pid = header.dest_pid = kPidLustre;
  header.payload_bytes = spec.payload_bytes;
  header.part = PutPart{.match_bits = static_cast<uint64_t>(spec.wish), .hdr_data = spec.seed};
  tcp::FrameHeader frame{tcp::kFrameLnet, 0, spec.cookie0, spec.cookie1};
  if (spec.with_checksum)
    frame.checksum = tcp::checksum(tcp::kChecksumSeed, payload) + spec.wrong_by;
  Bytes bytes(tcp::kFrameHeaderBytes + header_bytes(form));
  tcp::encode_frame_header(frame, {bytes.data(), tcp::kFrameHeaderBytes});
  encode_header(form, header, {bytes.data() + tcp::kFrameHeaderBytes, header_bytes(form)});
  append(bytes, payload);
  return bytes;
}

// Offset of the fields of a NID4 LNet header within a frame.
inline constexpr size_t kFrameTypeAt = 0;
inline constexpr size_t kLnetTypeAt = tcp::kFrameHeaderBytes + 24;
inline constexpr size_t kLnetPayloadBytesAt = tcp::kFrameHeaderBytes + 28;

inline tcp::Hello make_hello(const Nid& from, const Nid& to, tcp::ConnType type,
                             uint64_t incarnation = 77) {
  tcp::Hello hello;
  hello.version = tcp::hello_version(to.is_ipv6());
  hello.source_nid = from;
  hello.dest_nid = to;
  hello.source_pid = kPidLustre;
  hello.source_incarnation = incarnation;
  hello.type = static_cast<uint32_t>(type);
  return hello;
}

// Feeds a Connection and answers its events; `log` is what happened, in words.
class StreamReader {
 public:
  explicit StreamReader(tcp::Connection::Role role, size_t fragments = 3)
      : connection(role), fragments_(fragments) {}

  tcp::Connection connection;
  std::vector<std::string> log;
  size_t largest_staging_read = 0;

  // Hands over all bytes, as many at a time as the windows take; answers waits behind the bytes at
  // hand.
  void feed(std::span<const uint8_t> bytes) {
    settle();
    while (!bytes.empty()) {
      std::array<iovec, tcp::Connection::kWindowFragmentsMax> window;
      const size_t pieces = connection.window(window);
      if (pieces == 0) return;  // closed: the rest is nobody's
      size_t taken = 0;
      for (size_t i = 0; i < pieces && !bytes.empty(); ++i) {
        const size_t n = std::min(window[i].iov_len, bytes.size());
        std::memcpy(window[i].iov_base, bytes.data(), n);
        bytes = bytes.subspan(n);
        taken += n;
      }
      connection.handle_bytes(taken);
      settle();
    }
  }
  void end() {
    connection.handle_end_of_stream();
    settle();
  }
  void close(tcp::CloseReason reason) {
    connection.close(reason);
    settle();
  }

 private:
  struct Pending {
    Bytes memory;
    std::vector<iovec> pieces;
    uint8_t seed = 0;
  };

  PayloadView make_memory(Pending& pending, uint32_t bytes) {
    pending.memory.assign(bytes + 5, 0xEE);  // the view begins 5 bytes in
    const size_t count = std::max<size_t>(1, std::min<size_t>(fragments_, bytes));
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t size =
          i + 1 == count ? pending.memory.size() - offset : pending.memory.size() / count;
      pending.pieces.push_back({pending.memory.data() + offset, size});
      offset += size;
    }
    return {pending.pieces, 5, bytes};
  }

  void settle() {
    using Kind = tcp::Connection::Event::Kind;
    for (;;) {
      const auto event = connection.poll();
      switch (event.kind) {
        case Kind::kNone:
          if (waiting_ == 0) return;
          answer_wait();
          break;
        case Kind::kConnectRequest:
          log.push_back("request " + connection.requested_nid().to_string());
          connection.accept_request();
          break;
        case Kind::kHello:
          log.push_back("hello " + connection.hello().source_nid.to_string());
          connection.establish(
              connection.hello().version == 4 ? HeaderForm::kNid16 : HeaderForm::kNid4,
              connection.hello().flipped);
          break;
        case Kind::kMessage:
          answer_message();
          break;
        case Kind::kReceiveDone:
          finish(event.id, event.completion);
          break;
        case Kind::kZcAck:
          log.push_back("ack " + std::to_string(event.cookie));
          break;
        case Kind::kKeepalive:
          log.push_back("keepalive");
          break;
        case Kind::kClosed:
          log.push_back("closed " + std::string(tcp::to_string(event.reason)));
          break;
      }
    }
  }

  void answer_message() {
    const Header& header = connection.header();
    log.push_back(std::string(to_string(header.type())) + " " +
                  std::to_string(header.payload_bytes));
    const auto* put = std::get_if<PutPart>(&header.part);
    const Wish wish = put != nullptr ? static_cast<Wish>(put->match_bits) : Wish::kDrop;
    MessageVerdict verdict;
    if (wish == Wish::kProtocolError) verdict.kind = MessageVerdict::Kind::kProtocolError;
    if (wish != Wish::kDrop && wish != Wish::kProtocolError) {
      verdict.id = ++last_id_;
      Pending& pending = pending_[verdict.id];
      pending.seed = static_cast<uint8_t>(put->hdr_data);
      if (wish == Wish::kWaitThenAll) {
        verdict.kind = MessageVerdict::Kind::kWait;
        waiting_ = verdict.id;
        waiting_bytes_ = header.payload_bytes;
      } else {
        verdict.kind = MessageVerdict::Kind::kReceive;
        verdict.into = make_memory(
            pending, wish == Wish::kHalf ? header.payload_bytes / 2 : header.payload_bytes);
      }
    }
    connection.handle_verdict(verdict);
  }

  void answer_wait() {
    std::array<iovec, tcp::Connection::kWindowFragmentsMax> window;
    if (connection.window(window) != 0) log.push_back("WINDOW WHILE WAITING");
    const ReceiveId id = std::exchange(waiting_, 0);
    connection.receive_into(id, make_memory(pending_[id], waiting_bytes_));
  }

  void finish(ReceiveId id, const Completion& completion) {
    const auto it = pending_.find(id);
    if (it == pending_.end()) {
      log.push_back("DOUBLE DONE");
      return;
    }
    waiting_ = waiting_ == id ? 0 : waiting_;
    if (completion.error != 0) {
      log.push_back("failed " + errno_name(completion.error));
    } else {
      const Bytes payload(it->second.memory.begin() + 5, it->second.memory.end());
      log.push_back(std::string("done ") + std::to_string(payload.size()) +
                    (has_pattern(payload, it->second.seed) ? "" : " WRONG BYTES"));
    }
    pending_.erase(it);
  }

  const size_t fragments_;
  ReceiveId last_id_ = 0;
  ReceiveId waiting_ = 0;
  uint32_t waiting_bytes_ = 0;
  std::map<ReceiveId, Pending> pending_;
};

}  // namespace ulnet::testing
