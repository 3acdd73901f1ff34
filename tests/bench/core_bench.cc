// What the core's decisions cost alone: no lock, no I/O.
//
// select_path/4x8: the path of one message, with 4 local NIs and 8 NIDs of each of N known peers.
// "one_of" sends to one of them, "any_of" to all in an order without pattern. Both must stay
// below 1 us. The first is the same for any N; the second grows by memory that does not fit the
// caches any more, and by nothing else.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "lnet/base/rng.h"
#include "tests/support/core_world.h"
#include "tests/support/rails.h"

namespace ulnet {
namespace {

void select_path(benchmark::State& state, bool any) {
  test::Rails rails;
  for (int i = 0; i < 4; ++i) rails.add_ni(fmt::format("10.0.0.{}@tcp", i));
  std::vector<Nid> peers;
  for (int64_t peer = 0; peer < state.range(0); ++peer) {
    std::vector<std::string> nids;
    for (int i = 0; i < 8; ++i)
      nids.push_back(fmt::format("10.{}.{}.{}@tcp", 1 + peer / 200, peer % 200, i));
    peers.push_back(rails.add_peer({nids.begin(), nids.end()}).primary_nid);
  }
  Rng rng(1);
  for (size_t i = peers.size() - 1; i > 0; --i) std::swap(peers[i], peers[rng.below(i + 1)]);

  size_t next = 0;
  core::PathRequest request;
  for (auto _ : state) {
    request.dest = peers[next];
    if (any && ++next == peers.size()) next = 0;
    benchmark::DoNotOptimize(core::select_path(rails.state(), request));
  }
}
BENCHMARK_CAPTURE(select_path, 4x8_one_of, false)->RangeMultiplier(10)->Range(10, 10000);
BENCHMARK_CAPTURE(select_path, 4x8_any_of, true)->RangeMultiplier(10)->Range(10, 10000);

// One 64-byte PUT with ACK, from bind to the last event, both ends included.
void put_and_ack(benchmark::State& state) {
  test::CoreWorld world;
  const auto tune = [](NiSettings& ni) { ni.tunables.peer_credits = 64; };
  test::CoreWorld::Node& a = world.add("a", {"10.0.0.1@tcp"}, tune);
  test::CoreWorld::Node& b = world.add("b", {"10.0.0.2@tcp"}, tune);
  uint8_t memory[64] = {};
  MdSpec target;
  target.fragments = {{memory, sizeof memory}};
  target.options = kMdPut | kMdManageRemote;
  MeSpec me;
  me.portal = 9;
  (void)b.core->md_attach(world.now, b.core->me_attach(me).value(), target).value();

  MdSpec source;
  source.fragments = {{memory, sizeof memory}};
  source.threshold = 2;
  PutArgs args;
  args.target = {test::nid("10.0.0.2@tcp"), kPidLustre};
  args.portal = 9;
  std::vector<core::Action> actions;
  const auto deliver = [&](core::Core& from, core::Core& to) {
    actions.clear();
    from.take_actions(actions);
    for (const core::Action& action : actions) {
      const SendAction& send = std::get<SendAction>(action);
      const MessageVerdict verdict =
          to.handle_message(world.now, {1, send.header.source_nid, send.header, 0});
      if (verdict.kind == MessageVerdict::Kind::kReceive)
        to.handle_receive_done(world.now, verdict.id, {});
      from.handle_send_done(world.now, send.id, {});
    }
  };
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) {
      args.md = a.core->bind(source).value();
      (void)a.core->put(world.now, args);
    }
    deliver(*a.core, *b.core);
    deliver(*b.core, *a.core);
    benchmark::DoNotOptimize(a.core->polled_events().size() + b.core->polled_events().size());
    a.core->polled_events().clear();
    b.core->polled_events().clear();
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(put_and_ack);

}  // namespace
}  // namespace ulnet

BENCHMARK_MAIN();
