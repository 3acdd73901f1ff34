#include <fmt/format.h>

#include "tests/sim/scenario_world.h"

namespace ulnet::sim {
namespace {

// Nodes that do not run do nothing.
template <typename What>
void for_each_pair(const std::vector<Node*>& sources, const std::vector<Nid>& targets, What what) {
  for (Node* source : sources) {
    for (const Nid& target : targets) {
      if (source->running()) what(*source, target);
    }
  }
}

}  // namespace

Scenario::Maker Scenario::deed_maker(const std::string& verb) {
  static const std::map<std::string, Maker> kDeeds = {
      {"put", &Scenario::put},
      {"get", &Scenario::get},
      {"ping", &Scenario::ping},
      {"attach", &Scenario::attach},
      {"lazy", &Scenario::lazy},
      {"unlink_targets", &Scenario::unlink_targets},
      {"reset_statistics", &Scenario::reset_statistics},
      {"rpc_clients", &Scenario::rpc_clients},
      {"start", &Scenario::start},
      {"stop", &Scenario::stop},
      {"kill", &Scenario::kill},
      {"power_loss", &Scenario::power_loss},
      {"stall", &Scenario::stall},
      {"clock_step", &Scenario::clock_step},
      {"blackhole", &Scenario::blackhole},
      {"loss", &Scenario::loss},
      {"cut", &Scenario::cut},
      {"refuse", &Scenario::refuse},
      {"hide", &Scenario::hide},
      {"ni_down", &Scenario::ni_down},
      {"link_down", &Scenario::link_down},
      {"remove_ni", &Scenario::remove_ni},
      {"reset", &Scenario::reset},
      {"heal", &Scenario::heal},
      {"drop_rule", &Scenario::drop_rule},
      {"delay_rule", &Scenario::delay_rule},
      {"remove_rules", &Scenario::remove_rules},
  };
  const auto found = kDeeds.find(verb);
  return found != kDeeds.end() ? found->second : nullptr;
}

// ---------------------------------------------------------------- traffic

Scenario::Deed Scenario::put(Fields& fields) {
  const std::vector<Node*> from = nodes(fields);
  const std::vector<Nid> to = targets(fields, "to");
  Applications::PutOptions put;
  put.portal = static_cast<uint32_t>(fields.number("portal", 1));
  put.match_bits = static_cast<uint64_t>(fields.number("match_bits", 0));
  put.bytes = static_cast<uint32_t>(fields.number("bytes"));
  put.ack = fields.flag("ack", true);
  put.timeout = fields.seconds("timeout", Duration::zero());
  put.label = fields.text("name");
  const int64_t count = fields.number("count", 1);
  const Duration every = fields.seconds("every", Duration::zero());
  return [=, this] {
    for (int64_t i = 0; i < count; ++i) {
      cluster_.queue().in(every * i, [=, this] {
        for_each_pair(from, to, [&](Node& source, const Nid& target) {
          Applications::PutOptions each = put;
          each.target = target;
          applications_->put(source, each);
        });
      });
    }
  };
}

Scenario::Deed Scenario::get(Fields& fields) {
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

Scenario::Deed Scenario::ping(Fields& fields) {
  const std::vector<Node*> from = nodes(fields);
  const std::vector<Nid> to = targets(fields, "to");
  const Duration timeout = fields.seconds("timeout", std::chrono::seconds(1));
  const std::string label = fields.text("name");
  return [=, this] {
    for_each_pair(from, to, [&](Node& source, const Nid& target) {
      applications_->ping(source, target, timeout, label);
    });
  };
}

Scenario::Deed Scenario::attach(Fields& fields) {
  const std::vector<Node*> at = nodes(fields);
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
  return [=, this] {
    for (Node* each : at) applications_->attach(*each, target);
  };
}

Scenario::Deed Scenario::lazy(Fields& fields) {
  Node* at = node(fields);
  const auto portal = static_cast<uint32_t>(fields.number("portal"));
  const bool on = fields.flag("on", true);
  return [=, this] {
    (void)at->core().set_lazy(cluster_.now(), portal, on);
    at->settle();
  };
}

Scenario::Deed Scenario::unlink_targets(Fields& fields) {
  Node* at = node(fields);
  return [=, this] { applications_->unlink_targets(*at); };
}

Scenario::Deed Scenario::reset_statistics(Fields& fields) {
  Node* at = node(fields);
  return [=] { at->core().reset_statistics(); };
}

Scenario::Deed Scenario::rpc_clients(Fields& fields) {
  const std::vector<Node*> clients = nodes(fields);
  RpcPlan plan;
  plan.server = targets(fields, "server").front();
  plan.portal = static_cast<uint32_t>(fields.number("portal", plan.portal));
  plan.interval = fields.seconds("interval", plan.interval);
  plan.timeout = fields.seconds("timeout", plan.timeout);
  plan.back_off_max = fields.seconds("back_off_max", plan.back_off_max);
  plan.randomised = fields.flag("randomised", true);
  if (plan.interval <= Duration::zero()) fields.error("interval must be above 0");
  return [=, this] { rpc_->begin(clients, plan); };
}

// ---------------------------------------------------------------- nodes

// `nids`: the next life has these of its NIs only, in this order.
Scenario::Deed Scenario::start(Fields& fields) {
  Node* which = node(fields);
  std::vector<Nid> nids;
  if (fields.has("nids")) {
    for (const std::string& text : fields.list("nids")) {
      const Nid nid = Nid::parse(text).value_or(Nid{});
      if (which == nullptr || cluster_.owner(nid) != which)
        fields.error(fmt::format("nids: '{}' is none of this node", text));
      nids.push_back(nid);
    }
    if (nids.empty()) fields.error("nids: a node needs a NID");
  }
  return [=] {
    if (which->running()) return;
    if (!nids.empty()) which->set_nids(nids);
    which->start();
  };
}

Scenario::Deed Scenario::stop(Fields& fields) {
  Node* which = node(fields);
  return [=, this] {
    if (which->running()) applications_->stop(*which);
  };
}

Scenario::Deed Scenario::crash(Fields& fields, Farewell how) {
  Node* which = node(fields);
  return [=, this] {
    if (which->running()) applications_->crash(*which, how);
  };
}

Scenario::Deed Scenario::stall(Fields& fields) {
  Node* which = node(fields);
  const Duration duration = fields.seconds("for");
  return [=, this] { which->stall(cluster_.now() + duration); };
}

Scenario::Deed Scenario::clock_step(Fields& fields) {
  Node* which = node(fields);
  const Duration by = fields.seconds("by");
  return [=] { which->step_clock(by); };
}

// ---------------------------------------------------------------- faults

Scenario::Deed Scenario::for_a_while(Fields& fields, std::function<void(bool)> toggle) {
  const Duration duration = fields.seconds("for", Duration::zero());
  const int64_t times = fields.number("times", 1);
  const Duration every = fields.seconds("every", Duration::zero());
  if (times > 1 && (duration <= Duration::zero() || every <= duration))
    fields.error("what happens several times needs 'for', and 'every' above it");
  return [=, this] {
    for (int64_t i = 0; i < times; ++i) {
      cluster_.queue().in(every * i, [toggle] { toggle(true); });
      if (duration > Duration::zero())
        cluster_.queue().in(every * i + duration, [toggle] { toggle(false); });
    }
  };
}

// Without `to`: towards everybody.
Scenario::Deed Scenario::blackhole(Fields& fields) {
  const std::vector<Nid> from = known_nids(fields, "from");
  const bool everybody = !fields.has("to");
  const std::vector<Nid> to = everybody ? std::vector<Nid>{} : known_nids(fields, "to");
  return for_a_while(fields, [=, this](bool on) {
    for (const Nid& source : from) {
      if (everybody) cluster_.network().mute(source, on);
      for (const Nid& target : to) cluster_.network().blackhole(source, target, on);
    }
  });
}

Scenario::Deed Scenario::loss(Fields& fields) {
  const Nid from = known_nid(fields, "from");
  const Nid to = known_nid(fields, "to");
  const auto per_million = static_cast<uint32_t>(fields.number("per_million"));
  return for_a_while(
      fields, [=, this](bool on) { cluster_.network().set_loss(from, to, on ? per_million : 0); });
}

Scenario::Deed Scenario::break_nids(Fields& fields, void (Network::*how)(const Nid&, bool)) {
  const std::vector<Nid> nids = known_nids(fields, "nid");
  return for_a_while(fields, [=, this](bool on) {
    for (const Nid& nid : nids) (cluster_.network().*how)(nid, on);
  });
}

// The node is told, and nothing else happens.
Scenario::Deed Scenario::ni_down(Fields& fields) {
  const Nid nid = known_nid(fields, "nid");
  return for_a_while(fields, [=, this](bool on) { cluster_.owner(nid)->set_fatal(nid, on); });
}

Scenario::Deed Scenario::link_down(Fields& fields) {
  const std::vector<Nid> nids = known_nids(fields, "nid");
  return for_a_while(fields, [=, this](bool on) {
    for (const Nid& nid : nids) {
      cluster_.network().cut(nid, on);
      cluster_.owner(nid)->set_fatal(nid, on);
    }
  });
}

Scenario::Deed Scenario::remove_ni(Fields& fields) {
  const Nid nid = known_nid(fields, "nid");
  return for_a_while(fields, [=, this](bool on) {
    on ? cluster_.owner(nid)->remove_ni(nid) : cluster_.owner(nid)->add_ni(nid);
  });
}

Scenario::Deed Scenario::add_rule(Fields& fields, FaultKind kind) {
  Node* at = node(fields);
  const FaultRule rule = fields.fault_rule(kind);
  return [=, this] {
    (void)at->core().add_fault(cluster_.now(), rule);
    at->settle();
  };
}

Scenario::Deed Scenario::remove_rules(Fields& fields) {
  Node* at = node(fields);
  return [=, this] {
    for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay})
      at->core().del_faults(cluster_.now(), kind, Nid::any(), Nid::any());
    at->settle();
  };
}

Scenario::Deed Scenario::reset(Fields& fields) {
  const Nid from = known_nid(fields, "from");
  const Nid to = known_nid(fields, "to");
  return [=, this] { cluster_.network().reset(from, to); };
}

Scenario::Deed Scenario::heal(Fields&) {
  return [this] { cluster_.network().heal(); };
}

}  // namespace ulnet::sim
