// LNet headers, both forms.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lnet/base/assert.h"
#include "lnet/wire/header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using ulnet::HeaderForm;
  for (const HeaderForm form : {HeaderForm::kNid4, HeaderForm::kNid16}) {
    const auto header = ulnet::decode_header(form, {bytes, size});
    if (!header) continue;
    std::vector<uint8_t> again(ulnet::header_bytes(form));
    ulnet::encode_header(form, *header, again);
    ULNET_ASSERT(ulnet::decode_header(form, again).value() == *header, "a header changed");
  }
  return 0;
}
