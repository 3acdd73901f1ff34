// What tests make the nodes of a CoreWorld do again and again, and what they ask about them.
// A NID that a test asks about must be there: anything else is the test's own bug and aborts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lnet/wire/ping_info.h"
#include "tests/support/core_world.h"

namespace ulnet::test {

// Where the tests' messages go.
constexpr uint32_t kPortal = 30;

// A PUT or a GET of one fragment to kPortal.
struct Request {
  Nid target;
  std::span<uint8_t> memory;  // must outlive it
  AckRequest ack = AckRequest::kNoAck;
  Nid source = Nid::any();
  uint64_t hdr_data = 0;
};

// Takes any number of PUTs and GETs on kPortal, all at offset 0 of `memory`.
void open_target(const CoreWorld& world, CoreWorld::Node& node, std::span<uint8_t> memory);
// The MD unlinks itself with the last event of an undisturbed operation. Nothing is collected yet.
MdHandle put(const CoreWorld& world, CoreWorld::Node& from, const Request& request);
MdHandle get(const CoreWorld& world, CoreWorld::Node& from, const Request& request);
// Tells `node` of a peer with these NIDs, the first is its primary.
void introduce(const CoreWorld& world, CoreWorld::Node& node, const std::vector<std::string>& nids,
               bool multi_rail = true, std::optional<int32_t> health_sensitivity = {});
// What the owner of `nid` answers to a ping of `from`. Runs the world; drops the events of `from`.
PingInfo ping(CoreWorld& world, CoreWorld::Node& from, std::string_view nid);

std::optional<NiInfo> find_ni(const CoreWorld::Node& node, std::string_view nid);
std::optional<PeerNiInfo> find_peer_ni(const CoreWorld::Node& node, std::string_view nid);
// Of a local NI or a peer NI.
int32_t health_of(const CoreWorld::Node& node, std::string_view nid);
// The counter of that name among the reasons for drops.
uint64_t drops(const CoreWorld::Node& node, std::string_view reason);
// "primary: NID NID ..." of each peer.
std::vector<std::string> peer_records(const CoreWorld::Node& node);

}  // namespace ulnet::test
