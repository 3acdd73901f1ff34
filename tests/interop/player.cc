#include "tests/interop/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>

#include "lnet/wire/ping_info.h"
#include "tests/interop/stand_in.h"

namespace ulnet::interop {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);     // for one step
constexpr auto kQuiet = std::chrono::milliseconds(40);  // after the last one
constexpr uint32_t kInterfacesMax = 200;                // of the recorded nodes

bool is_noop(const Piece& piece) {
  return piece.kind == Piece::Kind::kFrame && !piece.message;
}

// As `peer show` prints it.
std::string shown(const test::TcpAddress& end) {
  const bool ipv6 = end.address.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", end.address, end.port)
              : fmt::format("{}:{}", end.address, end.port);
}

std::string kind_of(const Piece& piece) {
  switch (piece.kind) {
    case Piece::Kind::kRequest:
      return "request";
    case Piece::Kind::kHello:
      return "HELLO";
    case Piece::Kind::kFrame:
      break;
  }
  return piece.message ? std::string(to_string(piece.message->type())) : "NOOP";
}

}  // namespace

size_t PlayReport::pieces() const {
  size_t sum = 0;
  for (const auto& [kind, count] : compared) sum += count;
  return sum;
}

std::string PlayReport::to_string() const {
  std::string text = fmt::format("{} compared:", pieces());
  for (const auto& [kind, count] : compared) text += fmt::format(" {} {}", count, kind);
  for (const auto& [name, count] : asked) text += fmt::format("; {} x{}", name, count);
  for (const auto& [name, count] : exceptions) text += fmt::format("; {} x{}", name, count);
  return text;
}

Player::Player(const Script& script, const PlayOptions& options)
    : script_(script),
      options_(options),
      done_(script.steps.size()),
      causes_(find_causes(script)),
      matcher_(options.router) {
  plan_asks();
}

Player::~Player() {
  if (stopper_.joinable()) stopper_.join();
}

// ---------------------------------------------------------------- planning

// Things are asked for where their first message stands, but what makes the node dial a peer is
// asked for before the dial.
void Player::plan_asks() {
  std::map<std::string, std::set<size_t>> alive;  // connections by remote address
  for (const Ask& ask : causes_.asks) asks_[ask.first].push_back(ask);
  for (size_t i = 0; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    std::set<size_t>& peer = alive[script_.connections[step.connection].remote.address];
    if (step.kind == Step::Kind::kDial) {
      if (step.ours && peer.empty()) plan_first_dial(i);
      peer.insert(step.connection);
    } else if (step.kind == Step::Kind::kEnd) {
      peer.erase(step.connection);
    }
    if (step.ours && is_exempt(step)) done_[i] = true;
  }
}

void Player::plan_first_dial(size_t dial) {
  const auto& connection = script_.connections[script_.steps[dial].connection];
  if (!connection.answered) return;  // see dial_in_vain()
  for (size_t i = dial; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    const auto& other = script_.connections[step.connection];
    if (!step.ours || other.remote.address != connection.remote.address) continue;
    if (is_request(step.piece)) {
      // Nothing to ask for when the node does that by itself.
      if (const auto asks = asks_.extract(i)) {
        std::vector<Ask>& before = asks_[dial];
        before.insert(before.end(), asks.mapped().begin(), asks.mapped().end());
      }
      pings_.erase(dial);
      return;
    }
    if (step.kind == Step::Kind::kPiece && step.piece.kind == Piece::Kind::kRequest) {
      // If nothing ever left on the connection, it is not known what was to; a ping will do.
      pings_.emplace(dial, step.piece.requested_nid);
    }
  }
}

bool Player::is_exempt(const Step& step) {
  if (step.kind != Step::Kind::kPiece || !is_noop(step.piece)) return false;
  if (step.piece.frame.cookie1 != tcp::kKeepaliveCookie || options_.keepalives) return false;
  ++report_.exceptions["keepalive not waited for"];
  return true;
}

// ---------------------------------------------------------------- going through it

