// The driver of 0@lo: hands a message straight back to its own node and copies payload from memory
// to memory. Source: spec lnet-core 3.11.
#pragma once

#include <map>
#include <mutex>

#include "lnet/lnd.h"

namespace ulnet {

class LoopbackLnd final : public Lnd {
 public:
  explicit LoopbackLnd(LndHost& host) : host_(host) {}

  NetType type() const override { return NetType::kLo; }
  Result<NiStarted> start_ni(NiId ni, const NiSettings& settings) override;
  void open() override {}
  void stop_ni(NiId) override {}
  void set_lnd_timeout(NiId, Duration) override {}
  void send(const SendAction& send) override;
  void flush() override {}
  void receive(const ReceiveAction& receive) override;
  void close_peer(NiId, const Nid&, std::string_view) override {}
  void stop(Duration grace) override;
  std::vector<CounterInfo> counters(NiId) const override { return {}; }
  std::vector<ConnectionInfo> connections(NiId, const Nid&) const override { return {}; }

 private:
  void deliver(const PayloadView& from, const ReceiveAction& to, SendId send);

  LndHost& host_;
  std::mutex mutex_;
  // ---- guarded by mutex_
  struct Held {
    PayloadView payload;
    ReceiveId receive = 0;
  };
  std::map<SendId, Held> held_;  // messages that LNet has no memory for yet
};

// Copies min(from.bytes, into.bytes) bytes.
void copy_payload(const PayloadView& from, const PayloadView& into);

}  // namespace ulnet
