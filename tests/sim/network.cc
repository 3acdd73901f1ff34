// Connecting, sending and faults; what happens at the receiving end is in network_receive.cc.
#include "tests/sim/network.h"

#include <algorithm>
#include <cerrno>

#include "lnet/base/assert.h"
#include "lnet/engine/loopback_lnd.h"

namespace ulnet::sim {
namespace {

constexpr Duration kSynInterval = std::chrono::seconds(1);
constexpr Duration kRetransmit = std::chrono::milliseconds(200);  // doubles
constexpr int kRetransmitsMax = 6;
constexpr Duration kKeepalive = std::chrono::seconds(30);

Completion failure(int32_t error, HealthStatus health, FailureKind kind) {
  return {.error = error, .health = health, .delivery = Delivery::kUndelivered, .kind = kind};
}

Completion stopped() {
  return failure(ESHUTDOWN, HealthStatus::kLocalError, FailureKind::kNone);
}

Completion connection_lost() {
  return failure(EIO, HealthStatus::kLocalError, FailureKind::kNone);
}

// Spec tcp-lnd 5.5, "messages waiting on the peer for a connection".
Completion connect_failure(int32_t error) {
  switch (error) {
    case ETIMEDOUT:
      return failure(error, HealthStatus::kNetworkTimeout, FailureKind::kPeerNiConnectError);
    case ECONNREFUSED:
      return failure(error, HealthStatus::kRemoteDropped, FailureKind::kPeerNiNoListener);
    default:
      return failure(error, HealthStatus::kRemoteDropped, FailureKind::kPeerNiUnreachable);
  }
}

uint64_t frame_bytes(const SendAction& send) {
  return send.header.payload_bytes + kHeaderNid16Bytes;
}

void repair(uint32_t& breaks, bool on) {
  if (on) {
    ++breaks;
  } else if (breaks > 0) {
    --breaks;
  }
}

}  // namespace

// ---------------------------------------------------------------- drivers

void Network::open(const Nid& nid, uint32_t node, NiId ni, const TcpTunables& tunables,
                   LndHost& host) {
  Port& port = ports_[nid];
  port.nid = nid;
  port.node = node;
  port.ni = ni;
  port.host = &host;
  port.powered = true;
  port.lnd_timeout = std::chrono::seconds(tunables.timeout_s);
  port.reconnect_min = std::chrono::milliseconds(tunables.min_reconnect_ms);
  port.reconnect_max = std::chrono::milliseconds(tunables.max_reconnect_ms);
}

void Network::set_lnd_timeout(const Nid& nid, Duration timeout) {
  if (Port* port = find_port(nid)) port->lnd_timeout = timeout;
}

void Network::close(const Nid& nid, Farewell how) {
  Port* port = find_port(nid);
  if (port == nullptr || port->host == nullptr) return;
  trace_.note(queue_.now(), "close", {{"node", port->node}, {"how", static_cast<uint64_t>(how)}});
  const std::set<uint64_t> connections = port->connections;  // which changes on the way
  for (const uint64_t id : connections) {
    if (Connection* c = find(id); c != nullptr && c->source == port) leave_sender(*c, how);
    if (Connection* c = find(id); c != nullptr && c->target == port) leave_receiver(*c, how);
    erase_if_done(id);
  }
  port->host = nullptr;
  port->stalled_until = Time::min();
  if (how == Farewell::kPowerLoss) port->powered = false;
  for (auto& [peer, to] : port->links) {
    ULNET_ASSERT(how != Farewell::kStop || to.in_driver == 0, "a stop completes every send");
    to = Link{.blackholes = to.blackholes, .loss_per_million = to.loss_per_million};
  }
}

void Network::leave_sender(Connection& connection, Farewell how) {
  std::deque<Outgoing> queue;
  queue.swap(connection.queue);
  connection.sender_open = connection.writing = false;
  link(*connection.source, connection.target_nid).connection = 0;
  if (how == Farewell::kPowerLoss) lose(connection.wire);
  if (how != Farewell::kStop) return;
  for (const Outgoing& each : queue)
    complete(*connection.source, connection.target_nid, each.action.id, stopped());
}

void Network::leave_receiver(Connection& connection, Farewell how) {
  const std::optional<Reading> reading = std::move(connection.reading);
  connection.reading.reset();
  lose(connection.arrived);
  connection.receiver_open = false;
  if (reading && how == Farewell::kStop)
    connection.target->host->handle_receive_done(reading->id, stopped());
  if (!connection.up) return;
  // Whoever was not told, because the path was blocked or the power gone, finds out by keepalive.
  const uint64_t id = connection.id;
  queue_.in(kKeepalive, [this, id] {
    if (Connection* c = find(id); c != nullptr && c->sender_open)
      close_sender(*c, failure(EIO, HealthStatus::kRemoteTimeout, FailureKind::kNone));
  });
  if (how == Farewell::kPowerLoss) return;
  queue_.in(travel_time(connection.target_nid.net()), [this, id] {
    Connection* c = find(id);
    if (c != nullptr && c->sender_open && is_open(*c->target, *c->source))
      close_sender(*c, connection_lost());
  });
}

void Network::send(const Nid& source, const SendAction& send) {
  Port& port = ports_.at(source);
  Link& to = link(port, send.next_hop);
  ++to.in_driver;
  const Time now = queue_.now();
  Connection* connection = find(to.connection);
  if (connection == nullptr) {
    if (now < to.no_dial_before) {
      Completion refused =
          failure(to.last_error, HealthStatus::kRemoteError, FailureKind::kPeerNiConnectError);
      refused.nothing_posted = true;
      complete(port, send.next_hop, send.id, refused);
      return;
    }
    connection = &dial(port, send.next_hop);
  }
  if (connection->queue.empty() && connection->unacknowledged == 0) connection->progress = now;
  connection->queue.push_back({send});
  queue_.at(std::min(send.deadline, now + port.lnd_timeout),
            [this, id = connection->id, message = send.id] { expire(id, message); });
  pump(*connection);
}

void Network::close_peer(const Nid& source, const Nid& peer) {
  if (Connection* connection = find(link(ports_.at(source), peer).connection))
    close_sender(*connection, failure(ENETDOWN, HealthStatus::kRemoteDropped, FailureKind::kNone));
}

// ---------------------------------------------------------------- connecting

Network::Connection& Network::dial(Port& source, const Nid& target) {
  const uint64_t id = next_connection_++;
  auto connection = std::make_unique<Connection>();
  connection->id = id;
  connection->source = &source;
  connection->target_nid = target;
  connection->dialled = queue_.now();
  link(source, target).connection = id;
  source.connections.insert(id);
  queue_.in(2 * travel_time(target.net()), [this, id] { dialled(id); });
  return *connections_.emplace(id, std::move(connection)).first->second;
}

// The answer to a dial, or its absence.
void Network::dialled(uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->sender_open) return;
  Port& source = *connection->source;
  if (put_off(source, [this, id] { dialled(id); })) return;
  Port* target = find_port(connection->target_nid);
  if (target == nullptr || target->hidings > 0) return fail_dial(*connection, EHOSTUNREACH);
  if (!is_open(source, *target) || !is_open(*target, source) || stalled(*target)) {
    const Time give_up = connection->dialled + source.lnd_timeout;
    if (queue_.now() >= give_up) return fail_dial(*connection, ETIMEDOUT);
    queue_.at(std::min(queue_.now() + kSynInterval, give_up), [this, id] { dialled(id); });
    return;
  }
  if (target->host == nullptr || target->refusals > 0) return fail_dial(*connection, ECONNREFUSED);
  trace_.note(queue_.now(), "connected",
              {{"connection", id}, {"from", source.node}, {"to", target->node}});
  connection->target = target;
  target->connections.insert(id);
  connection->up = connection->receiver_open = true;
  connection->progress = queue_.now();
  link(source, target->nid).back_off = Duration::zero();
  watch(*connection);
  pump(*connection);
}

