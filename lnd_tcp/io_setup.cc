// The set-up half of IoConnection: dialling, the connect request, HELLO in both roles, refusals.
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "lnd_tcp/io_connection.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

// A frame up to this passes wherever IP does: IPv6's least MTU without the headers of IPv6 and TCP.
constexpr uint32_t kAnyPathBytes = 1280 - 60;

}  // namespace

// ---------------------------------------------------------------- active

void IoConnection::dial(LoopContext& context, const std::shared_ptr<PeerLink>& peer,
                        ConnType type) {
  Driver& driver = context.driver;
  Ni& ni = peer->ni;
  DialOptions options{.from = ni.nid(), .to = peer->nid(), .port = driver.acceptor.port};
  options.privileged = ni.identity().privileged_ports;
  // A connection to one of our own NIDs goes by lo, whatever the device.
  if (ni.identity().device != "lo" && driver.find_running_ni(peer->nid()) == nullptr) {
    options.device = ni.identity().device;
  }
  auto fd = ni.running() ? start_dial(options, ni.tunables())
                         : Result<UniqueFd>(fail(ESHUTDOWN, "the NI is being stopped"));
  if (!fd) {
    driver.limiter.log(driver.host.now(), LogLevel::kWarn, "dial " + peer->nid().to_string(),
                       "peer_ni {}: {}", peer->nid().to_string(), fd.error().to_string());
    Effects effects;
    ni.fail_dial(*peer, connect_failure(fd.error().code()), driver.host.now(),
                 static_cast<uint32_t>(driver.host.random_below(1 << 16)), &effects);
    context.drain_due |= driver.apply(ni, effects);
    return context.drain();
  }
  const auto self = make(context, ni, std::move(*fd), Connection::Role::kActive);
  self->peer_ = peer;
  self->type_ = type;
  self->form_ = peer->nid().is_ipv6() ? HeaderForm::kNid16 : HeaderForm::kNid4;
  self->phase_ = Phase::kConnecting;
  self->remote_ = SocketAddress(peer->nid(), driver.acceptor.port);
  self->setup_timer_ = std::make_unique<LoopTimer>(
      context.loop, [raw = self.get()] { raw->handle_setup_deadline(); });
  self->setup_timer_->set(clock_now() + ni.lnd_timeout());
  self->watch();
}

void IoConnection::handle_connected() {
  const int error = take_socket_error(fd_.get());
  if (error != 0) return close(CloseReason::kConnectFailed, error);
  phase_ = Phase::kSetup;
  local_ = SocketAddress::local_of(fd_.get());
  Hello hello;
  hello.version = hello_version(peer_->nid().is_ipv6());
  hello.source_nid = ni_->nid();
  hello.dest_nid = peer_->nid();
  hello.source_pid = kPidLustre;
  hello.source_incarnation = ni_->identity().incarnation;
  hello.type = static_cast<uint32_t>(type_);
  // Both at once: a kernel takes them joined or apart.
  std::vector<uint8_t> opening = encode_connect_request({peer_->nid()});
  const std::vector<uint8_t> hello_bytes = encode_hello(hello);
  opening.insert(opening.end(), hello_bytes.begin(), hello_bytes.end());
  const ssize_t sent = ::send(fd_.get(), opening.data(), opening.size(), MSG_NOSIGNAL);
  // The send buffer of a new socket holds far more than this.
  if (sent != static_cast<ssize_t>(opening.size())) {
    return close(CloseReason::kReset, sent < 0 ? errno : EAGAIN);
  }
  watch();
}

void IoConnection::handle_answer() {
  const Hello& answer = rx_.hello();
  const Dialled dialled{.nid = peer_->nid(),
                        .pid = peer_->logic.settings().pid,
                        .version = hello_version(peer_->nid().is_ipv6()),
                        .type = type_};
  const CloseReason reason = judge_answer(answer, dialled);
  const bool refused = reason == CloseReason::kRefusedByPeer;
  if (reason != CloseReason::kNone && !refused) return close(reason, EPROTO);
  if (!refused) {
    prepare_socket(peer_->nid());
    rx_.establish(form_, answer.flipped);
  }
  Driver& driver = context_.driver;
  dial_over_ = true;
  Effects effects;
  attached_ = ni_->finish_dial(shared_from_this(), answer.version, answer.source_incarnation,
                               refused, driver.host.now(),
                               static_cast<uint32_t>(driver.host.random_below(1 << 16)), &effects);
  if (attached_) {
    phase_ = Phase::kEstablished;
    setup_timer_.reset();
    note_heard();
  }
  apply(effects);
  if (!attached_)
    close(refused ? CloseReason::kRefusedByPeer : CloseReason::kStaleRefused, EALREADY);
}

