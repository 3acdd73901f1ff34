// The layer above LNet on many clients of one server, as far as its load matters: a request every
// so often, and after a failure a wait that grows.
//
//   ready ──request──> waiting ──ACK──> ready after `interval` since the last request
//                          └──failure──> backs off ──> request
//
// The wait after the n-th failure in a row is drawn evenly between `interval` and the least of
// `interval` x 2^n and `back_off_max`; a success starts over. Without randomness it is that upper
// end, and whoever failed together comes back together.
// Source: seed 003 (1,000 clients, a request every 5 s, a server away from 200 s to 1,000 s);
// decisions D6.
#pragma once

#include <vector>

#include "lnet/base/rng.h"
#include "tests/sim/application.h"

namespace ulnet::sim {

struct RpcPlan {
  Nid server;
  uint32_t portal = 1;
  Duration interval = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(5);  // of one request
  Duration back_off_max = std::chrono::seconds(300);
  bool randomised = true;
};

// What all clients did in one second.
struct RpcSecond {
  uint32_t requests = 0;
  uint32_t succeeded = 0;
  uint32_t failed = 0;
};

class RpcClients {
 public:
  RpcClients(Cluster& cluster, Applications& applications, uint64_t seed)
      : cluster_(cluster), applications_(applications), rng_(seed) {}

  // These nodes start now, spread evenly over one interval. REQUIRES: they run to the end; begun
  // once.
  void begin(const std::vector<Node*>& nodes, const RpcPlan& plan);
  // Second by second since begin().
  const std::vector<RpcSecond>& series() const { return series_; }

 private:
  struct Client {
    Node* node = nullptr;
    uint32_t failures = 0;  // in a row
  };

  void request(Client& client);
  void answered(Client& client, const Outcome& outcome);
  Duration back_off(uint32_t failures);
  RpcSecond& second();

  Cluster& cluster_;
  Applications& applications_;
  Rng rng_;
  RpcPlan plan_;
  Time began_;
  std::vector<Client> clients_;
  std::vector<RpcSecond> series_;
};

}  // namespace ulnet::sim