void Network::fail_dial(Connection& connection, int32_t error) {
  Port& source = *connection.source;
  Link& to = link(source, connection.target_nid);
  to.back_off = std::clamp(2 * to.back_off, source.reconnect_min, source.reconnect_max);
  to.no_dial_before = queue_.now() + to.back_off;
  to.last_error = error;
  trace_.note(queue_.now(), "no-connection",
              {{"connection", connection.id}, {"errno", static_cast<uint64_t>(error)}});
  close_sender(connection, connect_failure(error));
}

void Network::report_down(Port& port, const Nid& peer) {
  if (port.host == nullptr || link(port, peer).connection != 0) return;
  const Port* other = find_port(peer);
  if (other != nullptr) {
    const auto back = other->links.find(port.nid);
    if (back != other->links.end() && back->second.connection != 0) return;
  }
  port.host->handle_peer_down(port.ni, peer, link(port, peer).last_heard);
}

// ---------------------------------------------------------------- sending

void Network::pump(Connection& connection) {
  if (!connection.up || !connection.sender_open || connection.writing || connection.queue.empty())
    return;
  Port& source = *connection.source;
  const uint64_t id = connection.id;
  const auto again = [this, id] {
    if (Connection* c = find(id)) pump(*c);
  };
  if (put_off(source, again)) return;
  const NetModel& net = model(source.nid.net());
  const uint64_t bytes = frame_bytes(connection.queue.front().action);
  // One message always fits, however long.
  if (connection.window_used > 0 && connection.window_used + bytes > net.window_bytes) return;
  connection.writing = connection.queue.front().started = true;
  const Duration wire_time(bytes * 1'000'000'000 / net.bytes_per_second);
  source.transmit_free = std::max(queue_.now(), source.transmit_free) + wire_time;
  queue_.at(source.transmit_free, [this, id] { written(id); });
  watch(connection);
}

void Network::written(uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->writing) return;
  Port& source = *connection->source;
  if (put_off(source, [this, id] { written(id); })) return;
  const SendAction send = connection->queue.front().action;
  connection->queue.pop_front();
  connection->writing = false;
  Frame& frame = connection->wire.emplace_back();
  frame.header = send.header;
  frame.payload.resize(send.payload.bytes);
  if (send.payload.bytes > 0) {
    const iovec copy{frame.payload.data(), frame.payload.size()};
    copy_payload(send.payload, PayloadView{{&copy, 1}, 0, send.payload.bytes});
  }
  connection->window_used += frame.bytes();
  connection->unacknowledged += frame.bytes();
  connection->progress = queue_.now();
  connection->last_arrival =
      std::max(connection->last_arrival,
               queue_.now() + travel_time(connection->target_nid.net(),
                                          link(source, connection->target_nid).loss_per_million));
  queue_.at(connection->last_arrival, [this, id] { arrive(id); });
  pump(*connection);
  complete(source, connection->target_nid, send.id, Completion{});
  source.host->drain_actions();
}

