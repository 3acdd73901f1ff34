#include "daemon/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "config/nearest.h"
#include "daemon/fault_commands.h"
#include "lnet/base/integer_text.h"
#include "ulnet/global_fields.h"

namespace ulnet::daemon {
namespace {

// The arguments of one request, each read once; finish() complains about what nobody asked for.
class Args {
 public:
  explicit Args(const Json& json) : json_(json) {}

  std::string text(const char* key) {
    const Json* value = take(key);
    if (value == nullptr) return {};
    if (!value->is_string()) return invalid(key, "a string"), std::string();
    return value->get<std::string>();
  }
  int64_t number(const char* key, int64_t low, int64_t high, int64_t otherwise) {
    const Json* value = take(key);
    if (value == nullptr) return otherwise;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX);
    const int64_t number = fits ? value->get<int64_t>() : 0;
    if (!fits || number < low || number > high) {
      return invalid(key, fmt::format("a number from {} to {}", low, high)), otherwise;
    }
    return number;
  }
  std::vector<std::string> texts(const char* key, size_t count_max) {
    const Json* value = take(key);
    std::vector<std::string> result;
    const bool list = value != nullptr && value->is_array() && !value->empty() &&
                      value->size() <= count_max &&
                      std::all_of(value->begin(), value->end(),
                                  [](const Json& item) { return item.is_string(); });
    if (!list) return invalid(key, fmt::format("a list of 1 to {} strings", count_max)), result;
    for (const Json& item : *value) result.push_back(item.get<std::string>());
    return result;
  }
  bool flag(const char* key) {
    const Json* value = take(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return invalid(key, "true or false"), false;
    return value->get<bool>();
  }
  // Nothing when it is not given. `or_default`: the word "default" is allowed, too, and counts as
  // kInheritSensitivity.
  std::optional<int32_t> setting(const char* key, int64_t low, int64_t high,
                                 bool or_default = false) {
    const Json* value = take(key);
    if (value == nullptr) return std::nullopt;
    if (or_default && *value == "default") return kInheritSensitivity;
    const Result<int64_t> read = integer_of(*value, key, low, high);
    if (read) return static_cast<int32_t>(*read);
    if (fault_.is_ok()) fault_ = read.error();
    return std::nullopt;
  }
  // A number, or a text that spells one. Errors: EINVAL naming `name`, its range and the value.
  static Result<int64_t> integer_of(const Json& value, std::string_view name, int64_t low,
                                    int64_t high) {
    int64_t number = 0;
    const std::string written = value.is_string() ? value.get<std::string>() : value.dump();
    if (parse_integer(written, &number) && number >= low && number <= high) return number;
    return fail(EINVAL, fmt::format("{} must be {}, not {}", name, range_text(low, high),
                                    value.is_string() ? "'" + written + "'" : written));
  }
  const Json* any(const char* key) { return take(key); }
  bool has(const char* key) { return take(key) != nullptr; }
  std::optional<NetId> net(const char* key) {
    const std::string word = text(key);
    if (word.empty()) return std::nullopt;
    const Result<NetId> parsed = NetId::parse(word);
    if (parsed) return *parsed;
    if (fault_.is_ok()) fault_ = parsed.error();
    return std::nullopt;
  }
  // Empty when left out.
  std::vector<Nid> nids(const char* key, size_t count_max) {
    std::vector<Nid> result;
    if (!json_.contains(key)) return known_.emplace_back(key), result;
    for (const std::string& word : texts(key, count_max)) {
      const Result<Nid> parsed = Nid::parse(word);
      if (parsed) {
        result.push_back(*parsed);
      } else if (fault_.is_ok()) {
        fault_ = Status(EINVAL, fmt::format("argument '{}': {}", key, parsed.error().text()));
      }
    }
    return result;
  }
  std::optional<Nid> nid(const char* key) {
    const std::string word = text(key);
    if (word.empty()) return std::nullopt;
    const Result<Nid> parsed = Nid::parse(word);
    if (parsed) return *parsed;
    if (fault_.is_ok())
      fault_ = Status(EINVAL, fmt::format("argument '{}': {}", key, parsed.error().text()));
    return std::nullopt;
  }

  // The first fault, or an argument that is not known.
  Status finish() const {
    if (!fault_.is_ok()) return fault_;
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        return Status(
            EINVAL,
            fmt::format("unknown argument '{}'; known are: {}", key,
                        known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
      }
    }
    return Status::ok();
  }

 private:
  const Json* take(const char* key) {
    known_.emplace_back(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void invalid(const char* key, const std::string& wanted) {
    if (fault_.is_ok())
      fault_ = Status(EINVAL, fmt::format("argument '{}' must be {}", key, wanted));
  }

  const Json& json_;
  std::vector<std::string> known_;
  Status fault_;
};

config::ShowOptions show_options(Args& args) {
  const auto level = static_cast<int>(args.number("level", 0, config::kShowLevelMax, 0));
  return {.level = level, .own_keys = level == config::kShowLevelMax};
}

constexpr int64_t kHealthMax = 1000;
constexpr int64_t kLndTimeoutMax = find_global_field("transaction_timeout")->high;

Reply done_or_fault(const Status& status) {
  if (!status.is_ok()) return Failure(status);
  return Json::object();
}

// What `net add` and `net del` name.
struct NamedNis {
  std::optional<NetId> net;
  std::optional<Nid> nid;
  std::vector<std::string> interfaces;
};

NamedNis named_nis(Args& args) {
  NamedNis named;
  named.net = args.net("net");
  named.nid = args.nid("nid");
  if (args.has("interfaces")) named.interfaces = args.texts("interfaces", kInterfacesMax);
  return named;
}

// All but where they are.
NiSettings ni_settings(Args& args) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  NiSettings ni;
  const auto read = [&args](const char* key, int32_t* into, int64_t low, int64_t high) {
    *into = static_cast<int32_t>(args.number(key, low, high, *into));
  };
  read("peer_timeout", &ni.tunables.peer_timeout_s, -1, kMax);
  read("peer_credits", &ni.tunables.peer_credits, 1, kMax);
  read("peer_buffer_credits", &ni.tunables.peer_buffer_credits, 0, kMax);
  read("credits", &ni.tunables.credits, 1, kMax);
  read("conns_per_peer", &ni.tcp.conns_per_peer, 0, 127);
  read("tos", &ni.tcp.tos, -1, 255);
  ni.tcp.timeout_s = 0;  // derived
  ni.cpt = args.text("cpt");
  return ni;
}

// `Found`: PingResult or PeerInfo.
template <typename Found>
Json pong_or_error(const std::string& nid, const Result<Found>& result) {
  if (result) return {{"nid", nid}, {"pong", config::show_ping(*result)}};
  const Status& status = result.error();
  return {
      {"nid", nid},
      {"error",
       {{"errno", status.code()}, {"name", errno_name(status.code())}, {"text", status.text()}}}};
}

Json show_path(const Nid& nid, const PathCheckReport& report) {
  Json sizes = Json::array();
  Json largest = "none";
  for (const PathCheckSize& size : report.sizes) {
    Json entry = {{"bytes", size.bytes},
                  {"result", size.status.is_ok() ? "passed" : errno_name(size.status.code())},
                  {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(size.took).count()}};
    if (size.status.is_ok()) {
      largest = size.bytes;
    } else {
      entry["reason"] = size.status.text();
    }
    sizes.push_back(std::move(entry));
  }
  const ConnectionInfo& connection = report.connection;
  Json path = {{"nid", nid.to_string()},
               {"source", report.source.to_string()},
               {"connection", connection.local + " - " + connection.remote},
               {"path_mtu", connection.path_mtu},
               {"mss", connection.mss},
               {"sizes", std::move(sizes)},
               {"largest", largest}};
  // Small ones have passed, and this one needs segments as large as TCP makes them.
  if (!report.passed() && report.sizes.size() > 1) {
    path["advice"] = fmt::format(
        "compare the MTU of each hop with path_mtu {}; a hop with less must be able to tell by "
        "ICMP",
        connection.path_mtu);
  }
  return path;
}

// The pings or discoveries of one request; the last one to end answers.
class PingBatch {
 public:
  PingBatch(std::vector<std::string> nids, Commands::Done done)
      : nids_(std::move(nids)),
        results_(nids_.size()),
        left_(nids_.size()),
        done_(std::move(done)) {}

  template <typename Found>
  void finish(size_t index, const Result<Found>& result) {
    Json entry = pong_or_error(nids_[index], result);
    {
      const std::lock_guard lock(mutex_);
      results_[index] = std::move(entry);
      if (--left_ > 0) return;
    }
    done_(Json{{"results", Json(std::move(results_))}});
  }

 private:
  const std::vector<std::string> nids_;
  std::mutex mutex_;
  std::vector<Json> results_;  // guarded by mutex_, as is left_
  size_t left_;
  const Commands::Done done_;
};

}  // namespace

struct Commands::Row {
  std::string_view name;
  bool changes = false;
  Reply (Commands::*answer)(const Json&) = nullptr;
  void (Commands::*answer_later)(const Json&, Done) = nullptr;  // one of the two
};

const Commands::Row* Commands::find(std::string_view command) {
  constexpr FaultKind kDrop = FaultKind::kDrop;
  constexpr FaultKind kDelay = FaultKind::kDelay;
  static constexpr auto kRows = std::to_array<Row>({
      {"net show", false, &Commands::show_nets},
      {"net add", true, &Commands::add_nis},
      {"net del", true, &Commands::del_nis},
      {"net set", true, &Commands::set_nis},
      {"peer show", false, &Commands::show_peers},
      {"peer list", false, &Commands::list_peers},
      {"peer add", true, &Commands::add_peer},
      {"peer del", true, &Commands::delete_peer},
      {"peer set", true, &Commands::set_peers},
      {"stats show", false, &Commands::show_statistics},
      {"stats reset", true, &Commands::reset_statistics},
      {"global show", false, &Commands::show_global},
      {"set", true, &Commands::set_global},
      {"version", false, &Commands::version},
      {"ping", false, nullptr, &Commands::ping},
      {"discover", false, nullptr, &Commands::discover},
      {"check path", true, nullptr, &Commands::check_path},
      {"fault drop add", true, &Commands::fault<add_fault, kDrop>},
      {"fault drop del", true, &Commands::fault<del_faults, kDrop>},
      {"fault drop reset", true, &Commands::fault<reset_faults, kDrop>},
      {"fault drop show", false, &Commands::fault<show_faults, kDrop>},
      {"fault delay add", true, &Commands::fault<add_fault, kDelay>},
      {"fault delay del", true, &Commands::fault<del_faults, kDelay>},
      {"fault delay reset", true, &Commands::fault<reset_faults, kDelay>},
      {"fault delay show", false, &Commands::fault<show_faults, kDelay>},
  });
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == command; });
  return row == kRows.end() ? nullptr : &*row;
}

