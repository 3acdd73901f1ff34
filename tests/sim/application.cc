#include "tests/sim/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/wire/ping_info.h"

namespace ulnet::sim {
namespace {

// How late a last event may be: reading a message of the greatest size from the slowest net.
constexpr Duration kGrace = std::chrono::seconds(3);
constexpr uint32_t kPingSinkBytes = 3960;

// Byte `index` of the content that `key` names; every PUT and every GET target has a key of its
// own.
uint64_t content_word(uint64_t key, uint64_t word) {
  uint64_t z = key * 0x9E3779B97F4A7C15ULL + word * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 31)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 29);
}

uint8_t content_byte(uint64_t key, uint64_t index) {
  return static_cast<uint8_t>(content_word(key, index / 8) >> (8 * (index % 8)));
}

void fill(std::vector<uint8_t>& memory, uint64_t key) {
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = content_byte(key, i);
}

// All NIs of the node, but those that were gone just then, or in a life of fewer.
bool describes(const PingInfo& info, const Node& node) {
  const std::vector<Nid> nids = node.all_nids();
  const bool all_known = std::all_of(info.nis.begin(), info.nis.end(), [&](const PingNi& ni) {
    return std::find(nids.begin(), nids.end(), ni.nid) != nids.end();
  });
  return all_known && (node.has_lost_nis() || node.nids_vary() || info.nis.size() == nids.size());
}

// The first of `bytes` bytes at `at` that is not the key's content from `index` on.
std::optional<uint32_t> first_difference(const uint8_t* at, uint32_t bytes, uint64_t key,
                                         uint64_t index) {
  for (uint32_t i = 0; i < bytes; ++i) {
    if (at[i] != content_byte(key, index + i)) return i;
  }
  return std::nullopt;
}

uint64_t put_key(uint64_t operation) {
  return operation;
}

uint64_t target_key(uint64_t match_bits) {
  return ~match_bits;
}

std::string_view to_string(OperationKind kind) {
  switch (kind) {
    case OperationKind::kPut:
      return "PUT with ACK";
    case OperationKind::kPutNoAck:
      return "PUT";
    case OperationKind::kGet:
      return "GET";
    case OperationKind::kPing:
      return "ping";
    case OperationKind::kTarget:
      return "target MD";
  }
  return "?";
}

// Even pieces of `memory`.
std::vector<iovec> pieces(std::vector<uint8_t>& memory, uint32_t count) {
  std::vector<iovec> fragments;
  const size_t each = memory.size() / count;
  for (uint32_t i = 0; i < count && !memory.empty(); ++i) {
    const size_t begin = i * each;
    const size_t bytes = i + 1 == count ? memory.size() - begin : each;
    if (bytes > 0) fragments.push_back({memory.data() + begin, bytes});
  }
  return fragments;
}

}  // namespace

void Violations::add(Time now, std::string text) {
  ++count_;
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  if (texts_.size() < kTextsMax) texts_.push_back(fmt::format("at {:.6f} s: {}", seconds, text));
}

Applications::Applications(Cluster& cluster, Violations& violations)
    : cluster_(cluster), violations_(violations) {
  for (uint32_t i = 0; i < cluster.size(); ++i) tables_[i];
  cluster.set_listener([this](Node& node, const Event& event) { handle_event(node, event); });
}

// ---------------------------------------------------------------- commands

Operation* Applications::bind(Node& node, OperationKind kind, uint32_t bytes, uint32_t fragments,
                              uint32_t options, int32_t threshold) {
  auto operation = std::make_unique<Operation>();
  operation->id = next_id_++;
  operation->kind = kind;
  operation->started = cluster_.now();
  operation->memory.resize(bytes);
  MdSpec md;
  md.fragments = pieces(operation->memory, fragments);
  md.options = options;
  md.threshold = threshold;
  const Result<MdHandle> handle = node.core().bind(md);
  if (!handle) {
    wrong(node, *operation, "bind failed: " + handle.error().to_string());
    return nullptr;
  }
  operation->md = *handle;
  return of(node).emplace(handle->value, std::move(operation)).first->second.get();
}

