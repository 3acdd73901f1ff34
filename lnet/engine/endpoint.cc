// Builds a node from its parts by hand, and takes it down again.
#include "ulnet/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <mutex>
#include <thread>

#include "lnd_tcp/tcp_lnd.h"
#include "lnet/base/log.h"
#include "lnet/engine/clock.h"
#include "lnet/engine/discover_operation.h"
#include "lnet/engine/engine.h"
#include "lnet/engine/loopback_lnd.h"
#include "lnet/engine/ni_keeper.h"
#include "lnet/engine/ping_operation.h"
#include "lnet/engine/topology.h"
#include "lnet/loop/loop.h"

namespace ulnet {
namespace {

constexpr int32_t kThreadsMax = 256;

NiInfo describe_waiting(const NiKeeper::Entry& entry) {
  NiInfo info;
  info.nid = entry.nid;
  info.interface = entry.settings.interface;
  info.up = false;
  info.down_reason = entry.reason;
  info.tunables = entry.settings.tunables;
  if (entry.nid.net().type == NetType::kTcp) info.tcp = entry.settings.tcp;
  return info;
}

}  // namespace

// Order of members is order of teardown, backwards: threads end before what they use.
class Endpoint::Impl {
 public:
  Impl(const Settings& settings, Logger* logger);
  ~Impl() { stop(); }

  Status start();
  void stop();

  bool polls() const { return settings_.node.threads == 0; }
  bool poll(Duration max_wait);
  size_t poll_events(std::span<Event> events, Duration max_wait);
  // Starts something by `start(done)` and waits for `done(result)`.
  template <typename T, typename Start>
  Result<T> wait_for(Start start);

  Engine& engine() { return *engine_; }
  NiKeeper& keeper() { return *keeper_; }
  const Engine& engine() const { return *engine_; }
  const Settings& settings() const { return settings_; }
  const Topology& topology() const { return topology_; }
  std::vector<NetInfo> nets() const;
  std::vector<PeerInfo> peers() const;

 private:
  void make_loops();
  Result<Lnd*> driver_for(const NiSettings& ni);
  Status add_udsp(const Udsp& udsp);
  Status configure_peer(const PeerSettings& peer);
  void wait_for_sends(Time until);
  void stop_drivers();
  void poll_once(Duration max_wait);

