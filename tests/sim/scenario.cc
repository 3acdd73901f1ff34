#include "tests/sim/scenario.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "tests/sim/checkers.h"
#include "tests/sim/scenario_fields.h"

namespace ulnet::sim {
namespace {

// What a step does when its time has come.
using Deed = std::function<void()>;

// How exactly "at" in an expectation is meant.
constexpr Duration kExactly = std::chrono::microseconds(1);

struct Step {
  Duration at{};
  int line = 0;
  Deed deed;
};

class Scenario {
 public:
  Scenario(const config::YamlNode& file, Errors& errors, uint64_t seed, std::FILE* trace_out)
      : errors_(errors), cluster_(seed, trace_out) {
    Fields top(&file, errors);
    (void)top.number("seed", 1);
    (void)top.text("about", "");
    read_nets(top.child("nets"));
    read_nodes(top.child("nodes"), top.child("global"));
    applications_.emplace(cluster_, violations_);
    read_steps(top.child("steps"));
    top.finish();
  }

  RunResult run();

 private:
  using Maker = Deed (Scenario::*)(Fields&);

  void read_nets(const config::YamlNode* nets);
  void read_nodes(const config::YamlNode* nodes, const config::YamlNode* global);
  void read_steps(const config::YamlNode* steps);
  Maker maker_of(const std::string& verb, bool expects) const;

  // ---- what can be done
  Deed put(Fields& fields);
  Deed get(Fields& fields);
  Deed ping(Fields& fields);
  Deed attach(Fields& fields);
  Deed lazy(Fields& fields);
  Deed unlink_targets(Fields& fields);
  Deed start(Fields& fields);
  Deed stop(Fields& fields);
  Deed kill(Fields& fields) { return crash(fields, Farewell::kKill); }
  Deed power_loss(Fields& fields) { return crash(fields, Farewell::kPowerLoss); }
  Deed crash(Fields& fields, Farewell how);
  Deed stall(Fields& fields);
  Deed clock_step(Fields& fields);
  Deed blackhole(Fields& fields);
  Deed cut(Fields& fields) { return break_nid(fields, &Network::cut); }
  Deed refuse(Fields& fields) { return break_nid(fields, &Network::refuse); }
  Deed hide(Fields& fields) { return break_nid(fields, &Network::hide); }
  Deed break_nid(Fields& fields, void (Network::*how)(const Nid&, bool));
  Deed link_down(Fields& fields);
  Deed remove_ni(Fields& fields);
  Deed reset(Fields& fields);
  Deed heal(Fields& fields);
  Deed drop_rule(Fields& fields) { return add_rule(fields, FaultKind::kDrop); }
  Deed delay_rule(Fields& fields) { return add_rule(fields, FaultKind::kDelay); }
  Deed add_rule(Fields& fields, FaultKind kind);
  Deed remove_rules(Fields& fields);

  // ---- what can be expected
  Deed expect_outcome(Fields& fields);
  Deed expect_credits(Fields& fields);
  Deed expect_peer_credits(Fields& fields);
  Deed expect_drops(Fields& fields);
  Deed expect_rest(Fields& fields);
  Deed expect_rules(Fields& fields);

  Node* node(Fields& fields, const std::string& key = "node");
  Nid known_nid(Fields& fields, const std::string& key);
  // Turns a switch on now and, when the file says for how long, off again.
  Deed for_a_while(Fields& fields, std::function<void(bool)> toggle);
  void expect(int line, const std::string& what, int64_t wanted, int64_t found);

