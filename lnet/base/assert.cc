#include "lnet/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace ulnet {

void assertion_failed(const char* condition, const char* file, int line, const char* why) {
  std::fprintf(stderr, "ulnet: bug at %s:%d: %s (%s)\n", file, line, why, condition);
  std::abort();
}

}  // namespace ulnet