void Applications::put(Node& node, const PutOptions& options) {
  const OperationKind kind = options.ack ? OperationKind::kPut : OperationKind::kPutNoAck;
  Operation* operation = bind(node, kind, options.bytes, options.fragments, 0, options.ack ? 2 : 1);
  if (operation == nullptr) return;
  operation->label = options.label;
  operation->done = options.done;
  operation->target = options.target;
  operation->match_bits = options.match_bits;
  fill(operation->memory, put_key(operation->id));
  const GlobalSettings& global = node.core().global();
  const Duration attempts =
      std::chrono::seconds(node.spec().nis.front().tcp.timeout_s * (global.retry_count + 1) + 1);
  const Duration response = options.timeout > Duration::zero()
                                ? options.timeout
                                : std::chrono::seconds(global.transaction_timeout_s);
  // A PUT to the node itself may wait on a lazy portal for the transaction timeout.
  const bool loops = options.target.is_lo() || cluster_.owner(options.target) == &node;
  const Duration unanswered =
      loops ? Duration(std::chrono::seconds(global.transaction_timeout_s)) : attempts;
  operation->bound = cluster_.now() + (options.ack ? response : unanswered);
  puts_[operation->id] = {options.target, options.bytes, options.match_bits, std::nullopt};

  PutArgs args;
  args.md = operation->md;
  args.ack = options.ack ? AckRequest::kAck : AckRequest::kNoAck;
  args.target = {options.target, kPidLustre};
  args.portal = options.portal;
  args.match_bits = options.match_bits;
  args.hdr_data = operation->id;
  args.timeout = options.timeout;
  const Status status = node.core().put(cluster_.now(), args);
  if (!status.is_ok()) wrong(node, *operation, "not started: " + status.to_string());
  node.settle();
}

void Applications::get(Node& node, const GetOptions& options) {
  Operation* operation = bind(node, OperationKind::kGet, options.bytes, 1, kMdTruncate, 2);
  if (operation == nullptr) return;
  operation->label = options.label;
  operation->target = options.target;
  operation->match_bits = options.match_bits;
  operation->offset = options.offset;
  const Duration response = options.timeout > Duration::zero()
                                ? options.timeout
                                : std::chrono::seconds(node.core().global().transaction_timeout_s);
  operation->bound = cluster_.now() + response;
  GetArgs args;
  args.md = operation->md;
  args.target = {options.target, kPidLustre};
  args.portal = options.portal;
  args.match_bits = options.match_bits;
  args.offset = options.offset;
  args.timeout = options.timeout;
  const Status status = node.core().get(cluster_.now(), args);
  if (!status.is_ok()) wrong(node, *operation, "not started: " + status.to_string());
  node.settle();
}

void Applications::ping(Node& node, const Nid& target, Duration timeout, const std::string& label) {
  Operation* operation = bind(node, OperationKind::kPing, kPingSinkBytes, 1, kMdTruncate, 2);
  if (operation == nullptr) return;
  operation->label = label;
  operation->target = target;
  operation->bound = cluster_.now() + timeout;
  GetArgs args;
  args.md = operation->md;
  args.target = {target, kPidLustre};
  args.portal = kReservedPortal;
  args.match_bits = kPingMatchBits;
  args.timeout = timeout;
  const Status status = node.core().get(cluster_.now(), args);
  if (!status.is_ok()) wrong(node, *operation, "not started: " + status.to_string());
  node.settle();
}

void Applications::attach(Node& node, const TargetOptions& options) {
  auto operation = std::make_unique<Operation>();
  operation->id = next_id_++;
  operation->kind = OperationKind::kTarget;
  operation->label = options.label;
  operation->match_bits = options.match_bits;
  operation->memory.resize(options.bytes);
  if ((options.options & kMdGet) != 0) fill(operation->memory, target_key(options.match_bits));
  MeSpec me;
  me.portal = options.portal;
  me.match_bits = options.match_bits;
  me.ignore_bits = options.ignore_bits;
  MdSpec md;
  md.fragments = pieces(operation->memory, 1);
  md.options = options.options;
  md.threshold = options.threshold;
  md.max_size = options.max_size;
  const Result<MeHandle> entry = node.core().me_attach(me);
  if (!entry) return wrong(node, *operation, "no ME: " + entry.error().to_string());
  const Result<MdHandle> handle = node.core().md_attach(cluster_.now(), *entry, md);
  if (!handle) return wrong(node, *operation, "no MD: " + handle.error().to_string());
  operation->md = *handle;
  // Known before its first event: a message that waited for it starts in settle().
  of(node).emplace(handle->value, std::move(operation));
  node.settle();
}