bool Commands::is_change(std::string_view command) {
  const Row* row = find(command);
  return row != nullptr && row->changes;
}

void Commands::execute(const Request& request, Done done) {
  const Row* row = find(request.command);
  if (row == nullptr) {
    done(fail(ENOSYS, fmt::format("unknown command '{}'", request.command)));
  } else if (row->answer_later != nullptr) {
    (this->*row->answer_later)(request.args, std::move(done));
  } else {
    done((this->*row->answer)(request.args));
  }
}

Reply Commands::show_nets(const Json& json) {
  Args args(json);
  const std::string name = args.text("net");
  const config::ShowOptions options = show_options(args);
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  std::vector<NetInfo> nets = node_.nets();
  if (!name.empty()) {
    const Result<NetId> net = NetId::parse(name);
    if (!net) return Failure(net.error());
    std::erase_if(nets, [&](const NetInfo& info) { return info.net != *net; });
    if (nets.empty())
      return fail(ESRCH, fmt::format("Network is down: no net {} on this node", net->to_string()));
  }
  return config::show_nets(nets, options);
}

Reply Commands::add_nis(const Json& json) {
  Args args(json);
  NamedNis named = named_nis(args);
  NiSettings ni = ni_settings(args);
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if (!named.nid && (!named.net || named.interfaces.empty()))
    return fail(EINVAL, "interface / NID is missing");
  if (named.nid && named.net && named.nid->net() != *named.net) {
    return fail(EINVAL, fmt::format("NID {} is not on net {}", named.nid->to_string(),
                                    named.net->to_string()));
  }
  ni.nid = named.nid;
  ni.net = named.nid ? named.nid->net() : *named.net;
  if (named.interfaces.empty()) named.interfaces.emplace_back();  // by its NID alone
  std::vector<Nid> added;
  for (const std::string& interface : named.interfaces) {
    ni.interface = interface;
    const Result<Nid> nid = node_.add_ni(ni);
    if (nid) {
      added.push_back(*nid);
      continue;
    }
    for (const Nid& each : added) (void)node_.del_ni(each);
    return Failure(nid.error());
  }
  Json nids = Json::array();
  for (const Nid& nid : added) nids.push_back(nid.to_string());
  return Json{{"nids", std::move(nids)}};
}

