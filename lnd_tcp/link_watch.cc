#include "lnd_tcp/link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "lnd_tcp/interfaces.h"
#include "lnd_tcp/io_connection.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {

LinkWatch::LinkWatch(Driver& driver, std::function<void()> changed)
    : driver_(driver),
      fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE)),
      changed_(std::move(changed)) {
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
  if (changed_) changed_();
}

void LinkWatch::look() {
  const auto addresses = list_addresses();
  if (!addresses) return;
  for (Ni* ni : driver_.running_nis()) {
    // On its own device: elsewhere its sockets, which are bound to that, would send nothing.
    NiSettings exact;
    exact.net = ni->nid().net();
    exact.nid = ni->nid();
    exact.interface = ni->identity().device;
    const auto here = choose_interface(*addresses, exact);
    if (!here) {
      change(*ni, State::kAddressGone);
      continue;
    }
    // A device of the same name may be another one; sockets stay with the one that they know.
    const unsigned index = ::if_nametoindex(here->device.c_str());
    const unsigned before = std::exchange(known_[ni->identity().id].device_index, index);
    if (before != 0 && before != index) close_connections(*ni);
    const bool up = std::any_of(addresses->begin(), addresses->end(), [&](const auto& each) {
      return each.device == here->device && each.up;
    });
    change(*ni, up ? State::kUp : State::kLinkDown);
  }
  std::erase_if(known_, [this](const auto& entry) {
    const Ni* ni = driver_.find_ni(entry.first);
    return ni == nullptr || !ni->running();
  });
}

void LinkWatch::change(Ni& ni, State state) {
  State& known = known_[ni.identity().id].state;
  if (state == known) return;
  known = state;
  const std::string& interface = ni.identity().interface;
  const std::string nid = ni.nid().to_string();
  const std::string reason = state == State::kUp ? "link and address are back"
                             : state == State::kLinkDown
                                 ? fmt::format("the link of {} is down", interface)
                                 : fmt::format("NID {} is no longer on {}", nid, interface);
  driver_.logger.warn("NI {} on {}: {}", nid, interface, reason);
  // Nothing with a source that the host does not own (SL-10).
  if (state == State::kAddressGone) close_connections(ni);
  driver_.host.handle_ni_fatal(ni.identity().id, state != State::kUp, reason);
  driver_.contexts[0]->drain_due = true;
}

void LinkWatch::close_connections(Ni& ni) {
  Effects effects;
  ni.close_all_peers(CloseReason::kAddressGone, &effects);
  driver_.contexts[0]->drain_due |= driver_.apply(ni, effects);
}

}  // namespace ulnet::tcp
