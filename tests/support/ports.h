// A TCP port that is free on all of 127/8 right now.
#pragma once

#include <cstdint>

namespace ulnet::test {

uint16_t free_port();

}  // namespace ulnet::test
