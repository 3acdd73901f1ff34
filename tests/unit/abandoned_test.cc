// HL-13: operations whose caller gives up at any moment leave nothing behind: no message, no wait
// for a response, no memory; and what was unlinked is never handed to a driver.
#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <memory>
#include <vector>

#include "lnet/base/rng.h"
#include "tests/support/core_deeds.h"

namespace ulnet {
namespace {

using test::kPortal;

constexpr uint32_t kBytes = 64;
constexpr int kRounds = 100'000;

// Bytes this process has allocated; 0 where the allocator does not tell (sanitizers).
size_t allocated_bytes() {
  return mallinfo2().uordblks;
}

class AbandonedTest : public testing::Test {
 protected:
  struct Operation {
    std::unique_ptr<std::vector<uint8_t>> memory;  // freed with its last event
    bool unlinked = false;                         // and not in a driver's hands then
  };

  void SetUp() override {
    const auto few_credits = [](NiSettings& ni) { ni.tunables.peer_credits = 2; };
    a_ = &world_.add("a", {"10.0.0.1@tcp"}, few_credits);
    b_ = &world_.add("b", {"10.0.0.2@tcp"});
    test::open_target(world_, *b_, target_);
  }

  MdHandle put() {
    Operation operation;
    operation.memory = std::make_unique<std::vector<uint8_t>>(kBytes, 0xA5);
    MdSpec md;
    md.fragments = {{operation.memory->data(), kBytes}};
    md.threshold = 2;
    PutArgs args;
    args.md = a_->core->bind(md).value();
    args.ack = AckRequest::kAck;
    args.target = {test::nid("10.0.0.2@tcp"), kPidLustre};
    args.portal = kPortal;
    operations_.emplace(args.md.value, std::move(operation));
    EXPECT_TRUE(a_->core->put(world_.now, args).is_ok());
    settle();
    return args.md;
  }

  // Everything is taken up to the drivers, the events included.
  void settle() {
    world_.collect();
    check_sends();
    for (const Event& event : world_.events(*a_)) {
      if (!event.unlinked) continue;
      EXPECT_EQ(operations_.erase(event.md.value), 1U) << "MD " << event.md.value;
    }
    world_.events(*b_);
  }

  bool in_driver(const Operation& operation) const {
    for (const SendAction& send : a_->sends) {
      if (send.payload.bytes > 0 &&
          send.payload.fragments.front().iov_base == operation.memory->data())
        return true;
    }
    return false;
  }

  void check_sends() {
    for (const auto& [md, operation] : operations_) {
      EXPECT_FALSE(operation.unlinked && in_driver(operation))
          << "MD " << md << " was unlinked, and is sent now";
    }
  }

  void unlink(MdHandle md) {
    (void)a_->core->unlink(md);  // ENOENT: it has ended by itself
    const auto found = operations_.find(md.value);
    if (found != operations_.end()) found->second.unlinked = !in_driver(found->second);
    settle();
  }

  // One message of either node goes on, or is lost to a broken connection.
  void step() {
    test::CoreWorld::Node& node = rng_.chance(1, 2) ? *a_ : *b_;
    if (node.sends.empty()) return;
    if (rng_.chance(1, 10)) {
      // What was not posted goes again, if nobody has given it up.
      world_.fail_one(
          node,
          {.error = EIO, .health = HealthStatus::kLocalError, .nothing_posted = rng_.chance(1, 2)});
    } else {
      world_.deliver_one(node);
    }
    settle();
  }

  Rng rng_{13};
  test::CoreWorld world_;
  test::CoreWorld::Node* a_ = nullptr;
  test::CoreWorld::Node* b_ = nullptr;
  uint8_t target_[kBytes] = {};
  std::map<uint64_t, Operation> operations_;
};

TEST_F(AbandonedTest, NothingIsLeftOfAHundredThousandAbandonedPuts) {
  std::vector<MdHandle> waiting;
  size_t warm = 0;
  for (int round = 0; round < kRounds; ++round) {
    waiting.push_back(put());
    for (uint64_t steps = rng_.below(6); steps > 0; --steps) step();
    const uint64_t left = rng_.below(4);
    while (waiting.size() > left) {
      const size_t index = rng_.below(waiting.size());
      unlink(waiting[index]);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
    }
    // What was given up and is still with the driver ends now and then.
    if (round % 100 == 0) {
      for (int i = 0; i < 1000; ++i) step();
    }
    if (round == kRounds / 10) warm = allocated_bytes();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  for (const MdHandle md : waiting) unlink(md);
  while (!a_->sends.empty() || !b_->sends.empty()) step();
  EXPECT_TRUE(operations_.empty());
  for (const test::CoreWorld::Node* node : {a_, b_}) {
    EXPECT_EQ(node->core->statistics().msgs_alloc, 0U) << node->name;
    EXPECT_EQ(node->core->statistics().rst_alloc, 0U) << node->name;
  }
  EXPECT_LE(allocated_bytes(), warm + 64 * 1024);
}

}  // namespace
}  // namespace ulnet
