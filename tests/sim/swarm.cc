#include "tests/sim/swarm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tests/sim/checkers.h"
#include "tests/sim/faults.h"
#include "tests/sim/workload.h"

namespace ulnet::sim {
namespace {

constexpr uint32_t kReconnectMaxMs = 4000;
constexpr Duration kRestMax = std::chrono::seconds(120);
// Long enough for two nodes to discover each other.
constexpr Duration kKnown = std::chrono::seconds(3);
constexpr Duration kPingAnswered = std::chrono::seconds(2);
// How often the checkers that walk everything look in.
constexpr Duration kInspection = std::chrono::milliseconds(250);

NetId tcp(uint16_t number) {
  return NetId{NetType::kTcp, number};
}

Nid address(NetId net, uint32_t node, uint32_t rail) {
  return Nid::from_ipv4(net, 10U << 24 | uint32_t{net.number} << 20 | rail << 16 | (node + 1));
}

class Swarm {
 public:
  explicit Swarm(const SwarmOptions& options)
      : rng_(options.seed), cluster_(options.seed, options.trace_out) {
    cluster_.set_decorate(options.decorate);
    cluster_.set_decorate_listener(options.decorate_listener);
    make_nets();
    make_nodes();
    applications_.emplace(cluster_, violations_);
    workload_.emplace(cluster_, *applications_, rng_.next());
    faults_.emplace(cluster_, *applications_, rng_.next());
  }

  RunResult run() {
    for (size_t i = 0; i < cluster_.size(); ++i) cluster_.node(i).start();
    const Time began = cluster_.now();
    storm();
    if (violations_.empty()) calm();
    if (violations_.empty()) recover();
    if (violations_.empty()) use_rails();
    if (violations_.empty()) probe();
    if (violations_.empty()) end();
    RunResult result;
    result.hash = cluster_.trace().hash();
    result.entries = cluster_.trace().entries();
    result.operations = applications_->started();
    result.events = applications_->events();
    result.delivered = cluster_.network().delivered();
    result.lost = cluster_.network().lost();
    result.faults = faults_->count();
    for (size_t i = 0; i < cluster_.size(); ++i) result.totals += cluster_.node(i).totals();
    result.virtual_time = cluster_.now() - began;
    result.violations = violations_.texts();
    return result;
  }

