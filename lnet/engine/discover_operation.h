// One discovery that somebody waits for, from start to its only answer.
// Source: spec lnet-core 4.8, 4.11.
#pragma once

#include <memory>

#include "lnet/engine/engine.h"
#include "ulnet/endpoint.h"

namespace ulnet {

class DiscoverOperation final : public EventHandler {
 public:
  // Starts one that owns itself: `done` runs once, where handlers run, or in here when nothing
  // could be started.
  static void start(Engine& engine, const DiscoverArgs& args, Endpoint::DiscoverDone done);

  void handle_event(const Event& event) override;

 private:
  DiscoverOperation(Engine& engine, const DiscoverArgs& args, Endpoint::DiscoverDone done)
      : engine_(engine), args_(args), done_(std::move(done)) {}
  Result<PeerInfo> result(int32_t status) const;

  Engine& engine_;
  const DiscoverArgs args_;
  const Endpoint::DiscoverDone done_;
};

}  // namespace ulnet
