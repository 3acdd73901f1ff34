#include "tests/sim/rpc_clients.h"

#include <algorithm>

namespace ulnet::sim {

void RpcClients::begin(const std::vector<Node*>& nodes, const RpcPlan& plan) {
  plan_ = plan;
  began_ = cluster_.now();
  for (Node* node : nodes) clients_.push_back({node});
  for (size_t i = 0; i < clients_.size(); ++i) {
    const Duration phase = plan.interval * static_cast<int64_t>(i) / clients_.size();
    cluster_.queue().in(phase, [this, &client = clients_[i]] { request(client); });
  }
}

void RpcClients::request(Client& client) {
  constexpr uint32_t kRequestBytes = 64;
  ++second().requests;
  Applications::PutOptions put;
  put.target = plan_.server;
  put.portal = plan_.portal;
  put.bytes = kRequestBytes;
  put.timeout = plan_.timeout;
  put.done = [this, &client](const Outcome& outcome) { answered(client, outcome); };
  applications_.put(*client.node, put);
}

void RpcClients::answered(Client& client, const Outcome& outcome) {
  Time next;
  if (outcome.status == 0) {
    ++second().succeeded;
    client.failures = 0;
    next = outcome.started + plan_.interval;
  } else {
    ++second().failed;
    next = cluster_.now() + back_off(++client.failures);
  }
  cluster_.queue().at(next, [this, &client] { request(client); });
}

Duration RpcClients::back_off(uint32_t failures) {
  constexpr uint32_t kDoublingsMax = 20;  // any ceiling is reached by then
  const Duration grown = plan_.interval * (int64_t{1} << std::min(failures, kDoublingsMax));
  const Duration ceiling = std::min(plan_.back_off_max, grown);
  if (!plan_.randomised || ceiling <= plan_.interval) return ceiling;
  const auto span = static_cast<uint64_t>((ceiling - plan_.interval).count());
  return plan_.interval + Duration(rng_.below(span + 1));
}

RpcSecond& RpcClients::second() {
  const auto index = static_cast<size_t>((cluster_.now() - began_) / std::chrono::seconds(1));
  if (series_.size() <= index) series_.resize(index + 1);
  return series_[index];
}

}  // namespace ulnet::sim
