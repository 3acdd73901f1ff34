#include "tests/interop/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tests/interop/parts.h"
#include "tests/interop/script.h"

namespace ulnet::interop {
namespace {

Settings settings_for(const std::vector<Nid>& nids, const Part& part) {
  Settings settings;
  for (const Nid& nid : nids) {
    NiSettings ni;
    ni.net = nid.net();
    ni.nid = nid;
    ni.tcp.conns_per_peer = part.conns_per_peer;
    ni.tcp.keepalive_s = part.keepalive_s;
    settings.nis.push_back(ni);
  }
  settings.global.discovery = part.discovery;
  settings.node.log_level = "error";
  return settings;
}

PlayOptions options_for(const std::vector<Nid>& nids, const Part& part) {
  PlayOptions options;
  options.settings = settings_for(nids, part);
  options.keepalives = part.keepalive_s != Part().keepalive_s;
  options.router = part.router;
  options.stops = part.stops;
  for (const std::string& text : part.pinged) options.pinged.push_back(Nid::parse(text).value());
  options.more_discovery = part.more_discovery;
  return options;
}

// Nothing when it is left out.
std::optional<PlayReport> play_part(const std::string& name, const test::Capture& capture,
                                    const NodeAddresses& node, const Part& part) {
  const std::string line = fmt::format("{} as {}", name, *node.begin());
  if (part.left_out) {
    fmt::print("{}: left out: {}\n", line, part.why);
    return std::nullopt;
  }
  std::vector<Nid> nids = find_nids(capture, node);
  if (!part.nids.empty()) nids.clear();
  for (const std::string& text : part.nids) nids.push_back(Nid::parse(text).value());
  const Script script = make_script(capture, node, part.limits);
  EXPECT_EQ(script.failure, "") << line;
  if (!script.failure.empty()) return std::nullopt;
  const PlayOptions options = options_for(nids, part);
  PlayReport report = Player(script, options).play();
  for (const std::string& failure : report.failures) ADD_FAILURE() << line << ": " << failure;
  EXPECT_GT(report.pieces(), 0U) << line;
  if (!part.more_discovery.empty()) {
    EXPECT_TRUE(report.exceptions.contains(part.more_discovery)) << line;
  }
  fmt::print("{}: {}", line, report.to_string());
  if (script.routed > 0) fmt::print("; routed, left out x{}", script.routed);
  fmt::print("{}{}\n", part.why.empty() ? "" : "; ", part.why);
  return report;
}

void play_node(const std::string& name, const test::Capture& capture, const NodeAddresses& node,
               std::vector<PlayReport>& reports) {
  std::vector<Part> plays;
  for (const Part& part : parts()) {
    if (concerns(part, name, node)) plays.push_back(part);
  }
  if (plays.empty()) plays.emplace_back();
  for (const Part& part : plays) {
    if (auto report = play_part(name, capture, node, part)) reports.push_back(std::move(*report));
  }
}

}  // namespace

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_VECTORS_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tcp") && name.ends_with(".pcap.gz")) {
      names.push_back(name.substr(0, name.size() - 8));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

test::Capture capture_of(const std::string& name) {
  auto capture = test::read_capture(std::filesystem::path(ULNET_VECTORS_DIR) / (name + ".pcap.gz"));
  EXPECT_TRUE(capture) << capture.error().to_string();
  return capture ? std::move(*capture) : test::Capture{};
}

Script script_of(const std::string& name, const NodeAddresses& node) {
  return make_script(capture_of(name), node, {});
}

std::vector<PlayReport> play_capture(const std::string& name) {
  const test::Capture capture = capture_of(name);
  const std::vector<NodeAddresses> nodes = find_nodes(capture);
  std::vector<PlayReport> reports;
  for (const NodeAddresses& node : nodes) play_node(name, capture, node, reports);
  bool listed = false;
  for (const Part& part : parts()) {
    if (part.capture != name) continue;
    listed = true;
    if (nodes.empty()) {
      EXPECT_TRUE(part.left_out) << name << " has no node";
      fmt::print("{}: left out: {}\n", name, part.why);
      continue;
    }
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                            [&](const NodeAddresses& node) { return concerns(part, name, node); }))
        << "no node " << part.node << " in " << name;
  }
  EXPECT_TRUE(listed || !nodes.empty()) << name << ": neither played nor listed";
  return reports;
}

}  // namespace ulnet::interop
