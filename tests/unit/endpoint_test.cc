// Whole nodes in one process over TCP on loopback: the library as applications use it.
#include "ulnet/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "lnet/base/log.h"
#include "lnet/base/rng.h"
#include "tests/support/nid.h"
#include "tests/support/ports.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPortal = 30;

using test::nid;

// Collects events of several MDs; waits for conditions on them.
class Collector final : public EventHandler {
 public:
  void handle_event(const Event& event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  // Waits until `count` events marked `unlinked` are there.
  bool wait_unlinked(size_t count, std::chrono::seconds limit = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return unlinked() >= count; });
  }
  std::vector<Event> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  size_t count(EventKind kind) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(events_.begin(), events_.end(),
                                             [&](const Event& e) { return e.kind == kind; }));
  }

 private:
  size_t unlinked() const {
    return static_cast<size_t>(
        std::count_if(events_.begin(), events_.end(), [](const Event& e) { return e.unlinked; }));
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
};

Settings node(std::string_view address, uint16_t port, int32_t threads) {
  Settings settings;
  NiSettings ni;
  ni.nid = nid(std::string(address) + "@tcp");
  ni.net = ni.nid->net();
  ni.tunables.peer_credits = 32;
  settings.nis.push_back(ni);
  settings.acceptor.policy = AcceptPolicy::kAll;
  settings.acceptor.port = port;
  settings.node.threads = threads;
  settings.node.log_level = "warn";
  return settings;
}

std::vector<uint8_t> pattern(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> data(bytes);
  Rng rng(seed);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(rng.next());
  return data;
}

class EndpointPair : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    const uint16_t port = test::free_port();
    a_ = Endpoint::start(node("127.0.0.2", port, GetParam())).value();
    b_ = Endpoint::start(node("127.0.0.3", port, 1)).value();
  }
  // Declared behind a test's memory and handlers: nodes stop before those go, also when the test
  // returns early.
  struct StopFirst {
    explicit StopFirst(EndpointPair& pair) : pair_(pair) {}
    ~StopFirst() {
      if (pair_.a_) pair_.a_->stop();
      if (pair_.b_) pair_.b_->stop();
    }
    EndpointPair& pair_;
  };

  // With `threads: 0` somebody must drive node a.
  template <typename Done>
  bool drive_until(Done done, std::chrono::seconds limit = 20s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      if (GetParam() == 0) {
        a_->poll(1ms);
      } else {
        std::this_thread::sleep_for(1ms);
      }
    }
    return true;
  }

  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
};

TEST_P(EndpointPair, PingBothWays) {
  PingArgs args;
  args.nid = nid("127.0.0.3@tcp");
  args.timeout = 10s;
  const Result<PingResult> there = a_->ping(args);
  ASSERT_TRUE(there.has_value()) << there.error().to_string();
  EXPECT_EQ(there->primary_nid, nid("127.0.0.3@tcp"));
  EXPECT_EQ(there->features, 0x1EU);
  EXPECT_THAT(there->nids, testing::ElementsAre(nid("127.0.0.3@tcp")));
  if (GetParam() == 0) return;  // nobody would drive a while b waits
  args.nid = nid("127.0.0.2@tcp");
  const Result<PingResult> back = b_->ping(args);
  ASSERT_TRUE(back.has_value()) << back.error().to_string();
}

TEST_P(EndpointPair, DiscoverTellsWhoItIsAndWhyNot) {
  if (GetParam() == 0) return;  // nobody would drive the one that is asked
  const Result<PeerInfo> there = a_->discover({.nid = nid("127.0.0.3@tcp")});
  ASSERT_TRUE(there.has_value()) << there.error().to_string();
  EXPECT_EQ(there->primary_nid, nid("127.0.0.3@tcp"));
  EXPECT_TRUE(there->multi_rail);
  EXPECT_EQ(there->state, 273U);
  const Result<PeerInfo> self = a_->discover({.nid = nid("127.0.0.2@tcp"), .force = true});
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->primary_nid, nid("127.0.0.2@tcp"));
  const Result<PeerInfo> nobody = a_->discover({.nid = nid("127.0.0.77@tcp")});
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code(), ECONNREFUSED);
  EXPECT_EQ(a_->discover({.nid = Nid::any()}).error().code(), EINVAL);
  EXPECT_EQ(a_->ping({.nid = Nid::any()}).error().code(), EINVAL);
}