// What a failed dial means for the messages that wait for it (spec 5.5).
Completion IoConnection::dial_failure(CloseReason reason, int error) const {
  switch (reason) {
    case CloseReason::kConnectFailed:
      return connect_failure(error);
    case CloseReason::kSetupTimeout:
      return connect_failure(error);
    case CloseReason::kEndOfStream:
    case CloseReason::kEndInFrame:
    case CloseReason::kReset:
      return connect_failure(ECONNRESET);
    case CloseReason::kShutdown:
      return shutdown_completion();
    default:
      return connect_failure(EPROTO);
  }
}

void IoConnection::handle_setup_deadline() {
  const auto keep = shared_from_this();
  if (phase_ == Phase::kLingering) {
    close(linger_reason_, 0);
  } else if (phase_ == Phase::kConnecting || received_bytes_ > 0) {
    close(CloseReason::kSetupTimeout, ETIMEDOUT);
  } else {
    close(CloseReason::kSetupTimeout, EAGAIN);
  }
  context_.drain();
}

// ---------------------------------------------------------------- passive

void IoConnection::adopt(LoopContext& context, Ni& listener, UniqueFd fd,
                         const SocketAddress& remote, std::function<void()> setup_over) {
  const auto self = make(context, listener, std::move(fd), Connection::Role::kPassive);
  self->remote_ = remote;
  self->local_ = SocketAddress::local_of(self->fd_.get());
  self->setup_over_ = std::move(setup_over);
  self->setup_timer_ = std::make_unique<LoopTimer>(
      context.loop, [raw = self.get()] { raw->handle_setup_deadline(); });
  self->setup_timer_->set(clock_now() + std::chrono::seconds(context.driver.acceptor.timeout_s));
  self->watch();
}

void IoConnection::handle_connect_request() {
  // Several nets may share an address, and so a listener: the request says which NI is meant.
  Ni* const named = context_.driver.find_running_ni(rx_.requested_nid());
  if (named == nullptr) return close(CloseReason::kRequestUnknownNid, 0);
  ni_ = named;
  rx_.accept_request();
}

void IoConnection::handle_hello() {
  if (rx_.role() == Connection::Role::kActive) return handle_answer();
  handle_passive_hello();
}

void IoConnection::handle_passive_hello() {
  const Hello& hello = rx_.hello();
  const PassiveContext passive{.ni = ni_->nid(),
                               .source_address = remote_.to_nid(ni_->nid().net()),
                               .privileged_port = remote_.port() <= kPrivilegedPortMax,
                               .accept_foreign_address = ni_->tunables().accept_foreign_address};
  const CloseReason reason = judge_passive_hello(hello, passive);
  if (reason != CloseReason::kNone) return refuse(reason);

  const ConnType type = mirror(static_cast<ConnType>(hello.type));
  form_ = hello.version == kHelloVersionIpv6 ? HeaderForm::kNid16 : HeaderForm::kNid4;
  prepare_socket(hello.source_nid);
  const uint64_t incarnation = ni_->identity().incarnation;
  Effects effects;
  const auto admission =
      ni_->admit(shared_from_this(),
                 {.peer = {hello.source_nid, hello.source_pid},
                  .type = type,
                  .version = hello.version,
                  .incarnation = hello.source_incarnation,
                  .from_nid_address = comes_from_its_nid(hello, passive)},
                 encode_hello(make_answer(hello, ni_->nid(), incarnation, type)), &effects);
  if (!admission) return close(CloseReason::kShutdown, 0);
  if (*admission == PeerLogic::Admission::kAccept) {
    attached_ = true;
    phase_ = Phase::kEstablished;
    setup_timer_.reset();
    if (setup_over_) std::exchange(setup_over_, nullptr)();
    rx_.establish(form_, hello.flipped);
    note_heard();
    return apply(effects);
  }
  apply(effects);
  const CloseReason refusal = *admission == PeerLogic::Admission::kRace ? CloseReason::kRaceRefused
                              : *admission == PeerLogic::Admission::kStale
                                  ? CloseReason::kStaleRefused
                                  : CloseReason::kDuplicateRefused;
  answer_and_linger(encode_hello(make_answer(hello, ni_->nid(), incarnation, ConnType::kNone)),
                    refusal);
}

// Ends a connection for what came on it, with the answer that its kind is owed (spec 1.4, 2.14).
void IoConnection::refuse(CloseReason reason) {
  if (phase_ == Phase::kSetup && rx_.role() == Connection::Role::kPassive) {
    if (reason == CloseReason::kRequestHello || reason == CloseReason::kRequestVersion) {
      return answer_and_linger(encode_acceptor_refusal(), reason);
    }
    if (reason == CloseReason::kHelloVersion) {
      return answer_and_linger(
          encode_hello(make_unknown_version_answer(ni_->nid(), ni_->identity().incarnation)),
          reason);
    }
  }
  if (phase_ == Phase::kClosed || phase_ == Phase::kLingering) return;
  if (reason == CloseReason::kFrameChecksum) ni_->counters().add(Counter::kChecksumErrors);
  close(reason, reason == CloseReason::kEndOfStream ? 0 : EPROTO);
}

