// Nets as text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lnet/base/assert.h"
#include "ulnet/types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto net = ulnet::NetId::parse({reinterpret_cast<const char*>(bytes), size});
  if (!net) return 0;
  ULNET_ASSERT(ulnet::NetId::parse(net->to_string()).value() == *net, "a net changed");
  ULNET_ASSERT(ulnet::NetId::from_u32(net->to_u32()) == *net, "a net number changed");
  return 0;
}
