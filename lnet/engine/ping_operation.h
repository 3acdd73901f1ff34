// One ping: a GET on portal 0 with memory of its own, from start to its only answer.
// Source: spec lnet-core 4.1, 4.6; cases HL-14 (a ping ends as soon as its send fails).
#pragma once

#include <memory>
#include <vector>

#include "lnet/engine/engine.h"
#include "ulnet/endpoint.h"

namespace ulnet {

class PingOperation final : public EventHandler {
 public:
  // Starts a ping that owns itself: `done` runs once, where handlers run, or in here when nothing
  // could be started.
  static void start(Engine& engine, const PingArgs& args, Endpoint::PingDone done);

  void handle_event(const Event& event) override;

 private:
  PingOperation(Engine& engine, const PingArgs& args, Endpoint::PingDone done)
      : engine_(engine), args_(args), done_(std::move(done)), reply_(kPingReplyBytes) {}
  Status begin();
  Result<PingResult> read_reply(const Event& event) const;
  Failure describe_failure(int32_t status) const;

  static constexpr size_t kPingReplyBytes = 3960;

  Engine& engine_;
  const PingArgs args_;
  const Endpoint::PingDone done_;
  Time started_ = Time::min();
  std::vector<uint8_t> reply_;
  Result<PingResult> result_ = fail(ETIMEDOUT, "not answered yet");
};

}  // namespace ulnet
