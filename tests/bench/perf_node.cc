#include "tests/bench/perf_node.h"

namespace ulnet::bench {
namespace {

// More than any mode of ulnet_perf has in flight, so that credits are not what is measured.
constexpr int32_t kPeerCredits = 128;
constexpr int32_t kCredits = 1024;

Result<Settings> make_settings(const PerfOptions& options) {
  if (!options.config.empty()) return load_settings(options.config);
  const Result<Nid> nid = Nid::parse(options.nid);
  if (!nid) return Failure(nid.error());
  NiSettings ni{.net = nid->net(), .nid = *nid};
  ni.tunables.peer_credits = kPeerCredits;
  ni.tunables.credits = kCredits;
  Settings settings;
  settings.nis.push_back(std::move(ni));
  settings.acceptor.policy = AcceptPolicy::kAll;
  settings.acceptor.port = options.port;
  settings.node.threads = options.threads;
  settings.node.log_level = "warn";
  return settings;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> start_node(const PerfOptions& options) {
  const Result<Settings> settings = make_settings(options);
  if (!settings) return Failure(settings.error());
  return Endpoint::start(*settings);
}

}  // namespace ulnet::bench