void IoConnection::answer_and_linger(std::span<const uint8_t> answer, CloseReason reason) {
  ni_->counters().add(reason);
  log_end(reason, 0);
  (void)::send(fd_.get(), answer.data(), answer.size(),
               MSG_NOSIGNAL);  // a new socket's buffer holds it
  ::shutdown(fd_.get(), SHUT_WR);
  phase_ = Phase::kLingering;
  linger_reason_ = reason;
  rx_.close(reason);
  process();
}

void IoConnection::prepare_socket(const Nid& peer) {
  set_connection_options(fd_.get(), ni_->tunables(), remote_.is_ipv6());
  const std::string& device = ni_->identity().device;
  Driver& driver = context_.driver;
  if (device == "lo" || driver.find_running_ni(peer) != nullptr) return;
  if (rx_.role() == Connection::Role::kPassive) {
    // A bound socket hears its own device only. Where the peer's ARP cache names another NIC of
    // this host, binding would cut the connection off; it lives, and answers by the routing table.
    const std::string arrival = arrival_device(fd_.get());
    if (!arrival.empty() && arrival != device) {
      driver.limiter.log(
          driver.host.now(), LogLevel::kWarn, "arrival " + peer.to_string(),
          "peer_ni {}: connects to {} of {} through {}: its ARP cache names the other "
          "NIC (see arp_ignore), so the connection is not bound to {}",
          peer.to_string(), ni_->nid().to_string(), device, arrival, device);
      return;
    }
  }
  bind_to_device(fd_.get(), device);
}

// ---------------------------------------------------------------- log

void IoConnection::log_end(CloseReason reason, int error) {
  if (reason == CloseReason::kShutdown || reason == CloseReason::kNone) return;
  Driver& driver = context_.driver;
  const std::string peer =
      peer_ != nullptr ? peer_->nid().to_string() : std::string("(unknown peer)");
  // A peer whose patience with half a frame ends before ours does closes first.
  const bool stalled =
      was_transmitting_ && driver.host.now() - transmit_progress_ >= ni_->lnd_timeout() / 2;
  const std::string hint = stalled ? stalled_frame() : privileged_port_hint(reason);
  const std::string cause =
      fmt::format("{} {}", peer_ != nullptr ? peer : remote_.to_nid(ni_->nid().net()).to_string(),
                  to_string(reason));
  const LogLevel level = is_failure(reason) || stalled ? LogLevel::kWarn : LogLevel::kInfo;
  driver.limiter.log(driver.host.now(), level, cause,
                     "peer_ni {}: {} connection {} - {} ended: {}{}{}{}", peer, to_string(type_),
                     local_.to_string(), remote_.to_string(), to_string(reason),
                     error != 0 ? ", " : "", error != 0 ? errno_text(error) : "", hint);
}

// An acceptor that wants privileged ports closes before it reads (spec 1.4): tells who looks at
// this end.
std::string IoConnection::privileged_port_hint(CloseReason reason) const {
  const bool closed = reason == CloseReason::kEndOfStream || reason == CloseReason::kReset;
  if (!closed || rx_.role() != Connection::Role::kActive || attached_) return {};
  if (received_bytes_ > 0 || local_.port() <= kPrivilegedPortMax) return {};
  return fmt::format(
      "; the peer closed before any answer and our source port {} is above {}: its acceptor "
      "probably runs accept=secure",
      local_.port(), kPrivilegedPortMax);
}

// How far the frame has come that makes no progress; and where large segments are lost while small
// ones pass, as behind a link of a smaller MTU whose ICMP is filtered, what to look at.
std::string IoConnection::stalled_frame() {
  std::optional<TransmitQueue::Unacknowledged> frame;
  {
    const std::lock_guard lock(ni_->mutex());
    if (!transmit_.writing) frame = transmit_.queue.first_unacknowledged(seen_acknowledged_);
  }
  if (!frame) return {};
  const PathSizes path = path_sizes(fd_.get());
  std::string text = fmt::format(
      "; {} of the {} bytes of a message are written, of these the peer's TCP has acknowledged {}",
      frame->written, frame->bytes, frame->acknowledged);
  const bool heard = peer_ != nullptr && peer_->last_heard() > transmit_progress_;
  if (heard && frame->bytes > kAnyPathBytes) {
    text += fmt::format(
        ", while small messages still come from this peer: does each hop carry the path MTU of {} "
        "(MSS {}) that our TCP uses? 'ulnetctl check path {} --source {}' tells",
        path.path_mtu, path.mss, peer_->nid().to_string(), ni_->nid().to_string());
  }
  return text;
}

}  // namespace ulnet::tcp
