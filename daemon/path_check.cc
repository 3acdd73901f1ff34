#include "daemon/path_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace ulnet::daemon {
namespace {

// The highest portal; none of Lustre's services listens there.
constexpr uint32_t kPortal = 63;
constexpr uint64_t kMatchBits = 0x756C'6E65'7463'6865;  // arbitrary, and recognisable in a trace
constexpr std::chrono::milliseconds kLookInterval{10};

uint64_t acknowledged(const ConnectionInfo& connection) {
  return connection.sent_bytes - connection.unacked_bytes;
}

// "10.0.0.1:" of 10.0.0.1@tcp, "[fd77::1]:" of fd77::1@tcp: how the ends of its connections begin.
std::string address_prefix(const Nid& nid) {
  const std::string text = nid.to_string();
  const std::string address = text.substr(0, text.find('@'));
  return nid.is_ipv6() ? "[" + address + "]:" : address + ":";
}

}  // namespace

PathChecker::PathChecker(Endpoint& endpoint) : endpoint_(endpoint), zeroes_(kSizes.back()) {}

PathChecker::~PathChecker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PathChecker::start(const PathCheckArgs& args, Done done) {
  const Result<Nid> source = choose_source(args);
  if (!source) return done(Failure(source.error()));
  std::unique_lock lock(mutex_);
  if (running_ || stopping_) {
    lock.unlock();
    return done(fail(EBUSY, "another path is being checked"));
  }
  running_ = true;
  if (thread_.joinable()) thread_.join();  // the last check's, which answers and ends
  thread_ = std::thread([this, nid = args.nid, from = *source, done = std::move(done)] {
    const Result<PathCheckReport> report = check(nid, from);
    {
      const std::lock_guard ended(mutex_);
      running_ = false;  // before the answer: who has it may ask for the next
    }
    done(report);
  });
}

Result<Nid> PathChecker::choose_source(const PathCheckArgs& args) const {
  std::optional<Nid> chosen;
  bool chosen_is_up = false;
  for (const NetInfo& net : endpoint_.nets()) {
    for (const NiInfo& ni : net.nis) {
      if (ni.nid == args.nid)
        return fail(EINVAL, fmt::format("{} is a NID of this node", args.nid.to_string()));
      if (net.net != args.nid.net() || ni.nid.is_ipv6() != args.nid.is_ipv6()) continue;
      if (!args.source.is_any() && ni.nid != args.source) continue;
      const bool is_up = ni.up && !ni.fatal;
      if (chosen && (chosen_is_up || !is_up)) continue;
      chosen = ni.nid;
      chosen_is_up = is_up;
    }
  }
  if (chosen) return *chosen;
  if (args.source.is_any())
    return fail(ENODEV, fmt::format("no local NI can reach {}", args.nid.to_string()));
  return fail(ENODEV, fmt::format("{} is no local NID that can reach {}", args.source.to_string(),
                                  args.nid.to_string()));
}

Result<PathCheckReport> PathChecker::check(const Nid& nid, const Nid& source) {
  PathCheckReport report{.source = source, .sizes = {}, .connection = {}};
  for (const uint32_t bytes : kSizes) {
    const Clock::time_point begin = Clock::now();
    Status status = pass(nid, source, bytes);
    if (status.code() == ESHUTDOWN) return Failure(std::move(status));
    for (const auto& [name, connection] : connections(nid, source)) {
      if (connection.sent_bytes >= report.connection.sent_bytes) report.connection = connection;
    }
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    report.sizes.push_back({bytes, std::move(status), took});
    if (!report.passed()) break;  // larger ones would only wait behind it
  }
  return report;
}

Status PathChecker::pass(const Nid& nid, const Nid& source, uint32_t bytes) {
  const Clock::time_point deadline = Clock::now() + kTimePerSize;
  MdSpec md{.threshold = 1, .handler = this};
  if (bytes > 0) md.fragments = {{zeroes_.data(), bytes}};
  const Result<MdHandle> bound = endpoint_.bind(md);
  if (!bound) return bound.error();
  {
    const std::lock_guard lock(mutex_);
    awaited_ = *bound;
    sent_ = false;
  }
  const Status started = endpoint_.put({.md = *bound,
                                        .ack = AckRequest::kNoAck,
                                        .target = {nid, kPidLustre},
                                        .portal = kPortal,
                                        .match_bits = kMatchBits,
                                        .source = source});
  if (!started.is_ok()) return started;
  const Status sent = wait_until_sent(*bound, deadline);
  return sent.is_ok() ? wait_until_acknowledged(nid, source, deadline) : sent;
}

Status PathChecker::wait_until_sent(MdHandle md, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_until(lock, deadline, [this] { return sent_ || stopping_; });
  if (stopping_) return {ESHUTDOWN, "the node is stopping"};
  if (in_time && send_status_ == 0) return Status::ok();
  if (in_time) return {-send_status_, "it could not be sent"};
  lock.unlock();
  (void)endpoint_.unlink(md);  // it may end just now
  return {ETIMEDOUT,
          fmt::format("not all of it could be written within {} s", kTimePerSize.count())};
}

// Other messages may follow on the same connections; ours has passed when all that was written
// before now has.
Status PathChecker::wait_until_acknowledged(const Nid& nid, const Nid& source,
                                            Clock::time_point deadline) {
  const Connections before = connections(nid, source);
  if (before.empty()) return {ENOTCONN, "no connection is left that could have taken it"};
  for (;;) {
    const Connections now = connections(nid, source);
    uint64_t left = 0;
    for (const auto& [name, connection] : before) {
      const auto found = now.find(name);
      if (found == now.end()) return {ECONNRESET, "connection " + name + " has ended"};
      const uint64_t done = acknowledged(found->second);
      left += connection.sent_bytes - std::min(connection.sent_bytes, done);
    }
    if (left == 0) return Status::ok();
    if (Clock::now() >= deadline) {
      return {ETIMEDOUT, fmt::format("after {} s the peer's TCP has not acknowledged {} bytes",
                                     kTimePerSize.count(), left)};
    }
    if (rest()) return {ESHUTDOWN, "the node is stopping"};
  }
}

bool PathChecker::rest() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kLookInterval, [this] { return stopping_; });
}

PathChecker::Connections PathChecker::connections(const Nid& nid, const Nid& source) const {
  const std::string local = address_prefix(source);
  Connections found;
  for (PeerInfo& peer : endpoint_.peers()) {
    for (PeerNiInfo& ni : peer.nis) {
      if (ni.nid != nid) continue;
      for (ConnectionInfo& connection : ni.connections) {
        if (!connection.local.starts_with(local)) continue;
        std::string name = connection.local + " - " + connection.remote;
        found.emplace(std::move(name), std::move(connection));
      }
    }
  }
  return found;
}

void PathChecker::handle_event(const Event& event) {
  {
    const std::lock_guard lock(mutex_);
    if (event.md != awaited_ || event.kind != EventKind::kSend) return;  // of one given up
    sent_ = true;
    send_status_ = event.status;
  }
  changed_.notify_all();
}

}  // namespace ulnet::daemon