  Errors& errors_;
  Violations violations_;
  Cluster cluster_;
  std::map<std::string, size_t> by_name_;
  std::optional<Applications> applications_;
  std::vector<Step> steps_;
};

// ---------------------------------------------------------------- reading

void Scenario::read_nets(const config::YamlNode* nets) {
  if (nets == nullptr || !nets->is_map()) return;
  for (const config::YamlEntry& entry : nets->entries) {
    const Result<NetId> net = NetId::parse(entry.key);
    if (!net) {
      errors_.add(entry.place.line, net.error().text());
      continue;
    }
    Fields fields(entry.value.get(), errors_);
    NetModel& model = cluster_.network().model(*net);
    model.latency = fields.seconds("latency", model.latency);
    model.jitter = fields.seconds("jitter", model.jitter);
    model.bytes_per_second = static_cast<uint64_t>(
        fields.number("bytes_per_second", static_cast<int64_t>(model.bytes_per_second)));
    model.window_bytes =
        static_cast<uint64_t>(fields.number("window", static_cast<int64_t>(model.window_bytes)));
    model.loss_per_million = static_cast<uint32_t>(fields.number("loss_per_million", 0));
    if (model.bytes_per_second == 0) fields.error("bytes_per_second must be above 0");
    fields.finish();
  }
}

void Scenario::read_nodes(const config::YamlNode* nodes, const config::YamlNode* global) {
  NodeSpec common;
  Fields globals(global, errors_);
  common.global.transaction_timeout_s =
      static_cast<int32_t>(globals.number("transaction_timeout", 150));
  common.global.retry_count = static_cast<int32_t>(globals.number("retry_count", 2));
  globals.finish();
  if (nodes == nullptr || !nodes->is_map()) return errors_.add(1, "'nodes' must be a map");
  for (const config::YamlEntry& entry : nodes->entries) {
    Fields fields(entry.value.get(), errors_);
    NodeSpec spec = common;
    spec.name = entry.key;
    NiSettings ni;
    ni.tunables.peer_credits = static_cast<int32_t>(fields.number("peer_credits", 8));
    ni.tunables.credits = static_cast<int32_t>(fields.number("credits", 256));
    ni.tcp.timeout_s =
        static_cast<int32_t>(fields.number("lnd_timeout", spec.global.lnd_timeout_s()));
    for (const std::string& text : fields.list("nids")) {
      const Result<Nid> nid = Nid::parse(text);
      if (!nid) {
        fields.error(nid.error().text());
        continue;
      }
      ni.nid = *nid;
      ni.net = nid->net();
      spec.nis.push_back(ni);
    }
    if (spec.nis.empty()) fields.error("a node needs a NID");
    for (const auto& [key, kind] :
         {std::pair("drop_rules", FaultKind::kDrop), std::pair("delay_rules", FaultKind::kDelay)}) {
      const config::YamlNode* rules = fields.child(key);
      if (rules == nullptr) continue;
      for (const config::YamlPtr& item : rules->items) {
        Fields rule(item.get(), errors_);
        spec.faults.push_back(rule.fault_rule(kind));
        rule.finish();
      }
    }
    fields.finish();
    by_name_[spec.name] = cluster_.size();
    cluster_.add(std::move(spec));
  }
}

void Scenario::read_steps(const config::YamlNode* steps) {
  if (steps == nullptr || !steps->is_list()) return errors_.add(1, "'steps' must be a list");
  Duration at{};
  for (const config::YamlPtr& item : steps->items) {
    Fields fields(item.get(), errors_);
    const Duration when = fields.seconds("at", at);
    if (when < at) fields.error("steps must be in order of time");
    at = when;
    const bool expects = fields.has("expect");
    const std::string verb = fields.text(expects ? "expect" : "do");
    const Maker make = maker_of(verb, expects);
    if (make == nullptr) {
      fields.error(fmt::format("nobody can {} '{}'", expects ? "expect" : "do", verb));
      continue;
    }
    steps_.push_back({at, fields.line(), (this->*make)(fields)});
    fields.finish();
  }
}

Scenario::Maker Scenario::maker_of(const std::string& verb, bool expects) const {
  static const std::map<std::string, Maker> kDeeds = {
      {"put", &Scenario::put},
      {"get", &Scenario::get},
      {"ping", &Scenario::ping},
      {"attach", &Scenario::attach},
      {"lazy", &Scenario::lazy},
      {"unlink_targets", &Scenario::unlink_targets},
      {"start", &Scenario::start},
      {"stop", &Scenario::stop},
      {"kill", &Scenario::kill},
      {"power_loss", &Scenario::power_loss},
      {"stall", &Scenario::stall},
      {"clock_step", &Scenario::clock_step},
      {"blackhole", &Scenario::blackhole},
      {"cut", &Scenario::cut},
      {"refuse", &Scenario::refuse},
      {"hide", &Scenario::hide},
      {"link_down", &Scenario::link_down},
      {"remove_ni", &Scenario::remove_ni},
      {"reset", &Scenario::reset},
      {"heal", &Scenario::heal},
      {"drop_rule", &Scenario::drop_rule},
      {"delay_rule", &Scenario::delay_rule},
      {"remove_rules", &Scenario::remove_rules},
  };
  static const std::map<std::string, Maker> kExpectations = {
      {"outcome", &Scenario::expect_outcome},
      {"credits", &Scenario::expect_credits},
      {"peer_credits", &Scenario::expect_peer_credits},
      {"drops", &Scenario::expect_drops},
      {"rest", &Scenario::expect_rest},
      {"rules", &Scenario::expect_rules},
  };
  const auto& makers = expects ? kExpectations : kDeeds;
  const auto found = makers.find(verb);
  return found != makers.end() ? found->second : nullptr;
}

Node* Scenario::node(Fields& fields, const std::string& key) {
  const std::string name = fields.text(key);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return &cluster_.node(found->second);
  fields.error(fmt::format("{}: no node '{}'", key, name));
  return nullptr;
}

Nid Scenario::known_nid(Fields& fields, const std::string& key) {
  const Nid nid = fields.nid(key);
  if (cluster_.owner(nid) == nullptr)
    fields.error(fmt::format("{}: no node has {}", key, nid.to_string()));
  return nid;
}

// ---------------------------------------------------------------- deeds

Deed Scenario::put(Fields& fields) {
  Node* from = node(fields);
  Applications::PutOptions put;
  put.target = fields.nid("to");
  put.portal = static_cast<uint32_t>(fields.number("portal", 1));
  put.match_bits = static_cast<uint64_t>(fields.number("match_bits", 0));
  put.bytes = static_cast<uint32_t>(fields.number("bytes"));
  put.ack = fields.flag("ack", true);
  put.timeout = fields.seconds("timeout", Duration::zero());
  put.label = fields.text("name");
  const int64_t count = fields.number("count", 1);
  return [=, this] {
    for (int64_t i = 0; i < count; ++i) applications_->put(*from, put);
  };
}

Deed Scenario::get(Fields& fields) {
  Node* from = node(fields);
  Applications::GetOptions get;
  get.target = fields.nid("from");
  get.portal = static_cast<uint32_t>(fields.number("portal", 3));
  get.match_bits = static_cast<uint64_t>(fields.number("match_bits", 0));
  get.bytes = static_cast<uint32_t>(fields.number("bytes"));
  get.offset = static_cast<uint32_t>(fields.number("offset", 0));
  get.timeout = fields.seconds("timeout", Duration::zero());
  get.label = fields.text("name");
  const int64_t count = fields.number("count", 1);
  return [=, this] {
    for (int64_t i = 0; i < count; ++i) applications_->get(*from, get);
  };
}

Deed Scenario::ping(Fields& fields) {
  Node* from = node(fields);
  const Nid target = fields.nid("to");
  const Duration timeout = fields.seconds("timeout", std::chrono::seconds(1));
  const std::string label = fields.text("name");
  return [=, this] { applications_->ping(*from, target, timeout, label); };
}

Deed Scenario::attach(Fields& fields) {
  Node* at = node(fields);
  Applications::TargetOptions target;
  target.portal = static_cast<uint32_t>(fields.number("portal", 1));
  target.match_bits = static_cast<uint64_t>(fields.number("match_bits", 0));
  target.ignore_bits = fields.flag("any_match_bits", false) ? ~uint64_t{0} : 0;
  target.bytes = static_cast<uint32_t>(fields.number("bytes"));
  target.threshold = static_cast<int32_t>(fields.number("threshold", kThresholdInfinite));
  target.options = 0;
  static const std::map<std::string, uint32_t> kOptions = {{"put", kMdPut},
                                                           {"get", kMdGet},
                                                           {"truncate", kMdTruncate},
                                                           {"manage_remote", kMdManageRemote},
                                                           {"ack_disable", kMdAckDisable}};
  for (const std::string& word : fields.list("options")) {
    const auto found = kOptions.find(word);
    if (found == kOptions.end()) {
      fields.error(fmt::format("options: '{}' is none", word));
    } else {
      target.options |= found->second;
    }
  }
  return [=, this] { applications_->attach(*at, target); };
}

Deed Scenario::lazy(Fields& fields) {
  Node* at = node(fields);
  const auto portal = static_cast<uint32_t>(fields.number("portal"));
  const bool on = fields.flag("on", true);
  return [=, this] {
    (void)at->core().set_lazy(cluster_.now(), portal, on);
    at->settle();
  };
}

Deed Scenario::unlink_targets(Fields& fields) {
  Node* at = node(fields);
  return [=, this] { applications_->unlink_targets(*at); };
}

Deed Scenario::start(Fields& fields) {
  Node* which = node(fields);
  return [=] {
    if (!which->running()) which->start();
  };
}

Deed Scenario::stop(Fields& fields) {
  Node* which = node(fields);
  return [=, this] {
    if (which->running()) applications_->stop(*which);
  };
}

Deed Scenario::crash(Fields& fields, Farewell how) {
  Node* which = node(fields);
  return [=, this] {
    if (which->running()) applications_->crash(*which, how);
  };
}

Deed Scenario::stall(Fields& fields) {
  Node* which = node(fields);
  const Duration duration = fields.seconds("for");
  return [=, this] { which->stall(cluster_.now() + duration); };
}

Deed Scenario::clock_step(Fields& fields) {
  Node* which = node(fields);
  const Duration by = fields.seconds("by");
  return [=] { which->step_clock(by); };
}

Deed Scenario::for_a_while(Fields& fields, std::function<void(bool)> toggle) {
  const Duration duration = fields.seconds("for", Duration::zero());
  return [=, this] {
    toggle(true);
    if (duration > Duration::zero()) cluster_.queue().in(duration, [toggle] { toggle(false); });
  };
}

Deed Scenario::blackhole(Fields& fields) {
  const Nid from = known_nid(fields, "from");
  const Nid to = known_nid(fields, "to");
  return for_a_while(fields, [=, this](bool on) { cluster_.network().blackhole(from, to, on); });
}

Deed Scenario::break_nid(Fields& fields, void (Network::*how)(const Nid&, bool)) {
  const Nid nid = known_nid(fields, "nid");
  return for_a_while(fields, [=, this](bool on) { (cluster_.network().*how)(nid, on); });
}

Deed Scenario::link_down(Fields& fields) {
  const Nid nid = known_nid(fields, "nid");
  return for_a_while(fields, [=, this](bool on) {
    cluster_.network().cut(nid, on);
    cluster_.owner(nid)->set_fatal(nid, on);
  });
}

Deed Scenario::remove_ni(Fields& fields) {
  const Nid nid = known_nid(fields, "nid");
  return for_a_while(fields, [=, this](bool on) {
    on ? cluster_.owner(nid)->remove_ni(nid) : cluster_.owner(nid)->add_ni(nid);
  });
}

Deed Scenario::reset(Fields& fields) {
  const Nid from = known_nid(fields, "from");
  const Nid to = known_nid(fields, "to");
  return [=, this] { cluster_.network().reset(from, to); };
}

Deed Scenario::heal(Fields&) {
  return [this] { cluster_.network().heal(); };
}

Deed Scenario::add_rule(Fields& fields, FaultKind kind) {
  Node* at = node(fields);
  const FaultRule rule = fields.fault_rule(kind);
  return [=, this] {
    (void)at->core().add_fault(cluster_.now(), rule);
    at->settle();
  };
}

Deed Scenario::remove_rules(Fields& fields) {
  Node* at = node(fields);
  return [=, this] {
    for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay})
      at->core().del_faults(cluster_.now(), kind, Nid::any(), Nid::any());
    at->settle();
  };
}

