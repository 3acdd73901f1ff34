// Result<T>: a value, or the Status that tells why there is none.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "ulnet/status.h"

namespace ulnet {

template <typename T>
using Result = tl::expected<T, Status>;

using Failure = tl::unexpected<Status>;

// REQUIRES: code > 0, a Linux errno.
inline Failure fail(int code, std::string text) {
  return Failure(Status(code, std::move(text)));
}

}  // namespace ulnet
