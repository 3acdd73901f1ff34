// Two and more TcpLnds in one process, on 127.0.0.x: messages, completions, faults.
#include "lnd_tcp/tcp_lnd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tcp_node.h"

namespace ulnet::testing {
namespace {

TcpNodeOptions options(const std::string& nid, uint16_t port, int threads) {
  TcpNodeOptions node;
  node.nid = nid;
  node.port = port;
  node.threads = threads;
  node.tcp.timeout_s = 5;
  return node;
}

class Pair : public ::testing::TestWithParam<int> {};

TEST_P(Pair, MovesMessagesOfAllSizes) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
  TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
  ASSERT_TRUE(a.started) << a.started.error().to_string();
  ASSERT_TRUE(b.started) << b.started.error().to_string();
  const std::vector<uint32_t> sizes = {0,   1,    64,   256,  257,   903,    927,
                                       928, 4095, 4096, 4097, 65536, 1048576};
  for (const uint32_t size : sizes) {
    a.put(b.nid(), size, 1, static_cast<uint8_t>(size));
    a.flush();
    ASSERT_TRUE(eventually(
        [&] { return b.host.received_count() == 1 && b.host.receives_open() == 0; }, {&a, &b}))
        << size;
    const auto received = b.host.take_received();
    EXPECT_EQ(received[0].payload.size(), size);
    EXPECT_EQ(received[0].sender, a.nid());
    EXPECT_TRUE(has_pattern(received[0].payload, static_cast<uint8_t>(size))) << size;
    EXPECT_EQ(received[0].completion.error, 0);
  }
  EXPECT_TRUE(eventually([&] { return a.host.sends_open() == 0; }, {&a, &b}));
  for (const auto& [id, completion] : a.host.take_completions()) EXPECT_EQ(completion.error, 0);
  EXPECT_EQ(a.host.double_completions(), 0u);
  // One set, dialled by a: the types are each end's own view.
  EXPECT_TRUE(eventually([&] { return a.connections(b.nid(), "bulk_out") == 1; }, {&a, &b}));
  EXPECT_EQ(a.connections(b.nid(), "control"), 1u);
  EXPECT_EQ(a.connections(b.nid(), "bulk_in"), 1u);
  EXPECT_EQ(b.connections(a.nid(), "control"), 1u);
  EXPECT_EQ(b.connections(a.nid(), "bulk_in"), 1u);
  EXPECT_EQ(b.connections(a.nid(), "bulk_out"), 1u);
}

TEST_P(Pair, EveryTypeBothWaysAtOnce) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
  TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
  a.host.fragments = b.host.fragments = 5;
  constexpr size_t kRounds = 400;
  const auto blast = [](TcpNode& from, const Nid& to) {
    for (size_t i = 0; i < kRounds; ++i) {
      const auto seed = static_cast<uint8_t>(i);
      from.put(to, static_cast<uint32_t>(i * 37 % 70'000), 1 + i % 6, seed);
      from.get(to);
      from.ack(to);
      from.reply(to, static_cast<uint32_t>(i % 1500));
      if (i % 7 == 0) from.flush();
    }
    from.flush();
  };
  if (GetParam() == 0) {
    blast(a, b.nid());
    blast(b, a.nid());
  } else {
    std::thread other([&] { blast(b, a.nid()); });
    blast(a, b.nid());
    other.join();
  }
  const auto all_there = [&] {
    return a.host.received_count() == 4 * kRounds && b.host.received_count() == 4 * kRounds &&
           a.host.sends_open() == 0 && b.host.sends_open() == 0;
  };
  ASSERT_TRUE(eventually(all_there, {&a, &b}, std::chrono::seconds(30)))
      << a.host.received_count() << " " << b.host.received_count();
  for (TcpNode* node : {&a, &b}) {
    for (const auto& received : node->host.take_received()) {
      const auto* put = std::get_if<PutPart>(&received.header.part);
      ASSERT_EQ(received.payload.size(), received.header.payload_bytes);
      ASSERT_TRUE(has_pattern(received.payload,
                              put != nullptr ? static_cast<uint8_t>(put->match_bits) : 3));
    }
    for (const auto& [id, completion] : node->host.take_completions())
      EXPECT_EQ(completion.error, 0);
    EXPECT_EQ(node->host.double_completions(), 0u);
  }
}

TEST_P(Pair, ConnsPerPeerAreSpreadAndBalanced) {
  const uint16_t port = free_port();
  auto of_a = options("127.0.0.2@tcp", port, GetParam());
  of_a.tcp.conns_per_peer = 3;
  TcpNode a(of_a);
  TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
  a.put(b.nid(), 1);
  a.flush();
  ASSERT_TRUE(eventually([&] { return a.connections(b.nid(), "bulk_out") == 3; }, {&a, &b}));
  EXPECT_EQ(a.connections(b.nid(), "control"), 1u);
  EXPECT_EQ(a.connections(b.nid(), "bulk_in"), 3u);
  for (int i = 0; i < 30; ++i) {
    a.put(b.nid(), 5000);
    a.flush();
    ASSERT_TRUE(eventually([&] { return a.host.sends_open() == 0; }, {&a, &b}));
  }
  for (const ConnectionInfo& each : a.lnd->connections(1, b.nid())) {
    if (each.type == "bulk_out") {
      EXPECT_GE(each.sent_bytes, 10 * 5000u) << each.local;
    }
  }
}

TEST_P(Pair, MessageThatWaitsHoldsItsConnectionOnly) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
  TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
  b.host.policy = [](const IncomingMessage& message) {
    return message.header.payload_bytes == 100 ? FakeLndHost::Take::kWait : FakeLndHost::Take::kAll;
  };
  a.put(b.nid(), 100, 1, 42);
  a.put(b.nid(), 101, 1, 43);
  a.flush();
  std::vector<FakeLndHost::Waiting> waiting;
  ASSERT_TRUE(eventually(
      [&] {
        for (auto& each : b.host.take_waiting()) waiting.push_back(each);
        return waiting.size() == 1;
      },
      {&a, &b}));
  EXPECT_TRUE(eventually([&] { return a.connections(b.nid(), "bulk_out") == 1; }, {&a, &b}));
  a.put(b.nid(), 5000, 1, 44);  // on BULK_OUT: passes
  a.flush();
  ASSERT_TRUE(eventually([&] { return b.host.received_count() == 1; }, {&a, &b}));
  EXPECT_EQ(b.host.take_received()[0].payload.size(), 5000u);
  b.lnd->receive(
      {waiting[0].id, waiting[0].ni, waiting[0].cookie, b.host.memory_for(waiting[0].id)});
  ASSERT_TRUE(eventually([&] { return b.host.received_count() == 2; }, {&a, &b}));
  const auto received = b.host.take_received();
  EXPECT_TRUE(has_pattern(received[0].payload, 42));
  EXPECT_TRUE(has_pattern(received[1].payload, 43));
}

TEST_P(Pair, PeerThatDiesAndComesBack) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
  for (int life = 0; life < 3; ++life) {
    TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
    ASSERT_TRUE(b.started) << b.started.error().to_string();
    a.put(b.nid(), 5000);
    a.flush();
    ASSERT_TRUE(eventually([&] { return b.host.received_count() == 1; }, {&a, &b}))
        << "life " << life;
    EXPECT_TRUE(eventually([&] { return a.connections(b.nid(), "bulk_out") == 1; }, {&a, &b}));
    b.lnd->stop(std::chrono::milliseconds(0));
    EXPECT_TRUE(eventually([&] { return a.lnd->connections(1, b.nid()).empty(); }, {&a}));
  }
  EXPECT_EQ(a.host.take_downs().size(), 0u) << "an orderly end is no failure";
  EXPECT_EQ(a.host.double_completions(), 0u);
}

