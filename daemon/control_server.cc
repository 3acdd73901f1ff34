#include "daemon/control_server.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <uv.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/peer_identity.h"
#include "lnet/base/assert.h"
#include "lnet/loop/loop.h"

namespace ulnet::daemon {
namespace {

// Replies on their way from any thread to the loop. Outlives the server while commands are still to
// answer.
class Mailbox {
 public:
  struct Letter {
    uint64_t client = 0;
    std::string line;
  };

  void open(uv_async_t* wake) {
    const std::lock_guard lock(mutex_);
    wake_ = wake;
  }
  // Later letters are thrown away.
  void close() { open(nullptr); }
  void post(Letter letter) {
    const std::lock_guard lock(mutex_);
    if (wake_ == nullptr) return;
    letters_.push_back(std::move(letter));
    uv_async_send(wake_);
  }
  std::vector<Letter> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(letters_, {});
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    if (wake_ != nullptr) uv_async_send(wake_);
  }

 private:
  std::mutex mutex_;
  uv_async_t* wake_ = nullptr;
  std::vector<Letter> letters_;
};

Status uv_status(int error, std::string_view what) {
  return Status(-error, fmt::format("control server: {}: {}", what, uv_strerror(error)));
}

// With the blank before it; nothing without arguments. A client may not fill the log.
std::string arguments_for_log(const Json& args) {
  constexpr size_t kBytesMax = 512;
  if (args.empty()) return {};
  std::string text = ' ' + args.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kBytesMax) text.replace(kBytesMax, std::string::npos, "...");
  return text;
}

}  // namespace

// Everything below runs on the loop's thread, but for start(), stop() and Mailbox::post().
class ControlServer::Impl {
 public:
  Impl(ControlSocket socket, const ControlServerOptions& options, Commands& commands,
       Logger& logger)
      : socket_(std::move(socket)),
        options_(options),
        commands_(commands),
        logger_(logger),
        limiter_(logger) {}

  Status start();
  void stop();

 private:
  class Client;

  static void handle_connection(uv_stream_t* listener, int error) noexcept;
  static void handle_wake(uv_async_t* wake) noexcept;
  void accept();
  void deliver();
  void shut();

  ControlSocket socket_;
  const ControlServerOptions options_;
  Commands& commands_;
  Logger& logger_;
  LogLimiter limiter_;

  uv_loop_t loop_{};
  uv_pipe_t listener_{};
  uv_async_t wake_{};
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();

  std::map<uint64_t, std::unique_ptr<Client>> clients_;
  uint64_t next_client_ = 1;
};

