#include "tests/interop/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lnet/wire/ping_info.h"

namespace ulnet::interop {
namespace {

using test::Capture;
using test::Direction;
using test::TcpConnection;

// A piece with the times of its first and last byte.
struct TimedPiece {
  Piece piece;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

struct StreamPieces {
  std::vector<TimedPiece> pieces;
  std::string failure;
};

StreamPieces read_stream(const TcpConnection& connection, Direction direction) {
  StreamPieces stream;
  PieceReader reader(direction == Direction::kFromOpener);
  std::vector<std::pair<uint64_t, int64_t>> begins;  // of chunks: position and time
  uint64_t position = 0;
  for (const test::Chunk& chunk : connection.chunks) {
    if (chunk.direction != direction) continue;
    begins.emplace_back(position, chunk.time_ns);
    position += chunk.bytes.size();
    reader.add(chunk.bytes);
    while (auto piece = reader.next()) {
      const auto after =
          std::upper_bound(begins.begin(), begins.end(), piece->begin,
                           [](uint64_t at, const auto& begin) { return at < begin.first; });
      stream.pieces.push_back({std::move(*piece), std::prev(after)->second, chunk.time_ns});
    }
  }
  stream.failure = reader.failure();
  return stream;
}

// Calls `visit(sender address, piece)` for every piece of a recording.
template <typename Visit>
void visit_pieces(const Capture& capture, Visit visit) {
  for (const TcpConnection& connection : capture.connections) {
    for (const Direction direction : {Direction::kFromOpener, Direction::kToOpener}) {
      const bool opener = direction == Direction::kFromOpener;
      const auto& from = opener ? connection.opener : connection.listener;
      for (const TimedPiece& timed : read_stream(connection, direction).pieces) {
        visit(from.address, timed.piece);
      }
    }
  }
}

// Return handles of the GETs that ask for ping info.
std::set<std::pair<uint64_t, uint64_t>> find_pings(const Capture& capture) {
  std::set<std::pair<uint64_t, uint64_t>> pings;
  visit_pieces(capture, [&](const std::string&, const Piece& piece) {
    if (!is_ping(piece)) return;
    const auto& handle = std::get<GetPart>(piece.message->part).return_md;
    pings.emplace(handle.interface_cookie, handle.object_cookie);
  });
  return pings;
}

bool is_ping_reply(const Piece& piece, const std::set<std::pair<uint64_t, uint64_t>>& pings) {
  if (!piece.message) return false;
  const auto* reply = std::get_if<ReplyPart>(&piece.message->part);
  return reply != nullptr && pings.contains({reply->md.interface_cookie, reply->md.object_cookie});
}

// Calls `visit(address of the node's NI that sent it, info)` for every ping info. A REPLY or push
// that a router passed on is its source's.
template <typename Visit>
void visit_ping_infos(const Capture& capture, Visit visit) {
  const auto pings = find_pings(capture);
  visit_pieces(capture, [&](const std::string&, const Piece& piece) {
    if (!is_push(piece) && !is_ping_reply(piece, pings)) return;
    if (const auto info = decode_ping_info(piece.payload(), 200)) {
      visit(address_of(piece.message->source_nid), *info);
    }
  });
}

void add_once(std::vector<Nid>& nids, const Nid& nid) {
  if (std::find(nids.begin(), nids.end(), nid) == nids.end()) nids.push_back(nid);
}

// Nodes of one net talk directly.
bool is_routed(const Piece& piece) {
  return piece.message && piece.message->source_nid.net() != piece.message->dest_nid.net();
}

class ScriptMaker {
 public:
  ScriptMaker(const Capture& capture, const NodeAddresses& node, const ScriptLimits& limits)
      : node_(node), limits_(limits), nodes_(find_nodes(capture)), pings_(find_pings(capture)) {
    for (const NodeAddresses& each : nodes_) script_.peers.push_back(find_nids(capture, each));
    for (const TcpConnection& connection : capture.connections) add(connection);
    std::erase_if(script_.steps, [&](const Step& step) { return acknowledges_routed(step); });
    std::stable_sort(script_.steps.begin(), script_.steps.end(),
                     [](const Step& a, const Step& b) { return a.time_ns < b.time_ns; });
  }
  Script take() { return std::move(script_); }

 private:
  void add(const TcpConnection& recorded) {
    const bool opener = node_.contains(recorded.opener.address);
    if (opener == node_.contains(recorded.listener.address)) return;
    ScriptConnection connection{.own = opener ? recorded.opener : recorded.listener,
                                .remote = opener ? recorded.listener : recorded.opener,
                                .dialled = opener,
                                .answered = recorded.answered,
                                .open_time_ns = recorded.open_time_ns};
    connection.peer = peer_at(connection.remote.address);
    if (static_cast<double>(connection.open_time_ns) < limits_.from_s * 1e9) return;
    const auto& left_out = limits_.left_out;
    if (std::find(left_out.begin(), left_out.end(), connection.remote) != left_out.end()) return;
    script_.connections.push_back(connection);
    add_step({.kind = Step::Kind::kDial, .ours = opener, .time_ns = recorded.open_time_ns});
    add_stream(recorded, Direction::kFromOpener, opener);
    add_stream(recorded, Direction::kToOpener, !opener);
  }