// Spec tcp-lnd 5.2, "connection transmit".
void Network::watch(Connection& connection) {
  if (connection.watched || !connection.up || !connection.sender_open) return;
  if (connection.queue.empty() && connection.unacknowledged == 0) return;
  connection.watched = true;
  queue_.at(connection.progress + connection.source->lnd_timeout,
            [this, id = connection.id] { check_progress(id); });
}

void Network::check_progress(uint64_t id) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->sender_open) return;
  if (put_off(*connection->source, [this, id] { check_progress(id); })) return;
  connection->watched = false;
  const bool busy = !connection->queue.empty() || connection->unacknowledged > 0;
  if (busy && queue_.now() >= connection->progress + connection->source->lnd_timeout) {
    close_sender(*connection,
                 failure(EIO, HealthStatus::kLocalError, FailureKind::kLocalNiSendTimeout));
    return;
  }
  watch(*connection);
}

// A message's time is over. One that has started cannot be taken back: its connection goes.
void Network::expire(uint64_t id, SendId send) {
  Connection* connection = find(id);
  if (connection == nullptr) return;
  if (put_off(*connection->source, [this, id, send] { expire(id, send); })) return;
  const auto it = std::find_if(connection->queue.begin(), connection->queue.end(),
                               [send](const Outgoing& each) { return each.action.id == send; });
  if (it == connection->queue.end()) return;
  if (it->started) {
    close_sender(*connection,
                 failure(EIO, HealthStatus::kLocalError, FailureKind::kLocalNiSendTimeout));
    return;
  }
  connection->queue.erase(it);
  Completion late =
      failure(ETIMEDOUT, HealthStatus::kNetworkTimeout, FailureKind::kLocalNiSendTimeout);
  late.nothing_posted = true;
  Port& source = *connection->source;
  complete(source, connection->target_nid, send, late);
  source.host->drain_actions();
}

