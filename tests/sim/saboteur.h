// Plants a bug between a node's driver and its core, to see that the checkers find it.
#pragma once

#include <memory>

#include "lnet/lnd.h"

namespace ulnet::sim {

enum class Sabotage : uint8_t {
  kDropCompletion,    // one send never completes
  kWrongByte,         // one payload arrives with one bit flipped
  kDoubleCompletion,  // one send completes twice: a credit comes back twice
  kDuplicateMessage,  // one PUT, of an empty payload, is handed up twice
};

// A decorator of `inner` that does it once, the `nth` time it could.
std::unique_ptr<LndHost> make_saboteur(LndHost& inner, Sabotage sabotage, uint32_t nth);

}  // namespace ulnet::sim
