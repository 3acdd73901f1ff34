// Replay: plays recordings against our node, in the place of each of their nodes.
#pragma once

#include <string>
#include <vector>

#include "tests/interop/player.h"
#include "tests/support/pcap.h"

namespace ulnet::interop {

// All recordings over TCP, in order.
std::vector<std::string> capture_names();

test::Capture capture_of(const std::string& name);
// All of a recording, as the node with these addresses lived it.
Script script_of(const std::string& name, const NodeAddresses& node);

// Plays all that parts.h does not leave out, prints a line for each play, and adds a test failure
// for each difference.
std::vector<PlayReport> play_capture(const std::string& name);

}  // namespace ulnet::interop
