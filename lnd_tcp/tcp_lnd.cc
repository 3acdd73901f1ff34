#include "lnd_tcp/tcp_lnd.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lnd_tcp/acceptor.h"
#include "lnd_tcp/driver.h"
#include "lnd_tcp/interfaces.h"
#include "lnd_tcp/io_connection.h"
#include "lnd_tcp/link_watch.h"
#include "lnd_tcp/sockets.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

constexpr Duration kScanMax = std::chrono::seconds(1);
constexpr int kScansPerTimeout = 16;  // what stands is given up so little late
constexpr Duration kStopPoll = std::chrono::milliseconds(1);

bool same_address(const Nid& a, const Nid& b) {
  return a.size == b.size && a.address == b.address;
}

}  // namespace

struct TcpLnd::Impl {
  Impl(LndHost& host, const std::vector<Loop*>& loops, const AcceptorSettings& acceptor,
       const GlobalSettings& global, Logger& logger)
      : driver(host, loops, acceptor, global, logger) {}

  Driver driver;

  std::mutex control_mutex;               // one start or stop at a time
  std::unique_ptr<LinkWatch> link_watch;  // on the first loop
  std::vector<std::unique_ptr<Acceptor>>
      acceptors;                   // guarded by control_mutex; touched on the first loop
  uint64_t last_incarnation = 0;   // guarded by control_mutex
  bool told_unprivileged = false;  // guarded by control_mutex
  bool opened = false;             // guarded by control_mutex
  bool stopped = false;            // guarded by control_mutex

  std::mutex flush_mutex;
  std::vector<std::shared_ptr<IoConnection>> flush_list;  // guarded by flush_mutex
  std::atomic<bool> told{false};                          // send() has completed something

  LoopContext& first() { return *driver.contexts[0]; }
  Duration scan_interval() const;
  void start_scans();
  void scan(LoopContext& context);
  Result<NiIdentity> identify(NiId id, const NiSettings& settings);
  Status listen(Ni& ni);
  void open_acceptors();
  void unlisten(const Ni& ni);
  void end_connections(Ni* only, Duration grace);
  bool wait_step();
  void stop_nis(const std::vector<Ni*>& nis, Duration grace);
  void settle_loop(LoopContext& context);
};

// ---------------------------------------------------------------- life

TcpLnd::TcpLnd(LndHost& host, std::vector<Loop*> loops, const AcceptorSettings& acceptor,
               const GlobalSettings& global, Logger& logger,
               std::function<void()> interfaces_changed)
    : impl_(std::make_unique<Impl>(host, loops, acceptor, global, logger)) {
  ULNET_ASSERT(!loops.empty(), "the driver needs a loop");
  impl_->start_scans();
  impl_->first().loop.run_sync([this, changed = std::move(interfaces_changed)] {
    impl_->link_watch = std::make_unique<LinkWatch>(impl_->driver, changed);
  });
}

TcpLnd::~TcpLnd() {
  stop(Duration{});
  impl_->first().loop.run_sync([this] { impl_->link_watch.reset(); });
  for (auto& context : impl_->driver.contexts) {
    context->loop.run_sync([&] { context->scan_timer.reset(); });
    impl_->settle_loop(*context);
  }
}

// Waits until what has been posted to the loop has run.
void TcpLnd::Impl::settle_loop(LoopContext& context) {
  if (context.loop.in_loop()) {
    for (int i = 0; i < 3; ++i) context.loop.run_once(Duration{});
  } else {
    context.loop.run_sync([] {});
  }
}

Duration TcpLnd::Impl::scan_interval() const {
  Duration interval = kScanMax;
  for (const Ni* ni : driver.running_nis())
    interval = std::min(interval, ni->lnd_timeout() / kScansPerTimeout);
  return std::max<Duration>(interval, std::chrono::milliseconds(10));
}

