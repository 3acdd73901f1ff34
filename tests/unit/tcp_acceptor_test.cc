// What a raw socket can do to the acceptor and to the HELLO exchange: spec tcp-lnd 10.1 and 10.2
// row by row, and cases SL-3, SL-4, SL-5, SE-1, SE-4.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>

#include "lnd_tcp/sockets.h"
#include "tests/support/tcp_node.h"
#include "tests/support/tcp_stream.h"

namespace ulnet::testing {
namespace {

using tcp::ConnType;

const Nid kNode = *Nid::parse("127.0.0.2@tcp");
const Nid kPeer = *Nid::parse("127.0.0.9@tcp");

bool privileged() {
  return tcp::can_bind_privileged(kPeer);
}

// A blocking TCP socket to the node, from 127.0.0.9 and a port of the wanted kind.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port, bool low_port = true, const Nid& from = kPeer) {
    tcp::DialOptions dial{.from = from, .to = kNode, .port = port, .privileged = low_port};
    auto fd = tcp::start_dial(dial, {});
    if (!fd) return;
    fd_ = std::move(*fd);
    ::fcntl(fd_.get(), F_SETFL, 0);
    timeval limit{8, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  bool send(const Bytes& bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Everything until the node closes (reset or end of stream); at most `limit` bytes when it stays
  // open.
  Bytes read_to_end() {
    Bytes all;
    uint8_t buffer[4096];
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      timed_out_ = got < 0 && errno == EAGAIN;
      reset_ = got < 0 && errno == ECONNRESET;
      if (got <= 0) return all;
      all.insert(all.end(), buffer, buffer + got);
    }
  }
  Bytes read_exactly(size_t bytes) {
    Bytes all(bytes);
    const ssize_t got = ::recv(fd_.get(), all.data(), bytes, MSG_WAITALL);
    all.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return all;
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }
  bool timed_out() const { return timed_out_; }
  bool was_reset() const { return reset_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  bool timed_out_ = false;
  bool reset_ = false;
};

TcpNodeOptions node_options(uint16_t port) {
  TcpNodeOptions options;
  options.nid = "127.0.0.2@tcp";
  options.port = port;
  options.acceptor.policy = AcceptPolicy::kAll;
  options.acceptor.timeout_s = 1;
  return options;
}

Bytes opening(const tcp::Hello& hello, const Nid& requested = kNode) {
  Bytes bytes = tcp::encode_connect_request({requested});
  append(bytes, tcp::encode_hello(hello));
  return bytes;
}
tcp::Hello good() {
  return make_hello(kPeer, kNode, ConnType::kControl);
}

Bytes at32(Bytes bytes, size_t offset, uint32_t value) {
  store_le32(bytes.data() + offset, value);
  return bytes;
}

size_t open_descriptors() {
  size_t count = 0;
  DIR* const directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

class Acceptor : public ::testing::Test {
 protected:
  const uint16_t port_ = free_port();
  TcpNode node_{node_options(port_)};

  // Sends `bytes` and returns all that comes back until the node closes.
  Bytes answer_to(const Bytes& bytes) {
    RawPeer peer(port_, privileged());
    EXPECT_TRUE(peer.send(bytes));
    Bytes answer = peer.read_to_end();
    EXPECT_FALSE(peer.timed_out()) << "the node keeps it open";
    return answer;
  }
  void expect_closed(const Bytes& bytes, std::string_view counter, const Bytes& answer = {}) {
    const std::string name = "closed_" + std::string(counter);
    const uint64_t before = node_.counter(name);
    EXPECT_EQ(answer_to(bytes), answer) << counter;
    EXPECT_TRUE(eventually([&] { return node_.counter(name) == before + 1; })) << counter;
  }
};

TEST_F(Acceptor, ConnectRequests) {
  const auto refusal_array = tcp::encode_acceptor_refusal();
  const Bytes refusal(refusal_array.begin(), refusal_array.end());
  const Bytes request = tcp::encode_connect_request({kNode});
  Bytes hello = tcp::encode_hello(good());
  expect_closed(hello, "request_hello", refusal);
  expect_closed(at32(request, 4, 9), "request_version", refusal);
  expect_closed(at32(request, 4, 0), "request_version", refusal);
  expect_closed(
      Bytes{'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1', '.', '0', '\r', '\n'},
      "request_magic");
  expect_closed(at32(request, 0, tcp::kHelloMagicV1), "request_magic");
  expect_closed(opening(good(), kPeer), "request_unknown_nid");
  expect_closed(opening(good(), *Nid::parse("127.0.0.2@tcp3")), "request_unknown_nid");
  expect_closed(opening(good(), Nid::lo()), "request_unknown_nid");
  Bytes large = tcp::encode_connect_request({*Nid::parse("fd77::1@tcp")});
  large[8] = 7;
  expect_closed(large, "request_nid");
}

TEST_F(Acceptor, ConnectRequestsThatAreGood) {
  // Version 2 with an IPv4 NID in large form, and byte-swapped version 1.
  Bytes v2(tcp::kConnectRequestV2Bytes);
  store_le32(v2.data(), tcp::kAcceptorMagic);
  store_le32(v2.data() + 4, 2);
  std::memcpy(v2.data() + 8, &kNode, 20);
  Bytes swapped = tcp::encode_connect_request({kNode});
  std::reverse(swapped.begin(), swapped.begin() + 4);
  std::reverse(swapped.begin() + 4, swapped.begin() + 8);
  std::reverse(swapped.begin() + 8, swapped.end());
  for (Bytes bytes : {v2, swapped}) {
    append(bytes, tcp::encode_hello(good()));
    RawPeer peer(port_, privileged());
    ASSERT_TRUE(peer.send(bytes));
    const Bytes answer = peer.read_exactly(tcp::kHelloV3Bytes);
    const auto hello = tcp::decode_hello(answer);
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->value.source_nid, kNode);
    EXPECT_EQ(hello->value.dest_nid, kPeer);
    EXPECT_EQ(hello->value.source_pid, kPidLustre);
    EXPECT_EQ(hello->value.type, 1u);
    EXPECT_NE(hello->value.source_incarnation, 0u);
  }
}

TEST_F(Acceptor, Hellos) {
  const Bytes request = tcp::encode_connect_request({kNode});
  const auto raw = [&](Bytes hello) {
    Bytes bytes = request;
    append(bytes, hello);
    return bytes;
  };
  const Bytes hello = tcp::encode_hello(good());
  expect_closed(raw(at32(hello, 0, 0x12345678)), "hello_magic");
  expect_closed(raw(at32(hello, 48, 9)), "hello_type");
  expect_closed(raw(at32(hello, 48, 0xFFFFFFFF)), "hello_type");
  expect_closed(raw(at32(hello, 24, kPidAny)), "hello_pid");
  expect_closed(raw(at32(hello, 24, kPidUserFlag | 4)), "hello_pid");
  expect_closed(raw(at32(at32(hello, 8, ~0U), 12, ~0U)), "hello_nid");
  expect_closed(raw(at32(hello, 52, 17)), "hello_ip_list");
  Bytes zero_ip = at32(hello, 52, 1);
  append(zero_ip, Bytes(4, 0));
  expect_closed(raw(zero_ip), "hello_ip_list");
  const auto changed = [&](auto change) {
    tcp::Hello other = good();
    change(other);
    return opening(other);
  };
  expect_closed(changed([](auto& h) { h.source_nid = *Nid::parse("127.0.0.9@tcp7"); }),
                "hello_nid");
  expect_closed(changed([](auto& h) { h.source_nid = *Nid::parse("127.0.0.8@tcp"); }),
                "hello_address");
  expect_closed(changed([](auto& h) { h.dest_nid = kPeer; }), "hello_destination");
}

TEST_F(Acceptor, UnknownHelloVersionsAreAnsweredWithOurs) {
  // SE-4. The answer must arrive although the rest of the HELLO is never looked at.
  for (const uint32_t version : {0U, 1U, 2U, 5U, 255U}) {
    Bytes bytes = tcp::encode_connect_request({kNode});
    append(bytes, at32(tcp::encode_hello(good()), 4, version));
    append(bytes, Bytes(5000, 0x55));
    RawPeer peer(port_, privileged());
    ASSERT_TRUE(peer.send(bytes));
    const Bytes answer = peer.read_to_end();
    EXPECT_FALSE(peer.was_reset()) << version;
    const auto hello = tcp::decode_hello(answer);
    ASSERT_TRUE(hello) << version;
    EXPECT_EQ(answer.size(), tcp::kHelloV3Bytes);
    EXPECT_EQ(hello->value.version, 3u);
    EXPECT_EQ(hello->value.type, 0xFFFFFFFFu);
    EXPECT_EQ(hello->value.source_nid, kNode);
    EXPECT_EQ(hello->value.dest_nid, kNode);
  }
}

TEST_F(Acceptor, TypesAreMirroredAndListsIgnored) {
  for (const auto& [sent, answered] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {1, 1}, {2, 3}, {3, 2}}) {
    tcp::Hello hello = good();
    hello.type = sent;
    hello.dest_pid = 4711;
    hello.dest_incarnation = 4712;
    Bytes bytes = at32(opening(hello), tcp::kConnectRequestV1Bytes + 52, 2);
    append(bytes, Bytes(8, 1));  // a legacy list of two addresses
    append(bytes, put_frame({.wish = Wish::kAll, .payload_bytes = 3, .cookie0 = 6}, kPeer, kNode));
    RawPeer peer(port_, privileged());
    ASSERT_TRUE(peer.send(bytes));
    const auto answer = tcp::decode_hello(peer.read_exactly(tcp::kHelloV3Bytes));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->value.type, answered);
    EXPECT_EQ(answer->value.dest_pid, 4711u) << "echo";
    EXPECT_EQ(answer->value.dest_incarnation, 4712u) << "echo";
    // The zero-copy cookie comes back on this very connection.
    EXPECT_EQ(peer.read_exactly(tcp::kFrameHeaderBytes), noop(0, 6));
  }
}

TEST_F(Acceptor, HelloTwiceIsABadFrame) {
  RawPeer peer(port_, privileged());
  Bytes bytes = opening(good());
  append(bytes, tcp::encode_hello(good()));
  ASSERT_TRUE(peer.send(bytes));
  EXPECT_EQ(peer.read_to_end().size(), tcp::kHelloV3Bytes);
  EXPECT_TRUE(eventually([&] { return node_.counter("closed_frame_type") == 1; }));
}

TEST_F(Acceptor, OversizedPayloadsCloseBeforeAnythingIsAllocated) {
  // SE-1
  for (const uint32_t bytes : {1048577U, 0x80000000U, 0xFFFFFFFFU}) {
    for (const uint32_t type : {1U, 3U}) {
      RawPeer peer(port_, privileged());
      Bytes stream = opening(good());
      append(stream, at32(at32(put_frame({.wish = Wish::kAll}, kPeer, kNode), kLnetTypeAt, type),
                          kLnetPayloadBytesAt, bytes));
      ASSERT_TRUE(peer.send(stream));
      EXPECT_EQ(peer.read_to_end().size(), tcp::kHelloV3Bytes);
      EXPECT_FALSE(peer.timed_out());
    }
  }
  EXPECT_TRUE(eventually([&] { return node_.counter("closed_frame_header") == 6; }));
  EXPECT_EQ(node_.host.received_count(), 0u);
}

TEST_F(Acceptor, RestartedPeerIsRefusedOnceAndItsOldConnectionsClose) {
  RawPeer old(port_, privileged());
  ASSERT_TRUE(old.send(opening(good())));
  const auto first = tcp::decode_hello(old.read_exactly(tcp::kHelloV3Bytes));
  ASSERT_TRUE(first);
  tcp::Hello restarted = good();
  restarted.source_incarnation += 1;
  const auto refused = tcp::decode_hello(answer_to(opening(restarted)));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->value.type, 0xFFFFFFFFu);
  EXPECT_EQ(refused->value.source_incarnation, first->value.source_incarnation) << "the true one";
  EXPECT_EQ(old.read_to_end().size(), 0u);
  RawPeer again(port_, privileged());
  ASSERT_TRUE(again.send(opening(restarted)));
  const auto accepted = tcp::decode_hello(again.read_exactly(tcp::kHelloV3Bytes));
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->value.type, 1u);
}

