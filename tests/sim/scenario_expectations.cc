#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tests/sim/checkers.h"
#include "tests/sim/scenario_world.h"

namespace ulnet::sim {
namespace {

// How exactly "at" in an expectation is meant.
constexpr Duration kExactly = std::chrono::microseconds(1);

std::string response_name(MissingResponse missing) {
  switch (missing) {
    case MissingResponse::kAck:
      return "ack";
    case MissingResponse::kReply:
      return "reply";
    case MissingResponse::kNone:
      break;
  }
  return "none";
}

// By its name in `ulnetctl stats show`; nullopt: there is none, or nobody has needed it yet.
std::optional<uint64_t> statistic(const Statistics& statistics, const std::string& name) {
  static const std::map<std::string, uint64_t Statistics::*> kStatistics = {
      {"msgs_alloc", &Statistics::msgs_alloc},
      {"rst_alloc", &Statistics::rst_alloc},
      {"send_count", &Statistics::send_count},
      {"recv_count", &Statistics::recv_count},
      {"drop_count", &Statistics::drop_count},
      {"resend_count", &Statistics::resend_count},
      {"successful_resends", &Statistics::successful_resends},
      {"failed_resends", &Statistics::failed_resends},
      {"response_timeout_count", &Statistics::response_timeout_count},
      {"network_timeout_count", &Statistics::network_timeout_count},
      {"local_timeout_count", &Statistics::local_timeout_count},
      {"remote_timeout_count", &Statistics::remote_timeout_count},
      {"remote_dropped_count", &Statistics::remote_dropped_count},
      {"recovery_pings", &Statistics::recovery_pings},
  };
  const auto found = kStatistics.find(name);
  if (found == kStatistics.end()) return std::nullopt;
  return statistics.*found->second;
}

// What a node shows of one of its NIs, or of a peer NI.
struct NiView {
  int64_t health = -1;  // nobody has this NID
  int64_t pings = -1;
  TypeCounts sent;
};

NiView look_at(Node& node, const Nid& nid) {
  for (const NetInfo& net : node.core().nets()) {
    for (const NiInfo& ni : net.nis) {
      if (ni.nid == nid) return {ni.health, ni.ping_count, ni.stats.sent};
    }
  }
  for (const PeerInfo& peer : node.core().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      if (ni.nid == nid) return {ni.health, ni.ping_count, ni.stats.sent};
    }
  }
  return {};
}

}  // namespace

Scenario::Maker Scenario::expectation_maker(const std::string& verb) {
  static const std::map<std::string, Maker> kExpectations = {
      {"outcome", &Scenario::expect_outcome}, {"ended", &Scenario::expect_ended},
      {"credits", &Scenario::expect_credits}, {"peer_credits", &Scenario::expect_peer_credits},
      {"drops", &Scenario::expect_drops},     {"statistic", &Scenario::expect_statistic},
      {"health", &Scenario::expect_health},   {"sent", &Scenario::expect_sent},
      {"pings", &Scenario::expect_pings},     {"recovering", &Scenario::expect_recovering},
      {"nids", &Scenario::expect_nids},       {"rate", &Scenario::expect_rate},
      {"rest", &Scenario::expect_rest},       {"rules", &Scenario::expect_rules},
  };
  const auto found = kExpectations.find(verb);
  return found != kExpectations.end() ? found->second : nullptr;
}

void Scenario::expect(int line, const std::string& what, int64_t wanted, int64_t found) {
  if (found == wanted) return;
  violations_.add(cluster_.now(),
                  fmt::format("line {}: {}: expected {}, found {}", line, what, wanted, found));
}

void Scenario::expect(int line, const std::string& what, Range wanted, int64_t found) {
  if (wanted.min == wanted.max) return expect(line, what, wanted.min, found);
  if (found >= wanted.min && found <= wanted.max) return;
  const std::string bound = found < wanted.min ? fmt::format("at least {}", wanted.min)
                                               : fmt::format("at most {}", wanted.max);
  violations_.add(cluster_.now(),
                  fmt::format("line {}: {}: expected {}, found {}", line, what, bound, found));
}

