// Acceptor: one listening socket, bound to exactly one address, shared by the NIs (of several nets)
// that use it.
//
// It decides who may start a set-up: source port policy and the number of half-open set-ups from
// one source address. The set-up itself is IoConnection's, on the loops in turns, under one
// deadline; so a slow or hostile connection costs a few KiB for accept_timeout and holds nobody up.
//
// Thread: the first loop's, but for the end of set-ups.
// Source: spec tcp-lnd 1.1, 1.4, 10.1; cases SL-3, SL-4, SL-5.
#pragma once

#include <uv.h>

#include <map>
#include <memory>
#include <mutex>

#include "lnd_tcp/driver.h"
#include "lnd_tcp/sockets.h"

namespace ulnet::tcp {

class Acceptor {
 public:
  // `ni` is whom refusals are counted for until a connect request names another. Connections
  // wait in the backlog until open().
  Acceptor(Driver& driver, Ni& ni, UniqueFd fd);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Starts to accept; a second call does nothing.
  void open() { watch(); }

  // The NI that took the listener over, when the first one stops.
  void set_ni(Ni& ni) { ni_ = &ni; }
  Ni& ni() const { return *ni_; }

 private:
  // Half-open set-ups by source address. Outlives the acceptor while set-ups go on.
  struct Setups {
    std::mutex mutex;
    std::map<Nid, int32_t> by_address;
    bool try_begin(const Nid& address, int32_t limit);
    void end(const Nid& address);
  };

  void watch();
  void accept_some();
  void take(UniqueFd fd, const SocketAddress& remote);

  Driver& driver_;
  Ni* ni_;
  UniqueFd fd_;
  uv_poll_t* poll_;  // freed by its close callback
  LoopTimer pause_;  // after errors such as "no descriptors left"
  const std::shared_ptr<Setups> setups_ = std::make_shared<Setups>();
};

}  // namespace ulnet::tcp