TEST_F(Acceptor, SlowPeersNeitherLastNorHoldOthersUp) {
  std::vector<std::unique_ptr<RawPeer>> slow;
  const Bytes bytes = opening(good());
  for (const size_t sent :
       {size_t{0}, size_t{1}, size_t{16}, size_t{17}, bytes.size() / 2, bytes.size() - 1}) {
    slow.push_back(std::make_unique<RawPeer>(port_, privileged()));
    if (sent > 0) {
      ASSERT_TRUE(slow.back()->send(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(sent))));
    }
  }
  const Time start = clock_now();
  RawPeer quick(port_, privileged());
  ASSERT_TRUE(quick.send(bytes));
  EXPECT_EQ(quick.read_exactly(tcp::kHelloV3Bytes).size(), tcp::kHelloV3Bytes);
  EXPECT_LT(clock_now() - start, std::chrono::milliseconds(500));
  for (auto& peer : slow) {
    EXPECT_EQ(peer->read_to_end().size(), 0u);
    EXPECT_FALSE(peer->timed_out());
  }
  // One deadline for connect request and HELLO together, however the bytes trickle.
  EXPECT_LT(clock_now() - start, std::chrono::milliseconds(2500));
  EXPECT_EQ(node_.counter("closed_setup_timeout"), slow.size());
}