TEST_P(EndpointPair, TheApplicationsNameForANodeStays) {
  if (GetParam() == 0) return;
  ASSERT_TRUE(a_->add_peer({nid("127.0.0.3@tcp"), nid("127.0.0.77@tcp")}).is_ok());
  EXPECT_EQ(a_->primary_nid(nid("127.0.0.3@tcp")).value(), nid("127.0.0.3@tcp"));
  EXPECT_EQ(a_->add_peer({nid("127.0.0.2@tcp")}).code(), EINVAL);
  EXPECT_EQ(a_->primary_nid(nid("127.0.0.88@tcp")).error().code(), ECONNREFUSED);
  ASSERT_TRUE(a_->configure_peer({.primary_nid = nid("127.0.0.9@tcp")}).is_ok());
  EXPECT_EQ(a_->delete_peer(nid("127.0.0.8@tcp")).code(), ENOENT);
  EXPECT_TRUE(a_->delete_peer(nid("127.0.0.9@tcp")).is_ok());
}

TEST_P(EndpointPair, PutAndGetOfEverySizeArriveIntact) {
  std::vector<uint8_t> store(kPayloadBytesMax);
  Collector at_b;
  const StopFirst stop(*this);
  MdSpec target;
  target.fragments = {{store.data(), store.size()}};
  target.options = kMdPut | kMdGet | kMdManageRemote | kMdTruncate;
  target.handler = &at_b;
  MeSpec me;
  me.portal = kPortal;
  const MdHandle attached = b_->attach(me, target).value();
  for (const size_t bytes : {0, 1, 255, 256, 257, 927, 928, 4095, 4096, 65536, 1048575, 1048576}) {
    SCOPED_TRACE(bytes);
    const std::vector<uint8_t> sent = pattern(bytes, bytes + 1);
    Collector at_a;
    MdSpec source;
    // Several fragments, the first of odd length.
    const size_t first = std::min<size_t>(bytes, 13);
    if (bytes > 0) source.fragments = {{const_cast<uint8_t*>(sent.data()), first}};
    if (bytes > first)
      source.fragments.push_back({const_cast<uint8_t*>(sent.data()) + first, bytes - first});
    source.threshold = 2;
    source.handler = &at_a;
    PutArgs put;
    put.md = a_->bind(source).value();
    put.target = {nid("127.0.0.3@tcp"), kPidLustre};
    put.portal = kPortal;
    ASSERT_TRUE(a_->put(put).is_ok());
    ASSERT_TRUE(drive_until([&] { return at_a.wait_unlinked(1, 0s); }));
    for (const Event& event : at_a.events()) {
      EXPECT_EQ(event.status, 0);
      EXPECT_EQ(event.mlength, bytes);
    }
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), store.begin()));

    std::vector<uint8_t> fetched(bytes);
    MdSpec sink;
    if (bytes > 0) sink.fragments = {{fetched.data(), first}};
    if (bytes > first) sink.fragments.push_back({fetched.data() + first, bytes - first});
    sink.threshold = 2;
    Collector fetched_events;
    sink.handler = &fetched_events;
    GetArgs get;
    get.md = a_->bind(sink).value();
    get.target = put.target;
    get.portal = kPortal;
    ASSERT_TRUE(a_->get(get).is_ok());
    ASSERT_TRUE(drive_until([&] { return fetched_events.wait_unlinked(1, 0s); }));
    EXPECT_EQ(fetched, sent);
  }
  ASSERT_TRUE(b_->unlink(attached).is_ok());
  EXPECT_TRUE(at_b.wait_unlinked(1));
  EXPECT_EQ(at_b.count(EventKind::kPut), 12U);
  EXPECT_EQ(at_b.count(EventKind::kGet), 12U);
}

