#include "tests/interop/node.h"

#include <algorithm>

#include "lnet/wire/ping_info.h"

namespace ulnet::interop {
namespace {

std::pair<uint64_t, uint64_t> key_of(const WireHandle& handle) {
  return {handle.interface_cookie, handle.object_cookie};
}

}  // namespace

Result<std::unique_ptr<OurNode>> OurNode::start(const Settings& settings) {
  std::unique_ptr<OurNode> node(new OurNode);
  Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::start(settings);
  if (!endpoint) return Failure(endpoint.error());
  node->endpoint_ = std::move(*endpoint);
  return node;
}

OurNode::~OurNode() {
  if (endpoint_) endpoint_->stop();
}

void OurNode::handle_event(const Event& event) {
  const std::lock_guard lock(mutex_);
  auto* operation = static_cast<Operation*>(event.user_data);
  if (event.status != 0) operation->failed = true;
  if (event.kind != EventKind::kSend && event.kind != EventKind::kUnlink) operation->event = event;
}

OurNode::Operation& OurNode::add_operation(size_t bytes) {
  const std::lock_guard lock(mutex_);
  Operation& operation = operations_.emplace_back();
  operation.memory.resize(bytes);
  return operation;
}

MdSpec OurNode::md_of(Operation& operation, int32_t threshold, uint32_t options) {
  MdSpec md;
  if (!operation.memory.empty()) {
    md.fragments = {{operation.memory.data(), operation.memory.size()}};
  }
  md.options = options;
  md.threshold = threshold;
  md.handler = &handler_;
  md.user_data = &operation;
  return md;
}

Status OurNode::put(const Piece& recorded) {
  const Header& header = *recorded.message;
  const auto& part = std::get<PutPart>(header.part);
  const bool ack = !part.ack_md.is_none();
  Operation& operation = add_operation(header.payload_bytes);
  std::copy(recorded.payload().begin(), recorded.payload().end(), operation.memory.begin());
  if (ack) by_handle_[key_of(part.ack_md)] = &operation;
  const Result<MdHandle> md = endpoint_->bind(md_of(operation, ack ? 2 : 1, 0));
  if (!md) return md.error();
  PutArgs args;
  args.md = *md;
  args.ack = ack ? AckRequest::kAck : AckRequest::kNoAck;
  args.target = {header.dest_nid, header.dest_pid};
  args.portal = part.portal;
  args.match_bits = part.match_bits;
  args.offset = part.offset;
  args.hdr_data = part.hdr_data;
  args.source = header.source_nid;
  return endpoint_->put(args);
}

Status OurNode::get(const Piece& recorded) {
  return start_get(recorded, recorded.message->dest_nid, recorded.message->source_nid);
}

Status OurNode::ping(const Piece& recorded, const Nid& nid) {
  return start_get(recorded, nid, Nid::any());
}

Status OurNode::start_get(const Piece& recorded, const Nid& target, const Nid& source) {
  const Header& header = *recorded.message;
  const auto& part = std::get<GetPart>(header.part);
  Operation& operation = add_operation(part.sink_length);
  by_handle_[key_of(part.return_md)] = &operation;
  const Result<MdHandle> md = endpoint_->bind(md_of(operation, 2, 0));
  if (!md) return md.error();
  GetArgs args;
  args.md = *md;
  args.target = {target, header.dest_pid};
  args.portal = part.portal;
  args.match_bits = part.match_bits;
  args.offset = part.source_offset;
  args.source = source;
  return endpoint_->get(args);
}

void OurNode::discover(const Nid& nid, bool force) {
  size_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    index = discoveries_.size();
    discoveries_.emplace_back();
  }
  endpoint_->discover({.nid = nid, .force = force}, [this, index](Result<PeerInfo> result) {
    const std::lock_guard lock(mutex_);
    discoveries_[index] = std::move(result);
  });
}

std::vector<std::optional<Result<PeerInfo>>> OurNode::discoveries() {
  const std::lock_guard lock(mutex_);
  return discoveries_;
}

Status OurNode::ping(const Nid& nid) {
  const Result<MdHandle> md = endpoint_->bind(md_of(add_operation(kPingToolBytes), 2, kMdTruncate));
  if (!md) return md.error();
  GetArgs args;
  args.md = *md;
  args.target = {nid, kPidLustre};
  args.match_bits = kPingMatchBits;
  return endpoint_->get(args);
}

OurNode::Operation* OurNode::find_response(const Piece& recorded) {
  const auto found = by_handle_.find(key_of(handle_of(recorded)));
  if (found == by_handle_.end()) return nullptr;
  if (recorded.message->type() == MessageType::kReply) {
    const auto payload = recorded.payload();
    found->second->expected.assign(payload.begin(), payload.end());
  }
  return found->second;
}

Result<OurNode::Operation*> OurNode::serve_put(const Piece& recorded, uint32_t mlength) {
  const auto& part = std::get<PutPart>(recorded.message->part);
  Operation& operation = add_operation(part.offset + mlength);
  // Below its offset the memory stays as it is.
  operation.expected.resize(part.offset);
  operation.expected.insert(operation.expected.end(), recorded.payload().begin(),
                            recorded.payload().begin() + mlength);
  MeSpec me;
  me.portal = part.portal;
  me.match_bits = part.match_bits;
  const Result<MdHandle> md =
      endpoint_->attach(me, md_of(operation, 1, kMdPut | kMdTruncate | kMdManageRemote));
  if (!md) return Failure(md.error());
  return &operation;
}

Result<OurNode::Operation*> OurNode::serve_get(const Piece& recorded,
                                               std::span<const uint8_t> payload) {
  const auto& part = std::get<GetPart>(recorded.message->part);
  Operation& operation = add_operation(part.source_offset + payload.size());
  std::copy(payload.begin(), payload.end(), operation.memory.begin() + part.source_offset);
  operation.expected = operation.memory;
  MeSpec me;
  me.portal = part.portal;
  me.match_bits = part.match_bits;
  const Result<MdHandle> md =
      endpoint_->attach(me, md_of(operation, 1, kMdGet | kMdTruncate | kMdManageRemote));
  if (!md) return Failure(md.error());
  return &operation;
}

bool OurNode::is_done(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  return operation.event && !operation.failed &&
         operation.expected.size() <= operation.memory.size() &&
         std::equal(operation.expected.begin(), operation.expected.end(), operation.memory.begin());
}

}  // namespace ulnet::interop
