// Two nodes of two rails each that know each other, and whose settings change: what the tests of
// settings, statuses and bounds share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "tests/support/core_deeds.h"

namespace ulnet::test {

constexpr const char* kRailA1 = "10.0.1.1@tcp";
constexpr const char* kRailA2 = "10.0.1.11@tcp";
constexpr const char* kRailB1 = "10.0.1.2@tcp";
constexpr const char* kRailB2 = "10.0.1.12@tcp";

class SettingsTest : public testing::Test {
 protected:
  // Without discovery, so that nothing is on the wire but what a test sends.
  static GlobalSettings quiet(GlobalSettings global = {}) {
    global.discovery = false;
    return global;
  }
  void two_rails(const GlobalSettings& global = {},
                 const std::function<void(NiSettings&)>& tune = {}) {
    a_ = &world_.add("a", {kRailA1, kRailA2}, tune, quiet(global));
    b_ = &world_.add("b", {kRailB1, kRailB2}, {}, quiet());
    introduce(world_, *a_, {kRailB1, kRailB2});
    introduce(world_, *b_, {kRailA1, kRailA2});
    world_.acquaint();
  }
  // From the first rail to the first rail.
  void put(AckRequest ack = AckRequest::kNoAck, const Nid& source = nid(kRailA1),
           const Nid& target = nid(kRailB1)) {
    test::put(world_, *a_, {target, std::span(memory_).first(8), ack, source});
    world_.collect();
  }
  Status set(std::string_view name, int64_t value) {
    const Status status = a_->core->set_global(world_.now, name, value);
    world_.collect();
    return status;
  }
  Status set_health(std::string_view nid, int32_t health) {
    return a_->core->change_nis(world_.now, {.nid = test::nid(nid), .net = {}}, {.health = health});
  }
  NiInfo ni(std::string_view nid) { return find_ni(*a_, nid).value(); }
  PeerNiInfo peer_ni(std::string_view nid) { return find_peer_ni(*a_, nid).value(); }
  // What a tells b that asks.
  PingInfo asked_info() { return ping(world_, *b_, kRailA1); }
  uint32_t asked_status(std::string_view nid) {
    for (const PingNi& each : asked_info().nis) {
      if (each.nid == test::nid(nid)) return each.status;
    }
    return 0;
  }

  CoreWorld world_;
  CoreWorld::Node* a_ = nullptr;
  CoreWorld::Node* b_ = nullptr;
  uint8_t memory_[64] = {};
};

}  // namespace ulnet::test
