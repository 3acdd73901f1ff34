#include "lnd_tcp/link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lnd_tcp/interfaces.h"
#include "lnd_tcp/io_connection.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {

LinkWatch::LinkWatch(Driver& driver)
    : driver_(driver),
      fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  sockaddr_nl groups = {};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd_ || ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&groups), sizeof groups) != 0) {
    driver_.logger.warn("links are not watched: no netlink socket ({})", errno_text(errno));
    return;
  }
  poll_ = new uv_poll_t;
  ULNET_ASSERT(uv_poll_init(driver.contexts[0]->loop.uv(), poll_, fd_.get()) == 0,
               "libuv refuses a netlink socket");
  poll_->data = this;
  uv_poll_start(poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
    static_cast<LinkWatch*>(handle->data)->handle_events();
  });
}

LinkWatch::~LinkWatch() {
  if (poll_ == nullptr) return;
  uv_poll_stop(poll_);
  uv_close(reinterpret_cast<uv_handle_t*>(poll_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
}

// What the messages say does not matter, nor whether some were lost: any is a reason to look.
void LinkWatch::handle_events() {
  std::array<uint8_t, 8192> scratch;
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), scratch.data(), scratch.size(), 0);
    if (got < 0 && errno != ENOBUFS) break;
  }
  look();
  driver_.contexts[0]->drain();
}

void LinkWatch::look() {
  const auto addresses = list_addresses();
  if (!addresses) return;
  for (Ni* ni : driver_.running_nis()) {
    NiSettings exact;
    exact.net = ni->nid().net();
    exact.nid = ni->nid();
    const auto here = choose_interface(*addresses, exact);
    if (!here) {
      change(*ni, State::kAddressGone);
      continue;
    }
    const bool up = std::any_of(addresses->begin(), addresses->end(), [&](const auto& each) {
      return each.device == here->device && each.up;
    });
    change(*ni, up ? State::kUp : State::kLinkDown);
  }
}

void LinkWatch::change(Ni& ni, State state) {
  const auto known = states_.find(ni.identity().id);
  const State before = known == states_.end() ? State::kUp : known->second;
  if (state == before) return;
  states_[ni.identity().id] = state;
  const std::string_view reason = state == State::kUp ? "link and address are back"
                                  : state == State::kLinkDown
                                      ? "its link is down"
                                      : "its address is no longer on this host";
  driver_.logger.warn("NI {} on {}: {}", ni.nid().to_string(), ni.identity().interface, reason);
  if (state == State::kAddressGone) {
    // Nothing with a source that the host does not own (SL-10).
    Effects effects;
    ni.close_all_peers(CloseReason::kAddressGone, &effects);
    driver_.apply(ni, effects);
  }
  driver_.host.handle_ni_fatal(ni.identity().id, state != State::kUp, reason);
  driver_.contexts[0]->drain_due = true;
}

}  // namespace ulnet::tcp
