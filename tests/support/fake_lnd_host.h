// FakeLndHost: an LNet that only counts, for tests of drivers: it takes what comes, keeps it, and
// checks that each operation ends exactly once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lnet/base/rng.h"
#include "lnet/lnd.h"
#include "lnet/loop/loop.h"

namespace ulnet::testing {

class FakeLndHost final : public LndHost {
 public:
  struct Received {
    NiId ni = 0;
    Nid sender;
    Header header;
    std::vector<uint8_t> payload;
    Completion completion;
    bool done = false;
  };
  struct Down {
    NiId ni;
    Nid peer;
  };

  // ---- to be set before traffic: what to do with a message. The default takes every payload
  // whole.
  enum class Take : uint8_t { kAll, kDrop, kHalf, kWait, kProtocolError };
  std::function<Take(const IncomingMessage&)> policy;
  // Called without the host's lock, before drain_actions returns; may call the driver.
  std::function<void(const Received&)> on_received;
  size_t fragments = 1;  // of the memory that payloads are received into

  // ---- LndHost
  MessageVerdict handle_message(const IncomingMessage& message) override;
  void handle_receive_done(ReceiveId id, const Completion& completion) override;
  void handle_send_done(SendId id, const Completion& completion) override;
  void handle_peer_down(NiId ni, const Nid& peer, Time) override;
  void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) override;
  void drain_actions() override;
  Time now() const override { return clock_now(); }
  uint64_t random_below(uint64_t bound) override;

  // ---- the test's side. Thread: any.
  void note_send(SendId id);  // before Lnd::send
  size_t sends_open();
  size_t receives_open();
  size_t received_count();
  std::vector<Received> take_received();
  std::map<SendId, Completion> take_completions();
  std::vector<Down> take_downs();
  // The latest word on NI `ni`: fatal or not.
  bool is_fatal(NiId ni);
  size_t double_completions();
  // Ids and cookies of messages that wait, in order.
  struct Waiting {
    ReceiveId id;
    NiId ni;
    uint64_t cookie;
    uint32_t bytes;
  };
  std::vector<Waiting> take_waiting();
  // Memory for a message that waited; the driver is told by the test.
  PayloadView memory_for(ReceiveId id);

 private:
  struct Pending {
    Received message;
    std::vector<uint8_t> memory;
    std::vector<iovec> pieces;
  };
  PayloadView make_memory(Pending& pending, uint32_t bytes);

  std::mutex mutex_;
  Rng rng_{1};
  std::map<SendId, bool> sends_;  // true: completed
  std::map<SendId, Completion> completions_;
  std::map<ReceiveId, std::unique_ptr<Pending>> pending_;
  std::vector<Waiting> waiting_;
  std::vector<Received> received_;
  std::deque<Received> fresh_;  // on_received has not seen them
  std::vector<Down> downs_;
  std::map<NiId, bool> fatal_;
  ReceiveId last_receive_ = 0;
  size_t doubles_ = 0;
  bool draining_ = false;
};

}  // namespace ulnet::testing