Scenario::Range Scenario::range(Fields& fields) {
  if (fields.has("count")) {
    const int64_t exactly = fields.number("count");
    return {exactly, exactly};
  }
  if (!fields.has("min") && !fields.has("max")) fields.error("'count', 'min' or 'max' is missing");
  return {fields.number("min", std::numeric_limits<int64_t>::min()),
          fields.number("max", std::numeric_limits<int64_t>::max())};
}

// Of the operations with this name so far.
Scenario::Deed Scenario::expect_outcome(Fields& fields) {
  const int line = fields.line();
  const std::string name = fields.text("name");
  const int64_t count = fields.number("count", 1);
  const std::string status = fields.text("status", "ok");
  const std::string missing = fields.text("missing", "any");
  const Duration ended_at = fields.seconds("ended_at", Duration::min());
  const Duration no_earlier =
      fields.seconds("no_earlier", ended_at == Duration::min() ? ended_at : ended_at - kExactly);
  const Duration no_later = fields.seconds(
      "no_later", ended_at == Duration::min() ? Duration::max() : ended_at + kExactly);
  return [=, this, began = cluster_.now()] {
    int64_t ended = 0;
    for (const Outcome& outcome : applications_->outcomes()) {
      if (outcome.label != name) continue;
      ++ended;
      const std::string found = outcome.status == 0 ? "ok" : errno_name(outcome.status);
      const std::string lost = response_name(outcome.missing);
      const Duration end = outcome.ended - began;
      if (found == status && (missing == "any" || missing == lost) && end >= no_earlier &&
          end <= no_later)
        continue;
      violations_.add(
          cluster_.now(),
          fmt::format("line {}: '{}' ended after {:.6f} s with {}, missing response: {}", line,
                      name, std::chrono::duration<double>(end).count(), found, lost));
    }
    expect(line, fmt::format("operations '{}' that have ended", name), count, ended);
  };
}

// How many of the operations with this name have ended so.
Scenario::Deed Scenario::expect_ended(Fields& fields) {
  const int line = fields.line();
  const std::string name = fields.text("name");
  const std::string status = fields.text("status", "ok");
  const Range wanted = range(fields);
  return [=, this] {
    int64_t ended = 0;
    for (const Outcome& outcome : applications_->outcomes()) {
      const std::string found = outcome.status == 0 ? "ok" : errno_name(outcome.status);
      if (outcome.label == name && found == status) ++ended;
    }
    expect(line, fmt::format("operations '{}' that have ended with {}", name, status), wanted,
           ended);
  };
}