TEST_P(EndpointPair, ManyMessagesInFlightEachEndOnceInOrder) {
  constexpr size_t kMessages = 3000;
  Collector at_b;
  std::vector<uint8_t> store(64);
  MdSpec target;
  target.fragments = {{store.data(), store.size()}};
  target.options = kMdPut | kMdManageRemote;
  target.handler = &at_b;
  MeSpec me;
  me.portal = kPortal;
  ASSERT_TRUE(b_->attach(me, target).has_value());
  Collector at_a;
  std::vector<uint8_t> small(64);
  for (size_t i = 0; i < kMessages; ++i) {
    MdSpec source;
    source.fragments = {{small.data(), small.size()}};
    source.threshold = 2;
    source.handler = &at_a;
    PutArgs put;
    put.md = a_->bind(source).value();
    put.target = {nid("127.0.0.3@tcp"), kPidLustre};
    put.portal = kPortal;
    put.hdr_data = i;
    ASSERT_TRUE(a_->put(put).is_ok());
  }
  const StopFirst stop(*this);
  ASSERT_TRUE(drive_until([&] { return at_a.wait_unlinked(kMessages, 0s); }, 60s));
  ASSERT_TRUE(drive_until([&] { return at_b.count(EventKind::kPut) == kMessages; }));
  EXPECT_EQ(at_a.count(EventKind::kAck), kMessages);
  EXPECT_EQ(at_a.count(EventKind::kSend), kMessages);
  const std::vector<Event> puts = at_b.events();
  ASSERT_EQ(puts.size(), kMessages);
  for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(puts[i].hdr_data, i);
  const NiInfo ni = a_->nets().at(1).nis.at(0);
  EXPECT_EQ(ni.tx_credits, 256);
  EXPECT_EQ(a_->peers().at(0).nis.at(0).available_tx_credits, 32);
}

TEST_P(EndpointPair, PolledEventsComeToWhoeverPolls) {
  std::vector<uint8_t> store(64);
  const StopFirst stop(*this);
  MdSpec target;
  target.fragments = {{store.data(), store.size()}};
  target.options = kMdPut;
  target.threshold = 1;
  MeSpec me;
  me.portal = kPortal;
  ASSERT_TRUE(b_->attach(me, target).has_value());
  MdSpec source;
  source.fragments = {{store.data(), 10}};
  source.threshold = 2;
  PutArgs put;
  put.md = a_->bind(source).value();
  put.target = {nid("127.0.0.3@tcp"), kPidLustre};
  put.portal = kPortal;
  ASSERT_TRUE(a_->put(put).is_ok());
  std::array<Event, 8> events;
  size_t taken = 0;
  bool unlinked = false;
  while (!unlinked) {
    const size_t count = a_->poll_events({events.data(), events.size()}, 10s);
    ASSERT_GT(count, 0U);
    for (size_t i = 0; i < count; ++i) unlinked = unlinked || events[i].unlinked;
    taken += count;
  }
  EXPECT_EQ(taken, 2U);
  ASSERT_EQ(b_->poll_events({events.data(), events.size()}, 10s), 1U);
  EXPECT_EQ(events[0].kind, EventKind::kPut);
  // Nothing more: the wait ends by its limit.
  EXPECT_EQ(b_->poll_events({events.data(), events.size()}, 10ms), 0U);
}

TEST_P(EndpointPair, StopLetsWhatWasAcceptedLeave) {
  Collector at_a;
  Collector at_b;
  std::vector<uint8_t> sent(kPayloadBytesMax);
  std::vector<uint8_t> store(kPayloadBytesMax);
  const StopFirst stop(*this);
  MdSpec target;
  target.fragments = {{store.data(), store.size()}};
  target.options = kMdPut | kMdManageRemote;
  target.handler = &at_b;
  MeSpec me;
  me.portal = kPortal;
  ASSERT_TRUE(b_->attach(me, target).has_value());
  MdSpec source;
  source.fragments = {{sent.data(), sent.size()}};
  source.threshold = 1;
  source.handler = &at_a;
  for (int i = 0; i < 8; ++i) {
    PutArgs put;
    put.md = a_->bind(source).value();
    put.ack = AckRequest::kNoAck;
    put.target = {nid("127.0.0.3@tcp"), kPidLustre};
    put.portal = kPortal;
    ASSERT_TRUE(a_->put(put).is_ok());
  }
  a_->stop();
  EXPECT_EQ(at_a.count(EventKind::kSend), 8U);
  for (const Event& event : at_a.events()) EXPECT_EQ(event.status, 0);
  for (int i = 0; i < 2000 && at_b.count(EventKind::kPut) < 8; ++i)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(at_b.count(EventKind::kPut), 8U);
  EXPECT_EQ(a_->bind(source).error().code(), ESHUTDOWN);
}