  const Settings settings_;
  const Topology topology_;
  std::unique_ptr<Logger> own_logger_;
  Logger& logger_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<LoopTimer> timer_;           // on loops_[0]
  std::vector<std::unique_ptr<Lnd>> drivers_;  // loopback first; the keeper's changes add to it
  std::unique_ptr<NiKeeper> keeper_;
  std::thread handler_thread_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

Endpoint::Impl::Impl(const Settings& settings, Logger* logger)
    : settings_(settings),
      own_logger_(logger != nullptr
                      ? nullptr
                      : make_stderr_logger(
                            parse_log_level(settings.node.log_level).value_or(LogLevel::kInfo))),
      logger_(logger != nullptr ? *logger : *own_logger_) {
  make_loops();
  engine_ = std::make_unique<Engine>(settings_, logger_);
  engine_->with_core([this](core::Core& core, Time) {
    core.set_numa_distances(topology_.distances());
    return true;
  });
  // Without threads what a call starts is moved by the next poll, which may be asleep right now.
  if (polls()) engine_->leave_actions_to_poller([this] { loops_.front()->wake(); });
  loops_.front()->run_sync([this] {
    timer_ = std::make_unique<LoopTimer>(*loops_.front(), [this] { engine_->handle_timer(); });
  });
  engine_->set_arm_timer([this](Time when) {
    loops_.front()->post([this, when] {
      if (timer_) timer_->set(when);
    });
  });
  drivers_.push_back(std::make_unique<LoopbackLnd>(*engine_));
  engine_->bind_driver(kLoopbackNi, drivers_.front().get());
  keeper_ = std::make_unique<NiKeeper>(
      *engine_, logger_,
      NiKeeper::Options{.wait_for_interfaces = settings_.node.wait_for_interfaces.value_or(false),
                        .address_change = settings_.node.address_change,
                        .find_driver = [this](const NiSettings& ni) { return driver_for(ni); },
                        .find_nid = tcp::TcpLnd::find_nid,
                        .find_node =
                            [this](const std::string& interface) {
                              return topology_.node_of_interface(interface);
                            }});
}

void Endpoint::Impl::make_loops() {
  const int32_t count = std::clamp(settings_.node.threads, 1, kThreadsMax);
  for (int32_t i = 0; i < count; ++i) {
    LoopOptions options;
    options.name = fmt::format("ulnet-io{}", i);
    options.spin_max = std::chrono::microseconds(settings_.node.spin_us);
    loops_.push_back(std::make_unique<Loop>(options));
    if (!polls()) loops_.back()->start_thread();
  }
}

Status Endpoint::Impl::start() {
  if (settings_.node.threads < 0 || settings_.node.threads > kThreadsMax) {
    return {EINVAL,
            fmt::format("ulnet: threads: {} is not in 0..{}", settings_.node.threads, kThreadsMax)};
  }
  if (auto level = parse_log_level(settings_.node.log_level); !level) return level.error();
  for (const NiSettings& ni : settings_.nis) {
    if (Status status = keeper_->configure(ni); !status.is_ok()) return status;
  }
  for (const Udsp& udsp : settings_.udsps) {
    if (Status status = add_udsp(udsp); !status.is_ok()) return status;
  }
  for (const PeerSettings& peer : settings_.peers) {
    if (Status status = configure_peer(peer); !status.is_ok()) return status;
  }
  for (const FaultRule& rule : settings_.faults) {
    const Status status =
        engine_->with_core([&](core::Core& core, Time now) { return core.add_fault(now, rule); });
    if (!status.is_ok()) return {status.code(), fmt::format("fault: {}", status.text())};
  }
  for (const auto& driver : drivers_) driver->open();
  keeper_->open(!polls());
  if (!polls()) {
    handler_thread_ = std::thread([this] {
      while (engine_->wait_for_handlers()) engine_->run_handlers();
    });
  }
  return Status::ok();
}

Status Endpoint::Impl::add_udsp(const Udsp& udsp) {
  const Status status =
      engine_->with_core([&](core::Core& core, Time) { return core.add_udsp(udsp, std::nullopt); });
  if (status.is_ok() || udsp.where.empty()) return status;
  return {status.code(), fmt::format("{}: {}", udsp.where, status.text())};
}

// Exports of a running node list the node itself among its peers: left out, with a note.
Status Endpoint::Impl::configure_peer(const PeerSettings& peer) {
  const auto is_own = [this](const Nid& nid) {
    const std::vector<Nid> own = engine_->look([](const core::Core& core) { return core.nids(); });
    return std::find(own.begin(), own.end(), nid) != own.end();
  };
  const std::string prefix = peer.where.empty() ? "" : peer.where + ": ";
  if (is_own(peer.primary_nid) || std::any_of(peer.nids.begin(), peer.nids.end(), is_own)) {
    logger_.warn("{}peer {} is this node itself: left out", prefix, peer.primary_nid.to_string());
    return Status::ok();
  }
  const Status status = engine_->with_core(
      [&](core::Core& core, Time now) { return core.configure_peer(now, peer); });
  if (status.is_ok()) return status;
  return {status.code(),
          fmt::format("{}peer {}: {}", prefix, peer.primary_nid.to_string(), status.text())};
}

Result<Lnd*> Endpoint::Impl::driver_for(const NiSettings& ni) {
  for (const auto& driver : drivers_) {
    if (driver->type() == ni.net.type && ni.net.type != NetType::kLo) return driver.get();
  }
  if (ni.net.type != NetType::kTcp) {
    return fail(ENOTSUP,
                fmt::format("there is no driver for net {} in this build", ni.net.to_string()));
  }
  std::vector<Loop*> loops;
  for (const auto& loop : loops_) loops.push_back(loop.get());
  drivers_.push_back(
      std::make_unique<tcp::TcpLnd>(*engine_, loops, settings_.acceptor, settings_.global, logger_,
                                    [this] { keeper_->handle_interfaces_changed(); }));
  return drivers_.back().get();
}

// ---------------------------------------------------------------- the end

void Endpoint::Impl::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (stopped_) return;
  stopped_ = true;
  keeper_->stop();
  const Time until = clock_now() + std::chrono::milliseconds(settings_.node.shutdown_grace_ms);
  wait_for_sends(until);
  engine_->with_core([](core::Core& core, Time now) {
    core.shut_down(now);
    return true;
  });
  engine_->drain_actions();
  const Duration left = std::max<Duration>(until - clock_now(), std::chrono::milliseconds(100));
  for (const auto& driver : drivers_) driver->stop(left);
  engine_->drain_actions();
  engine_->stop_waiting();
  if (handler_thread_.joinable()) handler_thread_.join();
  while (engine_->run_handlers()) {
  }
  loops_.front()->run_sync([this] { timer_.reset(); });
  drivers_.clear();
  for (const auto& loop : loops_) loop->stop_thread();
}

// Lets what was accepted leave.
void Endpoint::Impl::wait_for_sends(Time until) {
  const auto busy = [this] {
    return engine_->look([](const core::Core& core) { return core.sends_in_progress() > 0; });
  };
  while (busy() && clock_now() < until) {
    if (polls()) {
      poll_once(std::chrono::milliseconds(1));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// ---------------------------------------------------------------- driving

void Endpoint::Impl::poll_once(Duration max_wait) {
  keeper_->poll();
  engine_->drain_actions();
  loops_.front()->run_once(max_wait);
  engine_->drain_actions();
}

bool Endpoint::Impl::poll(Duration max_wait) {
  if (!polls()) return false;
  keeper_->poll();
  engine_->drain_actions();
  if (engine_->run_handlers()) return true;
  const bool progress = loops_.front()->run_once(max_wait);
  return engine_->run_handlers() || progress;
}

size_t Endpoint::Impl::poll_events(std::span<Event> events, Duration max_wait) {
  const Time now = clock_now();
  const Time until = max_wait > kNever - now ? kNever : now + max_wait;
  if (!polls()) return engine_->take_events(events, until);
  for (;;) {
    keeper_->poll();
    engine_->drain_actions();
    engine_->run_handlers();
    if (const size_t count = engine_->take_events(events, Time::min()); count > 0) return count;
    const Time present = clock_now();
    loops_.front()->run_once(
        std::max(Duration::zero(), until == kNever ? Duration::max() : until - present));
    engine_->run_handlers();
    const size_t count = engine_->take_events(events, Time::min());
    if (count > 0 || clock_now() >= until) return count;
  }
}

template <typename T, typename Start>
Result<T> Endpoint::Impl::wait_for(Start start) {
  // Owned by both sides: what ends while this gives up must not write to a dead frame.
  auto answer = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> future = answer->get_future();
  start([answer](Result<T> result) { answer->set_value(std::move(result)); });
  if (polls()) {
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      poll(std::chrono::milliseconds(10));
  }
  return future.get();
}

// ---------------------------------------------------------------- looking

// Those that wait for their interfaces among the others.
std::vector<NetInfo> Endpoint::Impl::nets() const {
  std::vector<NetInfo> nets = engine_->look([](const core::Core& core) { return core.nets(); });
  for (const NiKeeper::Entry& entry : keeper_->list()) {
    const NetId id = entry.nid.net();
    auto net = std::find_if(nets.begin(), nets.end(), [&](const auto& n) { return n.net == id; });
    if (!entry.up) {
      if (net == nets.end()) net = nets.insert(nets.end(), NetInfo{id, {}});
      net->nis.push_back(describe_waiting(entry));
      continue;
    }
    if (net == nets.end()) continue;  // removed meanwhile
    for (NiInfo& ni : net->nis) {
      if (ni.nid == entry.nid) ni.driver = entry.driver->counters(entry.id);
    }
  }
  return nets;
}

std::vector<PeerInfo> Endpoint::Impl::peers() const {
  std::vector<PeerInfo> peers = engine_->look([](const core::Core& core) { return core.peers(); });
  const std::vector<NiKeeper::Entry> nis = keeper_->list();
  for (PeerInfo& peer : peers) {
    for (PeerNiInfo& peer_ni : peer.nis) {
      for (const NiKeeper::Entry& ni : nis) {
        for (ConnectionInfo& connection : ni.driver->connections(ni.id, peer_ni.nid)) {
          peer_ni.connections.push_back(std::move(connection));
        }
      }
    }
  }
  return peers;
}

// ---------------------------------------------------------------- Endpoint

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Endpoint::~Endpoint() = default;

Result<std::unique_ptr<Endpoint>> Endpoint::start(const Settings& settings, Logger* logger) {
  auto impl = std::make_unique<Impl>(settings, logger);
  if (Status status = impl->start(); !status.is_ok()) return Failure(std::move(status));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

void Endpoint::stop() {
  impl_->stop();
}

Result<Nid> Endpoint::add_ni(const NiSettings& ni) {
  return impl_->keeper().add(ni);
}
Status Endpoint::del_ni(const Nid& nid) {
  return impl_->keeper().remove(nid);
}
Status Endpoint::del_net(NetId net, const std::string& interface) {
  return impl_->keeper().remove(net, interface);
}

Result<MeHandle> Endpoint::me_attach(const MeSpec& me) {
  return impl_->engine().with_core([&](core::Core& core, Time) { return core.me_attach(me); });
}
Status Endpoint::me_unlink(MeHandle me) {
  return impl_->engine().with_core([&](core::Core& core, Time) { return core.me_unlink(me); });
}
Result<MdHandle> Endpoint::md_attach(MeHandle me, const MdSpec& md) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.md_attach(now, me, md); });
}
Result<MdHandle> Endpoint::attach(const MeSpec& me, const MdSpec& md) {
  return impl_->engine().with_core([&](core::Core& core, Time now) -> Result<MdHandle> {
    const Result<MeHandle> handle = core.me_attach(me);
    if (!handle) return Failure(handle.error());
    return core.md_attach(now, *handle, md);
  });
}
Result<MdHandle> Endpoint::bind(const MdSpec& md) {
  const core::NumaNode node = impl_->topology().node_of_memory(md.fragments);
  return impl_->engine().with_core([&](core::Core& core, Time) { return core.bind(md, node); });
}
Status Endpoint::unlink(MdHandle md) {
  return impl_->engine().with_core([&](core::Core& core, Time) { return core.unlink(md); });
}
Status Endpoint::set_lazy(uint32_t portal, bool lazy) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.set_lazy(now, portal, lazy); });
}

