// A control socket with a stand-in for the node behind it, and clients of several kinds.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/commands.h"
#include "daemon/control.h"
#include "daemon/control_client.h"
#include "daemon/control_server.h"

namespace ulnet::daemon {

// A node that answers pings when the test says so.
class FakeNode final : public NodeView {
 public:
  std::vector<NetInfo> nets() const override {
    NiInfo lo;
    lo.nid = Nid::lo();
    NiInfo tcp;
    tcp.nid = *Nid::parse("10.0.0.1@tcp");
    tcp.interface = "eth0";
    return {{NetId::lo(), {lo}}, {tcp.nid.net(), {tcp}}};
  }
  std::vector<PeerInfo> peers() const override {
    PeerNiInfo ni;
    ni.nid = *Nid::parse("10.0.1.2@tcp");
    return {{*Nid::parse("10.0.0.2@tcp"), true, 0, {ni}}};
  }
  Statistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_statistics() override {
    const std::lock_guard lock(mutex_);
    statistics_ = {};
  }
  GlobalSettings global() const override { return {}; }
  Status set_global(std::string_view name, int64_t value) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(fmt::format("{}={}", name, value));
    return Status::ok();
  }
  Status change_nis(const NiSelection& which, const NiChange& change) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(fmt::format("{} health {} sensitivity {} timeout {}",
                                   which.nid   ? which.nid->to_string()
                                   : which.net ? which.net->to_string()
                                               : "all",
                                   change.health.value_or(-9),
                                   change.health_sensitivity.value_or(-9),
                                   change.lnd_timeout_s.value_or(-9)));
    return Status::ok();
  }
  Status configure_peer(const PeerSettings& peer) override {
    std::string text = "peer " + peer.primary_nid.to_string() + ":";
    for (const Nid& nid : peer.nids) text += " " + nid.to_string();
    if (!peer.multi_rail) text += " non-mr";
    if (peer.lock_primary) text += " locked";
    return note(text);
  }
  Status delete_peer(const Nid& primary, const std::vector<Nid>& nids, bool force) override {
    std::string text = "no peer " + primary.to_string() + ":";
    for (const Nid& nid : nids) text += " " + nid.to_string();
    return note(text + (force ? " forced" : ""));
  }
  void discover(const DiscoverArgs& args, Endpoint::DiscoverDone done) override {
    if (args.nid == Nid::parse("10.0.0.9@tcp").value())
      return done(fail(EHOSTUNREACH, "failed to discover 10.0.0.9@tcp"));
    PeerInfo peer{.primary_nid = args.nid, .multi_rail = args.force};
    peer.nis.push_back({.nid = args.nid});
    done(peer);
  }
  // The path carries up to 1024 bytes; to 10.0.0.9@tcp there is none.
  void check_path(const PathCheckArgs& args, PathChecker::Done done) override {
    if (args.nid == Nid::parse("10.0.0.9@tcp").value())
      return done(fail(EBUSY, "another path is being checked"));
    PathCheckReport report{.source = args.source, .sizes = {}, .connection = {}};
    report.sizes = {{0, {}, std::chrono::milliseconds(3)},
                    {1024, {}, std::chrono::milliseconds(1)},
                    {2048, {ETIMEDOUT, "lost"}, std::chrono::milliseconds(5000)}};
    report.connection.local = "10.0.0.1:1023";
    report.connection.remote = "10.0.0.2:988";
    report.connection.path_mtu = 9000;
    report.connection.mss = 8948;
    done(report);
  }
  Status change_peers(const std::optional<Nid>& nid, const PeerChange& change) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(fmt::format("{} health {} sensitivity {}", nid ? nid->to_string() : "all",
                                   change.health.value_or(-9),
                                   change.health_sensitivity.value_or(-9)));
    return Status::ok();
  }
  Status note(std::string text) {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(text));
    return Status::ok();
  }
  // What was changed since the last call.
  std::vector<std::string> take_changes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(changes_, {});
  }
  Status add_fault(const FaultRule& rule) override {
    const std::lock_guard lock(mutex_);
    if (Status status = validate_fault(rule); !status.is_ok()) return status;
    faults_.push_back({.rule = rule, .examined = 3, .put = 1, .acted = 1});
    return Status::ok();
  }
  size_t del_faults(FaultKind kind, const Nid& source, const Nid& dest) override {
    const std::lock_guard lock(mutex_);
    return std::erase_if(faults_, [&](const FaultInfo& info) {
      return info.rule.kind == kind && (source.is_any() || info.rule.source == source) &&
             (dest.is_any() || info.rule.dest == dest);
    });
  }
  void reset_faults(FaultKind kind) override {
    const std::lock_guard lock(mutex_);
    for (FaultInfo& info : faults_) {
      if (info.rule.kind == kind) info = FaultInfo{.rule = info.rule};
    }
  }
  std::vector<FaultInfo> faults(FaultKind kind) const override {
    const std::lock_guard lock(mutex_);
    std::vector<FaultInfo> of_kind = faults_;
    std::erase_if(of_kind, [kind](const FaultInfo& info) { return info.rule.kind != kind; });
    return of_kind;
  }
  Result<Nid> add_ni(const NiSettings& ni) override {
    const std::lock_guard lock(mutex_);
    if (ni.interface == "eth9") return fail(ENODEV, "interface 'eth9' does not exist");
    added_.push_back(ni);
    return ni.nid.value_or(Nid::from_ipv4(ni.net, static_cast<uint32_t>(added_.size())));
  }
  Status del_ni(const Nid& nid) override {
    const std::lock_guard lock(mutex_);
    deleted_.push_back(nid.to_string());
    return Status::ok();
  }
  Status del_net(NetId net, const std::string& interface) override {
    const std::lock_guard lock(mutex_);
    if (net.number == 9) return {ENOENT, "there is no local NI of net tcp9"};
    deleted_.push_back(net.to_string() + " " + interface);
    return Status::ok();
  }
  // What net add and net del have asked for.
  std::vector<NiSettings> added() const {
    const std::lock_guard lock(mutex_);
    return added_;
  }
  std::vector<std::string> deleted() const {
    const std::lock_guard lock(mutex_);
    return deleted_;
  }
  void ping(const PingArgs& args, Endpoint::PingDone done) override {
    const std::lock_guard lock(mutex_);
    pings_.emplace_back(args, std::move(done));
    changed_.notify_all();
  }

  void set_send_count(uint64_t count) {
    const std::lock_guard lock(mutex_);
    statistics_.send_count = count;
  }
  // Waits for `count` pings and takes them.
  std::vector<std::pair<PingArgs, Endpoint::PingDone>> take_pings(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return pings_.size() >= count; }));
    return std::exchange(pings_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Statistics statistics_;
  std::vector<NiSettings> added_;
  std::vector<std::string> deleted_;
  std::vector<std::pair<PingArgs, Endpoint::PingDone>> pings_;
  std::vector<std::string> changes_;
  std::vector<FaultInfo> faults_;  // guarded by mutex_
};

