#include "tests/sim/scenario.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>

#include "config/blocks.h"
#include "tests/sim/checkers.h"
#include "tests/sim/scenario_world.h"

namespace ulnet::sim {
namespace {

constexpr int64_t kGroupMax = 10'000;

// The address of the `index`th node of a group.
Nid numbered(const Nid& first, int64_t index) {
  return Nid::from_ipv4(first.net(), first.address32() + static_cast<uint32_t>(index));
}

// `block`, read as `ulnetd` reads it, into `settings`.
void read_block(void (*read)(config::LoadContext&, const config::YamlNode&),
                const config::YamlNode* block, const std::string& path, Settings& settings,
                Errors& errors) {
  if (block == nullptr) return;
  config::LoadContext context(path);
  context.settings = settings;
  read(context, *block);
  for (const std::string& text : context.report.errors()) errors.add(text);
  settings = context.settings;
}

}  // namespace

// ---------------------------------------------------------------- reading

Scenario::Scenario(const config::YamlNode& file, const std::string& path, Errors& errors,
                   uint64_t seed, std::FILE* trace_out)
    : path_(path), errors_(errors), cluster_(seed, trace_out) {
  Fields top(&file, errors);
  (void)top.number("seed", 1);
  (void)top.text("about", "");
  read_nets(top.child("nets"));
  read_nodes(top.child("nodes"), top.child("global"));
  applications_.emplace(cluster_, violations_);
  rpc_.emplace(cluster_, *applications_, seed);
  read_steps(top.child("steps"));
  top.finish();
}

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
  Settings common;
  read_block(config::read_global_block, global, path_, common, errors_);
  if (nodes == nullptr || !nodes->is_map()) return errors_.add(1, "'nodes' must be a map");
  for (const config::YamlEntry& entry : nodes->entries) read_node(entry, common.global);
  // Now every name is known.
  for (const config::YamlEntry& entry : nodes->entries) {
    Fields fields(entry.value.get(), errors_);
    for (const size_t index : by_name_[entry.key]) introduce(fields, specs_[index]);
  }
  for (NodeSpec& spec : specs_) cluster_.add(std::move(spec));
  specs_.clear();
}

void Scenario::read_node(const config::YamlEntry& entry, const GlobalSettings& global) {
  Fields fields(entry.value.get(), errors_);
  NodeSpec spec;
  spec.name = entry.key;
  spec.global = global;
  read_settings(fields, spec);
  NiSettings ni;
  ni.tunables.peer_credits = static_cast<int32_t>(fields.number("peer_credits", 8));
  ni.tunables.credits = static_cast<int32_t>(fields.number("credits", 256));
  ni.tcp.timeout_s =
      static_cast<int32_t>(fields.number("lnd_timeout", spec.global.lnd_timeout_s()));
  ni.tcp.max_reconnect_ms = static_cast<int32_t>(
      fields.seconds("reconnect_max", std::chrono::milliseconds(ni.tcp.max_reconnect_ms)) /
      std::chrono::milliseconds(1));
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
  const int64_t count = fields.number("count", 1);
  if (count < 1 || count > kGroupMax) fields.error(fmt::format("count: 1 to {}", kGroupMax));
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
  (void)fields.child("knows");  // read when all names are known
  const bool is_group = fields.has("count");
  fields.finish();
  if (!errors_.empty()) return;
  add_group(entry.key, spec, is_group ? count : 0);
}

// `count` nodes NAME1, NAME2, ..., their addresses counted up from those given; 0: one, NAME.
void Scenario::add_group(const std::string& name, const NodeSpec& spec, int64_t count) {
  for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i) {
    NodeSpec each = spec;
    if (count > 0) each.name += std::to_string(i + 1);
    for (NiSettings& ni : each.nis) {
      if (i > 0) ni.nid = numbered(*ni.nid, i);
    }
    by_name_[name].push_back(specs_.size());
    if (count > 0) by_name_[each.name] = {specs_.size()};
    specs_.push_back(std::move(each));
  }
}

