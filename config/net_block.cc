#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <vector>

#include "config/blocks.h"
#include "lnet/wire/nid.h"

namespace ulnet::config {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr size_t kInterfaceNameBytesMax = 15;   // IFNAMSIZ less its terminator
constexpr size_t kCongestionNameBytesMax = 15;  // TCP_CA_NAME_MAX less its terminator
constexpr int64_t kHealthMax = 1000;
constexpr uint32_t kCptMax = 1023;
constexpr size_t kNisMax = 1024;

bool has_driver(NetType type) {
  return type == NetType::kTcp;
}

// Why the kernel can have no device or address label of this name; empty when it can.
std::string interface_name_fault(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name.size() > kInterfaceNameBytesMax) {
    return fmt::format("is {} bytes long; Linux allows {}", name.size(), kInterfaceNameBytesMax);
  }
  if (name == "." || name == "..") return "is no device name";
  for (const char c : name) {
    if (c == '/') return "contains '/'";
    if (std::isspace(static_cast<unsigned char>(c)) != 0) return "contains a blank";
  }
  return {};
}

struct NamedInterface {
  std::string name;
  Place place;
};

// One element of `local NI(s)`: several NIs when it lists several interfaces.
class NiReader {
 public:
  NiReader(LoadContext& context, NetId net)
      : context_(context), report_(context.report), net_(net) {
    ni_.net = net;
  }

  // `old_layout`: a file of 2014, where the keys of the NI stand directly under the net.
  void read(const YamlNode& map, bool old_layout) {
    place_ = map.place;
    const Reader skip = context_.skip();
    const std::string what = old_layout ? fmt::format("net '{}'", net_.to_string())
                                        : fmt::format("a local NI of net '{}'", net_.to_string());
    std::vector<Field> fields = {
        {"nid", [this](const YamlEntry& e) { read_nid(e); }},
        {"interfaces", [this](const YamlEntry& e) { read_interfaces(*e.value); }},
        {"tunables", [this](const YamlEntry& e) { read_tunables(*e.value); }},
        {"lnd tunables", [this](const YamlEntry& e) { read_lnd_tunables(*e.value); }},
        {"CPT", [this](const YamlEntry& e) { read_cpt(e); }},
        {"health_sensitivity", integer(report_, &ni_.health_sensitivity, 0, kHealthMax)},
        {"status", skip},
        {"statistics", skip},
        {"udsp info", skip},
        {"sent_stats", skip},
        {"received_stats", skip},
        {"dropped_stats", skip},
        {"health stats", skip},
        {"dev cpt", skip},
        {"tcp bonding", skip},
        {"ulnet", skip}};
    if (old_layout) {
      fields.push_back({"net type", [](const YamlEntry&) {}});
      fields.push_back({"net", [](const YamlEntry&) {}});
    }
    read_map(report_, map, what, fields);
    finish();
  }

 private:
  void read_nid(const YamlEntry& entry) {
    nid_place_ = entry.value->place;
    nid_given_ = true;
    if (!entry.value->is_scalar()) {
      report_.error(nid_place_, fmt::format("'nid' must be a NID such as 10.0.0.1@{}, not {}",
                                            net_.to_string(), describe(*entry.value)));
      return;
    }
    const Result<Nid> nid = Nid::parse(entry.value->text);
    if (!nid) {
      report_.error(nid_place_, nid.error().text());
    } else if (nid->is_any() || nid->net() != net_) {
      report_.error(nid_place_, fmt::format("'nid' {} is not on net '{}'; write ADDRESS@{}",
                                            entry.value->text, net_.to_string(), net_.to_string()));
    } else {
      ni_.nid = *nid;
    }
  }

