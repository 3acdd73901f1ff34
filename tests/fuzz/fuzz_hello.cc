// HELLOs, cut at every offset.

#include <cstddef>
#include <cstdint>

#include "lnd_tcp/wire.h"
#include "lnet/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using ulnet::tcp::WireError;
  const auto whole = ulnet::tcp::decode_hello({bytes, size});
  for (size_t length = 0; length < size && length <= 160; ++length) {
    const auto part = ulnet::tcp::decode_hello({bytes, length});
    if (!part && part.error() == WireError::kNeedMore) continue;
    ULNET_ASSERT(part.has_value() == whole.has_value(), "a verdict changed with more bytes");
  }
  if (!whole) return 0;
  ULNET_ASSERT(whole->bytes <= size, "more was consumed than came");
  auto value = whole->value;
  value.flipped = false;  // we write little-endian only
  const auto again = ulnet::tcp::decode_hello(ulnet::tcp::encode_hello(value));
  ULNET_ASSERT(again && again->value == value, "a HELLO changed");
  return 0;
}
