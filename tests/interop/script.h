// Script: one recording as one of its nodes lived it. What the node sent is what our node has to
// send; what it received is what the scripted peers send.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/interop/pieces.h"
#include "tests/support/pcap.h"

namespace ulnet::interop {

// One step of a recording.
struct Step {
  enum class Kind : uint8_t { kDial, kPiece, kEnd };
  Kind kind = Kind::kPiece;
  bool ours = false;      // done by the node that is played
  size_t connection = 0;  // in Script::connections
  // When a node can have decided it: the last byte of what is ours, the first of what is theirs.
  // So whatever caused a step stands before it.
  int64_t time_ns = 0;
  bool reset = false;      // kEnd: by RST
  Piece piece;             // kPiece
  bool ping_info = false;  // a REPLY or push with the ping info of the node that is played
};

struct ScriptConnection {
  test::TcpAddress own;
  test::TcpAddress remote;
  bool dialled = false;   // by the node that is played
  bool answered = false;  // a SYN met a listener
  int64_t open_time_ns = 0;
  tcp::ConnType type = tcp::ConnType::kNone;  // as the played node names it
  size_t peer = 0;                            // the node at its other end, in Script::peers
};

// Which part of a recording is played.
struct ScriptLimits {
  double from_s = 0;                                         // connections opened from here on ...
  double until_s = std::numeric_limits<double>::infinity();  // ... and steps before this
  std::vector<test::TcpAddress> left_out;                    // connections with this remote end
};

struct Script {
  std::vector<ScriptConnection> connections;
  std::vector<Step> steps;              // in order
  std::vector<std::vector<Nid>> peers;  // NIDs of each node of the recording
  size_t routed = 0;                    // messages between two nets, left out with their ZC-ACKs
  std::string failure;                  // bytes that are not understood, or ""
};

// Addresses of one node.
using NodeAddresses = std::set<std::string>;

// The nodes of a recording: addresses belong together when a HELLO or a ping info says so.
std::vector<NodeAddresses> find_nodes(const test::Capture& capture);

// NIDs of a node, its primary one first: those of a ping info that it sent, else of its HELLOs and
// of what it was dialled as, else its address. Only tcp ones.
std::vector<Nid> find_nids(const test::Capture& capture, const NodeAddresses& node);

Script make_script(const test::Capture& capture, const NodeAddresses& node,
                   const ScriptLimits& limits);

// "10.77.0.1" of 10.77.0.1@tcp.
std::string address_of(const Nid& nid);

}  // namespace ulnet::interop
