// Local NIs of a running node, over TCP on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "tests/support/nid.h"
#include "tests/support/ports.h"
#include "ulnet/endpoint.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPortal = 30;

using test::nid;

NiSettings ni(std::string_view text) {
  NiSettings settings;
  settings.nid = nid(text);
  settings.net = settings.nid->net();
  return settings;
}

NiSettings on_interface(std::string_view net, const std::string& interface) {
  NiSettings settings;
  settings.net = NetId::parse(net).value();
  settings.interface = interface;
  return settings;
}

Settings node(uint16_t port, int32_t threads, std::vector<NiSettings> nis) {
  Settings settings;
  settings.nis = std::move(nis);
  settings.acceptor.policy = AcceptPolicy::kAll;
  settings.acceptor.port = port;
  settings.node.threads = threads;
  settings.node.log_level = "error";
  return settings;
}

const NiInfo* find_ni(const std::vector<NetInfo>& nets, const Nid& nid) {
  for (const NetInfo& net : nets) {
    for (const NiInfo& each : net.nis) {
      if (each.nid == nid) return &each;
    }
  }
  return nullptr;
}

TEST(EndpointNis, WhatCannotBeIsNamed) {
  Settings settings = node(test::free_port(), 1, {ni("127.0.0.2@tcp")});
  settings.global.max_interfaces = 2;
  const auto endpoint = Endpoint::start(settings).value();
  EXPECT_EQ(endpoint->add_ni(ni("127.0.0.2@tcp")).error().code(), EEXIST);
  EXPECT_EQ(endpoint->add_ni(ni("192.0.2.9@tcp")).error().code(), EADDRNOTAVAIL);
  EXPECT_EQ(endpoint->add_ni(on_interface("tcp1", "nosuch0")).error().code(), ENODEV);
  EXPECT_EQ(endpoint->add_ni(ni("127.0.0.2@o2ib")).error().code(), ENOTSUP);
  ASSERT_EQ(endpoint->add_ni(ni("127.0.0.12@tcp1")).value(), nid("127.0.0.12@tcp1"));
  const Status third = endpoint->add_ni(ni("127.0.0.22@tcp1")).error();
  EXPECT_EQ(third.code(), ENOSPC);
  EXPECT_THAT(third.text(), testing::HasSubstr("max_interfaces allows 2"));
  EXPECT_EQ(endpoint->del_ni(nid("127.0.0.9@tcp")).code(), ENOENT);
  EXPECT_EQ(endpoint->del_net(NetId::parse("tcp7").value()).code(), ENOENT);
  EXPECT_EQ(endpoint->del_net(NetId::parse("tcp1").value(), "nosuch0").code(), ENOENT);
  EXPECT_TRUE(endpoint->del_net(NetId::parse("tcp1").value(), "lo").is_ok());
  EXPECT_THAT(endpoint->nids(), testing::ElementsAre(nid("127.0.0.2@tcp")));
  endpoint->stop();
  EXPECT_EQ(endpoint->add_ni(ni("127.0.0.22@tcp1")).error().code(), ESHUTDOWN);
  EXPECT_EQ(endpoint->del_ni(nid("127.0.0.2@tcp")).code(), ESHUTDOWN);
}

// Its driver is made then, too.
TEST(EndpointNis, TheFirstNiMayComeAtRunTime) {
  const uint16_t port = test::free_port();
  const auto a = Endpoint::start(node(port, 1, {})).value();
  const auto b = Endpoint::start(node(port, 1, {ni("127.0.0.3@tcp")})).value();
  ASSERT_TRUE(a->add_ni(ni("127.0.0.2@tcp")).has_value());
  PingArgs args;
  args.timeout = 10s;
  args.nid = nid("127.0.0.3@tcp");
  EXPECT_TRUE(a->ping(args).has_value());
  args.nid = nid("127.0.0.2@tcp");
  EXPECT_TRUE(b->ping(args).has_value());
}