bool Applications::unlink(Node& node, uint64_t index) {
  Table& table = of(node);
  if (table.empty()) return false;
  auto it = table.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(index % table.size()));
  // ENOENT: unlinked before, and still in a driver's hands.
  (void)node.core().unlink(MdHandle{it->first});
  node.settle();
  return true;
}

void Applications::unlink_targets(Node& node) {
  std::vector<uint64_t> targets;
  for (const auto& [md, operation] : of(node)) {
    if (operation->kind == OperationKind::kTarget) targets.push_back(md);
  }
  for (const uint64_t md : targets) (void)node.core().unlink(MdHandle{md});
  node.settle();
}

void Applications::stop(Node& node) {
  node.stop();
  for (const auto& [md, operation] : of(node))
    wrong(node, *operation, "no last event, although the node has stopped");
  of(node).clear();
}

void Applications::crash(Node& node, Farewell how) {
  node.crash(how);
  of(node).clear();
}

// ---------------------------------------------------------------- events

void Applications::handle_event(Node& node, const Event& event) {
  ++events_;
  Table& table = of(node);
  const auto found = table.find(event.md.value);
  if (found == table.end()) {
    violations_.add(cluster_.now(),
                    fmt::format("{}: event {} for MD {:#x}, which has had its last event",
                                node.spec().name, to_string(event.kind), event.md.value));
    return;
  }
  Operation& operation = *found->second;
  if (operation.kind == OperationKind::kTarget) {
    // -ETIMEDOUT: all came, but the MD was unlinked meanwhile (spec lnet-core 3.3); it is ACKed.
    const bool landed = event.status == 0 || event.status == -ETIMEDOUT;
    if (event.kind == EventKind::kPut && landed) check_put(node, operation, event);
  } else {
    check_source_event(node, operation, event);
  }
  if (!event.unlinked) return;
  check_last(node, operation, event);
  const std::unique_ptr<Operation> ended = std::move(found->second);
  table.erase(found);
  end(*ended, event);
}

void Applications::check_source_event(Node& node, Operation& operation, const Event& event) {
  switch (event.kind) {
    case EventKind::kSend:
      if (++operation.sends > 1) wrong(node, operation, "a second SEND event");
      break;
    case EventKind::kAck:
      if (operation.kind != OperationKind::kPut)
        wrong(node, operation, "an ACK that was not asked");
      if (++operation.answers > 1) wrong(node, operation, "a second answer");
      if (event.status == 0) check_ack(node, operation, event);
      break;
    case EventKind::kReply:
      if (operation.kind != OperationKind::kGet && operation.kind != OperationKind::kPing)
        wrong(node, operation, "a REPLY that was not asked");
      if (++operation.answers > 1) wrong(node, operation, "a second answer");
      if (event.status == 0) check_reply(node, operation, event);
      break;
    case EventKind::kUnlink:
      break;
    case EventKind::kPut:
    case EventKind::kGet:
      wrong(node, operation, "an event of a target");
      break;
  }
}