TEST_F(Acceptor, SetupsPerAddressAreLimited) {
  auto limited = node_options(free_port());
  limited.nid = "127.0.0.5@tcp";
  limited.acceptor.setups_per_address_max = 4;
  TcpNode node(limited);
  std::vector<UniqueFd> open;
  for (int i = 0; i < 10; ++i) {
    auto fd = tcp::start_dial(
        {.from = kPeer, .to = node.nid(), .port = limited.port, .privileged = privileged()}, {});
    ASSERT_TRUE(fd);
    open.push_back(std::move(*fd));
  }
  EXPECT_TRUE(eventually([&] { return node.counter("closed_too_many_setups") == 6; }));
  // Another address is not affected, and the first one is served again once its set-ups have timed
  // out.
  const auto is_served = [&](const Nid& from) {
    auto fd = tcp::start_dial(
        {.from = from, .to = node.nid(), .port = limited.port, .privileged = privileged()}, {});
    ::fcntl(fd->get(), F_SETFL, 0);
    Bytes bytes = tcp::encode_connect_request({node.nid()});
    append(bytes, tcp::encode_hello(make_hello(from, node.nid(), ConnType::kControl)));
    ::send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    uint8_t answer[tcp::kHelloV3Bytes];
    return ::recv(fd->get(), answer, sizeof answer, MSG_WAITALL) == sizeof answer;
  };
  EXPECT_TRUE(is_served(*Nid::parse("127.0.0.10@tcp")));
  EXPECT_TRUE(eventually([&] { return is_served(kPeer); }));
}

