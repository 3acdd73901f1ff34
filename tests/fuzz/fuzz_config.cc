// Configuration files: whatever the text, the loader ends, names a place in all it says, and lets
// nothing through that the node cannot run with.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/loader.h"
#include "lnet/base/assert.h"

namespace {

using namespace ulnet;

void check_settings(const Settings& settings) {
  const GlobalSettings& global = settings.global;
  ULNET_ASSERT(global.transaction_timeout_s > global.retry_count, "no time for the retries");
  ULNET_ASSERT(global.health_sensitivity >= 0 && global.health_sensitivity <= 1000, "sensitivity");
  ULNET_ASSERT(global.max_interfaces >= 16 && global.max_recovery_ping_interval_s > 0, "limits");
  for (const NiSettings& ni : settings.nis) {
    ULNET_ASSERT(ni.net.type == NetType::kTcp, "a NI without a driver");
    ULNET_ASSERT(ni.nid || !ni.interface.empty(), "a NI without an address");
    ULNET_ASSERT(!ni.nid || ni.nid->net() == ni.net, "a NID of another net");
    ULNET_ASSERT(ni.tunables.peer_credits > 0 && ni.tunables.peer_credits <= ni.tunables.credits,
                 "credits");
    ULNET_ASSERT(ni.tcp.timeout_s >= 0, "an LND timeout");
    ULNET_ASSERT(ni.tcp.min_reconnect_ms <= ni.tcp.max_reconnect_ms, "back-off");
    ULNET_ASSERT(ni.interface.size() <= 15 && ni.where.starts_with("f:"), "names");
  }
}

bool names_the_file(const std::string& line) {
  return line.starts_with("f:");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const config::Loaded loaded =
      config::load_text({reinterpret_cast<const char*>(bytes), size}, "f");
  ULNET_ASSERT(std::all_of(loaded.errors.begin(), loaded.errors.end(), names_the_file),
               "an error without a place");
  ULNET_ASSERT(std::all_of(loaded.warnings.begin(), loaded.warnings.end(), names_the_file),
               "a warning without a place");
  if (loaded.errors.empty()) check_settings(loaded.settings);
  return 0;
}