void TcpLnd::Impl::start_scans() {
  for (auto& each : driver.contexts) {
    LoopContext& context = *each;
    context.loop.run_sync([this, &context] {
      context.scan_timer =
          std::make_unique<LoopTimer>(context.loop, [this, &context] { scan(context); });
      context.scan_timer->set(clock_now() + scan_interval());
    });
  }
}

// The first loop also looks after what belongs to no connection.
void TcpLnd::Impl::scan(LoopContext& context) {
  const Time now = driver.host.now();
  const auto connections = context.connections;  // some may close
  for (const auto& connection : connections) connection->scan(now);
  if (&context == &first()) {
    for (Ni* ni : driver.running_nis()) {
      Effects effects;
      ni->scan(now, &effects);
      context.drain_due |= driver.apply(*ni, effects);
    }
  }
  context.drain();
  if (context.scan_timer != nullptr) context.scan_timer->set(clock_now() + scan_interval());
}

// ---------------------------------------------------------------- NIs

Result<Nid> TcpLnd::find_nid(const NiSettings& settings) {
  const auto addresses = list_addresses();
  if (!addresses) return Failure(addresses.error());
  const auto chosen = choose_interface(*addresses, settings);
  if (!chosen) return Failure(chosen.error());
  return chosen->nid;
}

Result<NiIdentity> TcpLnd::Impl::identify(NiId id, const NiSettings& settings) {
  auto addresses = list_addresses();
  if (!addresses) return tl::unexpected(addresses.error());
  auto chosen = choose_interface(*addresses, settings);
  if (!chosen) return tl::unexpected(chosen.error());
  const Status congestion =
      check_congestion_control(settings.tcp.tcp_congestion, chosen->nid.is_ipv6());
  if (!congestion.is_ok()) return Failure(congestion);

  NiIdentity identity;
  identity.id = id;
  identity.nid = chosen->nid;
  identity.settings = settings;
  identity.interface = chosen->interface;
  identity.device = chosen->device;
  identity.conns_per_peer = settings.tcp.conns_per_peer > 0
                                ? settings.tcp.conns_per_peer
                                : conns_per_peer_for_speed(link_speed_megabit(chosen->device));
  identity.lnd_timeout = std::chrono::seconds(driver.global.lnd_timeout_s(settings.tcp.timeout_s));
  // Another life must have another number, also when the wall clock was set back meanwhile.
  last_incarnation = std::max(last_incarnation + 1, wall_clock_ns());
  identity.incarnation = last_incarnation;
  identity.privileged_ports = can_bind_privileged(chosen->nid);
  if (!identity.privileged_ports && !std::exchange(told_unprivileged, true)) {
    driver.logger.warn(
        "{}: cannot connect from ports below 1024 (CAP_NET_BIND_SERVICE is missing): peers that "
        "run accept=secure, "
        "the default, will refuse us",
        identity.nid.to_string());
  }
  return identity;
}

Status TcpLnd::Impl::listen(Ni& ni) {
  if (driver.acceptor.policy == AcceptPolicy::kNone) return Status::ok();
  for (const auto& acceptor : acceptors) {
    if (same_address(acceptor->ni().nid(), ni.nid())) return Status::ok();
  }
  auto fd = listen_on(ni.nid(), driver.acceptor.port, driver.acceptor.backlog, ni.tunables());
  if (!fd) return fd.error();
  first().loop.run_sync(
      [&] { acceptors.push_back(std::make_unique<Acceptor>(driver, ni, std::move(*fd))); });
  return Status::ok();
}

// Closes the NI's listener, or leaves it to another NI of the same address.
void TcpLnd::Impl::unlisten(const Ni& ni) {
  Ni* heir = nullptr;
  for (Ni* other : driver.running_nis()) {
    if (other != &ni && same_address(other->nid(), ni.nid())) heir = other;
  }
  first().loop.run_sync([&] {
    std::erase_if(acceptors, [&](const auto& acceptor) {
      if (!same_address(acceptor->ni().nid(), ni.nid())) return false;
      if (heir != nullptr) acceptor->set_ni(*heir);
      return heir == nullptr;
    });
  });
}

