#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "config/blocks.h"
#include "config/nearest.h"
#include "lnet/base/log.h"

namespace ulnet::config {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

Reader accept_policy(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    static constexpr std::array<std::string_view, 3> kWords = {"secure", "all", "none"};
    const auto found = std::find(kWords.begin(), kWords.end(), entry.value->text);
    if (found == kWords.end()) {
      context.report.error(
          entry.value->place,
          fmt::format("'accept' must be secure, all or none, not {}{}", describe(*entry.value),
                      suggestion(entry.value->text, kWords)));
      return;
    }
    context.settings.acceptor.policy = static_cast<AcceptPolicy>(found - kWords.begin());
  };
}

Reader address_change(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    static constexpr std::array<std::string_view, 2> kWords = {"keep", "follow"};
    const auto found = std::find(kWords.begin(), kWords.end(), entry.value->text);
    if (found == kWords.end()) {
      context.report.error(
          entry.value->place,
          fmt::format("'address_change' must be keep or follow, not {}{}", describe(*entry.value),
                      suggestion(entry.value->text, kWords)));
      return;
    }
    context.settings.node.address_change = static_cast<AddressChange>(found - kWords.begin());
  };
}

Reader optional_flag(Report& report, std::optional<bool>* into) {
  return [&report, into](const YamlEntry& entry) {
    bool value = false;
    flag(report, &value)(entry);
    *into = value;
  };
}

Reader port(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    int64_t number = 0;
    if (!read_integer(context.report, entry.key, *entry.value, 1, 65535, &number)) return;
    context.settings.acceptor.port = static_cast<uint16_t>(number);
  };
}

Reader log_level(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    if (const auto level = parse_log_level(entry.value->text); !level) {
      context.report.error(entry.value->place, level.error().text());
      return;
    }
    context.settings.node.log_level = entry.value->text;
  };
}

Reader limits(LoadContext& context) {
  return [&context](const YamlEntry& entry) {
    Report& report = context.report;
    LimitSettings& l = context.settings.limits;
    read_map(
        report, *entry.value, "'limits'",
        {{"parked_per_portal_max", integer(report, &l.parked_per_portal_max, 1, kIntMax)},
         {"parked_per_peer_max", integer(report, &l.parked_per_peer_max, 1, kIntMax)},
         {"waiting_for_discovery_max", integer(report, &l.waiting_for_discovery_max, 1, kIntMax)},
         {"peers_by_traffic_max", integer(report, &l.peers_by_traffic_max, 1, kIntMax)},
         {"setups_per_address_max",
          integer(report, &context.settings.acceptor.setups_per_address_max, 1, kIntMax)}});
  };
}

}  // namespace

void read_ulnet_block(LoadContext& context, const YamlNode& block) {
  Report& report = context.report;
  NodeSettings& node = context.settings.node;
  AcceptorSettings& acceptor = context.settings.acceptor;
  read_map(report, block, "'ulnet'",
           {{"accept", accept_policy(context)},
            {"accept_port", port(context)},
            {"accept_backlog", integer(report, &acceptor.backlog, 1, 65535)},
            {"accept_timeout", integer(report, &acceptor.timeout_s, 1, 3600)},
            {"threads", integer(report, &node.threads, 0, 256)},
            {"spin_us", integer(report, &node.spin_us, 0, 1'000'000)},
            {"shutdown_grace_ms", integer(report, &node.shutdown_grace_ms, 0, 600'000)},
            {"wait_for_interfaces", optional_flag(report, &node.wait_for_interfaces)},
            {"address_change", address_change(context)},
            {"socket", text(report, &node.socket, kSocketPathBytesMax)},
            {"log_level", log_level(context)},
            {"limits", limits(context)}});
}

}  // namespace ulnet::config
