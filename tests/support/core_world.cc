#include "tests/support/core_world.h"

#include "lnet/base/assert.h"

namespace ulnet::test {

CoreWorld::Node& CoreWorld::add(const std::string& name, const std::vector<std::string>& nids,
                                const std::function<void(NiSettings&)>& tune,
                                const GlobalSettings& global, const LimitSettings& limits) {
  auto node = std::make_unique<Node>();
  node->name = name;
  node->core = std::make_unique<core::Core>(global, limits, 0xC00C1E00 + next_seed_, next_seed_);
  ++next_seed_;
  for (const std::string& text : nids) {
    add_ni(*node, text, tune);
  }
  nodes_.push_back(std::move(node));
  return *nodes_.back();
}

void CoreWorld::acquaint() {
  struct Nobody : EventHandler {
    void handle_event(const Event&) override {}
  } nobody;
  for (const auto& from : nodes_) {
    for (const auto& [nid, owner] : by_nid_) {
      if (owner.first == from.get()) continue;
      const Status status = from->core->discover(now, nid, false, nobody, nullptr);
      ULNET_ASSERT(status.is_ok(), "a NID of a test's node");
    }
    run();
  }
  for (const auto& node : nodes_) {
    node->core->handled_events().clear();
    node->core->reset_statistics();
  }
}

void CoreWorld::unplug(const std::vector<std::string>& nids) {
  for (const std::string& text : nids) by_nid_.erase(nid(text));
}

NiId CoreWorld::add_ni(Node& node, const std::string& text,
                       const std::function<void(NiSettings&)>& tune) {
  NiSettings settings;
  settings.nid = nid(text);
  settings.net = settings.nid->net();
  if (tune) tune(settings);
  NiStarted started;
  started.nid = *settings.nid;
  started.lnd_timeout =
      std::chrono::seconds(node.core->global().lnd_timeout_s(settings.tcp.timeout_s));
  const NiId id = node.core->reserve_ni();
  ULNET_ASSERT(node.core->add_ni(now, id, settings, started).is_ok(), "a test's NI");
  by_nid_[started.nid] = {&node, id};
  return id;
}

bool CoreWorld::collect() {
  bool any = false;
  for (const auto& node : nodes_) {
    std::vector<core::Action> actions;
    node->core->take_actions(actions);
    any = any || !actions.empty();
    for (const core::Action& action : actions) {
      if (const auto* send = std::get_if<SendAction>(&action)) {
        node->sends.push_back(*send);
      } else if (const auto* receive_action = std::get_if<ReceiveAction>(&action)) {
        receive(*node, *receive_action);
      } else {
        node->lnd_timeouts.push_back(std::get<LndTimeoutAction>(action));
      }
    }
  }
  return any;
}

void CoreWorld::run() {
  for (bool moved = true; moved;) {
    moved = collect();
    for (const auto& node : nodes_) {
      while (!node->sends.empty()) {
        deliver_one(*node);
        moved = true;
      }
    }
  }
}

void CoreWorld::deliver_one(Node& node) {
  const SendAction send = node.sends.front();
  node.sends.pop_front();
  Node* to = &node;
  NiId ni = kLoopbackNi;
  Nid sender = Nid::lo();
  if (send.ni != kLoopbackNi) {
    const auto found = by_nid_.find(send.next_hop);
    if (found == by_nid_.end()) {
      node.core->handle_send_done(now, send.id,
                                  {.error = EHOSTUNREACH, .health = HealthStatus::kRemoteDropped});
      return;
    }
    std::tie(to, ni) = found->second;
    sender = send.header.source_nid;
  }
  const uint64_t cookie = next_cookie_++;
  const MessageVerdict verdict = to->core->handle_message(now, {ni, sender, send.header, cookie});
  switch (verdict.kind) {
    case MessageVerdict::Kind::kReceive:
      copy_payload(send.payload, verdict.into);
      to->core->handle_receive_done(now, verdict.id, Completion{});
      break;
    case MessageVerdict::Kind::kWait:
      to->held[cookie] = send;
      to->held_from[cookie] = &node;
      return;  // completes when it has been read
    case MessageVerdict::Kind::kProtocolError:
      ++to->protocol_errors;
      break;
    case MessageVerdict::Kind::kDone:
      break;
  }
  node.core->handle_send_done(now, send.id, Completion{});
}

void CoreWorld::receive(Node& to, const ReceiveAction& action) {
  const auto held = to.held.extract(action.driver_cookie);
  ULNET_ASSERT(!held.empty(), "a receive for a message that is not held");
  copy_payload(held.mapped().payload, action.into);
  to.core->handle_receive_done(now, action.id, Completion{});
  to.held_from.extract(action.driver_cookie)
      .mapped()
      ->core->handle_send_done(now, held.mapped().id, Completion{});
}

void CoreWorld::fail_one(Node& node, const Completion& completion) {
  const SendAction send = node.sends.front();
  node.sends.pop_front();
  node.core->handle_send_done(now, send.id, completion);
}

void CoreWorld::advance(Duration duration) {
  const Time end = now + duration;
  for (;;) {
    Node* next = nullptr;
    for (const auto& node : nodes_) {
      if (next == nullptr || node->core->next_timeout() < next->core->next_timeout())
        next = node.get();
    }
    if (next == nullptr || next->core->next_timeout() > end) break;
    now = std::max(now, next->core->next_timeout());
    next->core->handle_timeout(now);
  }
  now = end;
}

std::vector<Event> CoreWorld::events(Node& node) {
  std::vector<Event> events;
  for (const core::CoreEvent& event : node.core->polled_events()) events.push_back(event.event);
  node.core->polled_events().clear();
  return events;
}

CoreWorld::Node* CoreWorld::owner(const Nid& of) {
  const auto found = by_nid_.find(of);
  return found != by_nid_.end() ? found->second.first : nullptr;
}

}  // namespace ulnet::test