TEST_P(EndpointPair, StopWithThePeerGoneEndsEverythingInBoundedTime) {
  Collector at_a;
  std::vector<uint8_t> store(kPayloadBytesMax);
  MdSpec source;
  source.fragments = {{store.data(), store.size()}};
  source.threshold = 2;
  source.handler = &at_a;
  const StopFirst stop(*this);
  b_.reset();
  for (int i = 0; i < 50; ++i) {
    PutArgs put;
    put.md = a_->bind(source).value();
    put.target = {nid("127.0.0.3@tcp"), kPidLustre};
    put.portal = kPortal;
    ASSERT_TRUE(a_->put(put).is_ok());
  }
  const auto start = std::chrono::steady_clock::now();
  a_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(at_a.wait_unlinked(50, 0s));
}

TEST_P(EndpointPair, PingOfADeadNodeFailsAtOnceWithTheCause) {
  PingArgs args;
  args.nid = nid("127.0.0.77@tcp");
  args.timeout = 10s;
  const auto start = std::chrono::steady_clock::now();
  const Result<PingResult> refused = a_->ping(args);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ECONNREFUSED);
  args.nid = nid("10.1.1.1@tcp9");
  EXPECT_EQ(a_->ping(args).error().code(), EHOSTUNREACH);
}

INSTANTIATE_TEST_SUITE_P(Threads, EndpointPair, testing::Values(0, 1, 3),
                         [](const auto& test) { return "threads_" + std::to_string(test.param); });

TEST(Endpoint, FailedStartNamesTheNiAndLeavesNothing) {
  const uint16_t port = test::free_port();
  const auto first = Endpoint::start(node("127.0.0.2", port, 1)).value();
  const auto second = Endpoint::start(node("127.0.0.2", port, 1));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), EADDRINUSE);
  EXPECT_THAT(second.error().text(), testing::HasSubstr("127.0.0.2@tcp"));
  EXPECT_THAT(second.error().text(), testing::HasSubstr(std::to_string(port)));

  Settings o2ib = node("127.0.0.2", port, 1);
  o2ib.nis[0].nid.reset();
  o2ib.nis[0].net = NetId::parse("o2ib").value();
  o2ib.nis[0].interface = "ib0";
  o2ib.nis[0].where = "node.yaml:4";
  const auto third = Endpoint::start(o2ib);
  ASSERT_FALSE(third.has_value());
  EXPECT_THAT(third.error().text(), testing::StartsWith("node.yaml:4: o2ib(ib0): "));
}

TEST(Endpoint, ANodeWithoutNisHasLoopback) {
  const auto endpoint = Endpoint::start(Settings{}).value();
  std::vector<uint8_t> memory(64, 7);
  std::vector<uint8_t> target_memory(64);
  MdSpec target;
  target.fragments = {{target_memory.data(), 64}};
  target.options = kMdPut;
  target.threshold = 1;
  MeSpec me;
  me.portal = kPortal;
  ASSERT_TRUE(endpoint->attach(me, target).has_value());
  MdSpec source;
  source.fragments = {{memory.data(), 64}};
  source.threshold = 2;
  PutArgs put;
  put.md = endpoint->bind(source).value();
  put.target = {Nid::lo(), kPidLustre};
  put.portal = kPortal;
  ASSERT_TRUE(endpoint->put(put).is_ok());
  std::array<Event, 8> events;
  EXPECT_EQ(endpoint->poll_events({events.data(), events.size()}, 10s), 3U);
  EXPECT_EQ(target_memory, memory);
}

TEST(Endpoint, HandlersMayCallTheEndpoint) {
  // Each PUT event at b answers with a PUT of its own: a ping-pong made of handlers alone.
  const uint16_t port = test::free_port();
  struct Player final : EventHandler {
    std::unique_ptr<Endpoint> endpoint;
    Nid other;
    std::vector<uint8_t> memory = std::vector<uint8_t>(16);
    std::atomic<int> received{0};
    void send() {
      MdSpec source;
      source.fragments = {{memory.data(), memory.size()}};
      source.threshold = 1;
      source.handler = this;
      PutArgs put;
      put.md = endpoint->bind(source).value();
      put.ack = AckRequest::kNoAck;
      put.target = {other, kPidLustre};
      put.portal = kPortal;
      EXPECT_TRUE(endpoint->put(put).is_ok());
    }
    void handle_event(const Event& event) override {
      if (event.kind == EventKind::kPut && ++received < 200) send();
    }
  };
  Player a;
  Player b;
  a.endpoint = Endpoint::start(node("127.0.0.2", port, 1)).value();
  b.endpoint = Endpoint::start(node("127.0.0.3", port, 1)).value();
  a.other = nid("127.0.0.3@tcp");
  b.other = nid("127.0.0.2@tcp");
  std::array<uint8_t, 16> sink{};
  for (Player* player : {&a, &b}) {
    MdSpec target;
    target.fragments = {{sink.data(), sink.size()}};
    target.options = kMdPut | kMdManageRemote;
    target.handler = player;
    MeSpec me;
    me.portal = kPortal;
    ASSERT_TRUE(player->endpoint->attach(me, target).has_value());
  }
  a.send();
  for (int i = 0; i < 2000 && (a.received < 199 || b.received < 200); ++i)
    std::this_thread::sleep_for(5ms);
  EXPECT_GE(a.received, 199);
  EXPECT_GE(b.received, 200);
  a.endpoint->stop();
  b.endpoint->stop();
}

