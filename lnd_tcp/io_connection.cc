#include "lnd_tcp/io_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

constexpr size_t kWritePiecesMax = 1024;    // IOV_MAX
constexpr size_t kWriteBytesMax = 2 << 20;  // asked of one system call
constexpr size_t kWriteBudget = 8 << 20;    // before a loop serves its other connections
constexpr uint64_t kCallerWriteBytesMax =
    16 << 10;                 // a caller that is not the loop writes at most this itself
constexpr int kReadsMax = 8;  // before a loop serves its other connections
constexpr uint32_t kEmptyPollsMax = 2000;  // then a connection is left to epoll again
constexpr uint64_t kDiscardMax = 1 << 20;

}  // namespace

IoConnection::IoConnection(LoopContext& context, Ni& ni, UniqueFd fd, Connection::Role role)
    : context_(context), ni_(&ni), fd_(std::move(fd)), rx_(role) {}

std::shared_ptr<IoConnection> IoConnection::make(LoopContext& context, Ni& ni, UniqueFd fd,
                                                 Connection::Role role) {
  std::shared_ptr<IoConnection> self(new IoConnection(context, ni, std::move(fd), role));
  self->id_ = context.driver.register_connection(self);
  context.connections.push_back(self);
  self->poll_ = new uv_poll_t;
  // Fails only for what is no socket.
  ULNET_ASSERT(uv_poll_init(context.loop.uv(), self->poll_, self->fd_.get()) == 0,
               "libuv refuses a TCP socket");
  self->poll_->data = self.get();
  return self;
}

void IoConnection::watch() {
  if (poll_ == nullptr) return;
  int events = 0;
  if (phase_ == Phase::kConnecting) {
    events = UV_WRITABLE;
  } else {
    if (!read_paused_) events |= UV_READABLE;
    if (want_writable_) events |= UV_WRITABLE;
  }
  if (events == watched_) return;
  watched_ = events;
  if (events == 0) {
    uv_poll_stop(poll_);
    return;
  }
  uv_poll_start(poll_, events, [](uv_poll_t* handle, int status, int ready) {
    auto* connection = static_cast<IoConnection*>(handle->data);
    const auto keep = connection->shared_from_this();
    connection->handle_events(status, ready);
    connection->context_.drain();
  });
}

void IoConnection::apply(Effects& effects) {
  context_.drain_due |= context_.driver.apply(*ni_, effects);
}

// ---------------------------------------------------------------- receiving

void IoConnection::handle_events(int status, int events) {
  context_.loop.note_traffic();
  if (status < 0) {
    watched_ = 0;  // libuv has stopped watching
    if (phase_ == Phase::kConnecting) return handle_connected();
    // An error is pending; what came before it is still there to be read.
    while (phase_ == Phase::kSetup || phase_ == Phase::kEstablished) {
      if (!receive()) break;
    }
    return close(linger_reason_ != CloseReason::kNone ? linger_reason_ : CloseReason::kReset,
                 take_socket_error(fd_.get()));
  }
  if (phase_ == Phase::kConnecting) return handle_connected();
  if (phase_ == Phase::kLingering) return discard();
  if ((events & UV_WRITABLE) != 0) {
    {
      const std::lock_guard lock(ni_->mutex());
      transmit_.blocked = false;
    }
    want_writable_ = false;
    context_.drain_due |= flush();
  }
  if ((events & UV_READABLE) != 0 && !read_paused_) receive();
  watch();
}

bool IoConnection::poll() {
  const auto keep = shared_from_this();
  const bool any = phase_ == Phase::kEstablished && !read_paused_ && receive();
  if (any) {
    empty_polls_ = 0;
    watch();
    context_.drain();
  } else if (hot_ && ++empty_polls_ > kEmptyPollsMax) {
    hot_ = false;
    context_.loop.remove_source(this);
  }
  return any;
}

