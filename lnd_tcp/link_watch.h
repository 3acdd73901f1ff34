// LinkWatch: notices when the link or the address of a NI goes away and when it comes back, and
// tells LNet.
//
// Thread: the first loop's.
// Source: spec tcp-lnd 5.6 (link and address loss); cases SL-10.
#pragma once

#include <uv.h>

#include <functional>
#include <map>
#include <string>

#include "lnd_tcp/driver.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::tcp {

class LinkWatch {
 public:
  // Without a netlink socket (a sandbox, for instance) nothing is noticed, and the log says so.
  // `changed` is called after each look that events have caused.
  LinkWatch(Driver& driver, std::function<void()> changed);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  // Looks at every NI now, without waiting for an event.
  void look();

 private:
  enum class State : uint8_t { kUp, kLinkDown, kAddressGone };
  struct Known {
    State state = State::kUp;
    unsigned device_index = 0;  // 0: not looked at yet
  };

  void handle_events();
  void change(Ni& ni, State state);
  void close_connections(Ni& ni);

  Driver& driver_;
  UniqueFd fd_;
  uv_poll_t* poll_ = nullptr;  // freed by its close callback
  std::function<void()> changed_;
  std::map<NiId, Known> known_;
};

}  // namespace ulnet::tcp