TEST(Endpoint, ACallFromAnotherThreadWakesASleepingPoll) {
  std::vector<uint8_t> memory(64);
  const uint16_t port = test::free_port();
  const auto a = Endpoint::start(node("127.0.0.2", port, 0)).value();
  const auto b = Endpoint::start(node("127.0.0.3", port, 1)).value();
  std::thread caller([&] {
    std::this_thread::sleep_for(100ms);
    MdSpec source;
    source.fragments = {{memory.data(), memory.size()}};
    source.threshold = 1;
    PutArgs put;
    put.md = a->bind(source).value();
    put.ack = AckRequest::kNoAck;
    put.target = {nid("127.0.0.3@tcp"), kPidLustre};
    put.portal = kPortal;
    EXPECT_TRUE(a->put(put).is_ok());
  });
  std::array<Event, 4> events;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(a->poll_events({events.data(), events.size()}, 20s), 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  caller.join();
}

TEST(Endpoint, CallsFromManyThreadsAtOnce) {
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 300;
  constexpr size_t kBytesMax = 8000;
  // Memory of its own for each operation: two that share it would race by the test's own fault.
  struct Operation {
    std::vector<uint8_t> here = std::vector<uint8_t>(kBytesMax);
    std::vector<uint8_t> there = std::vector<uint8_t>(kBytesMax);
  };
  std::vector<Operation> operations(kThreads * kEach);
  Collector at_a;
  Collector at_b;
  const uint16_t port = test::free_port();
  const auto a = Endpoint::start(node("127.0.0.2", port, 2)).value();
  const auto b = Endpoint::start(node("127.0.0.3", port, 2)).value();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (size_t i = 0; i < kEach; ++i) {
        Operation& operation = operations[t * kEach + i];
        const uint64_t match_bits = t * kEach + i;
        const bool is_put = rng.chance(1, 2);
        MdSpec target;
        target.fragments = {{operation.there.data(), kBytesMax}};
        target.options = (is_put ? kMdPut : kMdGet) | kMdTruncate;
        target.threshold = 1;
        target.handler = &at_b;
        EXPECT_TRUE(b->attach({.portal = kPortal, .match_bits = match_bits}, target).has_value());
        MdSpec md;
        md.fragments = {{operation.here.data(), rng.below(kBytesMax) + 1}};
        md.threshold = 2;
        md.options = kMdTruncate;
        md.handler = &at_a;
        const MdHandle handle = a->bind(md).value();
        const ProcessId to{nid("127.0.0.3@tcp"), kPidLustre};
        const Status status =
            is_put
                ? a->put({.md = handle, .target = to, .portal = kPortal, .match_bits = match_bits})
                : a->get({.md = handle, .target = to, .portal = kPortal, .match_bits = match_bits});
        EXPECT_TRUE(status.is_ok());
        if (rng.chance(1, 20)) (void)a->unlink(handle);
        if (rng.chance(1, 50)) (void)a->peers();
        if (rng.chance(1, 50)) (void)a->nets();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(at_a.wait_unlinked(kThreads * kEach, 60s));
  std::set<uint64_t> seen;
  for (const Event& event : at_a.events()) {
    if (event.unlinked) {
      EXPECT_TRUE(seen.insert(event.md.value).second) << "two last events";
    } else {
      EXPECT_FALSE(seen.contains(event.md.value)) << "an event after the last";
    }
  }
}

}  // namespace
}  // namespace ulnet