// ---------------------------------------------------------------- expectations

void Scenario::expect(int line, const std::string& what, int64_t wanted, int64_t found) {
  if (found == wanted) return;
  violations_.add(cluster_.now(),
                  fmt::format("line {}: {}: expected {}, found {}", line, what, wanted, found));
}

// Of the operations with this name so far.
Deed Scenario::expect_outcome(Fields& fields) {
  const int line = fields.line();
  const std::string name = fields.text("name");
  const int64_t count = fields.number("count", 1);
  const std::string status = fields.text("status", "ok");
  const std::string missing = fields.text("missing", "any");
  const bool timed = fields.has("ended_at");
  const Duration ended_at = fields.seconds("ended_at", Duration::zero());
  return [=, this, began = cluster_.now()] {
    int64_t ended = 0;
    for (const Outcome& outcome : applications_->outcomes()) {
      if (outcome.label != name) continue;
      ++ended;
      const std::string found = outcome.status == 0 ? "ok" : errno_name(outcome.status);
      const char* lost = outcome.missing == MissingResponse::kAck     ? "ack"
                         : outcome.missing == MissingResponse::kReply ? "reply"
                                                                      : "none";
      const Duration late = outcome.ended - began - ended_at;
      if (found != status || (missing != "any" && missing != lost) ||
          (timed && std::chrono::abs(late) > kExactly)) {
        violations_.add(
            cluster_.now(),
            fmt::format("line {}: '{}' ended after {:.6f} s with {}, missing response: {}", line,
                        name, std::chrono::duration<double>(outcome.ended - began).count(), found,
                        lost));
      }
    }
    expect(line, fmt::format("operations '{}' that have ended", name), count, ended);
  };
}