bool IoConnection::receive() {
  std::array<iovec, Connection::kWindowFragmentsMax> window;
  bool any = false;
  for (int i = 0; i < kReadsMax; ++i) {
    const size_t pieces = rx_.window(window);
    if (pieces == 0) {
      read_paused_ = phase_ == Phase::kEstablished;
      break;
    }
    size_t room = 0;
    for (size_t p = 0; p < pieces; ++p) room += window[p].iov_len;
    const ssize_t got = pieces == 1 ? ::recv(fd_.get(), window[0].iov_base, window[0].iov_len, 0)
                                    : ::readv(fd_.get(), window.data(), static_cast<int>(pieces));
    ni_->counters().add(Counter::kReads);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      close(CloseReason::kReset, errno);
      break;
    }
    if (got == 0) {
      rx_.handle_end_of_stream();
      process();
      break;
    }
    any = true;
    received_bytes_.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
    ni_->counters().add(Counter::kBytesIn, static_cast<uint64_t>(got));
    rx_.handle_bytes(static_cast<size_t>(got));
    process();
    if (static_cast<size_t>(got) < room || phase_ == Phase::kLingering) break;
  }
  if (any && phase_ == Phase::kEstablished) {
    note_heard();
    if (!hot_) hot_ = context_.loop.add_source(this);
  }
  if (std::exchange(acks_due_, false)) context_.drain_due |= flush();
  if (any) context_.loop.note_traffic();
  return any;
}

void IoConnection::note_heard() {
  peer_->last_heard_ns.store(context_.driver.host.now().time_since_epoch().count(),
                             std::memory_order_relaxed);
}

void IoConnection::process() {
  using Kind = Connection::Event::Kind;
  for (;;) {
    const Connection::Event event = rx_.poll();
    switch (event.kind) {
      case Kind::kNone:
        return;
      case Kind::kConnectRequest:
        handle_connect_request();
        break;
      case Kind::kHello:
        handle_hello();
        break;
      case Kind::kMessage:
        handle_message();
        break;
      case Kind::kReceiveDone:
        context_.driver.host.handle_receive_done(event.id, event.completion);
        context_.drain_due = true;
        break;
      case Kind::kZcAck: {
        const std::lock_guard lock(ni_->mutex());
        const uint32_t bytes = transmit_.queue.push_noop(0, event.cookie);
        peer_->logic.add_pending(id_, bytes);
        ni_->counters().add(Counter::kZcAcksSent);
        acks_due_ = true;
        break;
      }
      case Kind::kKeepalive:
        ni_->counters().add(Counter::kKeepalivesReceived);
        break;
      case Kind::kClosed:
        refuse(event.reason);
        break;
    }
  }
}

void IoConnection::handle_message() {
  ni_->counters().add(Counter::kFramesIn);
  const MessageVerdict verdict =
      context_.driver.host.handle_message({ni_->identity().id, peer_->nid(), rx_.header(), id_});
  context_.drain_due = true;
  if (verdict.dropped) ni_->counters().add(Counter::kMessagesDropped);
  rx_.handle_verdict(verdict);
}

void IoConnection::post_receive(const ReceiveAction& action) {
  std::vector<iovec> fragments(action.into.fragments.begin(), action.into.fragments.end());
  context_.loop.post([self = shared_from_this(), action, fragments = std::move(fragments)] {
    // A connection that died has reported its message already.
    if (!self->rx_.waits_for(action.id)) return;
    self->rx_.receive_into(action.id, {fragments, action.into.offset, action.into.bytes});
    self->read_paused_ = false;
    self->process();
    if (std::exchange(self->acks_due_, false)) self->context_.drain_due |= self->flush();
    if (self->phase_ == Phase::kEstablished && self->rx_.state() == Connection::State::kWait) {
      self->read_paused_ = true;
    }
    self->watch();
    self->context_.drain();
  });
}

// What comes after our last word is read and thrown away, so that closing sends no reset.
void IoConnection::discard() {
  std::array<uint8_t, 16384> scratch;
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t got = ::recv(fd_.get(), scratch.data(), scratch.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    discarded_ += got > 0 ? static_cast<uint64_t>(got) : 0;
    if (got <= 0 || discarded_ > kDiscardMax) return close(linger_reason_, 0);
  }
}

// ---------------------------------------------------------------- sending

bool IoConnection::flush() {
  bool write_here = false;
  {
    const std::lock_guard lock(ni_->mutex());
    transmit_.flush_due = false;
    // A writer looks at the queue again before it stops.
    if (transmit_.closed || transmit_.writing || transmit_.blocked) return false;
    if (transmit_.queue.empty()) return false;
    write_here = context_.loop.in_loop() || transmit_.queue.queued_bytes() <= kCallerWriteBytesMax;
    if (write_here) {
      transmit_.writing = true;
      transmit_.queue.start_batch();
    } else if (std::exchange(transmit_.kick_posted, true)) {
      return false;
    }
  }
  if (write_here) return write();
  post_kick();
  return false;
}

void IoConnection::post_kick() {
  context_.loop.post([self = shared_from_this()] {
    {
      const std::lock_guard lock(self->ni_->mutex());
      self->transmit_.kick_posted = false;
    }
    self->context_.drain_due |= self->flush();
    self->context_.drain();
  });
}

