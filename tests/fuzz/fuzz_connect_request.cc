// Connect requests, as the acceptor reads them.

#include <cstddef>
#include <cstdint>

#include "lnd_tcp/wire.h"
#include "lnet/base/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto request = ulnet::tcp::decode_connect_request({bytes, size});
  if (!request) return 0;
  ULNET_ASSERT(request->bytes <= size, "more was consumed than came");
  const auto encoded = ulnet::tcp::encode_connect_request(request->value);
  ULNET_ASSERT(ulnet::tcp::decode_connect_request(encoded)->value == request->value,
               "a connect request changed");
  return 0;
}
