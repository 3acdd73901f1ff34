// NIDs as text, and (their first 20 bytes) in their large form.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lnet/base/assert.h"
#include "lnet/wire/nid.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ulnet;
  const auto parsed = Nid::parse({reinterpret_cast<const char*>(bytes), size});
  if (parsed) {
    const std::string text = parsed->to_string();
    ULNET_ASSERT(text.size() < kNidTextBytesMax, "a NID's text is too long");
    ULNET_ASSERT(Nid::parse(text).value() == *parsed, "a NID changed");
  }
  if (size < kLargeNidBytes) return 0;
  const auto large = decode_large_nid(std::span(bytes, size).first<kLargeNidBytes>());
  if (!large) return 0;
  ULNET_ASSERT(large->to_string().size() < kNidTextBytesMax, "a NID's text is too long");
  uint8_t again[kLargeNidBytes];
  encode_large_nid(*large, again);
  ULNET_ASSERT(decode_large_nid(again).value() == *large, "a large NID changed");
  return 0;
}