inline PingResult pong_of(const Nid& nid) {
  return {nid, true, false, 0, {nid}, 1};
}

// A client that sends and reads raw bytes.
class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void send(std::string_view bytes) {
    (void)::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Bytes sent until the socket takes no more.
  size_t send_what_fits(std::string_view bytes) {
    size_t sent = 0;
    for (ssize_t n; sent < bytes.size(); sent += static_cast<size_t>(n)) {
      n = ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) break;
    }
    return sent;
  }
  // The next line, or what came before the end.
  std::string line() {
    std::string line;
    for (char c; read_byte(&c) && c != '\n';) line += c;
    return line;
  }
  bool at_end() {
    char c;
    return !read_byte(&c);
  }

 private:
  bool read_byte(char* c) {
    pollfd poll{fd_.get(), POLLIN, 0};
    if (::poll(&poll, 1, 10'000) != 1) {
      ADD_FAILURE() << "nothing came within 10 s";
      return false;
    }
    return ::recv(fd_.get(), c, 1, 0) == 1;
  }
  UniqueFd fd_;
};

class ControlTest : public testing::Test {
 protected:
  ControlTest() : path_(fmt::format("{}/ulnet-control-{}.sock", testing::TempDir(), ::getpid())) {}
  void start(const ControlServerOptions& options = {}) {
    auto socket = ControlSocket::listen(path_);
    ASSERT_TRUE(socket) << socket.error().to_string();
    auto server = ControlServer::start(*std::move(socket), options, commands_, *logger_);
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = *std::move(server);
  }
  Reply call(std::string_view command, Json args = Json::object()) {
    auto client = ControlClient::connect(path_);
    if (!client) return Failure(client.error());
    return client->call(command, std::move(args), std::chrono::milliseconds(10'000));
  }

  const std::string path_;
  FakeNode node_;
  Commands commands_{node_};
  std::unique_ptr<Logger> logger_ = make_null_logger();
  std::unique_ptr<ControlServer> server_;
};

}  // namespace ulnet::daemon