PlayReport Player::play() {
  if (!causes_.failure.empty()) fail(causes_.failure);
  if (start()) {
    for (size_t i = 0; i < script_.steps.size() && report_.failures.empty(); ++i) take_step(i);
    if (report_.failures.empty() && wait_for_steps_before(script_.steps.size())) check_quiet();
    if (report_.failures.empty()) check_discoveries();
    if (report_.failures.empty()) {
      report_.own_pings = causes_.own_pings;
      report_.own_pushes = causes_.own_pushes;
    }
  }
  if (stopper_.joinable()) stopper_.join();
  node_.reset();
  for (const auto& [name, count] : matcher_.exceptions()) report_.exceptions[name] += count;
  return std::move(report_);
}

bool Player::start() {
  for (const ScriptConnection& connection : script_.connections) {
    if (!connection.dialled || !connection.answered) continue;
    if (Status status = peers_.listen(connection.remote); !status.is_ok()) fail(status.text());
  }
  Result<std::unique_ptr<OurNode>> node = OurNode::start(options_.settings);
  if (!node) {
    fail(node.error().to_string());
    return false;
  }
  node_ = std::move(*node);
  return report_.failures.empty();
}

void Player::take_step(size_t index) {
  const Step& step = script_.steps[index];
  if (asks_.contains(index) || pings_.contains(index)) ask_before(index);
  if (!step.ours) {
    take_their_step(index);
  } else if (step.kind == Step::Kind::kDial && !script_.connections[step.connection].answered) {
    dial_in_vain(index);
  } else if (step.kind == Step::Kind::kEnd && options_.stops && !stopper_.joinable()) {
    if (wait_for_steps_before(index)) stop_node();
  }
}

void Player::ask_before(size_t index) {
  if (!wait_for_steps_before(index)) return;
  if (const auto asks = asks_.find(index); asks != asks_.end()) {
    for (const Ask& ask : asks->second) {
      ++report_.asked[std::string(to_string(ask.kind))];
      const Status status = ask_for(ask);
      if (!status.is_ok()) fail(fmt::format("{}: {}", name_of(ask.request), status.to_string()));
    }
  } else if (Status status = node_->ping(pings_.at(index)); !status.is_ok()) {
    fail(status.to_string());
  }
}

Status Player::ask_for(const Ask& ask) {
  const Piece& piece = script_.steps[ask.request].piece;
  const Nid& target = piece.message->dest_nid;
  switch (ask.kind) {
    case Ask::Kind::kPing: {
      const size_t count = report_.asked.at(std::string(to_string(ask.kind))) - 1;
      return node_->ping(piece, options_.pinged.empty() ? target : options_.pinged.at(count));
    }
    case Ask::Kind::kDiscover:
      discoveries_.push_back(ask.request);
      node_->discover(target, ask.force);
      return Status::ok();
    case Ask::Kind::kUpperLayer:
    case Ask::Kind::kRouting:
      break;
  }
  return piece.message->type() == MessageType::kPut ? node_->put(piece) : node_->get(piece);
}

// A recorded SYN that met no listener. Ours is not seen either, but its effect is: the message
// fails at once, and the next one, too, without a dial of its own so soon after.
void Player::dial_in_vain(size_t index) {
  if (!wait_for_steps_before(index)) return;
  const std::string& address = script_.connections[script_.steps[index].connection].remote.address;
  PingArgs ping;
  ping.nid = Nid::parse(address + "@tcp").value();
  ping.timeout = kPatience;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto answer = node_->endpoint().ping(ping);
    if (answer || answer.error().code() != ECONNREFUSED) {
      return fail(
          fmt::format("{}: {}", name_of(index), answer ? "answered" : answer.error().to_string()));
    }
  }
  const std::vector<NetInfo> nets = node_->endpoint().nets();
  for (const CounterInfo& counter : nets.at(1).nis.at(0).driver) {
    if (counter.name == "connects" && counter.value != 1) {
      return fail(fmt::format("{}: {} dials instead of 1", name_of(index), counter.value));
    }
  }
  done_[index] = true;
  ++report_.compared["refused dial"];
}