Status Endpoint::put(const PutArgs& args) {
  return impl_->engine().with_core([&](core::Core& core, Time now) { return core.put(now, args); });
}
Status Endpoint::get(const GetArgs& args) {
  return impl_->engine().with_core([&](core::Core& core, Time now) { return core.get(now, args); });
}
void Endpoint::ping(const PingArgs& args, PingDone done) {
  PingOperation::start(impl_->engine(), args, std::move(done));
}
Result<PingResult> Endpoint::ping(const PingArgs& args) {
  return impl_->wait_for<PingResult>([&](PingDone done) { ping(args, std::move(done)); });
}

void Endpoint::discover(const DiscoverArgs& args, DiscoverDone done) {
  DiscoverOperation::start(impl_->engine(), args, std::move(done));
}
Result<PeerInfo> Endpoint::discover(const DiscoverArgs& args) {
  return impl_->wait_for<PeerInfo>([&](DiscoverDone done) { discover(args, std::move(done)); });
}
Status Endpoint::add_peer(const std::vector<Nid>& nids) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.add_peer(now, nids); });
}
Result<Nid> Endpoint::primary_nid(const Nid& nid) {
  const bool discovers =
      impl_->engine().look([](const core::Core& core) { return core.global().discovery; });
  const std::optional<PeerInfo> peer =
      impl_->engine().look([&](const core::Core& core) { return core.find_peer(nid); });
  const bool has_name = peer && (peer->state & core::kPeerLockedPrimary) != 0;
  if (has_name) {
    discover({.nid = nid}, [](const Result<PeerInfo>&) {});
  } else if (discovers) {
    const Result<PeerInfo> found = discover({.nid = nid});
    if (!found) return Failure(found.error());
  }
  return impl_->engine().look([&](const core::Core& core) { return core.primary_nid(nid); });
}
Status Endpoint::configure_peer(const PeerSettings& peer) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.configure_peer(now, peer); });
}
Status Endpoint::delete_peer(const Nid& primary, const std::vector<Nid>& nids, bool force) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.delete_peer(now, primary, nids, force); });
}