Reply Commands::del_nis(const Json& json) {
  Args args(json);
  NamedNis named = named_nis(args);
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if (named.nid.has_value() == named.net.has_value())
    return fail(EINVAL, "a net or a NID must be given");
  if (named.interfaces.empty()) named.interfaces.emplace_back();  // the whole net
  Status status;
  if (named.nid) {
    status = node_.del_ni(*named.nid);
  } else {
    for (const std::string& interface : named.interfaces) {
      if (status = node_.del_net(*named.net, interface); !status.is_ok()) break;
    }
  }
  if (!status.is_ok()) return Failure(status);
  return Json::object();
}

Reply Commands::show_peers(const Json& json) {
  Args args(json);
  const std::optional<Nid> nid = args.nid("nid");
  const config::ShowOptions options = show_options(args);
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  std::vector<PeerInfo> peers = node_.peers();
  if (nid) {
    std::erase_if(peers, [&](const PeerInfo& peer) {
      return peer.primary_nid != *nid &&
             std::none_of(peer.nis.begin(), peer.nis.end(),
                          [&](const PeerNiInfo& ni) { return ni.nid == *nid; });
    });
  }
  return config::show_peers(peers, options);
}

Reply Commands::list_peers(const Json& json) {
  if (const Status status = Args(json).finish(); !status.is_ok()) return Failure(status);
  return config::list_peers(node_.peers());
}