void Player::stop_node() {
  stopper_ = std::thread([this] { node_->endpoint().stop(); });
}

void Player::take_their_step(size_t index) {
  if (!wait_for_steps_before(index)) return;
  done_[index] = true;
  const Step& step = script_.steps[index];
  const ScriptConnection& connection = script_.connections[step.connection];
  if (step.kind == Step::Kind::kDial) return take_their_dial(index);
  const auto found = link_of_.find(step.connection);
  if (found == link_of_.end()) {
    // A refused SYN: there is no connection and nothing of ours to see.
    if (step.kind == Step::Kind::kEnd && !connection.answered) return;
    return fail(name_of(index) + ": there is no such connection");
  }
  Link& link = *found->second;
  if (step.kind == Step::Kind::kEnd) {
    if (link.fd) peers_.end(link, step.reset);
  } else {
    send_frame(index);
  }
}

void Player::take_their_dial(size_t index) {
  const size_t c = script_.steps[index].connection;
  const ScriptConnection& connection = script_.connections[c];
  Result<Link*> link = peers_.dial(connection.remote, connection.own);
  if (link && connection.answered) {
    link_of_[c] = *link;
    connection_of_[*link] = c;
  } else if (!link && !connection.answered && link.error().code() == ECONNREFUSED) {
    ++report_.compared["refused dial"];
    for (size_t i = index; i < script_.steps.size(); ++i) {
      if (script_.steps[i].connection == c) done_[i] = true;  // our node's RST
    }
  } else {
    fail(fmt::format("{}: {}", name_of(index), link ? "accepted" : link.error().text()));
  }
}

void Player::send_frame(size_t index) {
  const Step& step = script_.steps[index];
  Link& link = *link_of_.at(step.connection);
  const std::optional<Bytes> bytes = matcher_.to_send(step.piece);
  if (!bytes) {
    if (step.piece.message) fail(name_of(index) + ": answers what our node never asked");
    return;
  }
  if (!link.fd || link.finished) return fail(name_of(index) + ": sent on a closed connection");
  if (step.piece.message) return send_message(index, *bytes);
  if (Status status = peers_.send(link, *bytes); !status.is_ok()) {
    return fail(fmt::format("{}: {}", name_of(index), status.text()));
  }
  // In the recording there is time for that: what comes next must not find half a connection.
  const bool accepts = link.dialled && step.piece.kind == Piece::Kind::kHello &&
                       step.piece.hello.type != static_cast<uint32_t>(tcp::ConnType::kNone);
  if (accepts && !wait([&] { return is_established(link); })) {
    fail(name_of(index) + ": our node does not take the connection");
  }
}

bool Player::is_established(const Link& link) const {
  for (const PeerInfo& peer : node_->endpoint().peers()) {
    for (const PeerNiInfo& ni : peer.nis) {
      for (const ConnectionInfo& connection : ni.connections) {
        if (connection.local == shown(link.own) && connection.remote == shown(link.remote)) {
          return true;
        }
      }
    }
  }
  return false;
}

// Waits until the upper layer has it: so two requests with the same match bits meet the memory that
// was attached for each.
void Player::send_message(size_t index, const Bytes& bytes) {
  const Piece& piece = script_.steps[index].piece;
  const MessageType type = piece.message->type();
  OurNode::Operation* operation = nullptr;
  if (type == MessageType::kAck || type == MessageType::kReply) {
    operation = node_->find_response(piece);
  } else if (is_for_upper_layer(piece)) {
    const Result<OurNode::Operation*> served = type == MessageType::kPut
                                                   ? node_->serve_put(piece, accepted_bytes(index))
                                                   : node_->serve_get(piece, reply_payload(index));
    if (!served) return fail(fmt::format("{}: {}", name_of(index), served.error().to_string()));
    operation = *served;
  }
  Link& link = *link_of_.at(script_.steps[index].connection);
  if (Status status = peers_.send(link, bytes); !status.is_ok()) {
    return fail(fmt::format("{}: {}", name_of(index), status.text()));
  }
  if (operation != nullptr && !wait([&] { return node_->is_done(*operation); })) {
    fail(name_of(index) + ": did not reach the upper layer, or with other bytes");
  }
}