// `global:` and `peer:` of a node, as its own configuration file would have them.
void Scenario::read_settings(Fields& fields, NodeSpec& spec) {
  Settings settings;
  settings.global = spec.global;
  read_block(config::read_global_block, fields.child("global"), path_, settings, errors_);
  read_block(config::read_peer_block, fields.child("peer"), path_, settings, errors_);
  spec.global = settings.global;
  spec.peers = settings.peers;
}

// `knows`: these nodes are multi-rail peers, each with all its NIDs.
void Scenario::introduce(Fields& fields, NodeSpec& spec) {
  if (fields.has("knows")) {
    for (const std::string& name : fields.list("knows")) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) {
        fields.error(fmt::format("knows: no node '{}'", name));
        continue;
      }
      for (const size_t index : found->second) {
        PeerSettings& peer = spec.peers.emplace_back();
        for (const NiSettings& ni : specs_[index].nis) peer.nids.push_back(*ni.nid);
        peer.primary_nid = peer.nids.front();
      }
    }
  }
  std::set<Nid> told;
  for (const PeerSettings& peer : spec.peers) {
    std::set<Nid> nids(peer.nids.begin(), peer.nids.end());
    nids.insert(peer.primary_nid);
    for (const Nid& nid : nids) {
      if (!told.insert(nid).second) fields.error(fmt::format("two peers have {}", nid.to_string()));
    }
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
    const Maker make = expects ? expectation_maker(verb) : deed_maker(verb);
    if (make == nullptr) {
      fields.error(fmt::format("nobody can {} '{}'", expects ? "expect" : "do", verb));
      continue;
    }
    steps_.push_back({at, (this->*make)(fields)});
    fields.finish();
  }
}

// ---------------------------------------------------------------- names

std::vector<Node*> Scenario::nodes(Fields& fields, const std::string& key) {
  const std::string name = fields.text(key);
  const auto found = by_name_.find(name);
  std::vector<Node*> nodes;
  if (found == by_name_.end()) {
    fields.error(fmt::format("{}: no node '{}'", key, name));
    return nodes;
  }
  for (const size_t index : found->second) nodes.push_back(&cluster_.node(index));
  return nodes;
}

Node* Scenario::node(Fields& fields, const std::string& key) {
  const std::vector<Node*> found = nodes(fields, key);
  if (found.size() > 1) fields.error(fmt::format("{}: one node is needed, not a group", key));
  return found.empty() ? nullptr : found.front();
}

std::vector<Nid> Scenario::targets(Fields& fields, const std::string& key) {
  if (!by_name_.contains(fields.text(key))) return {fields.nid(key)};
  std::vector<Nid> nids;
  for (const Node* each : nodes(fields, key)) nids.push_back(each->nids().front());
  return nids;
}

std::vector<Nid> Scenario::known_nids(Fields& fields, const std::string& key) {
  if (!by_name_.contains(fields.text(key))) return {known_nid(fields, key)};
  std::vector<Nid> nids;
  for (const Node* each : nodes(fields, key)) {
    for (const Nid& nid : each->nids()) nids.push_back(nid);
  }
  return nids;
}

Nid Scenario::known_nid(Fields& fields, const std::string& key) {
  const Nid nid = fields.nid(key);
  if (cluster_.owner(nid) == nullptr)
    fields.error(fmt::format("{}: no node has {}", key, nid.to_string()));
  return nid;
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
    result.totals += cluster_.node(i).totals();
  }
  result.hash = cluster_.trace().hash();
  result.entries = cluster_.trace().entries();
  result.operations = applications_->started();
  result.events = applications_->events();
  result.delivered = cluster_.network().delivered();
  result.lost = cluster_.network().lost();
  result.rpc_series = rpc_->series();
  result.violations = violations_.texts();
  return result;
}

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
  Scenario scenario(**tree, path, errors, seed, trace_out);
  if (!errors.empty()) return fail(EINVAL, errors.text());
  return scenario.run();
}

}  // namespace ulnet::sim