Reply Commands::show_statistics(const Json& json) {
  Args args(json);
  const config::ShowOptions options = show_options(args);
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  return config::show_statistics(node_.statistics(), options.own_keys);
}

Reply Commands::reset_statistics(const Json& json) {
  if (const Status status = Args(json).finish(); !status.is_ok()) return Failure(status);
  node_.reset_statistics();
  return Json::object();
}

Reply Commands::show_global(const Json& json) {
  if (const Status status = Args(json).finish(); !status.is_ok()) return Failure(status);
  return config::show_global(node_.global(), node_.nets());
}

Reply Commands::set_global(const Json& json) {
  Args args(json);
  const std::string name = args.text("name");
  const Json* value = args.any("value");
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  const GlobalField* field = find_global_field(name);
  if (field == nullptr) {
    std::vector<std::string_view> known;
    for (const GlobalField& each : kGlobalFields) known.push_back(each.name);
    return fail(ENOENT, fmt::format("there is no setting '{}'{}; known are: {}", name,
                                    config::suggestion(name, known), fmt::join(known, ", ")));
  }
  if (value == nullptr) return fail(EINVAL, fmt::format("no value for {} is given", name));
  const Result<int64_t> number = Args::integer_of(*value, name, field->low, field->high);
  if (!number) return Failure(number.error());
  return done_or_fault(node_.set_global(name, *number));
}

Reply Commands::set_nis(const Json& json) {
  Args args(json);
  const std::optional<Nid> nid = args.nid("nid");
  const std::string net_name = args.text("net");
  const bool all = args.flag("all");
  const NiChange change{
      .health = args.setting("health", 0, kHealthMax),
      .health_sensitivity = args.setting("health_sensitivity", 0, kHealthMax, true),
      .lnd_timeout_s = args.setting("lnd_timeout", 0, kLndTimeoutMax)};
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if ((nid ? 1 : 0) + (net_name.empty() ? 0 : 1) + (all ? 1 : 0) != 1)
    return fail(EINVAL, "exactly one of nid, net and all must be given");
  if (!change.health && !change.health_sensitivity && !change.lnd_timeout_s)
    return fail(EINVAL, "nothing to set: health, health_sensitivity or lnd_timeout must be given");
  NiSelection which{.nid = nid, .net = std::nullopt};
  if (!net_name.empty()) {
    const Result<NetId> net = NetId::parse(net_name);
    if (!net) return Failure(net.error());
    which.net = *net;
  }
  return done_or_fault(node_.change_nis(which, change));
}

Reply Commands::set_peers(const Json& json) {
  Args args(json);
  const std::optional<Nid> nid = args.nid("nid");
  const bool all = args.flag("all");
  const PeerChange change{
      .health = args.setting("health", 0, kHealthMax),
      .health_sensitivity = args.setting("health_sensitivity", 0, kHealthMax, true)};
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if (nid.has_value() == all) return fail(EINVAL, "exactly one of nid and all must be given");
  if (!change.health && !change.health_sensitivity)
    return fail(EINVAL, "nothing to set: health or health_sensitivity must be given");
  return done_or_fault(node_.change_peers(nid, change));
}