// What the recorded node took of a PUT: its ACK says so, if there is one.
uint32_t Player::accepted_bytes(size_t put) const {
  const Piece& request = script_.steps[put].piece;
  for (size_t i = put; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    if (!step.ours || step.kind != Step::Kind::kPiece || !step.piece.message) continue;
    const auto* ack = std::get_if<AckPart>(&step.piece.message->part);
    if (ack != nullptr && ack->md == handle_of(request)) return ack->mlength;
  }
  return request.message->payload_bytes;
}

std::span<const uint8_t> Player::reply_payload(size_t get) const {
  const Step& asked = script_.steps[get];
  const WireHandle wanted = handle_of(asked.piece);
  for (size_t i = get; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    const bool answer = step.kind == Step::Kind::kPiece && step.ours != asked.ours;
    if (!answer || !step.piece.message) continue;
    const auto* reply = std::get_if<ReplyPart>(&step.piece.message->part);
    if (reply != nullptr && reply->md == wanted) return step.piece.payload();
  }
  return {};
}

// What a discovery tells is what the recorded peer said of itself.
void Player::check_discoveries() {
  const auto all_ended = [&] {
    const auto results = node_->discoveries();
    return std::all_of(results.begin(), results.end(),
                       [](const auto& result) { return result.has_value(); });
  };
  if (!wait(all_ended)) return fail("a discovery does not end");
  const auto results = node_->discoveries();
  for (size_t i = 0; i < results.size(); ++i) {
    const size_t get = discoveries_[i];
    if (!*results[i]) {
      fail(fmt::format("{}: {}", name_of(get), results[i]->error().to_string()));
      continue;
    }
    const auto info = decode_ping_info(reply_payload(get), kInterfacesMax);
    if (!info) continue;
    std::set<std::string> wanted = {info->primary_nid().to_string()};
    if (options_.settings.global.discovery && (info->features & kPingDiscovery) != 0) {
      for (const PingNi& ni : info->nis) wanted.insert(ni.nid.to_string());
    }
    std::set<std::string> known;
    for (const PeerNiInfo& ni : (**results[i]).nis) known.insert(ni.nid.to_string());
    if (known != wanted) {
      fail(fmt::format("{}: knows {} instead of {}", name_of(get), fmt::join(known, ", "),
                       fmt::join(wanted, ", ")));
    }
  }
}

void Player::check_quiet() {
  const auto until = std::chrono::steady_clock::now() + kQuiet;
  const size_t links = peers_.links().size();
  while (std::chrono::steady_clock::now() < until && report_.failures.empty()) {
    peers_.poll(5);
    handle_arrivals();
  }
  if (peers_.links().size() != links) fail("our node dials where the recorded one does not");
}

// ---------------------------------------------------------------- waiting

template <typename Done>
bool Player::wait(Done done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (report_.failures.empty()) {
    handle_arrivals();
    if (done()) return true;
    if (std::chrono::steady_clock::now() > until) return false;
    peers_.poll(1);
  }
  return false;
}

bool Player::wait_for_steps_before(size_t index) {
  // Dials and requests are seen together with the HELLO.
  const auto missing = [&] {
    size_t i = 0;
    while (i < index && (done_[i] || !script_.steps[i].ours)) ++i;
    return i;
  };
  if (wait([&] { return missing() == index; })) return true;
  if (report_.failures.empty()) fail(name_of(missing()) + ": does not come");
  return false;
}

void Player::fail(std::string text) {
  report_.failures.push_back(std::move(text));
}

