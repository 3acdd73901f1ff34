// NID lists: what prints parses to the same, and what a list expands to it matches.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lnet/base/assert.h"
#include "lnet/wire/nid.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ulnet;
  const auto list = NidList::parse({reinterpret_cast<const char*>(bytes), size});
  if (!list) return 0;
  const auto again = NidList::parse(list->to_string());
  ULNET_ASSERT(again && *again == *list, "a NID list changed");
  const auto nids = list->expand(300);
  if (!nids) return 0;
  for (const Nid& nid : *nids) ULNET_ASSERT(list->matches(nid), "a list does not match its own");
  return 0;
}