Deed Scenario::expect_credits(Fields& fields) {
  const int line = fields.line();
  const Nid nid = known_nid(fields, "nid");
  const int64_t free = fields.number("free");
  const int64_t waiting = fields.number("waiting", 0);
  return [=, this] {
    for (const NetInfo& net : cluster_.owner(nid)->core().nets()) {
      for (const NiInfo& ni : net.nis) {
        if (ni.nid != nid) continue;
        expect(line, "free credits of " + nid.to_string(), free, ni.tx_credits);
        expect(line, "messages that wait for " + nid.to_string(), waiting, ni.waiting);
      }
    }
  };
}

Deed Scenario::expect_peer_credits(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Nid nid = fields.nid("peer");
  const int64_t free = fields.number("free");
  const int64_t waiting = fields.number("waiting", 0);
  return [=, this] {
    bool known = false;
    for (const PeerInfo& peer : at->core().peers()) {
      for (const PeerNiInfo& ni : peer.nis) {
        if (ni.nid != nid) continue;
        known = true;
        expect(line, "free credits towards " + nid.to_string(), free, ni.available_tx_credits);
        expect(line, "messages that wait for " + nid.to_string(), waiting, ni.waiting);
      }
    }
    expect(line, "known peer NIs with NID " + nid.to_string(), 1, known ? 1 : 0);
  };
}