std::string Player::name_of(size_t index) const {
  if (index >= script_.steps.size()) return "end";
  const Step& step = script_.steps[index];
  const ScriptConnection& connection = script_.connections[step.connection];
  std::string what = step.piece.to_string();
  if (step.kind == Step::Kind::kDial) what = "dial";
  if (step.kind == Step::Kind::kEnd) what = step.reset ? "RST" : "FIN";
  return fmt::format("{:.3f} s, {} {} {} {} {}: {}", static_cast<double>(step.time_ns) * 1e-9,
                     connection.own.address, connection.own.port, step.ours ? ">" : "<",
                     connection.remote.address, connection.remote.port, what);
}

// ---------------------------------------------------------------- what our node does

void Player::handle_arrivals() {
  while (report_.failures.empty()) {
    const std::optional<Arrival> arrival = peers_.next();
    if (!arrival) break;
    handle(*arrival);
  }
  if (!peers_.failure().empty() && report_.failures.empty()) fail(peers_.failure());
}

void Player::handle(const Arrival& arrival) {
  Link& link = *arrival.link;
  if (arrival.ended) return handle_end(link);
  if (link.dialled && arrival.piece.kind == Piece::Kind::kRequest) {
    openings_.emplace(&link, arrival.piece);
  } else if (link.dialled && arrival.piece.kind == Piece::Kind::kHello) {
    handle_opening(link, arrival.piece);
  } else {
    handle_piece(link, arrival.piece);
  }
}

// This is the next connection that the recorded node dialled between these addresses; if it is of
// another type, the HELLOs differ.
void Player::handle_opening(Link& link, const Piece& piece) {
  for (size_t c = 0; c < script_.connections.size(); ++c) {
    const ScriptConnection& connection = script_.connections[c];
    if (!connection.dialled || link_of_.contains(c) || connection.remote != link.remote ||
        connection.own.address != link.own.address) {
      continue;
    }
    link_of_[c] = &link;
    connection_of_[&link] = c;
    for (size_t i = 0; i < script_.steps.size(); ++i) {
      const Step& step = script_.steps[i];
      if (step.connection == c && step.ours && step.kind == Step::Kind::kDial) done_[i] = true;
    }
    handle_piece(link, openings_.at(&link));
    return handle_piece(link, piece);
  }
  fail(fmt::format("our node dials {}: {}, which the recorded one does not", link.remote.address,
                   piece.to_string()));
}

void Player::handle_piece(Link& link, const Piece& piece) {
  const std::vector<size_t> candidates = candidates_for(link, piece);
  std::string difference = "nothing is expected here";
  bool overtakes = false;
  for (const size_t index : candidates) {
    const auto differs = matcher_.match(script_.steps[index], piece);
    if (!differs) {
      if (overtakes) ++report_.exceptions["order between independent messages"];
      return accept_match(index, link, piece);
    }
    if (index == candidates.front()) {
      difference = fmt::format("{}, as recorded at {}", *differs, name_of(index));
    }
    // Within one connection the order counts.
    const bool own = script_.steps[index].connection == connection_of_.at(&link);
    if (own && !may_overtake(index, piece)) break;
    overtakes |= own;
  }
  if (stand_in(link, piece)) return;
  const bool keepalive = is_noop(piece) && piece.frame.cookie1 == tcp::kKeepaliveCookie;
  if (keepalive && options_.keepalives) return;  // more of them than recorded: time runs faster
  fail(fmt::format("our node sends {} {} to {} {}: {}: {}", link.own.address, link.own.port,
                   link.remote.address, link.remote.port, piece.to_string(), difference));
}