  void read_interfaces(const YamlNode& value) {
    interfaces_given_ = true;
    if (value.is_map()) {
      std::set<std::string_view> seen;
      for (const YamlEntry& entry : value.entries) {
        int64_t index = 0;
        const YamlNode key{.kind = YamlNode::Kind::kScalar,
                           .place = entry.place,
                           .text = entry.key,
                           .items = {},
                           .entries = {}};
        if (!read_integer(report_, "interfaces", key, 0, kIntMax, &index)) continue;
        if (!seen.insert(entry.key).second) {
          report_.error(entry.place,
                        fmt::format("number {} is given twice in 'interfaces'", entry.key));
        }
        add_interface(*entry.value);
      }
    } else if (value.is_list()) {
      report_.warn(value.place, "'interfaces' is a list; lnetctl wants a map such as '0: eth0'");
      for (const YamlPtr& item : value.items) add_interface(*item);
    } else if (value.is_scalar()) {
      report_.warn(
          value.place,
          fmt::format("'interfaces' is one word; lnetctl wants a map: '0: {}'", value.text));
      add_interface(value);
    } else {
      report_.error(value.place, "'interfaces' is empty; write a map such as '0: eth0'");
    }
  }

  void add_interface(const YamlNode& value) {
    const std::string fault = value.is_scalar() ? interface_name_fault(value.text) : "is no name";
    if (!fault.empty()) {
      report_.error(value.place, fmt::format("interface {} {}", describe(value), fault));
      return;
    }
    interfaces_.push_back({value.text, value.place});
  }

  void read_tunables(const YamlNode& value) {
    NetTunables& t = ni_.tunables;
    read_map(report_, value, "'tunables'",
             {{"peer_timeout", integer(report_, &t.peer_timeout_s, -1, kIntMax)},
              {"peer_credits", integer(report_, &t.peer_credits, 1, kIntMax)},
              {"peer_buffer_credits", integer(report_, &t.peer_buffer_credits, 0, kIntMax)},
              {"credits", integer(report_, &t.credits, 1, kIntMax)},
              {"health_sensitivity", integer(report_, &t.health_sensitivity, 0, kHealthMax)}});
    if (t.peer_credits > t.credits) {
      report_.warn(value.place,
                   fmt::format("'peer_credits' {} is above 'credits' {}; it counts as {}",
                               t.peer_credits, t.credits, t.credits));
      t.peer_credits = t.credits;
    }
  }

  void read_lnd_tunables(const YamlNode& value) {
    if (net_.type == NetType::kTcp) return read_tcp_tunables(value);
    if (net_.type != NetType::kO2ib) return;
    // Known to the InfiniBand driver; read when there is one.
    const Reader later = [](const YamlEntry&) {};
    read_map(report_, value, "'lnd tunables' of an o2ib NI",
             {{"peercredits_hiw", later},
              {"concurrent_sends", later},
              {"map_on_demand", later},
              {"fmr_pool_size", later},
              {"fmr_flush_trigger", later},
              {"fmr_cache", later},
              {"ntx", later},
              {"conns_per_peer", later},
              {"timeout", later},
              {"tos", later}});
  }

