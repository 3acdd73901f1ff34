#include "tests/support/core_deeds.h"

#include "lnet/base/assert.h"

namespace ulnet::test {

void open_target(const CoreWorld& world, CoreWorld::Node& node, std::span<uint8_t> memory) {
  MdSpec md;
  md.fragments = {{memory.data(), memory.size()}};
  md.options = kMdPut | kMdGet | kMdManageRemote | kMdTruncate;
  MeSpec me;
  me.portal = kPortal;
  const MeHandle handle = node.core->me_attach(me).value();
  ULNET_ASSERT(node.core->md_attach(world.now, handle, md).has_value(), "a test's target");
}

MdHandle put(const CoreWorld& world, CoreWorld::Node& from, const Request& request) {
  MdSpec md;
  md.fragments = {{request.memory.data(), request.memory.size()}};
  md.threshold = request.ack == AckRequest::kAck ? 2 : 1;
  PutArgs args;
  args.md = from.core->bind(md).value();
  args.ack = request.ack;
  args.target = {request.target, kPidLustre};
  args.portal = kPortal;
  args.source = request.source;
  args.hdr_data = request.hdr_data;
  ULNET_ASSERT(from.core->put(world.now, args).is_ok(), "a test's PUT");
  return args.md;
}

MdHandle get(const CoreWorld& world, CoreWorld::Node& from, const Request& request) {
  MdSpec md;
  md.fragments = {{request.memory.data(), request.memory.size()}};
  md.threshold = 2;
  GetArgs args;
  args.md = from.core->bind(md).value();
  args.target = {request.target, kPidLustre};
  args.portal = kPortal;
  args.source = request.source;
  ULNET_ASSERT(from.core->get(world.now, args).is_ok(), "a test's GET");
  return args.md;
}

void introduce(const CoreWorld& world, CoreWorld::Node& node, const std::vector<std::string>& nids,
               bool multi_rail, std::optional<int32_t> health_sensitivity) {
  PeerSettings peer;
  peer.primary_nid = nid(nids.front());
  for (const std::string& text : nids) peer.nids.push_back(nid(text));
  peer.multi_rail = multi_rail;
  peer.health_sensitivity = health_sensitivity;
  ULNET_ASSERT(node.core->configure_peer(world.now, peer).is_ok(), "a test's peer");
}

PingInfo ping(CoreWorld& world, CoreWorld::Node& from, std::string_view target) {
  std::vector<uint8_t> answer(4096);
  MdSpec md;
  md.fragments = {{answer.data(), answer.size()}};
  md.options = kMdTruncate;
  md.threshold = 2;
  GetArgs args;
  args.md = from.core->bind(md).value();
  args.target = {nid(target), kPidLustre};
  args.match_bits = kPingMatchBits;
  ULNET_ASSERT(from.core->get(world.now, args).is_ok(), "a test's ping");
  world.run();
  for (const Event& event : world.events(from)) {
    if (event.kind == EventKind::kReply && event.md.value == args.md.value)
      return decode_ping_info({answer.data(), event.mlength}, 200).value();
  }
  ULNET_ASSERT(false, "a ping that was not answered");
  return {};
}

std::optional<NiInfo> find_ni(const CoreWorld::Node& node, std::string_view text) {
  for (const NetInfo& net : node.core->nets()) {
    for (const NiInfo& ni : net.nis) {
      if (ni.nid == nid(text)) return ni;
    }
  }
  return std::nullopt;
}

std::optional<PeerNiInfo> find_peer_ni(const CoreWorld::Node& node, std::string_view text) {
  for (const PeerInfo& peer : node.core->peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      if (ni.nid == nid(text)) return ni;
    }
  }
  return std::nullopt;
}

int32_t health_of(const CoreWorld::Node& node, std::string_view text) {
  if (const std::optional<NiInfo> ni = find_ni(node, text)) return ni->health;
  return find_peer_ni(node, text).value().health;
}

uint64_t drops(const CoreWorld::Node& node, std::string_view reason) {
  for (const CounterInfo& drop : node.core->statistics().drops) {
    if (drop.name == reason) return drop.value;
  }
  ULNET_ASSERT(false, "a reason that the core does not count");
  return 0;
}

std::vector<std::string> peer_records(const CoreWorld::Node& node) {
  std::vector<std::string> all;
  for (const PeerInfo& peer : node.core->peers()) {
    std::string text = peer.primary_nid.to_string() + ":";
    for (const PeerNiInfo& ni : peer.nis) text += " " + ni.nid.to_string();
    all.push_back(text);
  }
  return all;
}

}  // namespace ulnet::test