TEST_F(Acceptor, ResetsRightAfterConnectLeakNothing) {
  // SL-3
  const int count = full_run() ? 100'000 : 400;
  RawPeer(port_, false).reset();
  const size_t before = open_descriptors();
  std::vector<std::thread> threads;
  const int thread_count = full_run() ? 50 : 4;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < count / thread_count; ++i) RawPeer(port_, false).reset();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }))
      << open_descriptors() << " > " << before;
  EXPECT_LT(node_.logger.count(), 40u) << "lines that a peer provokes are limited";
  RawPeer peer(port_, privileged());
  ASSERT_TRUE(peer.send(opening(good())));
  EXPECT_EQ(peer.read_exactly(tcp::kHelloV3Bytes).size(), tcp::kHelloV3Bytes);
}

TEST_F(Acceptor, BrokenOffHandshakesLeakNothing) {
  // SL-5. From several addresses, each with its own ports: those of one run out.
  constexpr uint32_t kAddresses = 8;
  const int count = full_run() ? 100'000 : 300;
  std::vector<Nid> peers;
  std::vector<Bytes> openings;
  for (uint32_t i = 0; i < kAddresses; ++i) {
    peers.push_back(Nid::from_ipv4(kPeer.net(), 0x7F000101 + i));
    tcp::Hello hello = good();
    hello.source_nid = peers.back();
    openings.push_back(opening(hello));
  }
  const size_t before = open_descriptors();
  for (int i = 0; i < count; ++i) {
    const size_t address = static_cast<size_t>(i / 4) % kAddresses;
    const Bytes& bytes = openings[address];
    RawPeer peer(port_, false, peers[address]);
    const size_t parts[] = {0, 1, bytes.size() / 2, bytes.size()};
    ASSERT_TRUE(peer.send(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(parts[i % 4]))))
        << "connection " << i << ": " << errno_text(errno);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }))
      << open_descriptors() << " > " << before;
  for (const Nid& peer : peers)
    EXPECT_TRUE(eventually([&] { return node_.lnd->connections(1, peer).empty(); }));
}