Result<NiStarted> TcpLnd::start_ni(NiId id, const NiSettings& settings) {
  const std::lock_guard lock(impl_->control_mutex);
  if (impl_->stopped) return fail(ESHUTDOWN, "the TCP driver has been stopped");
  auto identity = impl_->identify(id, settings);
  if (!identity) return tl::unexpected(identity.error());
  if (impl_->driver.find_running_ni(identity->nid) != nullptr) {
    return fail(EEXIST, fmt::format("NID {} is up already", identity->nid.to_string()));
  }
  auto owned = std::make_unique<Ni>(std::move(*identity));
  Ni& ni = *owned;
  const Status listening = impl_->listen(ni);
  if (!listening.is_ok()) return Failure(listening);
  impl_->driver.add_ni(std::move(owned));
  // Its link may be down already.
  impl_->first().loop.run_sync([this] { impl_->link_watch->look(); });
  // Known before the first connect request can name it.
  if (impl_->opened) impl_->open_acceptors();
  const NiIdentity& what = ni.identity();
  return NiStarted{what.nid, what.interface, what.conns_per_peer, what.lnd_timeout};
}

void TcpLnd::open() {
  const std::lock_guard lock(impl_->control_mutex);
  impl_->opened = true;
  impl_->open_acceptors();
}

void TcpLnd::Impl::open_acceptors() {
  first().loop.run_sync([this] {
    for (const auto& acceptor : acceptors) acceptor->open();
  });
}

void TcpLnd::stop_ni(NiId id) {
  const std::lock_guard lock(impl_->control_mutex);
  Ni* const ni = impl_->driver.find_ni(id);
  if (ni == nullptr || !ni->running()) return;
  impl_->stop_nis({ni}, Duration{});
}

void TcpLnd::set_lnd_timeout(NiId id, Duration timeout) {
  Ni* const ni = impl_->driver.find_ni(id);
  if (ni != nullptr) ni->set_lnd_timeout(timeout);
}

void TcpLnd::stop(Duration grace) {
  const std::lock_guard lock(impl_->control_mutex);
  if (std::exchange(impl_->stopped, true)) return;
  impl_->stop_nis(impl_->driver.running_nis(), grace);
}

void TcpLnd::Impl::stop_nis(const std::vector<Ni*>& nis, Duration grace) {
  for (Ni* ni : nis) {
    unlisten(*ni);
    Effects effects;
    ni->stop(&effects);
    driver.apply(*ni, effects);
  }
  // Dials and adoptions that were on their way to a loop have arrived after this, and see that the
  // NI stops.
  for (auto& context : driver.contexts) settle_loop(*context);

  const auto of_these = [&nis](const std::shared_ptr<IoConnection>& connection) {
    return std::find(nis.begin(), nis.end(), &connection->ni()) != nis.end();
  };
  const auto for_each_connection = [&](auto&& visit) {
    for (auto& context : driver.contexts) {
      context->loop.run_sync([&] {
        const auto connections = context->connections;
        for (const auto& connection : connections) {
          if (of_these(connection)) visit(*connection);
        }
      });
    }
  };
  std::vector<std::shared_ptr<IoConnection>> all;
  for_each_connection([&](IoConnection& connection) {
    all.push_back(connection.shared_from_this());
    connection.begin_shutdown();
  });
  // A caller's thread may be in the middle of a write; it ends its frames itself.
  while (std::any_of(all.begin(), all.end(), [](const auto& each) { return each->has_writer(); })) {
    std::this_thread::yield();
  }
  const Time end = clock_now() + grace;
  for (;;) {
    bool finished = true;
    for_each_connection([&](IoConnection& connection) {
      if (connection.shutdown_finished()) {
        connection.close(CloseReason::kShutdown, 0);
      } else {
        finished = false;
      }
    });
    if (finished || clock_now() >= end) break;
    if (first().loop.in_loop()) {
      first().loop.run_once(kStopPoll);
    } else {
      std::this_thread::sleep_for(kStopPoll);
    }
  }
  for_each_connection(
      [](IoConnection& connection) { connection.close(CloseReason::kShutdown, 0); });
  for (Ni* ni : nis) driver.retire_ni(*ni);
  driver.host.drain_actions();
}

