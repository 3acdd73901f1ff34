// The receiving end of a connection: arrival, LNet's verdict, reading.
#include <cerrno>

#include "lnet/base/assert.h"
#include "lnet/engine/loopback_lnd.h"
#include "tests/sim/network.h"

namespace ulnet::sim {
namespace {

// Memory is this much faster than the wire.
constexpr int kReadSpeedup = 4;

constexpr Completion kPeerGone{.error = EIO, .health = HealthStatus::kRemoteError};

}  // namespace

void Network::arrive(uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  ++connection->due;
  deliver(*connection);
}

// Moves what has come to its time from the wire to the receiver's socket; in order, as far as the
// path lets it.
void Network::deliver(Connection& connection) {
  const uint64_t id = connection.id;
  Port& source = *connection.source;
  Port& target = *connection.target;
  while (connection.due > 0 && !connection.wire.empty()) {
    if (!is_open(source, target)) return;
    Frame frame = std::move(connection.wire.front());
    connection.wire.pop_front();
    --connection.due;
    if (!connection.receiver_open) {
      ++lost_;
      // A reset answers what nobody listens for.
      if (connection.sender_open && is_open(target, source)) {
        close_sender(connection, {.error = EIO, .health = HealthStatus::kLocalError});
        return;
      }
      continue;
    }
    if (is_open(target, source)) {
      connection.unacknowledged -= frame.bytes();
      connection.progress = queue_.now();
    } else {
      connection.acks_held += frame.bytes();
    }
    connection.arrived.push_back(std::move(frame));
  }
  read(id);
}

void Network::read(uint64_t id) {
  for (;;) {
    Connection* connection = find(id);
    if (connection == nullptr) return;
    if (!connection->receiver_open || connection->reading || connection->arrived.empty()) break;
    if (stalled(*connection->target)) return;  // revive() comes by
    Frame frame = std::move(connection->arrived.front());
    connection->arrived.pop_front();
    connection->window_used -= frame.bytes();
    pump(*connection);
    hand_up(*connection, std::move(frame));
  }
  erase_if_done(id);
}

// The connection may be gone on return.
void Network::hand_up(Connection& connection, Frame frame) {
  const uint64_t id = connection.id;
  Port& target = *connection.target;
  LndHost& host = *target.host;
  link(target, connection.source->nid).last_heard = queue_.now();
  ++delivered_;
  trace_.note(queue_.now(), "deliver",
              {{"connection", id},
               {"node", target.node},
               {"type", static_cast<uint64_t>(frame.header.type())},
               {"bytes", frame.payload.size()}});
  const MessageVerdict verdict =
      host.handle_message({target.ni, connection.source->nid, frame.header, id});
  switch (verdict.kind) {
    case MessageVerdict::Kind::kDone:
      break;
    case MessageVerdict::Kind::kReceive: {
      const Duration time(frame.payload.size() * 1'000'000'000 /
                          (model(target.nid.net()).bytes_per_second * kReadSpeedup));
      connection.reading = Reading{verdict.id, false, verdict.into, std::move(frame.payload)};
      queue_.in(time, [this, id] { finish_read(id); });
      break;
    }
    case MessageVerdict::Kind::kWait:
      connection.reading = Reading{verdict.id, true, {}, std::move(frame.payload)};
      break;
    case MessageVerdict::Kind::kProtocolError:
      ++protocol_errors_;
      if (connection.sender_open) close_sender(connection, kPeerGone);
      break;
  }
  host.drain_actions();
}

void Network::receive(const ReceiveAction& receive) {
  Connection* connection = find(receive.driver_cookie);
  ULNET_ASSERT(connection != nullptr && connection->reading && connection->reading->waits &&
                   connection->reading->id == receive.id,
               "a receive for a message that no connection holds");
  connection->reading->waits = false;
  connection->reading->into = receive.into;
  queue_.in(Duration::zero(), [this, id = connection->id] { finish_read(id); });
}

void Network::finish_read(uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->reading || connection->reading->waits) return;
  Port& target = *connection->target;
  if (put_off(target, [this, id] { finish_read(id); })) return;
  Reading reading = std::move(*connection->reading);
  connection->reading.reset();
  if (reading.into.bytes > 0) {
    const iovec from{reading.payload.data(), reading.payload.size()};
    copy_payload(PayloadView{{&from, 1}, 0, static_cast<uint32_t>(reading.payload.size())},
                 reading.into);
  }
  trace_.note(queue_.now(), "receive-done", {{"connection", id}, {"node", target.node}});
  target.host->handle_receive_done(reading.id, Completion{});
  target.host->drain_actions();
  read(id);
}

void Network::close_receiver(Connection& connection, const Completion& completion) {
  const uint64_t id = connection.id;
  Port& target = *connection.target;
  const Nid source = connection.source->nid;
  const std::optional<Reading> reading = std::move(connection.reading);
  connection.reading.reset();
  lose(connection.arrived);
  connection.receiver_open = false;
  erase_if_done(id);
  if (reading) {
    trace_.note(queue_.now(), "receive-lost", {{"connection", id}, {"node", target.node}});
    target.host->handle_receive_done(reading->id, completion);
  }
  report_down(target, source);
  target.host->drain_actions();
}

void Network::lose(std::deque<Frame>& frames) {
  lost_ += frames.size();
  frames.clear();
}

void Network::erase_if_done(uint64_t id) {
  const Connection* connection = find(id);
  if (connection == nullptr || connection->sender_open) return;
  const bool idle = connection->wire.empty() && connection->arrived.empty() && !connection->reading;
  if (connection->receiver_open && !idle) return;
  connection->source->connections.erase(id);
  if (connection->target != nullptr) connection->target->connections.erase(id);
  connections_.erase(id);
}

}  // namespace ulnet::sim
