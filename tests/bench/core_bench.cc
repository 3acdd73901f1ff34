// What a message costs in the core alone: no lock, no I/O.
#include <benchmark/benchmark.h>

#include "tests/support/core_world.h"

namespace ulnet {
namespace {

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