  void read_tcp_tunables(const YamlNode& value) {
    constexpr int64_t kBufferBytesMax = 1 << 30;
    constexpr int64_t kReconnectMsMax = 3'600'000;
    constexpr int64_t kKeepaliveSecondsMax = 32767;  // TCP_KEEPIDLE and TCP_KEEPINTVL
    constexpr int64_t kKeepaliveCountMax = 127;      // TCP_KEEPCNT
    TcpTunables& t = ni_.tcp;
    const Reader timeout = integer(report_, &t.timeout_s, 0, kIntMax);
    read_map(report_, value, "'lnd tunables' of a tcp NI",
             {{"conns_per_peer", integer(report_, &t.conns_per_peer, 0, 127)},
              {"timeout",
               [this, timeout](const YamlEntry& e) {
                 timeout(e);
                 timeout_place_ = e.value->place;
               }},
              {"tos", integer(report_, &t.tos, -1, 255)},
              {"tx_buffer_size", integer(report_, &t.tx_buffer_bytes, 0, kBufferBytesMax)},
              {"rx_buffer_size", integer(report_, &t.rx_buffer_bytes, 0, kBufferBytesMax)},
              {"min_bulk", integer(report_, &t.min_bulk_bytes, 0, kBufferBytesMax)},
              {"min_reconnectms", integer(report_, &t.min_reconnect_ms, 1, kReconnectMsMax)},
              {"max_reconnectms", integer(report_, &t.max_reconnect_ms, 1, kReconnectMsMax)},
              {"keepalive", integer(report_, &t.keepalive_s, -1, kIntMax)},
              {"keepalive_idle", integer(report_, &t.keepalive_idle_s, -1, kKeepaliveSecondsMax)},
              {"keepalive_intvl", integer(report_, &t.keepalive_intvl_s, -1, kKeepaliveSecondsMax)},
              {"keepalive_count", integer(report_, &t.keepalive_count, -1, kKeepaliveCountMax)},
              {"nagle", flag(report_, &t.nagle)},
              {"enable_csum", flag(report_, &t.enable_csum)},
              {"accept_foreign_address", flag(report_, &t.accept_foreign_address)},
              {"tcp_congestion", text(report_, &t.tcp_congestion, kCongestionNameBytesMax)}});
    if (t.max_reconnect_ms < t.min_reconnect_ms) {
      report_.error(value.place, fmt::format("'max_reconnectms' {} is below 'min_reconnectms' {}",
                                             t.max_reconnect_ms, t.min_reconnect_ms));
    }
  }

  // "[0,1]" as text, or the YAML list that it is without the quotes.
  void read_cpt(const YamlEntry& entry) {
    std::string written = entry.value->text;
    if (entry.value->is_list()) {
      std::vector<std::string_view> numbers;
      for (const YamlPtr& item : entry.value->items) numbers.push_back(item->text);
      written = fmt::format("[{}]", fmt::join(numbers, ","));
    }
    if (const auto set = parse_number_set(written, 0, kCptMax); !set) {
      report_.error(entry.value->place,
                    fmt::format("'CPT' must be a list such as \"[0,1]\": {}", set.error().text()));
      return;
    }
    ni_.cpt = written;
    if (!context_.first_without_effect) context_.first_without_effect = entry;
  }

  void finish() {
    if (!has_driver(net_.type)) return;  // told already, for the net
    if (!nid_given_ && !interfaces_given_) {
      report_.error(
          place_,
          fmt::format(
              "a local NI of net '{}' has neither 'interfaces' nor 'nid'; none is chosen for you",
              net_.to_string()));
    } else if (nid_given_ && interfaces_.size() > 1) {
      report_.error(
          nid_place_,
          fmt::format("one 'nid' and {} interfaces: each interface is a NI with a NID of its own; "
                      "write one entry for each",
                      interfaces_.size()));
    } else if (interfaces_.empty()) {
      if (ni_.nid) add_ni("", nid_place_);
    } else {
      for (const NamedInterface& interface : interfaces_) add_ni(interface.name, interface.place);
    }
  }

  void add_ni(const std::string& interface, Place place) {
    if (context_.settings.nis.size() == kNisMax) {
      if (!context_.too_many_nis)
        report_.error(place, fmt::format("more than {} local NIs", kNisMax));
      context_.too_many_nis = true;
      return;
    }
    ni_.interface = interface;
    ni_.where = report_.where(place);
    for (const NiSettings& other : context_.settings.nis) {
      if (other.net != net_) continue;
      if (other.interface == interface && other.nid == ni_.nid) {
        report_.error(place,
                      fmt::format("{} is given twice on net '{}', first at {}",
                                  interface.empty() ? fmt::format("nid {}", ni_.nid->to_string())
                                                    : fmt::format("interface '{}'", interface),
                                  net_.to_string(), other.where));
        return;
      }
    }
    check_first_of_net(place);
    if (timeout_place_.line > 0)
      context_.lnd_timeouts.push_back({context_.settings.nis.size(), timeout_place_});
    context_.settings.nis.push_back(ni_);
  }