bool IoConnection::write() {
  bool told = false;
  size_t budget = kWriteBudget;
  for (;;) {
    std::array<iovec, kWritePiecesMax> pieces;
    msghdr message = {};
    message.msg_iov = pieces.data();
    message.msg_iovlen = transmit_.queue.gather(pieces, kWriteBytesMax);
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    const int error = sent < 0 ? errno : 0;
    ni_->counters().add(Counter::kWrites);
    if (sent > 0) {
      told |= complete_written(static_cast<size_t>(sent));
      budget -= std::min(budget, static_cast<size_t>(sent));
    }
    switch (after_write(sent > 0 ? static_cast<size_t>(sent) : 0, error, budget == 0, &told)) {
      case AfterWrite::kGoOn:
        continue;
      case AfterWrite::kStop:
        return told;
      case AfterWrite::kKick:
        post_kick();
        return told;
      case AfterWrite::kBlocked:
        if (context_.loop.in_loop()) {
          want_writable_ = true;
          watch();
        } else {
          context_.loop.post([self = shared_from_this()] {
            self->want_writable_ = true;
            self->watch();
          });
        }
        return told;
      case AfterWrite::kBroken:
        post_close(CloseReason::kReset, error);
        return told;
    }
  }
}

bool IoConnection::complete_written(size_t sent) {
  sent_bytes_.fetch_add(sent, std::memory_order_relaxed);
  ni_->counters().add(Counter::kBytesOut, sent);
  const size_t frames = transmit_.queue.handle_written(sent, &done_);
  ni_->counters().add(Counter::kFramesOut, frames);
  for (const SendId id : done_) context_.driver.host.handle_send_done(id, {});
  const bool any = !done_.empty();
  done_.clear();
  return any;
}

// Decides what the writer does next, and lets go of the writer's role unless that is kGoOn.
IoConnection::AfterWrite IoConnection::after_write(size_t sent, int error, bool budget_spent,
                                                   bool* told) {
  std::vector<TransmitQueue::Abandoned> abandoned;
  Completion end;
  {
    const std::lock_guard lock(ni_->mutex());
    peer_->logic.sub_pending(id_, sent);
    if (!transmit_.closed) {
      if (error == EINTR) return AfterWrite::kGoOn;
      if (error == 0 && !budget_spent && transmit_.queue.start_batch()) return AfterWrite::kGoOn;
      transmit_.writing = false;
      transmit_.blocked = error != 0;
      if (error == EAGAIN) return AfterWrite::kBlocked;
      if (error != 0) return AfterWrite::kBroken;
      if (transmit_.queue.empty() || std::exchange(transmit_.kick_posted, true))
        return AfterWrite::kStop;
      return AfterWrite::kKick;
    }
    // Closed while we wrote: what is left is ours to end.
    end = transmit_.end;
    transmit_.queue.abandon_batch(&abandoned);
    transmit_.writing = false;
  }
  for (const auto& each : abandoned) {
    Completion ended = end;
    ended.nothing_posted = each.nothing_posted;
    context_.driver.host.handle_send_done(each.id, ended);
    *told = true;
  }
  return AfterWrite::kStop;
}

// ---------------------------------------------------------------- ends

void IoConnection::post_close(CloseReason reason, int error) {
  context_.loop.post([self = shared_from_this(), reason, error] {
    self->close(reason, error);
    self->context_.drain();
  });
}

Completion IoConnection::end_of_frames(CloseReason reason, int error) const {
  if (reason == CloseReason::kShutdown) return shutdown_completion();
  if (reason == CloseReason::kReset && error == ETIMEDOUT)
    return failure(EIO, HealthStatus::kRemoteTimeout);
  const FailureKind kind = reason == CloseReason::kTransmitTimeout
                               ? FailureKind::kLocalNiSendTimeout
                           : reason == CloseReason::kAddressGone ? FailureKind::kLocalNiDown
                                                                 : FailureKind::kNone;
  return failure(EIO, HealthStatus::kLocalError, kind);
}