  size_t peer_at(const std::string& address) const {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const NodeAddresses& each) {
      return each.contains(address);
    });
    return static_cast<size_t>(node - nodes_.begin());
  }

  void add_stream(const TcpConnection& recorded, Direction direction, bool ours) {
    ScriptConnection& connection = script_.connections.back();
    StreamPieces stream = read_stream(recorded, direction);
    if (!stream.failure.empty()) script_.failure = stream.failure;
    for (TimedPiece& timed : stream.pieces) {
      Step step{.ours = ours, .time_ns = ours ? timed.last_ns : timed.first_ns};
      if (timed.piece.kind == Piece::Kind::kHello && direction == Direction::kFromOpener) {
        const auto type = static_cast<tcp::ConnType>(timed.piece.hello.type);
        connection.type = ours ? type : tcp::mirror(type);
      }
      if (is_routed(timed.piece)) {
        ++script_.routed;
        routed_cookies_.emplace(connection.remote.address, ours, timed.piece.frame.cookie0);
        continue;
      }
      step.ping_info = ours && (is_ping_reply(timed.piece, pings_) || is_push(timed.piece));
      step.piece = std::move(timed.piece);
      add_step(std::move(step));
    }
    const test::TcpStreamInfo& end = recorded.stream(direction);
    if (end.end == test::StreamEnd::kOpen) return;
    add_step({.kind = Step::Kind::kEnd,
              .ours = ours,
              .time_ns = end.end_time_ns,
              .reset = end.end == test::StreamEnd::kReset});
  }

  bool acknowledges_routed(const Step& step) const {
    if (step.kind != Step::Kind::kPiece || step.piece.kind != Piece::Kind::kFrame) return false;
    if (step.piece.message || step.piece.frame.cookie1 <= tcp::kKeepaliveCookie) return false;
    const std::string& peer = script_.connections[step.connection].remote.address;
    return routed_cookies_.contains({peer, !step.ours, step.piece.frame.cookie1});
  }

  void add_step(Step step) {
    if (static_cast<double>(step.time_ns) >= limits_.until_s * 1e9) return;
    step.connection = script_.connections.size() - 1;
    script_.steps.push_back(std::move(step));
  }

  const NodeAddresses& node_;
  const ScriptLimits& limits_;
  const std::vector<NodeAddresses> nodes_;
  const std::set<std::pair<uint64_t, uint64_t>> pings_;
  // Of routed messages: peer, sent by the played node, cookie.
  std::set<std::tuple<std::string, bool, uint64_t>> routed_cookies_;
  Script script_;
};

}  // namespace

std::string address_of(const Nid& nid) {
  const std::string text = nid.to_string();
  return text.substr(0, text.find('@'));
}

std::vector<NodeAddresses> find_nodes(const Capture& capture) {
  std::vector<NodeAddresses> nodes;
  const auto find = [&](const std::string& address) {
    return std::find_if(nodes.begin(), nodes.end(),
                        [&](const NodeAddresses& node) { return node.contains(address); });
  };
  for (const TcpConnection& connection : capture.connections) {
    for (const auto& end : {connection.opener, connection.listener}) {
      if (find(end.address) == nodes.end()) nodes.push_back({end.address});
    }
  }
  // Addresses without a connection are not joined: nobody plays them.
  const auto join = [&](const std::string& a, const std::string& b) {
    const auto first = find(a);
    const auto second = find(b);
    if (first == nodes.end() || second == nodes.end() || first == second) return;
    first->insert(second->begin(), second->end());
    nodes.erase(second);
  };
  visit_pieces(capture, [&](const std::string& sender, const Piece& piece) {
    if (piece.kind == Piece::Kind::kHello) join(sender, address_of(piece.hello.source_nid));
  });
  visit_ping_infos(capture, [&](const std::string& sender, const PingInfo& info) {
    for (const PingNi& ni : info.nis) join(sender, address_of(ni.nid));
  });
  return nodes;
}

std::vector<Nid> find_nids(const Capture& capture, const NodeAddresses& node) {
  std::vector<Nid> nids;
  visit_ping_infos(capture, [&](const std::string& sender, const PingInfo& info) {
    if (!node.contains(sender)) return;
    for (const PingNi& ni : info.nis) {
      if (ni.nid.net().type == NetType::kTcp) add_once(nids, ni.nid);
    }
  });
  visit_pieces(capture, [&](const std::string& sender, const Piece& piece) {
    if (piece.kind != Piece::Kind::kHello || !node.contains(sender)) return;
    if (node.contains(address_of(piece.hello.source_nid))) add_once(nids, piece.hello.source_nid);
  });
  visit_pieces(capture, [&](const std::string&, const Piece& piece) {
    if (piece.kind != Piece::Kind::kRequest) return;
    if (nids.empty() && node.contains(address_of(piece.requested_nid))) {
      nids.push_back(piece.requested_nid);
    }
  });
  // A recording without a byte on any connection.
  if (nids.empty()) nids.push_back(Nid::parse(*node.begin() + "@tcp").value());
  return nids;
}

Script make_script(const Capture& capture, const NodeAddresses& node, const ScriptLimits& limits) {
  return ScriptMaker(capture, node, limits).take();
}

}  // namespace ulnet::interop