  void check_first_of_net(Place place) {
    const auto& nis = context_.settings.nis;
    const auto first =
        std::find_if(nis.begin(), nis.end(), [this](const NiSettings& n) { return n.net == net_; });
    if (first != nis.end() && first->tunables != ni_.tunables) {
      report_.warn(
          place, fmt::format("'tunables' differ from those at {}, which count for all of net '{}'",
                             first->where, net_.to_string()));
    }
  }

  LoadContext& context_;
  Report& report_;
  const NetId net_;
  NiSettings ni_;
  Place place_;
  Place nid_place_;
  Place timeout_place_;
  bool nid_given_ = false;
  bool interfaces_given_ = false;
  std::vector<NamedInterface> interfaces_;
};

const YamlEntry* find_entry(const YamlNode& map, std::string_view key) {
  for (const YamlEntry& entry : map.entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

// The net that an element of `net:` is about, with what is wrong with it reported.
std::optional<NetId> read_net_type(LoadContext& context, const YamlNode& element) {
  Report& report = context.report;
  const YamlEntry* type = find_entry(element, "net type");
  if (type == nullptr) type = find_entry(element, "net");
  if (type == nullptr) {
    report.error(element.place, "an element of 'net' has no 'net type'");
    return std::nullopt;
  }
  const Result<NetId> net =
      type->value->is_scalar()
          ? NetId::parse(type->value->text)
          : fail(EINVAL, fmt::format("'net type' must be a net such as tcp or tcp1, not {}",
                                     describe(*type->value)));
  if (!net) {
    report.error(type->value->place, net.error().text());
    return std::nullopt;
  }
  if (net->type != NetType::kLo && !has_driver(net->type)) {
    report.error(
        type->value->place,
        fmt::format(
            "net '{}' cannot be brought up: there is no driver for type '{}' yet; tcp has one",
            type->value->text, net_type_name(net->type)));
  }
  return *net;
}

void read_net(LoadContext& context, const YamlNode& element) {
  Report& report = context.report;
  if (!element.is_map()) {
    report.error(
        element.place,
        fmt::format("an element of 'net' must be a map that begins with 'net type', not {}",
                    describe(element)));
    return;
  }
  const std::optional<NetId> net = read_net_type(context, element);
  if (!net || net->type == NetType::kLo) return;  // 0@lo is always there
  const bool has_ni_list = find_entry(element, "local NI(s)") != nullptr;
  if (!has_ni_list &&
      (find_entry(element, "interfaces") != nullptr || find_entry(element, "nid") != nullptr)) {
    report.warn(
        element.place,
        fmt::format(
            "net '{}' has its NI in the layout of 2014; write it as an element of 'local NI(s)'",
            net->to_string()));
    NiReader(context, *net).read(element, true);
    return;
  }
  if (!has_ni_list && has_driver(net->type)) {
    report.error(element.place,
                 fmt::format("net '{}' has no 'local NI(s)'; no interface is chosen for you",
                             net->to_string()));
  }
  const auto read_nis = [&](const YamlEntry& entry) {
    if (!entry.value->is_list() || entry.value->items.empty()) {
      report.error(entry.value->place,
                   fmt::format("'local NI(s)' must be a list of NIs, not {}",
                               entry.value->is_list() ? "an empty one" : describe(*entry.value)));
      return;
    }
    for (const YamlPtr& ni : entry.value->items) NiReader(context, *net).read(*ni, false);
  };
  const Reader handled = [](const YamlEntry&) {};
  read_map(report, element, fmt::format("net '{}'", net->to_string()),
           {{"net type", handled}, {"local NI(s)", read_nis}});
}

}  // namespace

void read_net_block(LoadContext& context, const YamlNode& block) {
  if (block.is_null()) return;
  if (!block.is_list()) {
    context.report.error(block.place,
                         fmt::format("'net' must be a list, each element with a 'net type', not {}",
                                     describe(block)));
    return;
  }
  for (const YamlPtr& element : block.items) read_net(context, *element);
}

}  // namespace ulnet::config