// The connection breaks: what is on the way is lost. It may be gone on return.
void Network::close_sender(Connection& connection, const Completion& completion) {
  const uint64_t id = connection.id;
  Port& source = *connection.source;
  const Nid target_nid = connection.target_nid;
  std::deque<Outgoing> queue;
  queue.swap(connection.queue);
  connection.sender_open = connection.writing = false;
  link(source, target_nid).connection = 0;
  trace_.note(queue_.now(), "closed",
              {{"connection", id}, {"errno", static_cast<uint64_t>(completion.error)}});
  lose(connection.wire);
  if (connection.receiver_open) {
    const bool heard = is_open(source, *connection.target);
    queue_.in(heard ? travel_time(target_nid.net()) : connection.target->lnd_timeout, [this, id] {
      if (Connection* c = find(id); c != nullptr && c->receiver_open)
        close_receiver(*c, failure(EIO, HealthStatus::kRemoteError, FailureKind::kNone));
    });
  }
  erase_if_done(id);
  for (const Outgoing& each : queue) {
    Completion ended = completion;
    ended.nothing_posted = !each.started;
    complete(source, target_nid, each.action.id, ended);
  }
  report_down(source, target_nid);
  if (source.host != nullptr) source.host->drain_actions();
}

void Network::complete(Port& port, const Nid& peer, SendId send, const Completion& completion) {
  Link& to = link(port, peer);
  ULNET_ASSERT(to.in_driver > 0, "a send completes that was never begun");
  --to.in_driver;
  trace_.note(queue_.now(), "send-done",
              {{"node", port.node},
               {"ni", port.ni},
               {"send", send},
               {"errno", static_cast<uint64_t>(completion.error)}});
  port.host->handle_send_done(send, completion);
}

// ---------------------------------------------------------------- faults

void Network::blackhole(const Nid& source, const Nid& target, bool on) {
  repair(ports_.at(source).links[target].blackholes, on);
  if (!on) revive();
}

void Network::mute(const Nid& nid, bool on) {
  repair(ports_.at(nid).mutes, on);
  if (!on) revive();
}

void Network::set_loss(const Nid& source, const Nid& target, uint32_t per_million) {
  ports_.at(source).links[target].loss_per_million = per_million;
}

void Network::cut(const Nid& nid, bool on) {
  repair(ports_.at(nid).cuts, on);
  if (!on) revive();
}

void Network::refuse(const Nid& nid, bool on) {
  repair(ports_.at(nid).refusals, on);
}

void Network::hide(const Nid& nid, bool on) {
  repair(ports_.at(nid).hidings, on);
}

void Network::reset(const Nid& a, const Nid& b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const Port* port = find_port(from);
    if (port == nullptr) continue;
    const auto known = port->links.find(to);
    Connection* c = known != port->links.end() ? find(known->second.connection) : nullptr;
    if (c != nullptr && c->up) close_sender(*c, connection_lost());
  }
}

void Network::stall(const Nid& nid, Time until) {
  ports_.at(nid).stalled_until = until;
  queue_.at(until, [this] { revive(); });
}

void Network::heal() {
  for (auto& [net, model] : models_) model.loss_per_million = 0;
  for (auto& [nid, port] : ports_) {
    port.cuts = port.mutes = port.refusals = port.hidings = 0;
    for (auto& [peer, to] : port.links) to.blackholes = to.loss_per_million = 0;
  }
  revive();
}