Status Endpoint::set_global(std::string_view name, int64_t value) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.set_global(now, name, value); });
}
Status Endpoint::change_nis(const NiSelection& which, const NiChange& change) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.change_nis(now, which, change); });
}
Status Endpoint::change_peers(const std::optional<Nid>& nid, const PeerChange& change) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.change_peers(now, nid, change); });
}

Status Endpoint::add_fault(const FaultRule& rule) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.add_fault(now, rule); });
}
size_t Endpoint::del_faults(FaultKind kind, const Nid& source, const Nid& dest) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time now) { return core.del_faults(now, kind, source, dest); });
}
void Endpoint::reset_faults(FaultKind kind) {
  impl_->engine().with_core([&](core::Core& core, Time now) {
    core.reset_faults(now, kind);
    return true;
  });
}
std::vector<FaultInfo> Endpoint::faults(FaultKind kind) const {
  return impl_->engine().look([&](const core::Core& core) { return core.faults(kind); });
}

Status Endpoint::add_udsp(const Udsp& udsp, std::optional<uint32_t> index) {
  return impl_->engine().with_core(
      [&](core::Core& core, Time) { return core.add_udsp(udsp, index); });
}
Status Endpoint::del_udsp(uint32_t index) {
  return impl_->engine().with_core([&](core::Core& core, Time) { return core.del_udsp(index); });
}
void Endpoint::del_udsps() {
  impl_->engine().with_core([](core::Core& core, Time) {
    core.del_udsps();
    return true;
  });
}
std::vector<Udsp> Endpoint::udsps() const {
  return impl_->engine().look([](const core::Core& core) { return core.udsps(); });
}

size_t Endpoint::poll_events(std::span<Event> events, std::chrono::nanoseconds max_wait) {
  return impl_->poll_events(events, max_wait);
}
bool Endpoint::poll(std::chrono::nanoseconds max_wait) {
  return impl_->poll(max_wait);
}

std::vector<Nid> Endpoint::nids() const {
  return impl_->engine().look([](const core::Core& core) { return core.nids(); });
}
const Settings& Endpoint::settings() const {
  return impl_->settings();
}
GlobalSettings Endpoint::global() const {
  return impl_->engine().look([](const core::Core& core) { return core.global(); });
}
std::vector<NetInfo> Endpoint::nets() const {
  return impl_->nets();
}
std::vector<PeerInfo> Endpoint::peers() const {
  return impl_->peers();
}
Statistics Endpoint::statistics() const {
  return impl_->engine().look([](const core::Core& core) { return core.statistics(); });
}
void Endpoint::reset_statistics() {
  impl_->engine().with_core([](core::Core& core, Time) {
    core.reset_statistics();
    return true;
  });
}

}  // namespace ulnet
