// Nodes that discover each other in virtual time: what the tests of discovery share.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/support/core_deeds.h"

namespace ulnet::test {

inline const Completion kRefused{.error = ECONNREFUSED,
                                 .health = HealthStatus::kRemoteDropped,
                                 .kind = FailureKind::kPeerNiNoListener,
                                 .nothing_posted = true};

// The bits of `peer state` (5.3).
constexpr uint32_t kMultiRail = 1, kNoDiscovery = 2, kConfigured = 8, kDiscovered = 16,
                   kCurrent = 256, kLocked = 1U << 20, kBadConfig = 1U << 21;

inline GlobalSettings discovery(bool on) {
  GlobalSettings global;
  global.discovery = on;
  return global;
}

// Counts how discoveries end.
struct Ends : EventHandler {
  void handle_event(const Event& event) override { statuses.push_back(event.status); }
  std::vector<int32_t> statuses;
};

class DiscoveryTest : public testing::Test {
 protected:
  void open_target(CoreWorld::Node& node) { test::open_target(world_, node, memory_); }
  MdHandle put(CoreWorld::Node& from, std::string_view to, AckRequest ack = AckRequest::kNoAck) {
    return test::put(world_, from,
                     {.target = nid(to), .memory = std::span(memory_).first(8), .ack = ack});
  }
  // Sends, runs and tells by which pairs of NIDs `count` PUTs went.
  std::set<std::string> ways(CoreWorld::Node& from, std::string_view to, int count = 40) {
    std::set<std::string> used;
    for (int i = 0; i < count; ++i) {
      put(from, to);
      world_.collect();
      for (const SendAction& send : from.sends) {
        const auto* part = std::get_if<PutPart>(&send.header.part);
        if (part == nullptr || part->portal != kPortal) continue;
        used.insert(send.header.source_nid.to_string() + ">" + send.header.dest_nid.to_string());
      }
      world_.run();
    }
    return used;
  }
  // All bytes leave, and none arrives.
  void lose_one(CoreWorld::Node& node) {
    const SendAction send = node.sends.front();
    node.sends.pop_front();
    node.core->handle_send_done(world_.now, send.id, Completion{});
  }
  void run_handlers(CoreWorld::Node& node) {
    std::vector<core::CoreEvent> events;
    events.swap(node.core->handled_events());
    for (const core::CoreEvent& event : events) event.handler->handle_event(event.event);
  }
  // What a sends next, as "PUT 0 48 > 10.0.1.2@tcp": type, portal (of requests), bytes.
  std::string next_send(CoreWorld::Node& node) {
    world_.collect();
    if (node.sends.empty()) return "nothing";
    const Header& header = node.sends.front().header;
    std::string text;
    if (const auto* put_part = std::get_if<PutPart>(&header.part)) {
      text = "PUT " + std::to_string(put_part->portal);
    } else if (const auto* get = std::get_if<GetPart>(&header.part)) {
      text = "GET " + std::to_string(get->portal) + " sink " + std::to_string(get->sink_length);
    } else {
      text = std::holds_alternative<AckPart>(header.part) ? "ACK" : "REPLY";
    }
    return text + " " + std::to_string(header.payload_bytes) + " > " + header.dest_nid.to_string();
  }
  static std::optional<PeerInfo> find_peer(const CoreWorld::Node& node, std::string_view with) {
    return node.core->find_peer(nid(with));
  }
  uint32_t state_of(const CoreWorld::Node& node, std::string_view with) {
    const std::optional<PeerInfo> peer = find_peer(node, with);
    return peer ? peer->state : 0;
  }
  void two_rails() {
    a_ = &world_.add("a", {"10.0.1.1@tcp", "10.0.1.11@tcp"});
    b_ = &world_.add("b", {"10.0.1.2@tcp", "10.0.1.12@tcp"});
    open_target(*a_);
    open_target(*b_);
  }
  // a pings b by hand from either NI of its own: b knows two strangers.
  void be_heard_by_both_nids() {
    for (const char* source : {"10.0.1.1@tcp", "10.0.1.11@tcp"}) {
      MdSpec md;
      md.fragments = {{memory_, 64}};
      md.threshold = 2;
      md.options = kMdTruncate;
      GetArgs get;
      get.md = a_->core->bind(md).value();
      get.target = {nid("10.0.1.2@tcp"), kPidLustre};
      get.match_bits = kPingMatchBits;
      get.source = nid(source);
      ASSERT_TRUE(a_->core->get(world_.now, get).is_ok());
      world_.run();
    }
  }
  // The present node of these NIDs is no more; a new one has `nids`.
  CoreWorld::Node& restart(const std::vector<std::string>& old_nids,
                           const std::vector<std::string>& nids, bool discovers = true) {
    world_.unplug(old_nids);
    CoreWorld::Node& node = world_.add("again", nids, {}, discovery(discovers));
    open_target(node);
    return node;
  }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

}  // namespace ulnet::test
