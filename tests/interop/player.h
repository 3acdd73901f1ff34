// Player: plays a script against our node over real sockets.
//
// Steps are taken in the order of the recording. What is theirs is sent as soon as everything that
// our node had to do before it has been done; what is ours is waited for only then, so independent
// connections may run ahead of the recording. ACKs, REPLYs, HELLOs, dials, closes, and the GETs and
// PUTs of discoveries must come by themselves; the player asks for no more than the recorded node
// was asked for (causes.h), where the recording shows it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/interop/causes.h"
#include "tests/interop/matcher.h"
#include "tests/interop/node.h"
#include "tests/interop/peers.h"
#include "tests/interop/script.h"
#include "ulnet/settings.h"

namespace ulnet::interop {

struct PlayOptions {
  Settings settings;
  bool keepalives = false;  // the recorded keepalives of our node are waited for
  bool router = false;      // the recorded node forwards
  bool stops = false;       // the recorded node stops: its first close is the node's stop()
  std::vector<Nid> pinged;  // what `lnetctl ping` was told, in order; empty: where the GETs go to
  // Name of the exception under which one GET and one PUT of a discovery, to each peer, are
  // answered that the recording does not have; empty: they are failures.
  std::string more_discovery;
};

struct PlayReport {
  std::vector<std::string> failures;
  std::map<std::string, size_t> compared;  // pieces that are the same, by kind
  Exceptions exceptions;
  std::map<std::string, size_t> asked;  // by Ask::Kind
  // Of discoveries, compared like all others, that came from our node's own: 0 with failures.
  size_t own_pings = 0;
  size_t own_pushes = 0;

  size_t pieces() const;
  std::string to_string() const;
};

class Player {
 public:
  Player(const Script& script, const PlayOptions& options);
  ~Player();
  PlayReport play();

 private:
  // ---- what the recording says, worked out before
  void plan_asks();
  void plan_first_dial(size_t dial);
  bool is_exempt(const Step& step);

  // ---- going through it
  bool start();
  void take_step(size_t index);
  void ask_before(size_t index);
  Status ask_for(const Ask& ask);
  void dial_in_vain(size_t index);
  void take_their_step(size_t index);
  void take_their_dial(size_t index);
  void send_frame(size_t index);
  void send_message(size_t index, const Bytes& bytes);
  uint32_t accepted_bytes(size_t put) const;
  std::span<const uint8_t> reply_payload(size_t get) const;
  void stop_node();
  void check_quiet();
  void check_discoveries();

  template <typename Done>
  bool wait(Done done);
  bool wait_for_steps_before(size_t index);
  void fail(std::string text);
  std::string name_of(size_t index) const;

  // ---- what our node does
  void handle_arrivals();
  void handle(const Arrival& arrival);
  void handle_opening(Link& link, const Piece& piece);
  void handle_piece(Link& link, const Piece& piece);
  void handle_end(Link& link);
  bool is_established(const Link& link) const;
  bool may_overtake(size_t overtaken, const Piece& piece) const;
  bool stand_in(Link& link, const Piece& piece);
  std::vector<size_t> candidates_for(const Link& link, const Piece& piece) const;
  void accept_match(size_t index, const Link& link, const Piece& piece);

  const Script& script_;
  const PlayOptions& options_;
  std::vector<bool> done_;  // by step
  const Causes causes_;
  std::map<size_t, std::vector<Ask>> asks_;  // before step
  std::map<size_t, Nid> pings_;              // before step: dials that no message follows
  std::vector<size_t> discoveries_;          // steps of the GETs that were asked for, in order
  std::set<std::pair<size_t, MessageType>> stood_in_;  // for which peer, and for what
  std::map<size_t, Link*> link_of_;                    // by connection
  std::map<const Link*, size_t> connection_of_;
  std::map<const Link*, Piece> openings_;  // requests whose HELLO has not come yet
  Matcher matcher_;
  PlayReport report_;
  Peers peers_;
  std::unique_ptr<OurNode> node_;
  std::thread stopper_;
};

}  // namespace ulnet::interop
