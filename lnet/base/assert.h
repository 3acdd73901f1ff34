// ULNET_ASSERT: for our own bugs only; on in every build. Nothing a peer, a file or a person sends
// may reach one.
#pragma once

namespace ulnet {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const char* why);
}

#define ULNET_ASSERT(condition, why)                                  \
  do {                                                                \
    if (__builtin_expect(!(condition), 0)) {                          \
      ::ulnet::assertion_failed(#condition, __FILE__, __LINE__, why); \
    }                                                                 \
  } while (false)