// One connection. Lives in Impl::clients_ until both its handles are closed.
class ControlServer::Impl::Client {
 public:
  Client(Impl& server, uint64_t id) : server_(server), id_(id) {
    ULNET_ASSERT(uv_pipe_init(&server.loop_, &pipe_, 0) == 0, "a pipe handle needs no resource");
    ULNET_ASSERT(uv_timer_init(&server.loop_, &timer_) == 0, "a timer handle needs no resource");
    pipe_.data = timer_.data = this;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&pipe_); }

  // After uv_accept().
  void begin(bool one_too_many) {
    if (one_too_many) {
      send(format_reply(0, fail(EUSERS, fmt::format("the daemon has {} clients already",
                                                    server_.options_.clients_max))));
      close_when_written_ = true;
      return watch();
    }
    uv_os_fd_t fd = -1;
    uv_fileno(reinterpret_cast<uv_handle_t*>(&pipe_), &fd);
    if (const auto identity = identify_peer(fd)) {
      identity_ = *identity;
      may_change_ = identity->may_change(server_.options_.group);
    }
    resume();
    watch();
  }

  // The reply to one request.
  void answer(std::string line) {
    if (closing_) return;
    send(std::move(line));
    watch();
  }

  void close() {
    if (std::exchange(closing_, true)) return;
    uv_close(reinterpret_cast<uv_handle_t*>(&pipe_), handle_closed);
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), handle_closed);
  }

 private:
  // What the client's timer waits for; each has its own limit.
  enum class Waiting { kNothing, kRequest, kRestOfRequest, kReader };

  struct Write {
    uv_write_t request;
    std::string bytes;
    Client* client;
  };

  static Client& self(void* handle) {
    return *static_cast<Client*>(static_cast<uv_handle_t*>(handle)->data);
  }

  static void handle_alloc(uv_handle_t* handle, size_t, uv_buf_t* buffer) noexcept {
    Client& client = self(handle);
    *buffer = uv_buf_init(client.chunk_, sizeof client.chunk_);
  }
  static void handle_read(uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) noexcept {
    Client& client = self(stream);
    if (bytes < 0) return client.close();
    client.input_.append(client.chunk_, static_cast<size_t>(bytes));
    client.take_requests();
    client.watch();
  }
  static void handle_written(uv_write_t* request, int error) noexcept {
    const std::unique_ptr<Write> write(static_cast<Write*>(request->data));
    Client& client = *write->client;
    --client.unwritten_;
    if (client.under_way_ > 0) --client.under_way_;
    if (client.closing_) return;
    if (error != 0 || (client.close_when_written_ && client.unwritten_ == 0)) return client.close();
    client.take_requests();
    client.resume();
    client.watching_.reset();  // it reads: its time begins anew
    client.watch();
  }
  static void handle_timeout(uv_timer_t* timer) noexcept { self(timer).close(); }
  static void handle_closed(uv_handle_t* handle) noexcept {
    Client& client = self(handle);
    if (++client.closed_handles_ == 2) client.server_.clients_.erase(client.id_);
  }

  bool may_read() const {
    return !closing_ && !close_when_written_ && under_way_ < kRequestsPerClientMax;
  }

  void resume() {
    if (!may_read() || std::exchange(reading_, true)) return;
    uv_read_start(stream(), handle_alloc, handle_read);
  }

  // Runs the whole requests of the input, as far as the limits allow.
  void take_requests() {
    size_t begin = 0;
    while (may_read()) {
      const size_t end = input_.find('\n', begin);
      if (end == std::string::npos) break;
      run(std::string_view(input_).substr(begin, end - begin));
      begin = end + 1;
    }
    input_.erase(0, begin);
    if (may_read() && input_.size() > kRequestBytesMax) refuse_long_request();
    if (!may_read() && std::exchange(reading_, false)) uv_read_stop(stream());
  }

  void refuse_long_request() {
    input_.clear();
    close_when_written_ = true;
    send(format_reply(
        0, fail(EMSGSIZE, fmt::format("the request is longer than {} bytes", kRequestBytesMax))));
  }

  void run(std::string_view line) {
    ++under_way_;
    if (line.size() > kRequestBytesMax) return refuse_long_request();
    const Result<Request> request = parse_request(line);
    if (!request) return send(format_reply(0, Failure(request.error())));
    if (Commands::is_change(request->command)) {
      if (!may_change_) {
        return send(format_reply(
            request->id,
            fail(EPERM, fmt::format("'{}' changes the node: only root, its own user and members of "
                                    "group ulnet may do that, not uid {}",
                                    request->command, identity_.uid))));
      }
      server_.logger_.info("control: '{}'{} by uid {}, pid {}", request->command,
                           arguments_for_log(request->args), identity_.uid, identity_.pid);
    }
    server_.commands_.execute(
        *request, [mailbox = server_.mailbox_, client = id_, id = request->id](const Reply& reply) {
          mailbox->post({client, format_reply(id, reply)});
        });
  }

  void send(std::string line) {
    auto write = std::make_unique<Write>();
    write->bytes = std::move(line);
    write->client = this;
    write->request.data = write.get();
    const uv_buf_t buffer =
        uv_buf_init(write->bytes.data(), static_cast<unsigned>(write->bytes.size()));
    if (uv_write(&write->request, stream(), &buffer, 1, handle_written) != 0) return close();
    ++unwritten_;
    (void)write.release();  // handle_written owns it
  }

  // Sets the timer when what the client is waited for has changed.
  void watch() {
    if (closing_) return;
    Waiting waiting = Waiting::kRequest;
    if (unwritten_ > 0) {
      waiting = Waiting::kReader;
    } else if (under_way_ > 0) {
      waiting = Waiting::kNothing;  // a command has its own bound
    } else if (!input_.empty()) {
      waiting = Waiting::kRestOfRequest;
    }
    if (watching_ && *watching_ == waiting) return;
    watching_ = waiting;
    uv_timer_stop(&timer_);
    if (waiting == Waiting::kNothing) return;
    const auto& options = server_.options_;
    const auto limit = waiting == Waiting::kReader          ? options.write_timeout
                       : waiting == Waiting::kRestOfRequest ? options.half_request_timeout
                                                            : options.idle_timeout;
    uv_timer_start(&timer_, handle_timeout, static_cast<uint64_t>(limit.count()), 0);
  }

  Impl& server_;
  const uint64_t id_;
  uv_pipe_t pipe_{};
  uv_timer_t timer_{};
  int closed_handles_ = 0;
  bool closing_ = false;
  bool reading_ = false;
  bool close_when_written_ = false;

  PeerIdentity identity_;
  bool may_change_ = false;

  char chunk_[16384];
  std::string input_;  // what has come and is not run yet
  int under_way_ = 0;  // requests whose reply is not fully written
  int unwritten_ = 0;  // replies that libuv holds
  std::optional<Waiting> watching_;
};