TEST_P(Pair, SendsToNobodyFailOnceWithTheReason) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
  const Nid nobody = *Nid::parse("127.0.0.77@tcp");
  const SendId first = a.put(nobody, 10);
  a.flush();
  ASSERT_TRUE(eventually([&] { return a.host.sends_open() == 0; }, {&a}));
  auto completion = a.host.take_completions().at(first);
  EXPECT_EQ(completion.error, ECONNREFUSED);
  EXPECT_EQ(completion.health, HealthStatus::kRemoteDropped);
  EXPECT_EQ(completion.kind, FailureKind::kPeerNiNoListener);
  EXPECT_TRUE(completion.nothing_posted);
  ASSERT_TRUE(eventually([&] { return a.host.take_downs().size() == 1; }, {&a}));
  // In back-off a send fails at once, and says why we are in it.
  const SendId second = a.put(nobody, 10);
  completion = a.host.take_completions().at(second);
  EXPECT_EQ(completion.error, ECONNREFUSED);
  EXPECT_EQ(completion.health, HealthStatus::kRemoteError);
  const SendId six = a.put(*Nid::parse("fd00::1@tcp"), 10);
  EXPECT_EQ(a.host.take_completions().at(six).error, EAFNOSUPPORT);
}

TEST_P(Pair, StopCompletesEverythingAndWhatWasSentArrives) {
  const uint16_t port = free_port();
  for (int round = 0; round < 10; ++round) {
    TcpNode a(options("127.0.0.2@tcp", port, GetParam()));
    TcpNode b(options("127.0.0.3@tcp", port, GetParam()));
    for (int i = 0; i < 50; ++i) a.put(b.nid(), static_cast<uint32_t>(i * 1000));
    a.flush();
    eventually([&] { return b.host.received_count() > 3; }, {&a, &b});
    a.lnd->stop(std::chrono::seconds(GetParam() == 0 ? 0 : 2));
    EXPECT_EQ(a.host.sends_open(), 0u);
    EXPECT_EQ(a.host.receives_open(), 0u);
    size_t sent = 0;
    for (const auto& [id, completion] : a.host.take_completions()) {
      if (completion.error == 0) {
        ++sent;
      } else {
        EXPECT_EQ(completion.error, ESHUTDOWN);
      }
    }
    const auto arrived = [&] {
      size_t whole = 0;
      for (const auto& each : b.host.take_received()) whole += each.completion.error == 0 ? 1 : 0;
      return whole;
    };
    size_t whole = 0;
    EXPECT_TRUE(eventually([&] { return (whole += arrived()) >= sent; }, {&b}))
        << whole << " of " << sent;
    const SendId late = a.put(b.nid(), 1);
    EXPECT_EQ(a.host.take_completions().at(late).error, ESHUTDOWN);
  }
}

