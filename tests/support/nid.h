// NIDs as tests write them.
#pragma once

#include <string_view>

#include "ulnet/types.h"

namespace ulnet::test {

// A text that is no NID is the test's own bug and throws.
inline Nid nid(std::string_view text) {
  return Nid::parse(text).value();
}

}  // namespace ulnet::test
