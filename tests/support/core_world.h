// A few Cores joined by a perfect wire in virtual time: every message that one hands to its driver
// is decided about at once by the other, and payload is copied as drivers copy it. Tests step it,
// delay it or fail it message by message.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lnet/core/core.h"
#include "lnet/engine/loopback_lnd.h"
#include "tests/support/nid.h"

namespace ulnet::test {

class CoreWorld {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<core::Core> core;
    std::deque<SendAction> sends;         // handed down, not yet on the wire
    std::map<uint64_t, SendAction> held;  // by cookie: kWait messages, still with their payload
    std::map<uint64_t, Node*> held_from;
    uint64_t protocol_errors = 0;
    std::vector<LndTimeoutAction> lnd_timeouts;  // told to the driver
  };

  Time now = Time(std::chrono::seconds(1000));

  // A node with these NIDs; tunables of each NI may be changed by `tune`.
  Node& add(const std::string& name, const std::vector<std::string>& nids,
            const std::function<void(NiSettings&)>& tune = {}, const GlobalSettings& global = {},
            const LimitSettings& limits = {});

  // Lets all nodes that there are discover each other, so that what follows goes at once; counters
  // begin anew.
  void acquaint();
  // Nothing reaches these NIDs any more.
  void unplug(const std::vector<std::string>& nids);
  // One more NI of a node.
  NiId add_ni(Node& node, const std::string& nid,
              const std::function<void(NiSettings&)>& tune = {});

  // Moves everything until nothing is left to do.
  void run();
  // Takes actions from the cores into Node::sends, without delivering. True if there were any.
  bool collect();
  // Delivers the oldest send of `node`. Source: a driver that has written the whole message.
  void deliver_one(Node& node);
  // Fails it instead.
  void fail_one(Node& node, const Completion& completion);
  // Lets time pass; timeouts fire on the way, each at its time.
  void advance(Duration duration);

  std::vector<Event> events(Node& node);
  Node* owner(const Nid& nid);

 private:
  void receive(Node& to, const ReceiveAction& action);

  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<Nid, std::pair<Node*, NiId>> by_nid_;
  uint64_t next_cookie_ = 1;
  uint64_t next_seed_ = 1;
};

}  // namespace ulnet::test