 private:
  void make_nets() {
    nets_ = rng_.chance(1, 3) ? 2 : 1;
    for (uint16_t net = 0; net < nets_; ++net) {
      NetModel& model = cluster_.network().model(tcp(net));
      model.latency = std::chrono::microseconds(rng_.between(5, 5000));
      if (rng_.chance(1, 2)) model.jitter = std::chrono::microseconds(rng_.between(1, 20000));
      if (rng_.chance(1, 3))
        model.loss_per_million = static_cast<uint32_t>(rng_.between(100, 100'000));
      if (rng_.chance(1, 3))
        model.bytes_per_second = static_cast<uint64_t>(rng_.between(100'000, 10'000'000));
      if (rng_.chance(1, 3)) model.window_bytes = static_cast<uint64_t>(rng_.between(200, 20'000));
    }
  }

  void make_nodes() {
    NodeSpec spec;
    make_settings(spec);
    const auto nodes = static_cast<uint32_t>(rng_.between(2, 8));
    const auto rails = static_cast<uint32_t>(rng_.between(1, 4));
    std::vector<NodeSpec> specs;
    for (uint32_t i = 0; i < nodes; ++i) {
      spec.name = fmt::format("node{}", i);
      spec.nis.clear();
      const auto count = static_cast<uint32_t>(rng_.between(1, rails));
      for (uint32_t rail = 0; rail < count; ++rail) spec.nis.push_back(make_ni(spec, i, rail));
      specs.push_back(spec);
    }
    if (rng_.chance(2, 3)) introduce(specs);
    for (NodeSpec& each : specs) cluster_.add(std::move(each));
  }

  void make_settings(NodeSpec& spec) {
    constexpr int32_t kSensitivities[] = {0, 100, 100, 300, 1000};
    spec.global.retry_count = static_cast<int32_t>(rng_.between(0, 2));
    spec.global.transaction_timeout_s = static_cast<int32_t>(rng_.between(6, 30));
    spec.global.health_sensitivity = kSensitivities[rng_.below(std::size(kSensitivities))];
    // Mostly small, so that who is sick gets well within a run's time.
    if (rng_.chance(7, 8))
      spec.global.max_recovery_ping_interval_s = static_cast<int32_t>(rng_.between(1, 16));
    spec.limits.parked_per_portal_max = static_cast<int32_t>(rng_.between(1, 50));
    spec.limits.parked_per_peer_max = static_cast<int32_t>(rng_.between(1, 20));
  }

  // Most nodes are told of most others that all their NIDs are one node.
  void introduce(std::vector<NodeSpec>& specs) {
    for (NodeSpec& spec : specs) {
      for (const NodeSpec& other : specs) {
        if (&other == &spec || rng_.chance(1, 5)) continue;
        PeerSettings& peer = spec.peers.emplace_back();
        for (const NiSettings& ni : other.nis) peer.nids.push_back(*ni.nid);
        peer.primary_nid = peer.nids.front();
      }
    }
  }

  NiSettings make_ni(const NodeSpec& spec, uint32_t node, uint32_t rail) {
    NiSettings ni;
    ni.net = tcp(static_cast<uint16_t>(rail % nets_));
    ni.nid = address(ni.net, node, rail);
    // The first NI of a net decides for the others.
    for (const NiSettings& other : spec.nis) {
      if (other.net == ni.net) {
        ni.tunables = other.tunables;
        ni.tcp = other.tcp;
        return ni;
      }
    }
    ni.tunables.peer_credits = static_cast<int32_t>(rng_.between(1, 8));
    ni.tunables.credits = static_cast<int32_t>(rng_.between(ni.tunables.peer_credits, 16));
    ni.tcp.timeout_s = spec.global.lnd_timeout_s();
    ni.tcp.max_reconnect_ms = kReconnectMaxMs;
    return ni;
  }

  void storm() {
    const auto operations = static_cast<uint32_t>(rng_.between(200, 400));
    workload_->begin(operations, std::chrono::milliseconds(rng_.between(1, 200)));
    faults_->begin(cluster_.now() + std::chrono::hours(1));
    while (!workload_->done() && violations_.empty()) inspect(cluster_.now() + kInspection);
  }

  // Faults end, and in good time so does everything else.
  void calm() {
    faults_->heal();
    const Time settled = cluster_.now() + quiet_after();
    while (cluster_.now() < settled && violations_.empty()) inspect(cluster_.now() + kInspection);
    workload_->wind_up();
    const Time rest = cluster_.now() + kRestMax;
    while (cluster_.now() < rest && !at_rest(cluster_)) inspect(cluster_.now() + kInspection);
    if (const size_t count = applications_->unfinished(); count > 0)
      violations_.add(cluster_.now(), fmt::format("{} operations never ended", count));
    for (size_t i = 0; i < cluster_.size(); ++i)
      check_at_rest(cluster_, cluster_.node(i), violations_);
  }

  void inspect(Time end) {
    cluster_.run_until(end);
    applications_->check_overdue();
    for (size_t i = 0; i < cluster_.size(); ++i)
      check_credits(cluster_, cluster_.node(i), violations_);
    if (cluster_.network().protocol_errors() > 0)
      violations_.add(cluster_.now(), "a node called a message of another a protocol error");
  }

  // How long after the last fault something may still fail because of it: operations that had
  // begun, connections whose peer went away unseen, nodes that stand still.
  Duration quiet_after() {
    const GlobalSettings& global = cluster_.node(0).spec().global;
    const auto attempts = global.lnd_timeout_s() * (global.retry_count + 1) + 1;
    return std::chrono::seconds(std::max(global.transaction_timeout_s, attempts) + 35);
  }

  // When nothing fails any more, the next ping of each sick NI is at most the cap and a quarter
  // away; from its answer on there is one in each second or so, until all health is back.
  void recover() {
    const GlobalSettings& global = cluster_.node(0).spec().global;
    if (global.health_sensitivity == 0) return;
    const auto steps = 1 + 1000 / global.health_sensitivity;
    const Time well =
        cluster_.now() +
        std::chrono::milliseconds(1250 * (global.max_recovery_ping_interval_s + steps)) +
        kPingAnswered;
    std::string sick = any_sick();
    while (!sick.empty() && cluster_.now() < well && violations_.empty()) {
      inspect(cluster_.now() + std::chrono::seconds(1));
      sick = any_sick();
    }
    if (!sick.empty()) violations_.add(cluster_.now(), "long after all faults are healed " + sick);
  }

  std::string any_sick() {
    std::string sick;
    for (size_t i = 0; i < cluster_.size() && sick.empty(); ++i) sick = sick_ni(cluster_.node(i));
    return sick;
  }

  // Each node and another one send each other something, by every NID: one that was live under
  // another peer may have been silent when it was asked whose it is, and is asked again at the next
  // need. Then they know each other in full, and pings go by all rails.
  void use_rails() {
    for (size_t i = 0; i < cluster_.size() && violations_.empty(); ++i) {
      Node& node = cluster_.node(i);
      Node& peer = cluster_.node((i + 1 + rng_.below(cluster_.size() - 1)) % cluster_.size());
      const std::vector<Nid> there = shared_nids(node, peer);
      if (there.empty()) continue;
      for (const Nid& nid : shared_nids(peer, node))
        applications_->put(peer, {.target = nid, .ack = false});
      for (const Nid& nid : there) applications_->put(node, {.target = nid, .ack = false});
      inspect(cluster_.now() + kKnown);
      check_known(cluster_, node, peer, violations_);
      if (violations_.empty()) use_rails(node, peer, there.front());
    }
  }

  void use_rails(Node& node, Node& peer, const Nid& target) {
    constexpr Duration kInterval = std::chrono::milliseconds(500);
    const size_t pings = 2 * nets_ * std::max(node.nids().size(), peer.nids().size());
    const RailUse before = rail_use(node);
    for (size_t ping = 0; ping < pings; ++ping) {
      applications_->ping(node, target, kInterval);
      cluster_.run_for(kInterval);
    }
    check_rail_use(cluster_, node, peer, before, violations_);
  }

  // The NIDs of `to` on nets that `from` is on, too.
  static std::vector<Nid> shared_nids(const Node& from, const Node& to) {
    std::vector<Nid> nids;
    for (const Nid& nid : to.nids()) {
      const auto& nis = from.spec().nis;
      if (std::any_of(nis.begin(), nis.end(),
                      [&nid](const NiSettings& ni) { return ni.net == nid.net(); }))
        nids.push_back(nid);
    }
    return nids;
  }

  // Everybody must reach everybody with whom it shares a net.
  void probe() {
    constexpr Duration kTimeout = std::chrono::seconds(5);
    const size_t before = applications_->outcomes().size();
    for (size_t i = 0; i < cluster_.size(); ++i) {
      Node& node = cluster_.node(i);
      for (size_t j = 0; j < cluster_.size(); ++j) {
        for (const Nid& target : shared_nids(node, cluster_.node(j)))
          applications_->ping(node, target, kTimeout, "probe");
      }
    }
    cluster_.run_for(kTimeout + std::chrono::seconds(1));
    for (size_t i = before; i < applications_->outcomes().size(); ++i) {
      const Outcome& outcome = applications_->outcomes()[i];
      if (outcome.status != 0)
        violations_.add(cluster_.now(), fmt::format("after all faults are healed a ping fails: {}",
                                                    errno_name(outcome.status)));
    }
  }

  void end() {
    for (size_t i = 0; i < cluster_.size(); ++i) applications_->stop(cluster_.node(i));
    // What is still in the queue finds nobody.
    cluster_.run_for(std::chrono::minutes(1));
    if (const size_t count = cluster_.network().connections(); count > 0)
      violations_.add(cluster_.now(), fmt::format("{} connections never closed", count));
  }

  Rng rng_;
  Violations violations_;
  Cluster cluster_;
  uint16_t nets_ = 1;
  std::optional<Applications> applications_;
  std::optional<Workload> workload_;
  std::optional<Faults> faults_;
};

}  // namespace

RunResult run_swarm(const SwarmOptions& options) {
  return Swarm(options).run();
}

RunResult run_scale(uint32_t nodes, uint32_t rails, Duration duration) {
  constexpr Duration kInterval = std::chrono::seconds(10);
  Violations violations;
  Cluster cluster(1);
  for (uint32_t i = 0; i < nodes; ++i) {
    NodeSpec spec;
    spec.name = fmt::format("node{}", i);
    for (uint32_t rail = 0; rail < rails; ++rail) {
      NiSettings& ni = spec.nis.emplace_back();
      ni.net = tcp(0);
      ni.nid = address(ni.net, i, rail);
    }
    cluster.add(std::move(spec));
  }
  Applications applications(cluster, violations);
  for (uint32_t i = 0; i < nodes; ++i) {
    cluster.node(i).start();
    applications.attach(
        cluster.node(i),
        {.ignore_bits = ~uint64_t{0}, .bytes = 4096, .options = kMdPut | kMdManageRemote});
  }
  const Time began = cluster.now();
  std::function<void(uint32_t)> turn = [&](uint32_t i) {
    const uint32_t round = static_cast<uint32_t>((cluster.now() - began) / kInterval);
    Node& to = cluster.node((i + 1 + round % 8) % nodes);
    applications.put(cluster.node(i), {.target = to.nids()[round % rails], .bytes = 4096});
    cluster.queue().in(kInterval, [&turn, i] { turn(i); });
  };
  for (uint32_t i = 0; i < nodes; ++i)
    cluster.queue().in(kInterval * i / nodes, [&turn, i] { turn(i); });
  cluster.run_until(began + duration);
  applications.check_overdue();
  for (uint32_t i = 0; i < nodes; ++i) check_credits(cluster, cluster.node(i), violations);
  RunResult result;
  result.hash = cluster.trace().hash();
  result.entries = cluster.trace().entries();
  result.operations = applications.started();
  result.events = applications.events();
  result.delivered = cluster.network().delivered();
  result.virtual_time = cluster.now() - began;
  result.violations = violations.texts();
  return result;
}

uint64_t resident_mib() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  uint64_t total = 0;
  uint64_t resident = 0;
  const int fields = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  if (fields != 2) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

}  // namespace ulnet::sim
