// What both examples do first: read their arguments and bring a node up.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ulnet/endpoint.h"

// The place that both programs agree on: a portal, and the match bits of the buffer there.
inline constexpr uint32_t kPortal = 30;
inline constexpr uint64_t kMatchBits = 0x75'6c'6e'65'74;
inline constexpr uint32_t kBufferBytes = 1 << 20;

// Settings from a YAML file, or one NI written by hand: `node` is "FILE.yaml" or a NID like
// "127.0.0.2@tcp".
inline ulnet::Result<ulnet::Settings> node_settings(const std::string& node, uint16_t port) {
  if (node.ends_with(".yaml")) return ulnet::load_settings(node);
  const ulnet::Result<ulnet::Nid> nid = ulnet::Nid::parse(node);
  if (!nid) return tl::unexpected(nid.error());
  ulnet::Settings settings;
  settings.nis.push_back({.net = nid->net(), .nid = *nid});
  settings.acceptor.port = port;
  settings.acceptor.policy =
      ulnet::AcceptPolicy::kAll;  // peers without root have no privileged source port
  settings.node.log_level = "warn";
  return settings;
}

// The value, or the end of the program with the reason.
template <typename T>
T value_or_exit(ulnet::Result<T> result, const char* what) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s: %s\n", what, result.error().to_string().c_str());
  std::exit(1);
}

inline std::unique_ptr<ulnet::Endpoint> start_node(const std::string& node, uint16_t port) {
  const ulnet::Settings settings = value_or_exit(node_settings(node, port), "settings");
  return value_or_exit(ulnet::Endpoint::start(settings), "start");
}