Scenario::Deed Scenario::expect_credits(Fields& fields) {
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

Scenario::Deed Scenario::expect_peer_credits(Fields& fields) {
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

Scenario::Deed Scenario::expect_drops(Fields& fields) {
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

Scenario::Deed Scenario::expect_statistic(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const std::string name = fields.text("name");
  const Range wanted = range(fields);
  if (!statistic({}, name)) fields.error(fmt::format("name: no statistic '{}'", name));
  return [=, this] {
    const auto found = static_cast<int64_t>(*statistic(at->core().statistics(), name));
    expect(line, fmt::format("{} of {}", name, at->spec().name), wanted, found);
  };
}

// Of an own NI, or of a peer NI.
Scenario::Deed Scenario::expect_health(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Nid nid = fields.nid("nid");
  const Range wanted = range(fields);
  return [=, this] {
    expect(line, fmt::format("health of {} for {}", nid.to_string(), at->spec().name), wanted,
           look_at(*at, nid).health);
  };
}

// By an own NI, or to a peer NI.
Scenario::Deed Scenario::expect_sent(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Nid nid = fields.nid("nid");
  const std::string type = fields.text("type", "put");
  const Range wanted = range(fields);
  static const std::map<std::string, uint64_t TypeCounts::*> kTypes = {
      {"put", &TypeCounts::put},
      {"get", &TypeCounts::get},
      {"reply", &TypeCounts::reply},
      {"ack", &TypeCounts::ack}};
  const auto member = kTypes.find(type);
  if (member == kTypes.end()) {
    fields.error(fmt::format("type: '{}' is no type of message", type));
    return {};
  }
  return [=, this, of = member->second] {
    expect(line, fmt::format("{} messages of {} by {}", type, at->spec().name, nid.to_string()),
           wanted, static_cast<int64_t>(look_at(*at, nid).sent.*of));
  };
}

// Recovery pings since it was last heard.
Scenario::Deed Scenario::expect_pings(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Nid nid = fields.nid("nid");
  const Range wanted = range(fields);
  return [=, this] {
    expect(line, fmt::format("pings of {} since something came from it", nid.to_string()), wanted,
           look_at(*at, nid).pings);
  };
}

// NIs whose next recovery ping is planned.
Scenario::Deed Scenario::expect_recovering(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Range wanted = range(fields);
  return [=, this] {
    int64_t planned = 0;
    for (const NetInfo& net : at->core().nets()) {
      for (const NiInfo& ni : net.nis) planned += ni.next_ping_s != 0 ? 1 : 0;
    }
    for (const PeerInfo& peer : at->core().peers()) {
      for (const PeerNiInfo& ni : peer.nis) planned += ni.next_ping_s != 0 ? 1 : 0;
    }
    expect(line, "NIs that " + at->spec().name + " means to ping", wanted, planned);
  };
}

// The peer that has NID `peer`, as the node sees it.
Scenario::Deed Scenario::expect_nids(Fields& fields) {
  const int line = fields.line();
  Node* at = node(fields);
  const Nid nid = fields.nid("peer");
  const std::vector<std::string> wanted = fields.list("nids");
  return [=, this] {
    std::vector<std::string> found;
    for (const PeerInfo& peer : at->core().peers()) {
      const bool is_it = std::any_of(peer.nis.begin(), peer.nis.end(),
                                     [&nid](const PeerNiInfo& ni) { return ni.nid == nid; });
      if (!is_it) continue;
      for (const PeerNiInfo& ni : peer.nis) found.push_back(ni.nid.to_string());
    }
    if (found == wanted) return;
    violations_.add(cluster_.now(), fmt::format("line {}: {} sees peer {} with [{}], not [{}]",
                                                line, at->spec().name, nid.to_string(),
                                                fmt::join(found, ", "), fmt::join(wanted, ", ")));
  };
}

// Requests of the RPC clients in each stretch of `bin` seconds between `from` and `to`, counted
// from when they began, in requests per second.
Scenario::Deed Scenario::expect_rate(Fields& fields) {
  const int line = fields.line();
  const auto from = static_cast<size_t>(fields.number("from"));
  const auto to = static_cast<size_t>(fields.number("to"));
  const auto bin = static_cast<size_t>(fields.number("bin", 10));
  const Range wanted = range(fields);
  if (bin == 0 || to < from + bin) fields.error("'to' must be above 'from' by a 'bin' or more");
  return [=, this] {
    const std::vector<RpcSecond>& series = rpc_->series();
    for (size_t at = from; at + bin <= to; at += bin) {
      int64_t requests = 0;
      for (size_t second = at; second < at + bin && second < series.size(); ++second)
        requests += series[second].requests;
      expect(line, fmt::format("requests per second from {} s to {} s", at, at + bin), wanted,
             requests / static_cast<int64_t>(bin));
    }
  };
}

Scenario::Deed Scenario::expect_rules(Fields& fields) {
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

Scenario::Deed Scenario::expect_rest(Fields&) {
  return [this] {
    for (size_t i = 0; i < cluster_.size(); ++i)
      check_at_rest(cluster_, cluster_.node(i), violations_);
  };
}

}  // namespace ulnet::sim
