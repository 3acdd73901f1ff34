// The bounds that are shown hold: when operations end that nobody answers, to the nanosecond.
// Source: spec lnet-core 8; decisions D2, D5.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "config/show.h"
#include "tests/support/settings_fixture.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::SizeIs;

struct BoundRow {
  const char* name;
  int32_t transaction_timeout_s;
  int32_t retry_count;
  int32_t asked_s;
  int32_t lnd_timeout_s;  // in force
  int32_t attempt_bound_s;
};

class BoundTest : public SettingsTest, public testing::WithParamInterface<BoundRow> {
 protected:
  void start(int32_t peer_credits = 8) {
    GlobalSettings global;
    global.transaction_timeout_s = GetParam().transaction_timeout_s;
    global.retry_count = GetParam().retry_count;
    two_rails(global, [&](NiSettings& ni) {
      ni.tcp.timeout_s = GetParam().asked_s;
      ni.tunables.peer_credits = peer_credits;
    });
    const auto shown = config::show_global(a_->core->global(), a_->core->nets())["global"]["ulnet"];
    operation_bound_ = std::chrono::seconds(shown["operation_bound"].get<int>());
    attempt_bound_ = std::chrono::seconds(shown["lnd_timeouts"][0]["attempt_bound"].get<int>());
    EXPECT_EQ(shown["lnd_timeouts"][0]["in_force"], GetParam().lnd_timeout_s);
  }
  // The one event that ends it comes at `bound`, and not before.
  void expect_end_at(Duration bound, int32_t status) {
    world_.advance(bound - 1ns);
    for (const Event& event : world_.events(*a_)) EXPECT_FALSE(event.unlinked);
    world_.advance(1ns);
    const std::vector<Event> events = world_.events(*a_);
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_TRUE(events[0].unlinked);
    EXPECT_EQ(events[0].status, status);
  }
  void get() {
    test::get(world_, *a_, {.target = nid(kRailB1), .memory = memory_});
    swallow();
  }
  // Every message is taken by the wire and never answered.
  void swallow() {
    world_.collect();
    while (!a_->sends.empty()) {
      const SendId id = a_->sends.front().id;
      a_->sends.pop_front();
      a_->core->handle_send_done(world_.now, id, Completion{});
    }
  }
  Duration operation_bound_{};
  Duration attempt_bound_{};
};

TEST_P(BoundTest, TheNumbers) {
  start();
  EXPECT_EQ(operation_bound_, std::chrono::seconds(GetParam().transaction_timeout_s));
  EXPECT_EQ(attempt_bound_, std::chrono::seconds(GetParam().attempt_bound_s));
}

TEST_P(BoundTest, AGetOfASilentPeer) {
  start();
  get();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AGetThatWaitsForDiscovery) {
  start();
  ASSERT_TRUE(set("discovery", 1).is_ok());
  get();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AnAcknowledgedPutToASilentPeer) {
  start();
  put(AckRequest::kAck);
  swallow();
  expect_end_at(operation_bound_, -ETIMEDOUT);
}

TEST_P(BoundTest, AMessageThatNeverGetsItsCredit) {
  start(1);
  put();
  ASSERT_THAT(a_->sends, SizeIs(1));  // and there it stays
  put();
  expect_end_at(attempt_bound_, -ETIMEDOUT);
}

// The driver gives each attempt up at its LND timeout, so that the next one has its time, too.
TEST_P(BoundTest, AllAttemptsOfAMessageTogether) {
  start();
  ASSERT_TRUE(set("health_sensitivity", 0).is_ok());  // no recovery pings in between
  const Time begin = world_.now;
  put(AckRequest::kNoAck, Nid::any());
  int32_t attempts = 0;
  while (world_.collect() || !a_->sends.empty()) {
    ASSERT_THAT(a_->sends, SizeIs(1));
    const SendAction send = a_->sends.front();
    const Duration patience = std::min(send.deadline - world_.now,
                                       Duration(std::chrono::seconds(GetParam().lnd_timeout_s)));
    world_.advance(patience);
    world_.fail_one(
        *a_, {.error = ETIMEDOUT, .health = HealthStatus::kNetworkTimeout, .nothing_posted = true});
    ++attempts;
  }
  EXPECT_LE(world_.now - begin, operation_bound_);
  EXPECT_EQ(attempts, std::min(GetParam().retry_count + 1,
                               (GetParam().transaction_timeout_s + GetParam().lnd_timeout_s - 1) /
                                   GetParam().lnd_timeout_s));
  const std::vector<Event> events = world_.events(*a_);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].status, -ETIMEDOUT);
}

INSTANTIATE_TEST_SUITE_P(Settings, BoundTest,
                         testing::Values(BoundRow{"seed_000", 31, 2, 10, 10, 31},
                                         BoundRow{"aries", 61, 0, 60, 60, 61},
                                         BoundRow{"defaults", 150, 2, 0, 49, 148},
                                         BoundRow{"stock_export", 150, 2, 50, 49, 148},
                                         BoundRow{"short_lnd_timeout", 150, 2, 7, 7, 22},
                                         BoundRow{"no_retries", 50, 0, 0, 49, 50},
                                         BoundRow{"many_retries", 100, 9, 0, 9, 91},
                                         BoundRow{"tight", 4, 3, 0, 1, 4},
                                         BoundRow{"least", 1, 0, 0, 1, 1}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ulnet