void Applications::check_put(Node& node, const Operation& target, const Event& event) {
  const auto found = puts_.find(event.hdr_data);
  if (found == puts_.end())
    return wrong(node, target, fmt::format("PUT {} was never sent", event.hdr_data));
  PutFacts& put = found->second;
  if (put.landed) return wrong(node, target, fmt::format("PUT {} landed twice", event.hdr_data));
  put.landed = event.mlength;
  const bool here = put.target.is_lo() || cluster_.owner(put.target) == &node;
  if (!here || put.match_bits != event.match_bits || put.bytes != event.rlength) {
    return wrong(node, target,
                 fmt::format("PUT {} for {} with {} bytes landed here as one with {} bytes",
                             event.hdr_data, put.target.to_string(), put.bytes, event.rlength));
  }
  if (event.mlength > event.rlength || event.offset + event.mlength > target.memory.size())
    return wrong(node, target, fmt::format("PUT {} landed beyond its MD", event.hdr_data));
  const auto difference = first_difference(target.memory.data() + event.offset, event.mlength,
                                           put_key(event.hdr_data), 0);
  if (difference)
    wrong(node, target, fmt::format("PUT {}: byte {} is wrong", event.hdr_data, *difference));
}

void Applications::check_ack(Node& node, const Operation& operation, const Event& event) {
  const PutFacts& put = puts_.at(operation.id);
  if (!put.landed) return wrong(node, operation, "an ACK, but the PUT has not landed");
  if (*put.landed != event.mlength)
    wrong(node, operation,
          fmt::format("an ACK of {} bytes, but {} landed", event.mlength, *put.landed));
}

void Applications::check_reply(Node& node, const Operation& operation, const Event& event) {
  if (event.mlength > operation.memory.size())
    return wrong(node, operation, "a REPLY longer than the MD");
  if (operation.kind == OperationKind::kPing) {
    const auto info = decode_ping_info({operation.memory.data(), event.mlength}, 200);
    const Node* target = operation.target.is_lo() ? &node : cluster_.owner(operation.target);
    if (!info || target == nullptr || !describes(*info, *target))
      return wrong(node, operation, "a ping answer that does not describe its target");
    for (const PingNi& ni : info->nis) {
      if (cluster_.owner(ni.nid) != target) wrong(node, operation, "a NID of somebody else");
    }
    return;
  }
  const auto difference = first_difference(operation.memory.data(), event.mlength,
                                           target_key(operation.match_bits), operation.offset);
  if (difference) wrong(node, operation, fmt::format("byte {} of the REPLY is wrong", *difference));
}

void Applications::check_last(Node& node, const Operation& operation, const Event& event) {
  if (cluster_.now() > late_after(node, operation))
    wrong(node, operation, "its last event came after its bound");
  if (event.missing != MissingResponse::kNone) {
    const bool ack = event.missing == MissingResponse::kAck;
    if (ack != (operation.kind == OperationKind::kPut) || event.status != -ETIMEDOUT)
      wrong(node, operation, "the wrong response is said to be missing");
  }
}

void Applications::end(const Operation& operation, const Event& event) {
  const Outcome outcome{operation.label, operation.kind,    event.kind,    event.status,
                        event.missing,   operation.started, cluster_.now()};
  if (!outcome.label.empty()) outcomes_.push_back(outcome);
  if (operation.done) operation.done(outcome);
}

// ---------------------------------------------------------------- looking

size_t Applications::unfinished() const {
  size_t count = 0;
  for (const auto& [node, table] : tables_) {
    for (const auto& [md, operation] : table)
      count += operation->kind != OperationKind::kTarget ? 1 : 0;
  }
  return count;
}

void Applications::check_overdue() {
  for (auto& [index, table] : tables_) {
    const Node& node = cluster_.node(index);
    for (auto& [md, operation] : table) {
      if (cluster_.now() <= late_after(node, *operation)) continue;
      wrong(node, *operation, "no last event by its bound");
      operation->bound = kNever;  // named once
    }
  }
}

// A process that stands still cannot keep its bounds.
Time Applications::late_after(const Node& node, const Operation& operation) const {
  if (operation.bound == kNever) return kNever;
  return std::max(operation.bound, node.stalled_until()) + kGrace;
}

void Applications::wrong(const Node& node, const Operation& operation, const std::string& text) {
  violations_.add(cluster_.now(),
                  fmt::format("{}: {} {} to {}: {}", node.spec().name, to_string(operation.kind),
                              operation.id, operation.target.to_string(), text));
}

}  // namespace ulnet::sim
