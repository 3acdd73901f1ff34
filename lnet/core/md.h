// Memory descriptors: thresholds, offsets, unlinking.
//
// Life of an MD (who moves it):
//
//      attach, bind                   last operation ends, and aborted or exhausted+unlink
//     ─────────────> ACTIVE ───────────────────────────────────────────────────────────────> gone
//     (event `unlinked`)
//                      │  unlink, response timeout, exhausted+unlink at match                  ^
//                      └────────────────────────> ZOMBIE: found by nobody, off its ME ─────────┘
//
// Source: spec lnet-core 3.3 to 3.5.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lnet/core/numa.h"
#include "lnet/core/timers.h"
#include "lnet/lnd.h"
#include "ulnet/types.h"

namespace ulnet::core {

using MeId = uint64_t;  // Slab ids; 0 is none
using MdId = uint64_t;

// Whose memory it is: decides who gets its events.
enum class MdOwner : uint8_t {
  kApplication,
  kPingTarget,  // our ping info
  kPushTarget,  // somebody else's, on its way in
  kRecovery,    // the answer to a recovery ping
  kDiscovery,   // the answer to a discovery ping, or our info on its way
};

struct Md {
  MdId id = 0;
  MeId me = 0;                 // 0: bound (active), or detached
  bool passive = false;        // was made by attach
  bool zombie = false;         // found by nobody any more
  bool aborted = false;        // by unlink or by a response timeout
  bool response_lost = false;  // aborted by a response timeout
  MdOwner owner = MdOwner::kApplication;
  MissingResponse expected = MissingResponse::kNone;  // of the latest operation
  UnlinkPolicy unlink = UnlinkPolicy::kUnlink;
  uint32_t options = 0;
  int32_t threshold = kThresholdInfinite;
  uint32_t max_size = 0;
  uint32_t operations = 0;           // in progress: messages that use it
  uint32_t acks_awaited = 0;         // PUTs of it whose ACK may still come
  uint32_t replies_awaited = 0;      // GETs of it whose REPLY may still come
  NumaNode numa_node = kNoNumaNode;  // where its memory is
  uint64_t length = 0;
  uint64_t offset = 0;  // its own; advanced by each locally managed operation
  EventHandler* handler = nullptr;
  void* user_data = nullptr;
  Timer response;                  // its deadline, while a response is awaited
  uint64_t response_next_hop = 0;  // PeerNiId the request went to, 0: nowhere yet

  std::span<const iovec> fragments() const {
    return more_fragments.empty() ? std::span<const iovec>(&one_fragment, fragment_count)
                                  : more_fragments;
  }
  void set_fragments(const std::vector<iovec>& from);

  bool exhausted() const {
    return threshold == 0 || ((options & kMdMaxSize) != 0 && offset + max_size > length);
  }
  // Takes one operation from the threshold. REQUIRES: threshold != 0.
  void take_operation();

  // One fragment, the usual case, needs no allocation.
  iovec one_fragment{};
  uint32_t fragment_count = 0;
  std::vector<iovec> more_fragments;
};

// What an MD offers a request of `requested` bytes at `request_offset` (3.5).
struct Fit {
  enum class Kind : uint8_t { kAccepted, kTooLong, kBadOffset };
  Kind kind = Kind::kAccepted;
  uint32_t offset = 0;
  uint32_t mlength = 0;
};
Fit fit_request(const Md& md, uint32_t requested, uint32_t request_offset);

// Checks what attach and bind share. `passive`: attach. Errors: EINVAL naming the field and the
// value.
Status validate_md(const MdSpec& spec, bool passive);

}  // namespace ulnet::core