Status ControlServer::Impl::start() {
  if (const int error = uv_loop_init(&loop_); error != 0) return uv_status(error, "no loop");
  ULNET_ASSERT(uv_async_init(&loop_, &wake_, handle_wake) == 0,
               "the loop has its wake-up fd already");
  ULNET_ASSERT(uv_pipe_init(&loop_, &listener_, 0) == 0, "a pipe handle needs no resource");
  wake_.data = listener_.data = this;
  mailbox_->open(&wake_);
  int error = uv_pipe_open(&listener_, socket_.release_fd());
  if (error == 0)
    error = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), 64, handle_connection);
  if (error != 0) {
    shut();
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
    return uv_status(error, "cannot listen");
  }
  // The thread inherits the mask: signals are main()'s business.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { uv_run(&loop_, UV_RUN_DEFAULT); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "ulnet-control");
  return Status::ok();
}

void ControlServer::Impl::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  mailbox_->wake();
  thread_.join();
  ULNET_ASSERT(uv_loop_close(&loop_) == 0, "shut() closes every handle");
}

void ControlServer::Impl::handle_connection(uv_stream_t* listener, int error) noexcept {
  auto& server = *static_cast<Impl*>(listener->data);
  if (error == 0) return server.accept();
  server.limiter_.log(clock_now(), LogLevel::kWarn, "accept",
                      "control: a client could not be accepted: {}", uv_strerror(error));
}

void ControlServer::Impl::accept() {
  const uint64_t id = next_client_++;
  auto owned = std::make_unique<Client>(*this, id);
  Client& client = *owned;
  const bool one_too_many = clients_.size() >= options_.clients_max;
  clients_.emplace(id, std::move(owned));
  if (uv_accept(reinterpret_cast<uv_stream_t*>(&listener_), client.stream()) != 0)
    return client.close();
  if (one_too_many) {
    limiter_.log(clock_now(), LogLevel::kWarn, "clients",
                 "control: {} clients already, one more is refused", options_.clients_max);
  }
  client.begin(one_too_many);
}

void ControlServer::Impl::handle_wake(uv_async_t* wake) noexcept {
  auto& server = *static_cast<Impl*>(wake->data);
  server.deliver();
  if (server.stopping_.load()) server.shut();
}

void ControlServer::Impl::deliver() {
  for (Mailbox::Letter& letter : mailbox_->take()) {
    const auto client = clients_.find(letter.client);
    if (client != clients_.end()) client->second->answer(std::move(letter.line));
  }
}

// Closes every handle, after which uv_run() returns.
void ControlServer::Impl::shut() {
  mailbox_->close();
  for (const auto& [id, client] : clients_) client->close();
  uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() {
  impl_->stop();
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(ControlSocket socket,
                                                            const ControlServerOptions& options,
                                                            Commands& commands, Logger& logger) {
  auto impl = std::make_unique<Impl>(std::move(socket), options, commands, logger);
  if (const Status status = impl->start(); !status.is_ok()) return Failure(status);
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

}  // namespace ulnet::daemon