TEST(AcceptPolicy, SecureAllNone) {
  // SL-4
  auto options = node_options(free_port());
  options.acceptor.policy = AcceptPolicy::kSecure;
  {
    TcpNode node(options);
    RawPeer high(options.port, false);
    high.send(opening(good()));
    EXPECT_EQ(high.read_to_end().size(), 0u);
    EXPECT_TRUE(eventually([&] { return node.counter("closed_refused_port") == 1; }));
    EXPECT_TRUE(node.logger.contains("127.0.0.9:"));
    EXPECT_TRUE(node.logger.contains("source port"));
    if (privileged()) {
      RawPeer low(options.port, true);
      ASSERT_TRUE(low.send(opening(good())));
      EXPECT_EQ(low.read_exactly(tcp::kHelloV3Bytes).size(), tcp::kHelloV3Bytes);
    }
  }
  options.acceptor.policy = AcceptPolicy::kAll;
  {
    TcpNode node(options);
    // Trusted as far as its NID is its address.
    RawPeer high(options.port, false);
    ASSERT_TRUE(high.send(opening(good())));
    EXPECT_EQ(high.read_exactly(tcp::kHelloV3Bytes).size(), tcp::kHelloV3Bytes);
    RawPeer liar(options.port, false, *Nid::parse("127.0.0.10@tcp"));
    ASSERT_TRUE(liar.send(opening(good())));
    EXPECT_EQ(liar.read_to_end().size(), 0u);
  }
  options.acceptor.policy = AcceptPolicy::kNone;
  {
    TcpNode node(options);
    RawPeer any(options.port, false);
    uint8_t byte;
    EXPECT_EQ(::recv(any.fd(), &byte, 1, 0), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
  }
}

TEST(SocketOptions, BuffersAreNotSwapped) {
  // SL-6
  auto options = node_options(free_port());
  options.tcp.tx_buffer_bytes = 1 << 20;
  options.tcp.rx_buffer_bytes = 2 << 20;
  TcpNode node(options);
  const auto size_of = [](int fd, int option) {
    int value = 0;
    socklen_t length = sizeof value;
    ::getsockopt(fd, SOL_SOCKET, option, &value, &length);
    return value;
  };
  int limit_tx = 0, limit_rx = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> limit_tx;
  std::ifstream("/proc/sys/net/core/rmem_max") >> limit_rx;
  // What the driver's own sockets have, found among this process's descriptors by their addresses.
  node.put(node.nid(), 1);
  node.flush();
  ASSERT_TRUE(eventually([&] { return node.connections(node.nid(), "bulk_out") >= 1; }));
  size_t seen = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    const auto local = tcp::SocketAddress::local_of(fd);
    if (local.to_nid({NetType::kTcp, 0}) != node.nid() ||
        tcp::SocketAddress::remote_of(fd).port() == 0)
      continue;
    ++seen;
    EXPECT_EQ(size_of(fd, SO_SNDBUF), 2 * std::min(1 << 20, limit_tx)) << local.to_string();
    EXPECT_EQ(size_of(fd, SO_RCVBUF), 2 * std::min(2 << 20, limit_rx)) << local.to_string();
  }
  EXPECT_GE(seen, 4u);  // made and accepted ends
}

}  // namespace
}  // namespace ulnet::testing
