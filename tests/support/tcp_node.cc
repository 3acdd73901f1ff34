#include "tests/support/tcp_node.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lnet/base/assert.h"
#include "lnet/base/unique_fd.h"

namespace ulnet::testing {

uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  socklen_t length = sizeof any;
  ULNET_ASSERT(::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), length) == 0, "a free port");
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&any), &length);
  return ntohs(any.sin_port);
}

TcpNode::TcpNode(const TcpNodeOptions& options)
    : nid_(*Nid::parse(options.nid)), threads_(options.threads) {
  std::vector<Loop*> raw;
  for (int i = 0; i < std::max(1, options.threads); ++i) {
    loops.push_back(std::make_unique<Loop>(LoopOptions{.name = "test-loop"}));
    if (options.threads > 0) loops.back()->start_thread();
    raw.push_back(loops.back().get());
  }
  AcceptorSettings acceptor = options.acceptor;
  acceptor.port = options.port;
  lnd = std::make_unique<tcp::TcpLnd>(host, raw, acceptor, options.global, logger);
  NiSettings settings;
  settings.net = nid_.net();
  settings.nid = nid_;
  settings.tcp = options.tcp;
  started = lnd->start_ni(1, settings);
  lnd->open();
}

TcpNode::~TcpNode() {
  lnd.reset();
  for (auto& loop : loops) loop->stop_thread();
}

SendId TcpNode::send(const Nid& target, Header header, size_t fragments, uint8_t seed,
                     Time deadline) {
  SendAction action;
  action.id = ++last_id_;
  action.ni = 1;
  action.next_hop = target;
  header.dest_nid = target;
  header.source_nid = nid_;
  header.dest_pid = kPidLustre;
  header.source_pid = kPidLustre;
  action.header = header;
  action.deadline = deadline;
  if (header.payload_bytes > 0) {
    auto memory = std::make_unique<Memory>();
    memory->bytes.resize(header.payload_bytes);
    for (size_t i = 0; i < memory->bytes.size(); ++i) memory->bytes[i] = pattern(seed, i);
    const size_t count = std::min<size_t>(fragments, header.payload_bytes);
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t size =
          i + 1 == count ? memory->bytes.size() - offset : memory->bytes.size() / count;
      memory->pieces.push_back({memory->bytes.data() + offset, size});
      offset += size;
    }
    action.payload = {memory->pieces, 0, header.payload_bytes};
    const std::lock_guard lock(mutex_);
    memory_.push_back(std::move(memory));
  }
  host.note_send(action.id);
  lnd->send(action);
  return action.id;
}

SendId TcpNode::put(const Nid& target, uint32_t payload_bytes, size_t fragments, uint8_t seed,
                    Time deadline) {
  Header header;
  header.payload_bytes = payload_bytes;
  header.part = PutPart{.match_bits = seed, .hdr_data = 0xABCD, .portal = 7};
  return send(target, header, fragments, seed, deadline);
}

SendId TcpNode::get(const Nid& target) {
  Header header;
  header.part = GetPart{.match_bits = kPingMatchBits, .sink_length = 272};
  return send(target, header, 1, 0, kNever);
}

SendId TcpNode::ack(const Nid& target) {
  Header header;
  header.part = AckPart{.match_bits = 9, .mlength = 17};
  return send(target, header, 1, 0, kNever);
}

SendId TcpNode::reply(const Nid& target, uint32_t payload_bytes) {
  Header header;
  header.payload_bytes = payload_bytes;
  header.part = ReplyPart{};
  return send(target, header, 1, 3, kNever);
}

void TcpNode::run(Duration wait) {
  if (threads_ == 0) {
    loops[0]->run_once(wait);
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

uint64_t TcpNode::counter(std::string_view name) const {
  for (const CounterInfo& each : lnd->counters(1)) {
    if (each.name == name) return each.value;
  }
  ULNET_ASSERT(false, "a test asks for a counter that is not there");
}

size_t TcpNode::connections(const Nid& peer, std::string_view type) const {
  size_t count = 0;
  for (const ConnectionInfo& each : lnd->connections(1, peer)) count += each.type == type ? 1 : 0;
  return count;
}

bool has_pattern(const std::vector<uint8_t>& payload, uint8_t seed) {
  for (size_t i = 0; i < payload.size(); ++i) {
    if (payload[i] != pattern(seed, i)) return false;
  }
  return true;
}

}  // namespace ulnet::testing
