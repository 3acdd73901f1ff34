#include "tests/support/fake_lnd_host.h"

#include <utility>

namespace ulnet::testing {

PayloadView FakeLndHost::make_memory(Pending& pending, uint32_t bytes) {
  pending.memory.assign(bytes, 0xEE);
  const size_t count = std::max<size_t>(1, std::min<size_t>(fragments, bytes));
  size_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = i + 1 == count ? bytes - offset : bytes / count;
    pending.pieces.push_back({pending.memory.data() + offset, size});
    offset += size;
  }
  return {pending.pieces, 0, bytes};
}

MessageVerdict FakeLndHost::handle_message(const IncomingMessage& message) {
  const Take take = policy ? policy(message) : Take::kAll;
  const std::lock_guard lock(mutex_);
  Received received{message.ni, message.sender, message.header, {}, {}, true};
  MessageVerdict verdict;
  const uint32_t bytes = message.header.payload_bytes;
  if (take == Take::kProtocolError) {
    verdict.kind = MessageVerdict::Kind::kProtocolError;
    return verdict;
  }
  if (bytes == 0 || take == Take::kDrop) {
    verdict.dropped = take == Take::kDrop;
    if (take != Take::kDrop) {
      received_.push_back(received);
      if (on_received) fresh_.push_back(received);
    }
    return verdict;
  }
  received.done = false;
  auto pending = std::make_unique<Pending>();
  pending->message = received;
  verdict.id = ++last_receive_;
  if (take == Take::kWait) {
    verdict.kind = MessageVerdict::Kind::kWait;
    waiting_.push_back({verdict.id, message.ni, message.driver_cookie, bytes});
  } else {
    verdict.kind = MessageVerdict::Kind::kReceive;
    verdict.into = make_memory(*pending, take == Take::kHalf ? bytes / 2 : bytes);
    if (verdict.into.bytes == 0) verdict.into.fragments = {};
  }
  pending_[verdict.id] = std::move(pending);
  return verdict;
}

PayloadView FakeLndHost::memory_for(ReceiveId id) {
  const std::lock_guard lock(mutex_);
  Pending& pending = *pending_.at(id);
  return make_memory(pending, pending.message.header.payload_bytes);
}

void FakeLndHost::handle_receive_done(ReceiveId id, const Completion& completion) {
  const std::lock_guard lock(mutex_);
  const auto it = pending_.find(id);
  if (it == pending_.end()) {
    ++doubles_;
    return;
  }
  Received received = std::move(it->second->message);
  received.payload = std::move(it->second->memory);
  received.completion = completion;
  received.done = true;
  pending_.erase(it);
  if (on_received) fresh_.push_back(received);
  received_.push_back(std::move(received));
}

void FakeLndHost::handle_send_done(SendId id, const Completion& completion) {
  const std::lock_guard lock(mutex_);
  const auto it = sends_.find(id);
  if (it == sends_.end() || it->second ||
      (completion.error == 0) != (completion.health == HealthStatus::kOk)) {
    ++doubles_;
    return;
  }
  it->second = true;
  completions_[id] = completion;
}

void FakeLndHost::handle_peer_down(NiId ni, const Nid& peer, Time) {
  const std::lock_guard lock(mutex_);
  downs_.push_back({ni, peer});
}

void FakeLndHost::handle_ni_fatal(NiId ni, bool fatal, std::string_view) {
  const std::lock_guard lock(mutex_);
  fatal_[ni] = fatal;
}

bool FakeLndHost::is_fatal(NiId ni) {
  const std::lock_guard lock(mutex_);
  return fatal_[ni];
}

void FakeLndHost::drain_actions() {
  for (;;) {
    Received received;
    {
      const std::lock_guard lock(mutex_);
      if (draining_ || fresh_.empty()) return;
      draining_ = true;
      received = std::move(fresh_.front());
      fresh_.pop_front();
    }
    on_received(received);
    const std::lock_guard lock(mutex_);
    draining_ = false;
  }
}

uint64_t FakeLndHost::random_below(uint64_t bound) {
  const std::lock_guard lock(mutex_);
  return rng_.below(bound);
}

void FakeLndHost::note_send(SendId id) {
  const std::lock_guard lock(mutex_);
  sends_[id] = false;
}

size_t FakeLndHost::sends_open() {
  const std::lock_guard lock(mutex_);
  size_t open = 0;
  for (const auto& [id, done] : sends_) open += done ? 0 : 1;
  return open;
}

size_t FakeLndHost::receives_open() {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

size_t FakeLndHost::received_count() {
  const std::lock_guard lock(mutex_);
  return received_.size();
}

std::vector<FakeLndHost::Received> FakeLndHost::take_received() {
  const std::lock_guard lock(mutex_);
  return std::exchange(received_, {});
}

std::map<SendId, Completion> FakeLndHost::take_completions() {
  const std::lock_guard lock(mutex_);
  return std::exchange(completions_, {});
}

std::vector<FakeLndHost::Down> FakeLndHost::take_downs() {
  const std::lock_guard lock(mutex_);
  return std::exchange(downs_, {});
}

size_t FakeLndHost::double_completions() {
  const std::lock_guard lock(mutex_);
  return doubles_;
}

std::vector<FakeLndHost::Waiting> FakeLndHost::take_waiting() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace ulnet::testing
