// Plants a bug below or above a node's core, to see that the checkers find it.
#pragma once

#include <memory>

#include "lnet/lnd.h"
#include "tests/sim/cluster.h"

namespace ulnet::sim {

enum class Sabotage : uint8_t {
  kDropCompletion,    // one send never completes
  kWrongByte,         // one payload arrives with one bit flipped
  kDoubleCompletion,  // one send completes twice: a credit comes back twice
  kDuplicateMessage,  // one PUT, of an empty payload, is handed up twice
  kDeafToPings,       // from the `nth` on no ping is answered
  kStaysFatal,        // a NI whose link is back is not said to be
};

// A decorator of `inner` that does it once, the `nth` time it could, where nothing else is said.
std::unique_ptr<LndHost> make_saboteur(LndHost& inner, Sabotage sabotage, uint32_t nth);
// Likewise between all cores and the applications.
enum class ListenerSabotage : uint8_t {
  kLoseLastEvent,     // one event marked `unlinked` is lost
  kEventAfterTheLast  // one such event comes twice
};
Cluster::DecorateListener make_listener_saboteur(ListenerSabotage sabotage, uint32_t nth);

}  // namespace ulnet::sim
