#include "lnd_tcp/driver.h"

#include <algorithm>
#include <utility>

#include "lnd_tcp/io_connection.h"

namespace ulnet::tcp {

void LoopContext::drain() {
  if (!std::exchange(drain_due, false)) return;
  driver.host.drain_actions();
}

Driver::Driver(LndHost& lnet, const std::vector<Loop*>& loops,
               const AcceptorSettings& acceptor_settings, const GlobalSettings& global_settings,
               Logger& log)
    : host(lnet), acceptor(acceptor_settings), global(global_settings), logger(log), limiter(log) {
  for (Loop* loop : loops) contexts.push_back(std::make_unique<LoopContext>(*this, *loop));
}

bool Driver::apply(Ni& ni, Effects& effects) {
  bool told = false;
  for (const auto& [id, completion] : effects.completions) host.handle_send_done(id, completion);
  for (const auto& down : effects.down) {
    host.handle_peer_down(ni.identity().id, down.peer, down.last_heard);
  }
  told = !effects.completions.empty() || !effects.down.empty();
  for (const auto& connection : effects.flush) told |= connection->flush();
  for (auto& close : effects.close) close.connection->post_close(close.reason, 0);
  for (auto& dial : effects.dials) {
    LoopContext& context = next_context();
    context.loop.post([&context, peer = std::move(dial.peer), type = dial.type] {
      IoConnection::dial(context, peer, type);
    });
  }
  return told;
}

LoopContext& Driver::next_context() {
  return *contexts[next_context_.fetch_add(1, std::memory_order_relaxed) % contexts.size()];
}

void Driver::add_ni(std::unique_ptr<Ni> ni) {
  const std::lock_guard lock(directory_mutex_);
  if (ni->identity().id < kFastNis) fast_nis_[ni->identity().id] = ni.get();
  running_.push_back(ni.get());
  nis_.emplace(ni->identity().id, std::move(ni));
}

Ni* Driver::find_ni(NiId id) const {
  if (id < kFastNis) return fast_nis_[id].load(std::memory_order_acquire);
  const std::lock_guard lock(directory_mutex_);
  const auto it = nis_.find(id);
  return it == nis_.end() ? nullptr : it->second.get();
}

Ni* Driver::find_running_ni(const Nid& nid) const {
  const std::lock_guard lock(directory_mutex_);
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [&](const Ni* ni) { return ni->nid() == nid; });
  return it == running_.end() ? nullptr : *it;
}

std::vector<Ni*> Driver::running_nis() const {
  const std::lock_guard lock(directory_mutex_);
  return running_;
}

void Driver::retire_ni(Ni& ni) {
  const std::lock_guard lock(directory_mutex_);
  std::erase(running_, &ni);
}

ConnectionId Driver::register_connection(const std::shared_ptr<IoConnection>& connection) {
  const std::lock_guard lock(directory_mutex_);
  connections_[++last_id_] = connection;
  return last_id_;
}

void Driver::forget_connection(ConnectionId id) {
  const std::lock_guard lock(directory_mutex_);
  connections_.erase(id);
}

std::shared_ptr<IoConnection> Driver::find_connection(ConnectionId id) const {
  const std::lock_guard lock(directory_mutex_);
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.lock();
}

}  // namespace ulnet::tcp
