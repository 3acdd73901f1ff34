// LinkWatch: notices when the link or the address of a NI goes away and when it comes back, and
// tells LNet.
//
// Thread: the first loop's.
// Source: spec tcp-lnd 5.6 (link and address loss); cases SL-10.
#pragma once

#include <uv.h>

#include <map>

#include "lnd_tcp/driver.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::tcp {

class LinkWatch {
 public:
  // Without a netlink socket (a sandbox, for instance) nothing is noticed, and the log says so.
  explicit LinkWatch(Driver& driver);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

 private:
  enum class State : uint8_t { kUp, kLinkDown, kAddressGone };

  void handle_events();
  void look();
  void change(Ni& ni, State state);

  Driver& driver_;
  UniqueFd fd_;
  uv_poll_t* poll_ = nullptr;     // freed by its close callback
  std::map<NiId, State> states_;  // those that are not up
};

}  // namespace ulnet::tcp