Deed Scenario::expect_drops(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const std::string reason = fields.text("reason");
  const int64_t count = fields.number("count");
  return [=, this] {
    int64_t found = -1;  // no such reason
    for (const CounterInfo& drop : at->core().statistics().drops) {
      if (drop.name == reason) found = static_cast<int64_t>(drop.value);
    }
    expect(line, fmt::format("drops of {} for {}", at->spec().name, reason), count, found);
  };
}

Deed Scenario::expect_rest(Fields&) {
  return [this] {
    for (size_t i = 0; i < cluster_.size(); ++i)
      check_at_rest(cluster_, cluster_.node(i), violations_);
  };
}

Deed Scenario::expect_rules(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const std::string word = fields.text("kind");
  const FaultKind kind = word == to_string(FaultKind::kDrop) ? FaultKind::kDrop : FaultKind::kDelay;
  if (word != to_string(kind)) fields.error(fmt::format("kind: '{}' is no kind of rule", word));
  const int64_t acted = fields.number("acted");
  return [=, this] {
    int64_t found = 0;
    for (const FaultInfo& info : at->core().faults(kind)) found += static_cast<int64_t>(info.acted);
    expect(line, fmt::format("messages that {} rules of {} acted on", word, at->spec().name), acted,
           found);
  };
}

// ---------------------------------------------------------------- running

RunResult Scenario::run() {
  const Time began = cluster_.now();
  for (size_t i = 0; i < cluster_.size(); ++i) cluster_.node(i).start();
  for (const Step& step : steps_) {
    cluster_.run_until(began + step.at);
    step.deed();
    for (size_t i = 0; i < cluster_.size(); ++i)
      check_credits(cluster_, cluster_.node(i), violations_);
    applications_->check_overdue();
  }
  RunResult result;
  result.virtual_time = cluster_.now() - began;
  for (size_t i = 0; i < cluster_.size(); ++i) {
    if (cluster_.node(i).running()) applications_->stop(cluster_.node(i));
  }
  result.hash = cluster_.trace().hash();
  result.entries = cluster_.trace().entries();
  result.operations = applications_->started();
  result.events = applications_->events();
  result.delivered = cluster_.network().delivered();
  result.violations = violations_.texts();
  return result;
}

}  // namespace

Result<RunResult> run_scenario(const std::string& path, std::FILE* trace_out) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return fail(ENOENT, fmt::format("{}: cannot be read", path));
  const auto tree = config::parse_yaml(text.str());
  if (!tree)
    return fail(EINVAL, fmt::format("{}:{}: {}", path, tree.error().place.line, tree.error().text));
  Errors errors(path);
  const auto seed = static_cast<uint64_t>(Fields(tree->get(), errors).number("seed", 1));
  Scenario scenario(**tree, errors, seed, trace_out);
  if (!errors.empty()) return fail(EINVAL, errors.text());
  return scenario.run();
}

}  // namespace ulnet::sim
