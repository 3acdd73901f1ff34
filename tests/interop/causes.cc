#include "tests/interop/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lnet/wire/ping_info.h"

namespace ulnet::interop {
namespace {

constexpr uint32_t kPingToolBytes215 = 3216;  // sink of `lnetctl ping` in 2.15

// REQUIRES: is_ping(piece).
uint32_t sink_of(const Piece& piece) {
  return std::get<GetPart>(piece.message->part).sink_length;
}

// Reads a script from its begin to its end.
class CauseFinder {
 public:
  explicit CauseFinder(const Script& script) : script_(script) {
    for (size_t i = 0; i < script.steps.size(); ++i) {
      const Step& step = script.steps[i];
      if (step.kind != Step::Kind::kPiece || !is_request(step.piece)) continue;
      Peer& peer = peers_[script.connections[step.connection].peer];
      step.ours ? take_ours(i, peer) : take_theirs(step.piece, peer);
    }
    std::stable_sort(causes_.asks.begin(), causes_.asks.end(),
                     [](const Ask& a, const Ask& b) { return a.first < b.first; });
  }
  Causes take() { return std::move(causes_); }

 private:
  struct Peer {
    bool known = false;     // it was asked, or it has pushed
    bool told = false;      // by a push of ours
    bool push_due = false;  // ours
  };

  void take_theirs(const Piece& piece, Peer& peer) {
    if (!is_push(piece)) return;
    peer.known = true;
    if (!peer.told) peer.push_due = true;
  }

  void take_ours(size_t index, Peer& peer) {
    const Piece& piece = script_.steps[index].piece;
    if (is_discovery_ping(piece)) return take_discovery(index, peer);
    if (is_ping(piece)) {
      const uint32_t sink = sink_of(piece);
      if (sink != kPingToolBytes && sink != kPingToolBytes215) {
        causes_.failure = fmt::format("{} into {} bytes", piece.to_string(), sink);
      }
      causes_.asks.push_back({.kind = Ask::Kind::kPing, .request = index, .first = index});
    } else if (!is_push(piece)) {
      if (waited_.contains(index)) return;
      causes_.asks.push_back({.kind = Ask::Kind::kUpperLayer, .request = index, .first = index});
    } else if (peer.push_due) {
      peer.push_due = false;
      peer.told = true;
      ++causes_.own_pushes;
    } else {
      causes_.asks.push_back({.kind = Ask::Kind::kRouting, .request = index, .first = index});
    }
  }

  void take_discovery(size_t index, Peer& peer) {
    ++causes_.own_pings;
    if (const auto message = find_waiting(index)) {
      waited_.insert(*message);
      causes_.asks.push_back({.kind = Ask::Kind::kUpperLayer, .request = *message, .first = index});
    } else {
      causes_.asks.push_back(
          {.kind = Ask::Kind::kDiscover, .force = peer.known, .request = index, .first = index});
    }
    peer.known = peer.push_due = true;
  }

  // The message of the upper layer to the same peer that comes next, before another discovery.
  std::optional<size_t> find_waiting(size_t discovery) const {
    const size_t peer = script_.connections[script_.steps[discovery].connection].peer;
    for (size_t i = discovery + 1; i < script_.steps.size(); ++i) {
      const Step& step = script_.steps[i];
      if (!step.ours || step.kind != Step::Kind::kPiece) continue;
      if (script_.connections[step.connection].peer != peer) continue;
      if (is_discovery_ping(step.piece)) return std::nullopt;
      if (is_for_upper_layer(step.piece)) return i;
    }
    return std::nullopt;
  }

  const Script& script_;
  std::map<size_t, Peer> peers_;
  std::set<size_t> waited_;  // messages that wait for a discovery
  Causes causes_;
};

}  // namespace

std::string_view to_string(Ask::Kind kind) {
  switch (kind) {
    case Ask::Kind::kUpperLayer:
      return "upper layer";
    case Ask::Kind::kPing:
      return "lnetctl ping";
    case Ask::Kind::kDiscover:
      return "discover";
    case Ask::Kind::kRouting:
      return "push of a routing change";
  }
  return "?";
}

bool is_discovery_ping(const Piece& piece) {
  return is_ping(piece) && sink_of(piece) == kPingBufferBytesMin;
}

Causes find_causes(const Script& script) {
  return CauseFinder(script).take();
}

}  // namespace ulnet::interop
