// What a peer would have answered to a ping or push that its recording does not show.
#pragma once

#include <vector>

#include "tests/interop/pieces.h"

namespace ulnet::interop {

// The REPLY or ACK to `request`, a GET of ping info or a push, from a node that has these NIDs.
Bytes stand_in_answer(const Piece& request, const std::vector<Nid>& nids);

}  // namespace ulnet::interop
