#include "lnd_tcp/acceptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "lnd_tcp/io_connection.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

constexpr int kAcceptsPerWake = 32;
constexpr Duration kPause = std::chrono::seconds(1);

}  // namespace

bool Acceptor::Setups::try_begin(const Nid& address, int32_t limit) {
  const std::lock_guard lock(mutex);
  int32_t& count = by_address[address];
  if (count >= limit) return false;
  ++count;
  return true;
}

void Acceptor::Setups::end(const Nid& address) {
  const std::lock_guard lock(mutex);
  const auto it = by_address.find(address);
  if (it != by_address.end() && --it->second == 0) by_address.erase(it);
}

Acceptor::Acceptor(Driver& driver, Ni& ni, UniqueFd fd)
    : driver_(driver),
      ni_(&ni),
      fd_(std::move(fd)),
      poll_(new uv_poll_t),
      pause_(driver.contexts[0]->loop, [this] { watch(); }) {
  ULNET_ASSERT(uv_poll_init(driver.contexts[0]->loop.uv(), poll_, fd_.get()) == 0,
               "libuv refuses a TCP socket");
  poll_->data = this;
}

Acceptor::~Acceptor() {
  uv_poll_stop(poll_);
  uv_close(reinterpret_cast<uv_handle_t*>(poll_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
}

void Acceptor::watch() {
  uv_poll_start(poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
    static_cast<Acceptor*>(handle->data)->accept_some();
  });
}

void Acceptor::accept_some() {
  driver_.contexts[0]->loop.note_traffic();
  for (int i = 0; i < kAcceptsPerWake; ++i) {
    SocketAddress remote;
    UniqueFd fd(
        ::accept4(fd_.get(), remote.get(), remote.length_pointer(), SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      take(std::move(fd), remote);
      continue;
    }
    if (errno == EAGAIN) return;
    // The peer's trouble, told to us: go on with the next.
    if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO || errno == EPERM) continue;
    driver_.limiter.log(driver_.host.now(), LogLevel::kError, "accept",
                        "{}: accept failed: {}; pausing for 1 s", ni_->nid().to_string(),
                        errno_text(errno));
    uv_poll_stop(poll_);
    pause_.set(clock_now() + kPause);
    return;
  }
}

void Acceptor::take(UniqueFd fd, const SocketAddress& remote) {
  Counters& counters = ni_->counters();
  counters.add(Counter::kAccepted);
  const Nid address = remote.to_nid(ni_->nid().net());
  if (driver_.acceptor.policy == AcceptPolicy::kSecure && remote.port() > kPrivilegedPortMax) {
    counters.add(CloseReason::kRefusedPort);
    driver_.limiter.log(
        driver_.host.now(), LogLevel::kWarn, "port " + address.to_string(),
        "{}: connection from {} refused: source port {} is above {} and accept is 'secure'",
        ni_->nid().to_string(), remote.to_string(), remote.port(), kPrivilegedPortMax);
    return;
  }
  if (!setups_->try_begin(address, driver_.acceptor.setups_per_address_max)) {
    counters.add(CloseReason::kTooManySetups);
    driver_.limiter.log(
        driver_.host.now(), LogLevel::kWarn, "setups " + address.to_string(),
        "{}: connection from {} refused: {} set-ups from this address are unfinished",
        ni_->nid().to_string(), remote.to_string(), driver_.acceptor.setups_per_address_max);
    return;
  }
  LoopContext& context = driver_.next_context();
  auto adopt = [&context, ni = ni_, remote, setups = setups_, address](UniqueFd socket) {
    IoConnection::adopt(context, *ni, std::move(socket), remote,
                        [setups, address] { setups->end(address); });
  };
  if (context.loop.in_loop()) return adopt(std::move(fd));
  // std::function wants to be copied, so the descriptor travels in a box.
  context.loop.post(
      [adopt, box = std::make_shared<UniqueFd>(std::move(fd))] { adopt(std::move(*box)); });
}

}  // namespace ulnet::tcp