TEST(EndpointNis, AbsentInterfacesAreWaitedForOnlyWhenThatIsWanted) {
  Settings settings =
      node(test::free_port(), 1, {ni("127.0.0.2@tcp"), on_interface("tcp1", "nosuch0")});
  const auto refused = Endpoint::start(settings);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ENODEV);
  settings.node.wait_for_interfaces = true;
  const auto endpoint = Endpoint::start(settings).value();
  EXPECT_THAT(endpoint->nids(), testing::ElementsAre(nid("127.0.0.2@tcp")));
  const std::vector<NetInfo> nets = endpoint->nets();
  const NiInfo* waiting = find_ni(nets, nid("0.0.0.0@tcp1"));
  ASSERT_NE(waiting, nullptr);
  EXPECT_FALSE(waiting->up);
  EXPECT_EQ(waiting->interface, "nosuch0");
  EXPECT_EQ(waiting->down_reason, "waiting for nosuch0");
  EXPECT_TRUE(endpoint->del_net(NetId::parse("tcp1").value(), "nosuch0").is_ok());
  EXPECT_EQ(find_ni(endpoint->nets(), nid("0.0.0.0@tcp1")), nullptr);
}

// Other reasons than absence are errors at once.
TEST(EndpointNis, AnAddressInUseIsNotWaitedFor) {
  Settings settings = node(test::free_port(), 1, {ni("127.0.0.2@tcp")});
  settings.node.wait_for_interfaces = true;
  const auto first = Endpoint::start(settings).value();
  const auto second = Endpoint::start(settings);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), EADDRINUSE);
}

class EndpointNisUnderLoad : public testing::TestWithParam<int32_t> {};

// PUTs from a NI that is removed while they are on their way: each MD ends, once.
TEST_P(EndpointNisUnderLoad, EveryOperationEndsOnce) {
  constexpr int kRounds = 30;
  constexpr size_t kPuts = 16;
  std::vector<uint8_t> sink(65536);
  std::vector<uint8_t> source(65536, 7);
  const uint16_t port = test::free_port();
  const auto a = Endpoint::start(node(port, GetParam(), {ni("127.0.0.2@tcp")})).value();
  const auto b =
      Endpoint::start(node(port, 1, {ni("127.0.0.3@tcp"), ni("127.0.0.13@tcp1")})).value();
  MdSpec target;
  target.fragments = {{sink.data(), sink.size()}};
  target.options = kMdPut | kMdManageRemote;
  ASSERT_TRUE(b->attach({.portal = kPortal}, target).has_value());

  std::atomic<bool> done = false;
  std::atomic<int> looks = 0;
  std::thread onlooker([&] {
    while (!done) {
      (void)a->nets();
      (void)a->peers();
      ++looks;
    }
  });
  std::set<uint64_t> ended;
  size_t started = 0;
  const auto take_events = [&](std::chrono::milliseconds wait) {
    std::array<Event, 32> events;
    const size_t count = a->poll_events(events, wait);
    for (size_t i = 0; i < count; ++i) {
      if (!events[i].unlinked) continue;
      EXPECT_TRUE(ended.insert(events[i].md.value).second);
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(a->add_ni(ni("127.0.0.12@tcp1")).has_value());
    for (size_t i = 0; i < kPuts; ++i) {
      MdSpec md;
      md.fragments = {{source.data(), source.size()}};
      md.threshold = 1;
      PutArgs put;
      put.md = a->bind(md).value();
      put.ack = AckRequest::kNoAck;
      put.target = {nid("127.0.0.13@tcp1"), kPidLustre};
      put.portal = kPortal;
      ASSERT_TRUE(a->put(put).is_ok());
      ++started;
    }
    take_events(std::chrono::milliseconds(round % 4));
    ASSERT_TRUE(a->del_ni(nid("127.0.0.12@tcp1")).is_ok());
    EXPECT_EQ(find_ni(a->nets(), nid("127.0.0.12@tcp1")), nullptr);
  }
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (ended.size() < started && std::chrono::steady_clock::now() < end) take_events(10ms);
  EXPECT_EQ(ended.size(), started);
  done = true;
  onlooker.join();
  EXPECT_GT(looks, 0);
  EXPECT_LE(a->peers().size(), 1U);  // one that was found in time to have another way stays
  a->stop();
  b->stop();
}

INSTANTIATE_TEST_SUITE_P(Threads, EndpointNisUnderLoad, testing::Values(0, 1, 2));

}  // namespace
}  // namespace ulnet
