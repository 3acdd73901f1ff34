// Random use of three cores: whatever the order of calls, failures, delays and unlinks, every MD
// gets exactly one event marked `unlinked` and nothing after it, credits are conserved, and
// everything drains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "lnet/base/rng.h"
#include "tests/support/core_world.h"

namespace ulnet {
namespace {

constexpr uint32_t kPortal = 9;

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : rng_(seed) {
    GlobalSettings global;
    global.transaction_timeout_s = 20;
    for (const char* nid : {"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"}) {
      nids_.push_back(test::nid(nid));
      nodes_.push_back(&world_.add(
          nid, {nid},
          [](NiSettings& ni) {
            ni.tunables.peer_credits = 2;
            ni.tunables.credits = 3;
            ni.tcp.timeout_s = 5;
          },
          global));
      (void)nodes_.back()->core->set_lazy(world_.now, kPortal, true);
    }
    world_.acquaint();
    lossy_ = rng_.chance(1, 2);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      check_events();
    }
    finish();
  }

 private:
  void step() {
    test::CoreWorld::Node& node = *nodes_[rng_.below(nodes_.size())];
    switch (rng_.below(8)) {
      case 0:
        attach(node);
        break;
      case 1:
      case 2:
        put(node);
        break;
      case 3:
        get(node);
        break;
      case 4:
        unlink(node);
        break;
      case 5:
        world_.advance(std::chrono::milliseconds(rng_.below(500)));
        break;
      default:
        move(node);
        break;
    }
  }

  void attach(test::CoreWorld::Node& node) {
    MdSpec md = memory();
    md.options = rng_.chance(1, 2) ? kMdPut | kMdTruncate : kMdPut | kMdGet;
    md.threshold = static_cast<int32_t>(rng_.between(1, 3));
    MeSpec me;
    me.portal = kPortal;
    me.ignore_bits = ~uint64_t{0};
    const auto handle = node.core->md_attach(world_.now, node.core->me_attach(me).value(), md);
    ASSERT_TRUE(handle.has_value());
    live_.insert({index_of(node), handle->value});
  }

  void put(test::CoreWorld::Node& node) {
    MdSpec md = memory();
    const bool ack = rng_.chance(2, 3);
    md.threshold = ack ? 2 : 1;
    PutArgs args;
    args.md = bind(node, md);
    args.ack = ack ? AckRequest::kAck : AckRequest::kNoAck;
    args.target = {nids_[rng_.below(nids_.size())], kPidLustre};
    args.portal = kPortal;
    EXPECT_TRUE(node.core->put(world_.now, args).is_ok());
  }

  void get(test::CoreWorld::Node& node) {
    MdSpec md = memory();
    md.threshold = 2;
    GetArgs args;
    args.md = bind(node, md);
    args.target = {nids_[rng_.below(nids_.size())], kPidLustre};
    args.portal = kPortal;
    EXPECT_TRUE(node.core->get(world_.now, args).is_ok());
  }

  MdHandle bind(test::CoreWorld::Node& node, const MdSpec& md) {
    const MdHandle handle = node.core->bind(md).value();
    live_.insert({index_of(node), handle.value});
    return handle;
  }

  void unlink(test::CoreWorld::Node& node) {
    for (const auto& [owner, md] : live_) {
      if (owner == index_of(node) && rng_.chance(1, 4)) {
        (void)node.core->unlink(MdHandle{md});
        return;
      }
    }
  }

  void move(test::CoreWorld::Node& node) {
    world_.collect();
    if (node.sends.empty()) return;
    if (lossy_ && node.sends.front().ni != kLoopbackNi && rng_.chance(1, 5)) {
      world_.fail_one(node, {.error = EIO, .health = HealthStatus::kLocalError});
    } else {
      world_.deliver_one(node);
    }
  }

  void check_events() {
    for (test::CoreWorld::Node* node : nodes_) {
      for (const Event& event : world_.events(*node)) {
        ASSERT_TRUE(live_.contains({index_of(*node), event.md.value}))
            << "an event after `unlinked`, or for nobody";
        if (event.unlinked) live_.erase({index_of(*node), event.md.value});
      }
    }
  }

  // Heals, lets every deadline pass, unlinks what is left, and looks at what remains.
  void finish() {
    lossy_ = false;
    world_.run();
    world_.advance(std::chrono::seconds(30));
    world_.run();
    check_events();
    for (test::CoreWorld::Node* node : nodes_) {
      (void)node->core->set_lazy(world_.now, kPortal, false);
    }
    world_.run();
    for (test::CoreWorld::Node* node : nodes_) node->core->shut_down(world_.now);
    world_.run();
    check_events();
    EXPECT_TRUE(live_.empty()) << live_.size() << " MDs never got their last event";
    for (test::CoreWorld::Node* node : nodes_) {
      EXPECT_EQ(node->core->statistics().rst_alloc, 0U);
      EXPECT_EQ(node->core->sends_in_progress(), 0U);
      EXPECT_EQ(node->core->receives_in_progress(), 0U);
      EXPECT_EQ(node->core->next_timeout(), kNever);
      EXPECT_EQ(node->core->nets().at(1).nis.at(0).tx_credits, 3);
      for (const PeerInfo& peer : node->core->peers()) {
        EXPECT_EQ(peer.nis.at(0).available_tx_credits, 2) << peer.primary_nid.to_string();
        EXPECT_EQ(peer.nis.at(0).tx_q_bytes, 0U);
      }
    }
  }

  size_t index_of(const test::CoreWorld::Node& node) const {
    return static_cast<size_t>(std::find(nodes_.begin(), nodes_.end(), &node) - nodes_.begin());
  }

  MdSpec memory() {
    MdSpec md;
    const size_t bytes = rng_.below(sizeof memory_);
    if (bytes > 0) md.fragments = {{memory_, bytes}};
    return md;
  }

  Rng rng_;
  bool lossy_ = false;
  test::CoreWorld world_;
  std::vector<Nid> nids_;
  std::vector<test::CoreWorld::Node*> nodes_;
  std::set<std::pair<size_t, uint64_t>> live_;  // (node, MD)
  uint8_t memory_[512] = {};
};

TEST(CoreRandom, EveryMdEndsOnceAndCreditsAreConserved) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed).run(400);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace ulnet
