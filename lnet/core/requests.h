// Requests of this node's own: PUT and GET, from the application or from the core itself.
// Source: spec lnet-core 2.6, 3.9, 8.1.
#pragma once

#include "lnet/core/memory.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"
#include "ulnet/endpoint.h"

namespace ulnet::core {

class Requests {
 public:
  Requests(State& state, Memory& memory, Sender& sender)
      : state_(state), memory_(memory), sender_(sender) {}

  // See Endpoint::put and get.
  Status put(const PutArgs& args);
  Status get(const GetArgs& args);
  // A GET that goes to exactly this NID, also one of our own, and is never sent again: a ping that
  // asks after this NID alone.
  Status get_pinned(const GetArgs& args);

 private:
  Status start_get(const GetArgs& args, bool pinned);
  // A bound MD that may start an operation to `target`. Errors: ENOENT, EINVAL a wildcard.
  Result<Md*> find_source(MdHandle handle, const ProcessId& target);
  // A message with what PUT and GET have in common, and its SEND event.
  template <typename Args>
  SendMessage& make(const Md& md, const Args& args);
  // When a response to an operation that starts now is given up.
  Time response_deadline(std::chrono::nanoseconds timeout) const;
  bool tracks_response(const Md& md, bool is_put) const;

  State& state_;
  Memory& memory_;
  Sender& sender_;
};

}  // namespace ulnet::core
