// Ping infos.

#include <cstddef>
#include <cstdint>

#include "lnet/base/assert.h"
#include "lnet/wire/ping_info.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto info = ulnet::decode_ping_info({bytes, size}, 200);
  if (!info) {
    ULNET_ASSERT(info.error().needed_bytes == 0 || info.error().needed_bytes > size,
                 "truncated, though all came");
    return 0;
  }
  // The first encoding sets the order and the two bits about large NIDs; from then on nothing
  // changes.
  const auto once = ulnet::decode_ping_info(ulnet::encode_ping_info(*info), 200);
  ULNET_ASSERT(once && once->nis.size() == info->nis.size(), "an entry was lost");
  const auto twice = ulnet::decode_ping_info(ulnet::encode_ping_info(*once), 200);
  ULNET_ASSERT(twice && *twice == *once, "a ping info changed");
  return 0;
}
