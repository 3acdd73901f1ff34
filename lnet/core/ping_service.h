// Portal 0: our ping info for whoever asks, and memory for the pushes of others.
//
// A kernel peer holds its own traffic to us back while a ping or push of its is unanswered; so both
// are served here, in the core, whatever the application does. A taken push buffer is replaced
// before the next message is looked at. Source: spec lnet-core 4.1 to 4.6, 14.4.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lnet/core/memory.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class PingService {
 public:
  PingService(State& state, Memory& memory) : state_(state), memory_(memory) {}

  // Puts up the info of the NIs there are now, with the next sequence number.
  void rebuild();
  // Puts up the info with the statuses there are now, under the same sequence number.
  void refresh();
  // Posts the buffer for the next push.
  void post_push_target();

  // Later pushes find room for this many bytes.
  void grow_push_target(size_t bytes) { push_bytes_ = std::max(push_bytes_, bytes); }

  // What is up now, as a push carries it.
  const std::vector<uint8_t>& info() const { return buffers_.at(target_.value); }
  // What a push brought, with its event.
  std::span<const uint8_t> pushed(const Md& md, const Event& event) const;
  void handle_event(const Md& md, const Event& event);

 private:
  void put_up();

  State& state_;
  Memory& memory_;
  MdHandle target_;
  size_t push_bytes_ = 4096;  // longer pushes are truncated and acknowledged as such
  // Memory of both services by MD, kept until the MD's last event: a REPLY may still be read from
  // an old info.
  std::map<MdId, std::vector<uint8_t>> buffers_;
};

}  // namespace ulnet::core