void IoConnection::close(CloseReason reason, int error) {
  if (phase_ == Phase::kClosed) return;
  const Phase before = std::exchange(phase_, Phase::kClosed);
  const auto keep = shared_from_this();
  Driver& driver = context_.driver;
  if (before != Phase::kLingering) {
    ni_->counters().add(reason);
    log_end(reason, error);
  }
  setup_timer_.reset();
  if (setup_over_) std::exchange(setup_over_, nullptr)();
  if (std::exchange(hot_, false)) context_.loop.remove_source(this);
  uv_poll_stop(poll_);
  uv_close(reinterpret_cast<uv_handle_t*>(std::exchange(poll_, nullptr)),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
  rx_.close(reason);
  process();  // a payload that did not come in full

  Effects effects;
  const bool dialling = rx_.role() == Connection::Role::kActive && !attached_ && !dial_over_;
  if (attached_) {
    ni_->remove(*this, reason, end_of_frames(reason, error), &effects);
  } else if (dialling) {
    dial_over_ = true;
    ni_->fail_dial(*peer_, dial_failure(reason, error), driver.host.now(),
                   static_cast<uint32_t>(driver.host.random_below(1 << 16)), &effects);
  }
  apply(effects);
  // Another thread may be writing: it is woken with an error, and the descriptor lives until it has
  // let go.
  ::shutdown(fd_.get(), SHUT_RDWR);
  driver.forget_connection(id_);
  std::erase(context_.connections, keep);
}

void IoConnection::begin_shutdown() {
  if (phase_ != Phase::kEstablished) return close(CloseReason::kShutdown, 0);
  phase_ = Phase::kLingering;
  linger_reason_ = CloseReason::kShutdown;
  ni_->counters().add(CloseReason::kShutdown);
  rx_.close(CloseReason::kShutdown);
  process();
  Effects effects;
  ni_->remove(*this, CloseReason::kShutdown, shutdown_completion(), &effects);
  attached_ = false;
  apply(effects);
  ::shutdown(fd_.get(), SHUT_WR);
  if (std::exchange(hot_, false)) context_.loop.remove_source(this);
  read_paused_ = false;
  want_writable_ = false;
  watch();
}

bool IoConnection::shutdown_finished() const {
  return phase_ == Phase::kClosed || unacknowledged_bytes(fd_.get()) == 0;
}

bool IoConnection::has_writer() {
  const std::lock_guard lock(ni_->mutex());
  return transmit_.writing;
}

// ---------------------------------------------------------------- deadlines

void IoConnection::scan(Time now) {
  if (phase_ != Phase::kEstablished) return;
  const Duration limit = ni_->lnd_timeout();

  const uint64_t received = received_bytes_.load(std::memory_order_relaxed);
  const bool mid_frame = rx_.mid_frame();
  if (!mid_frame || !was_mid_frame_ || received != seen_received_) receive_progress_ = now;
  was_mid_frame_ = mid_frame;
  seen_received_ = received;
  if (mid_frame && now - receive_progress_ >= limit)
    return close(CloseReason::kReceiveTimeout, ETIMEDOUT);

  const uint64_t unacknowledged = unacknowledged_bytes(fd_.get());
  const uint64_t acknowledged = sent_bytes_.load(std::memory_order_relaxed) - unacknowledged;
  bool transmitting = unacknowledged > 0;
  {
    const std::lock_guard lock(ni_->mutex());
    transmitting |= transmit_.blocked || transmit_.queue.has_queued();
  }
  if (!transmitting || !was_transmitting_ || acknowledged != seen_acknowledged_)
    transmit_progress_ = now;
  was_transmitting_ = transmitting;
  seen_acknowledged_ = acknowledged;
  if (transmitting && now - transmit_progress_ >= limit)
    return close(CloseReason::kTransmitTimeout, ETIMEDOUT);

  // Nobody reads while LNet holds a message, so nobody would see the socket's end.
  if (read_paused_) {
    const int error = take_socket_error(fd_.get());
    if (error != 0) close(CloseReason::kReset, error);
  }
}

ConnectionInfo IoConnection::info() {
  ConnectionInfo info;
  info.direction = rx_.role() == Connection::Role::kActive ? "active" : "passive";
  info.local = local_.to_string();
  info.remote = remote_.to_string();
  // In this order: what is taken for acknowledged is never more than the peer's TCP has.
  info.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  info.unacked_bytes = std::min(info.sent_bytes, unacknowledged_bytes(fd_.get()));
  const PathSizes sizes = path_sizes(fd_.get());
  info.path_mtu = sizes.path_mtu;
  info.mss = sizes.mss;
  info.received_bytes = received_bytes_.load(std::memory_order_relaxed);
  const std::lock_guard lock(ni_->mutex());
  info.type = to_string(type_);
  info.queued_bytes = transmit_.queue.queued_bytes();
  return info;
}

}  // namespace ulnet::tcp
