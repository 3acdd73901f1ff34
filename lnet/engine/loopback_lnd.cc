#include "lnet/engine/loopback_lnd.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ulnet {
namespace {

// Walks the memory of a view, piece by piece.
class Cursor {
 public:
  explicit Cursor(const PayloadView& view) : fragments_(view.fragments), skip_(view.offset) {}

  // The contiguous memory at the cursor; not empty while bytes are left.
  iovec piece() {
    while (skip_ >= fragments_.front().iov_len) {
      skip_ -= fragments_.front().iov_len;
      fragments_ = fragments_.subspan(1);
    }
    const iovec& fragment = fragments_.front();
    return {static_cast<uint8_t*>(fragment.iov_base) + skip_, fragment.iov_len - skip_};
  }
  void advance(size_t bytes) { skip_ += bytes; }

 private:
  std::span<const iovec> fragments_;
  size_t skip_;
};

}  // namespace

void copy_payload(const PayloadView& from, const PayloadView& into) {
  Cursor source(from);
  Cursor target(into);
  for (size_t left = std::min(from.bytes, into.bytes); left > 0;) {
    const iovec read = source.piece();
    const iovec write = target.piece();
    const size_t bytes = std::min({left, read.iov_len, write.iov_len});
    // One MD may be put into itself.
    std::memmove(write.iov_base, read.iov_base, bytes);
    source.advance(bytes);
    target.advance(bytes);
    left -= bytes;
  }
}

Result<NiStarted> LoopbackLnd::start_ni(NiId, const NiSettings&) {
  return NiStarted{.nid = Nid::lo(), .interface = ""};
}

void LoopbackLnd::send(const SendAction& send) {
  const IncomingMessage message{kLoopbackNi, Nid::lo(), send.header, send.id};
  const MessageVerdict verdict = host_.handle_message(message);
  switch (verdict.kind) {
    case MessageVerdict::Kind::kReceive:
      deliver(send.payload, ReceiveAction{verdict.id, kLoopbackNi, send.id, verdict.into}, send.id);
      return;
    case MessageVerdict::Kind::kWait: {
      const std::lock_guard lock(mutex_);
      held_[send.id] = Held{send.payload, verdict.id};
      return;
    }
    case MessageVerdict::Kind::kDone:
    case MessageVerdict::Kind::kProtocolError:
      host_.handle_send_done(send.id, Completion{});
      return;
  }
}

void LoopbackLnd::receive(const ReceiveAction& receive) {
  PayloadView payload;
  {
    const std::lock_guard lock(mutex_);
    const auto it = held_.find(receive.driver_cookie);
    if (it == held_.end()) return;  // stop() was here first, and has completed it
    payload = it->second.payload;
    held_.erase(it);
  }
  deliver(payload, receive, receive.driver_cookie);
  host_.drain_actions();
}

void LoopbackLnd::deliver(const PayloadView& from, const ReceiveAction& to, SendId send) {
  copy_payload(from, to.into);
  host_.handle_receive_done(to.id, Completion{});
  host_.handle_send_done(send, Completion{});
}

void LoopbackLnd::stop(Duration) {
  std::map<SendId, Held> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  const Completion stopped{.error = ESHUTDOWN, .health = HealthStatus::kLocalError};
  for (const auto& [send, message] : held) {
    host_.handle_receive_done(message.receive, stopped);
    host_.handle_send_done(send, stopped);
  }
}

}  // namespace ulnet