// As lnetctl: without a primary NID the first of the others is it.
Reply Commands::add_peer(const Json& json) {
  Args args(json);
  const std::optional<Nid> primary = args.nid("primary");
  PeerSettings peer;
  peer.nids = args.nids("nids", kPeerNidsMax);
  peer.multi_rail = !args.flag("non_mr");
  peer.lock_primary = args.flag("lock_primary");
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if (!primary && peer.nids.empty()) return fail(EINVAL, "no NID of the peer is given");
  peer.primary_nid = primary ? *primary : peer.nids.front();
  return done_or_fault(node_.configure_peer(peer));
}

Reply Commands::delete_peer(const Json& json) {
  Args args(json);
  const std::optional<Nid> primary = args.nid("primary");
  const std::vector<Nid> nids = args.nids("nids", kPeerNidsMax);
  const bool force = args.flag("force");
  if (const Status status = args.finish(); !status.is_ok()) return Failure(status);
  if (!primary && nids.empty()) return fail(EINVAL, "no NID of the peer is given");
  if (primary) return done_or_fault(node_.delete_peer(*primary, nids, force));
  for (const PeerInfo& peer : node_.peers()) {
    const auto is_first = [&](const PeerNiInfo& ni) { return ni.nid == nids.front(); };
    if (std::any_of(peer.nis.begin(), peer.nis.end(), is_first))
      return done_or_fault(node_.delete_peer(peer.primary_nid, nids, force));
  }
  return fail(ENOENT, fmt::format("no peer has {}", nids.front().to_string()));
}

Reply Commands::version(const Json& json) {
  if (const Status status = Args(json).finish(); !status.is_ok()) return Failure(status);
  Json nids = Json::array();
  for (const NetInfo& net : node_.nets()) {
    for (const NiInfo& ni : net.nis) nids.push_back(ni.nid.to_string());
  }
  return Json{{"version", ULNET_VERSION}, {"nids", std::move(nids)}};
}

void Commands::ping(const Json& json, Done done) {
  Args args(json);
  const std::vector<std::string> words = args.texts("nids", kPingNidsMax);
  const std::vector<Nid> nids = args.nids("nids", kPingNidsMax);
  const std::optional<Nid> source = args.nid("source");
  const int64_t timeout_ms = args.number("timeout_ms", 1, kPingTimeoutMsMax, 1000);
  if (const Status status = args.finish(); !status.is_ok()) return done(Failure(status));
  if (const Status status = begin_pings(nids.size()); !status.is_ok()) return done(Failure(status));
  const auto batch = std::make_shared<PingBatch>(words, std::move(done));
  for (size_t i = 0; i < nids.size(); ++i) {
    const PingArgs ping{.nid = nids[i],
                        .source = source.value_or(Nid::any()),
                        .timeout = std::chrono::milliseconds(timeout_ms)};
    node_.ping(ping, [this, batch, i](const Result<PingResult>& result) {
      pings_in_flight_.fetch_sub(1);
      batch->finish(i, result);
    });
  }
}

void Commands::discover(const Json& json, Done done) {
  Args args(json);
  const std::vector<std::string> words = args.texts("nids", kPingNidsMax);
  const std::vector<Nid> nids = args.nids("nids", kPingNidsMax);
  const bool force = args.flag("force");
  if (const Status status = args.finish(); !status.is_ok()) return done(Failure(status));
  if (const Status status = begin_pings(nids.size()); !status.is_ok()) return done(Failure(status));
  const auto batch = std::make_shared<PingBatch>(words, std::move(done));
  for (size_t i = 0; i < nids.size(); ++i) {
    node_.discover({.nid = nids[i], .force = force},
                   [this, batch, i](const Result<PeerInfo>& result) {
                     pings_in_flight_.fetch_sub(1);
                     batch->finish(i, result);
                   });
  }
}

void Commands::check_path(const Json& json, Done done) {
  Args args(json);
  const std::optional<Nid> nid = args.nid("nid");
  const std::optional<Nid> source = args.nid("source");
  if (const Status status = args.finish(); !status.is_ok()) return done(Failure(status));
  if (!nid) return done(fail(EINVAL, "no NID is given"));
  node_.check_path({.nid = *nid, .source = source.value_or(Nid::any())},
                   [nid = *nid, done = std::move(done)](const Result<PathCheckReport>& report) {
                     if (!report) return done(Failure(report.error()));
                     done(Json{{"path", show_path(nid, *report)}});
                   });
}

Status Commands::begin_pings(size_t count) {
  if (pings_in_flight_.fetch_add(count) + count <= kPingsInFlightMax) return Status::ok();
  pings_in_flight_.fetch_sub(count);
  return {EBUSY, fmt::format("more than {} pings are under way", kPingsInFlightMax)};
}

}  // namespace ulnet::daemon
