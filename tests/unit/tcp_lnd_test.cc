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

INSTANTIATE_TEST_SUITE_P(Threads, Pair, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace ulnet::testing
