#include "lnd_tcp/transmit_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ulnet::tcp {
namespace {

// A queue whose frames are 100 bytes each, and who writes it.
class TransmitQueueTest : public testing::Test {
 protected:
  void write(size_t bytes) {
    queue_.start_batch();
    queue_.handle_written(bytes, &done_);
  }
  void push(int frames) {
    const std::vector<uint8_t> bytes(100);
    for (int i = 0; i < frames; ++i) queue_.push_bytes(bytes);
  }
  // "bytes acknowledged written" of the first frame that is not within `acknowledged`.
  std::array<uint32_t, 3> first(uint64_t acknowledged) {
    const auto frame = queue_.first_unacknowledged(acknowledged);
    if (!frame) return {};
    return {frame->bytes, frame->acknowledged, frame->written};
  }

  static constexpr std::array<uint32_t, 3> kNone = {};

  TransmitQueue queue_;
  std::vector<SendId> done_;
};

using Progress = std::array<uint32_t, 3>;

TEST_F(TransmitQueueTest, NothingBegunIsNothingUnacknowledged) {
  EXPECT_EQ(first(0), kNone);
  push(1);
  EXPECT_EQ(first(0), kNone);
}

TEST_F(TransmitQueueTest, TheFirstFrameThatIsNotWhollyAcknowledged) {
  push(3);
  write(250);
  EXPECT_EQ(first(0), (Progress{100, 0, 100}));
  EXPECT_EQ(first(99), (Progress{100, 99, 100}));
  EXPECT_EQ(first(100), (Progress{100, 0, 100}));
  EXPECT_EQ(first(230), (Progress{100, 30, 50}));
  EXPECT_EQ(first(250), (Progress{100, 50, 50}));
  write(50);
  EXPECT_EQ(first(250), (Progress{100, 50, 100}));
  EXPECT_EQ(first(300), kNone);
}

TEST_F(TransmitQueueTest, WhatLiesTooFarBackIsNotTold) {
  push(100);
  write(100 * 100);
  EXPECT_EQ(first(3000), kNone);  // where the 37th of 100 began is the oldest that is known
  EXPECT_EQ(first(3699), kNone);
  EXPECT_EQ(first(3701), (Progress{100, 1, 100}));
  EXPECT_EQ(first(9950), (Progress{100, 50, 100}));
}

}  // namespace
}  // namespace ulnet::tcp