TEST_P(Pair, Ipv6) {
  const uint16_t port = free_port();
  // One address is all that IPv6 loopback has: the node talks to itself, which local recovery needs
  // anyhow.
  TcpNode a(options("::1@tcp", port, GetParam()));
  if (!a.started) GTEST_SKIP() << "no IPv6 here: " << a.started.error().to_string();
  a.put(a.nid(), 10, 1, 9);
  a.put(a.nid(), 100'000, 3, 10);
  a.flush();
  ASSERT_TRUE(
      eventually([&] { return a.host.received_count() == 2 && a.host.sends_open() == 0; }, {&a}));
  for (const auto& received : a.host.take_received()) {
    EXPECT_TRUE(has_pattern(received.payload, received.payload.size() == 10 ? 9 : 10));
    EXPECT_EQ(received.sender, a.nid());
  }
}

TEST_P(Pair, ChecksumsTravelWithBulkAndSmall) {
  const uint16_t port = free_port();
  auto of_a = options("127.0.0.2@tcp", port, GetParam());
  of_a.tcp.enable_csum = true;
  TcpNode a(of_a);
  TcpNode b(options("127.0.0.3@tcp", port, GetParam()));  // mixed settings
  for (const uint32_t size : {0U, 1U, 4095U, 4096U, 1048576U}) {
    a.put(b.nid(), size, 4, 5);
    b.put(a.nid(), size, 4, 5);
  }
  a.flush();
  b.flush();
  ASSERT_TRUE(
      eventually([&] { return a.host.received_count() == 5 && b.host.received_count() == 5; },
                 {&a, &b}, std::chrono::seconds(20)));
  EXPECT_EQ(b.counter("checksum_errors"), 0u);
  for (const auto& received : b.host.take_received()) EXPECT_TRUE(has_pattern(received.payload, 5));
}

TEST_P(Pair, BothDialAtOnce) {
  // SL-1: rounds of simultaneous first sends, the connections cut in between.
  const uint16_t port = free_port();
  const int rounds = full_run() ? 2000 : 60;
  for (const int conns : {1, 4}) {
    auto of_a = options("127.0.0.2@tcp", port, GetParam());
    auto of_b = options("127.0.0.3@tcp", port, GetParam());
    of_a.tcp.conns_per_peer = of_b.tcp.conns_per_peer = conns;
    of_a.tcp.min_reconnect_ms = of_b.tcp.min_reconnect_ms = 20;
    TcpNode a(of_a);
    TcpNode b(of_b);
    const auto n = static_cast<size_t>(conns);
    for (int round = 0; round < rounds; ++round) {
      a.put(b.nid(), 100, 1, 1);
      b.put(a.nid(), 100, 1, 2);
      if (GetParam() == 0) {
        a.flush();
        b.flush();
      } else {
        std::thread other([&] { b.flush(); });
        a.flush();
        other.join();
      }
      const auto complete = [&](TcpNode& node, const Nid& peer) {
        return node.connections(peer, "control") == 1 && node.connections(peer, "bulk_in") == n &&
               node.connections(peer, "bulk_out") == n && node.host.received_count() == 1 &&
               node.host.sends_open() == 0;
      };
      ASSERT_TRUE(
          eventually([&] { return complete(a, b.nid()) && complete(b, a.nid()); }, {&a, &b}))
          << "round " << round << ": " << a.connections(b.nid(), "control")
          << a.connections(b.nid(), "bulk_in") << a.connections(b.nid(), "bulk_out") << " "
          << b.connections(a.nid(), "control") << b.connections(a.nid(), "bulk_in")
          << b.connections(a.nid(), "bulk_out") << " received " << a.host.received_count()
          << b.host.received_count();
      a.host.take_received();
      b.host.take_received();
      // A dial that was late for the race may still come through: it is cut, too.
      int polls = 0;
      const auto cut = [&] {
        if (a.lnd->connections(1, b.nid()).empty() && b.lnd->connections(1, a.nid()).empty()) {
          return polls > 0;
        }
        if (polls++ % 200 == 0) {
          const bool first = (round + polls / 200) % 2 == 0;
          (first ? a : b).lnd->close_peer(1, first ? b.nid() : a.nid(), "test");
        }
        return false;
      };
      ASSERT_TRUE(eventually(cut, {&a, &b}));
    }
    for (TcpNode* node : {&a, &b}) {
      EXPECT_EQ(node->host.double_completions(), 0u);
      for (const auto& [id, completion] : node->host.take_completions())
        EXPECT_EQ(completion.error, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Pair, ::testing::Values(0, 1, 3));

// ---------------------------------------------------------------- starts

TEST(TcpLndStart, SaysWhatIsWrongAndLeavesNothing) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, 1));
  ASSERT_TRUE(a.started);
  const TcpNode twice(options("127.0.0.2@tcp", port, 1));
  ASSERT_FALSE(twice.started);
  EXPECT_EQ(twice.started.error().code(), EADDRINUSE);
  EXPECT_THAT(twice.started.error().text(),
              ::testing::HasSubstr("127.0.0.2:" + std::to_string(port)));
  const TcpNode elsewhere(options("192.0.2.1@tcp", port, 1));
  ASSERT_FALSE(elsewhere.started);
  EXPECT_EQ(elsewhere.started.error().code(), EADDRNOTAVAIL);
  auto odd = options("127.0.0.4@tcp", port, 1);
  odd.tcp.tcp_congestion = "no-such-thing";
  const TcpNode congested(odd);
  ASSERT_FALSE(congested.started);
  EXPECT_THAT(congested.started.error().text(), ::testing::HasSubstr("no-such-thing"));
  NiSettings by_name;
  by_name.net = NetId{NetType::kTcp, 0};
  by_name.interface = "no-such-device0";
  const auto unnamed = a.lnd->start_ni(2, by_name);
  ASSERT_FALSE(unnamed);
  EXPECT_EQ(unnamed.error().code(), ENODEV);
}

TEST(TcpLndStart, TwoNetsShareAnAddress) {
  const uint16_t port = free_port();
  TcpNode a(options("127.0.0.2@tcp", port, 1));
  TcpNode b(options("127.0.0.3@tcp1", port, 1));
  NiSettings second;
  second.net = NetId{NetType::kTcp, 1};
  second.nid = *Nid::parse("127.0.0.2@tcp1");
  ASSERT_TRUE(a.lnd->start_ni(2, second));
  b.put(*second.nid, 77, 1, 1);
  b.flush();
  ASSERT_TRUE(eventually([&] { return a.host.received_count() == 1; }));
  EXPECT_EQ(a.host.take_received()[0].ni, 2u);
  // The listener outlives the NI that opened it.
  a.lnd->stop_ni(1);
  b.lnd->close_peer(1, *second.nid, "test");
  ASSERT_TRUE(eventually([&] { return b.lnd->connections(1, *second.nid).empty(); }));
  b.put(*second.nid, 77, 1, 1);
  b.flush();
  EXPECT_TRUE(eventually([&] { return a.host.received_count() == 1; }));
}

}  // namespace
}  // namespace ulnet::testing