// A GET or PUT of a discovery that the recorded node did not need. Its peer would have answered.
bool Player::stand_in(Link& link, const Piece& piece) {
  if (options_.more_discovery.empty() || !(is_discovery_ping(piece) || is_push(piece))) {
    return false;
  }
  const size_t peer = script_.connections[connection_of_.at(&link)].peer;
  if (!stood_in_.emplace(peer, piece.message->type()).second) return false;
  const auto info = std::find_if(script_.steps.begin(), script_.steps.end(),
                                 [](const Step& step) { return step.ping_info; });
  if (is_push(piece) && info != script_.steps.end() &&
      !matcher_.is_same_info(*info, piece.payload())) {
    return false;
  }
  const Bytes answer = stand_in_answer(piece, script_.peers[peer]);
  if (Status status = peers_.send(link, answer); !status.is_ok()) fail(status.text());
  ++report_.exceptions[options_.more_discovery];
  return true;
}

// What our node does by itself races with what its upper layer asks for, but the upper layer's own
// messages keep their order. So does the end of a discovery, which lets the upper layer's messages
// go, with the ACK of the peer's push (spec lnet-core 4.9). Which of several connections of one
// type carries a message is chance, so there is no order to keep, and a ZC-ACK may go on any.
bool Player::may_overtake(size_t overtaken, const Piece& piece) const {
  const Step& step = script_.steps[overtaken];
  if (step.piece.kind != Piece::Kind::kFrame) return false;
  if (is_noop(step.piece) || (is_request(step.piece) && !is_request(piece))) return true;
  if (is_push_ack(step.piece) && is_for_upper_layer(piece)) return true;
  const ScriptConnection& connection = script_.connections[step.connection];
  return std::any_of(link_of_.begin(), link_of_.end(), [&](const auto& other) {
    const ScriptConnection& candidate = script_.connections[other.first];
    return other.first != step.connection && !other.second->ended &&
           candidate.remote.address == connection.remote.address &&
           candidate.type == connection.type;
  });
}

// Steps that `piece` may be, the next in order first: those of its connection; of connections of
// the same type when there are several; a ZC-ACK may come on any.
std::vector<size_t> Player::candidates_for(const Link& link, const Piece& piece) const {
  std::vector<size_t> candidates;
  const auto own = connection_of_.find(&link);
  if (own == connection_of_.end()) return candidates;
  const ScriptConnection& connection = script_.connections[own->second];
  std::vector<size_t> others;
  for (size_t i = 0; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    if (done_[i] || !step.ours || step.kind != Step::Kind::kPiece) continue;
    if (step.connection == own->second) {
      candidates.push_back(i);
      continue;
    }
    const ScriptConnection& other = script_.connections[step.connection];
    const auto other_link = link_of_.find(step.connection);
    if (other.remote.address != connection.remote.address || other_link == link_of_.end() ||
        other_link->second->ended || piece.kind != Piece::Kind::kFrame) {
      continue;
    }
    if (other.type == connection.type || is_noop(piece)) others.push_back(i);
  }
  candidates.insert(candidates.end(), others.begin(), others.end());
  return candidates;
}

void Player::accept_match(size_t index, const Link& link, const Piece& piece) {
  done_[index] = true;
  ++report_.compared[kind_of(piece)];
  const bool elsewhere = script_.steps[index].connection != connection_of_.at(&link);
  if (elsewhere && is_noop(piece)) {
    ++report_.exceptions["ZC-ACK on the connection of its data"];
  } else if (elsewhere) {
    ++report_.exceptions["other connection of the same type"];
  }
}

// Closes that the recording has are waited for. Others are wrong, unless the peer closed first.
// FIN or RST is not compared: it depends on what TCP had taken in when the node closed.
void Player::handle_end(Link& link) {
  const auto own = connection_of_.find(&link);
  if (own == connection_of_.end()) return fail("our node dials and closes without a HELLO");
  for (size_t i = 0; i < script_.steps.size(); ++i) {
    const Step& step = script_.steps[i];
    if (step.connection != own->second || step.kind != Step::Kind::kEnd || !step.ours) continue;
    done_[i] = true;
    ++report_.compared["close"];
    return;
  }
  if (!link.finished) {
    fail(fmt::format("our node closes {} {} to {}, which the recorded one does not",
                     link.own.address, link.own.port, link.remote.address));
  }
}

}  // namespace ulnet::interop
