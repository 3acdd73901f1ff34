// Matcher: is what our node sent what the recorded node sent? And: what would the recorded peer
// have sent to our node?
//
// Bytes are equal but for what cannot be: incarnations and wire handles are our own, learnt from
// our first use and held to it from then on. Everything else that may differ is an exception: it
// has a name, is undone before the comparison, and is counted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tests/interop/script.h"

namespace ulnet::interop {

// What our node does otherwise than the recorded one, by name, and how often. These are all:
//   "routing bit"              in the features of a recorded router's ping info, "disabled": there
//                              is no forwarding yet
//   "no zero-copy request"     cookie0 of a frame, always 0: we copy or wait, so need no ACK
//   "ZC-ACK for us not sent"   and so none is sent to us, where it would be a protocol error
//   "ZC-ACK on the connection of its data"      a kernel takes any BULK_IN; spec tcp-lnd 3.5 says
//                              that ours is always valid
//   "other connection of the same type"         load is shared by what is queued, which is chance
//   "order between independent messages"        what a node answers by itself, and what its upper
//                              layer asked for, raced; or they came on parallel connections
//   "keepalive not waited for" 30 s and more of silence
//   "discovery done before the recording"       ours has just started; the recorded node and its
//                              peer had met already
//   "push over IPv4"           where the recorded one went from an IPv4 NID to an IPv6 one, or
//   back:
//                              we never do
using Exceptions = std::map<std::string, size_t>;

class Matcher {
 public:
  // `router`: the recorded node forwards, ours does not, and says so in its ping info.
  explicit Matcher(bool router) : router_(router) {}

  // Nothing when `actual` is what `step` demands; else how they differ. Learns from a match.
  std::optional<std::string> match(const Step& step, const Piece& actual);

  // Is `info`, a ping info of our node, the one that `step` shows?
  bool is_same_info(const Step& step, std::span<const uint8_t> info) const;

  // What the peer sends instead of the recorded bytes: our handles and incarnations for those of
  // the recorded node. Nothing when the frame must not be sent at all.
  std::optional<Bytes> to_send(const Piece& recorded);

  Exceptions& exceptions() { return exceptions_; }

 private:
  using Handle = std::pair<uint64_t, uint64_t>;

  Bytes wanted_hello(const Piece& recorded, const Piece& actual) const;
  Bytes wanted_frame(const Step& step, const Piece& actual, Exceptions& used) const;
  void adapt_features(std::span<uint8_t> wanted, std::span<const uint8_t> actual,
                      Exceptions& used) const;
  void learn(const Piece& recorded, const Piece& actual);

  const bool router_;
  std::map<Handle, Handle> handles_;           // recorded MD of the played node -> ours
  std::map<Handle, Handle> recorded_;          // and back
  std::map<uint64_t, uint64_t> interfaces_;    // the first halves alone
  std::map<uint64_t, uint64_t> incarnations_;  // recorded -> ours
  Exceptions exceptions_;
};

}  // namespace ulnet::interop