// ---------------------------------------------------------------- messages

void TcpLnd::send(const SendAction& send) {
  Driver& driver = impl_->driver;
  Ni* const ni = driver.find_ni(send.ni);
  std::shared_ptr<IoConnection> connection;
  const auto result = ni == nullptr ? Ni::SendResult::kStopped : ni->send(send, &connection);
  Effects effects;
  switch (result) {
    case Ni::SendResult::kQueued:
      return;
    case Ni::SendResult::kQueuedFlush:
      break;
    case Ni::SendResult::kQueuedIncomplete:
      ni->continue_job(send.next_hop, driver.host.now(), &effects);
      if (driver.apply(*ni, effects)) impl_->told = true;
      break;
    case Ni::SendResult::kNoConnection:
      ni->send_without_connection(send, driver.host.now(), &effects);
      if (driver.apply(*ni, effects)) impl_->told = true;
      return;
    case Ni::SendResult::kStopped:
      driver.host.handle_send_done(send.id, shutdown_completion());
      impl_->told = true;
      return;
  }
  const std::lock_guard lock(impl_->flush_mutex);
  impl_->flush_list.push_back(std::move(connection));
}

void TcpLnd::flush() {
  std::vector<std::shared_ptr<IoConnection>> list;
  {
    const std::lock_guard lock(impl_->flush_mutex);
    list.swap(impl_->flush_list);
  }
  bool told = impl_->told.load(std::memory_order_relaxed) && impl_->told.exchange(false);
  for (const auto& connection : list) told |= connection->flush();
  list.clear();
  {
    // Its memory is used again.
    const std::lock_guard lock(impl_->flush_mutex);
    if (impl_->flush_list.empty()) list.swap(impl_->flush_list);
  }
  if (told) impl_->driver.host.drain_actions();
}

void TcpLnd::receive(const ReceiveAction& receive) {
  const auto connection = impl_->driver.find_connection(receive.driver_cookie);
  // One that has died has reported its waiting message already.
  if (connection != nullptr) connection->post_receive(receive);
}

void TcpLnd::close_peer(NiId id, const Nid& peer, std::string_view reason) {
  Ni* const ni = impl_->driver.find_ni(id);
  if (ni == nullptr) return;
  impl_->driver.logger.info("peer_ni {}: closing its connections: {}", peer.to_string(), reason);
  Effects effects;
  ni->close_peer(peer, &effects);
  if (impl_->driver.apply(*ni, effects)) impl_->driver.host.drain_actions();
}

// ---------------------------------------------------------------- views

std::vector<CounterInfo> TcpLnd::counters(NiId id) const {
  std::vector<CounterInfo> all;
  Ni* const ni = impl_->driver.find_ni(id);
  if (ni == nullptr) return all;
  for (size_t i = 0; i < static_cast<size_t>(Counter::kCount); ++i) {
    const auto counter = static_cast<Counter>(i);
    all.push_back({std::string(to_string(counter)), ni->counters().get(counter)});
  }
  for (size_t i = 1; i < static_cast<size_t>(CloseReason::kCount); ++i) {
    const auto reason = static_cast<CloseReason>(i);
    all.push_back({"closed_" + std::string(to_string(reason)), ni->counters().get(reason)});
  }
  return all;
}

std::vector<ConnectionInfo> TcpLnd::connections(NiId id, const Nid& peer) const {
  std::vector<ConnectionInfo> all;
  Ni* const ni = impl_->driver.find_ni(id);
  if (ni == nullptr) return all;
  for (const auto& connection : ni->connections(peer)) all.push_back(connection->info());
  return all;
}

}  // namespace ulnet::tcp