// Something works again: whatever stood goes on.
void Network::revive() {
  for (const uint64_t id : connection_ids()) {
    Connection* connection = find(id);
    if (connection == nullptr || !connection->up) continue;
    if (connection->acks_held > 0 && is_open(*connection->target, *connection->source)) {
      connection->unacknowledged -= connection->acks_held;
      connection->acks_held = 0;
      connection->progress = queue_.now();
    }
    pump(*connection);
    deliver(*connection);
  }
}

// ---------------------------------------------------------------- looking

uint32_t Network::in_driver(const Nid& source, const Nid& peer) const {
  const auto port = ports_.find(source);
  if (port == ports_.end()) return 0;
  const auto to = port->second.links.find(peer);
  return to != port->second.links.end() ? to->second.in_driver : 0;
}

uint32_t Network::in_driver(const Nid& source) const {
  uint32_t sum = 0;
  const auto port = ports_.find(source);
  if (port == ports_.end()) return 0;
  for (const auto& [peer, to] : port->second.links) sum += to.in_driver;
  return sum;
}

Network::Connection* Network::find(uint64_t id) {
  const auto it = connections_.find(id);
  return it != connections_.end() ? it->second.get() : nullptr;
}

Network::Port* Network::find_port(const Nid& nid) {
  const auto it = ports_.find(nid);
  return it != ports_.end() ? &it->second : nullptr;
}

bool Network::is_open(const Port& source, const Port& target) const {
  if (!source.powered || !target.powered || source.cuts > 0 || target.cuts > 0 || source.mutes > 0)
    return false;
  const auto to = source.links.find(target.nid);
  return to == source.links.end() || to->second.blackholes == 0;
}

bool Network::put_off(const Port& port, EventQueue::What what) {
  if (!stalled(port)) return false;
  queue_.at(port.stalled_until, std::move(what));
  return true;
}

Duration Network::travel_time(NetId net, uint32_t extra_loss_per_million) {
  const NetModel& of = model(net);
  const uint32_t loss_per_million = of.loss_per_million + extra_loss_per_million;
  Duration time = of.latency;
  if (of.jitter > Duration::zero())
    time += Duration(rng_.below(static_cast<uint64_t>(of.jitter.count()) + 1));
  for (int i = 0; i < kRetransmitsMax && rng_.chance(loss_per_million, 1'000'000); ++i)
    time += kRetransmit * (1 << i);
  return time;
}

std::vector<uint64_t> Network::connection_ids() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) ids.push_back(id);
  return ids;
}

// ---------------------------------------------------------------- SimLnd

Result<NiStarted> SimLnd::start_ni(NiId ni, const NiSettings& settings) {
  nis_[ni] = settings;
  NiStarted started;
  started.nid = *settings.nid;
  started.interface = settings.interface;
  started.lnd_timeout = std::chrono::seconds(settings.tcp.timeout_s);
  return started;
}

void SimLnd::open() {
  for (const auto& [ni, settings] : nis_) {
    if (!opened_.insert(ni).second) continue;
    network_.open(*settings.nid, node_, ni, settings.tcp, host_);
  }
}

void SimLnd::stop_ni(NiId ni) {
  network_.close(*nis_.at(ni).nid, Farewell::kStop);
  nis_.erase(ni);
}

void SimLnd::set_lnd_timeout(NiId ni, Duration timeout) {
  NiSettings& settings = nis_.at(ni);
  settings.tcp.timeout_s = static_cast<int32_t>(timeout / std::chrono::seconds(1));
  network_.set_lnd_timeout(*settings.nid, timeout);
}

void SimLnd::send(const SendAction& send) {
  const auto ni = nis_.find(send.ni);
  if (ni == nis_.end()) return host_.handle_send_done(send.id, stopped());
  network_.send(*ni->second.nid, send);
}

void SimLnd::close_peer(NiId ni, const Nid& peer, std::string_view) {
  network_.close_peer(*nis_.at(ni).nid, peer);
}

void SimLnd::stop(Duration) {
  leave(Farewell::kStop);
}

void SimLnd::leave(Farewell how) {
  for (const auto& [ni, settings] : nis_) network_.close(*settings.nid, how);
}

}  // namespace ulnet::sim
