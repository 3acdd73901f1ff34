#include "tests/interop/pieces.h"

#include <fmt/format.h>

#include "lnet/base/bytes.h"

namespace ulnet::interop {

std::string Piece::to_string() const {
  if (kind == Kind::kRequest) return fmt::format("request for {}", requested_nid.to_string());
  if (kind == Kind::kHello) {
    return fmt::format("HELLO v{} {} > {}, {}", hello.version, hello.source_nid.to_string(),
                       hello.dest_nid.to_string(),
                       tcp::to_string(static_cast<tcp::ConnType>(hello.type)));
  }
  if (!message) return fmt::format("NOOP {:#x},{:#x}", frame.cookie0, frame.cookie1);
  return fmt::format("{} {} > {}, {} bytes", ulnet::to_string(message->type()),
                     message->source_nid.to_string(), message->dest_nid.to_string(),
                     message->payload_bytes);
}

bool is_request(const Piece& piece) {
  if (!piece.message) return false;
  const MessageType type = piece.message->type();
  return type == MessageType::kPut || type == MessageType::kGet;
}

bool is_ping(const Piece& piece) {
  if (!piece.message) return false;
  const auto* get = std::get_if<GetPart>(&piece.message->part);
  return get != nullptr && get->portal == kReservedPortal && get->match_bits == kPingMatchBits;
}

bool is_push(const Piece& piece) {
  if (!piece.message) return false;
  const auto* put = std::get_if<PutPart>(&piece.message->part);
  return put != nullptr && put->portal == kReservedPortal && put->match_bits == kPingMatchBits;
}

bool is_push_ack(const Piece& piece) {
  if (!piece.message) return false;
  const auto* ack = std::get_if<AckPart>(&piece.message->part);
  return ack != nullptr && ack->match_bits == kPingMatchBits;
}

bool is_for_upper_layer(const Piece& piece) {
  return is_request(piece) && !is_ping(piece) && !is_push(piece);
}

WireHandle handle_of(const Piece& piece) {
  return {load_le64(&piece.bytes[piece.part_at()]), load_le64(&piece.bytes[piece.part_at() + 8])};
}

void PieceReader::add(std::span<const uint8_t> bytes) {
  if (taken_ == bytes_.size()) {
    dropped_ += taken_;
    bytes_.clear();
    taken_ = 0;
  }
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<Piece> PieceReader::next() {
  if (!failure_.empty() || left() == 0) return std::nullopt;
  const std::span<const uint8_t> rest = std::span(bytes_).subspan(taken_);
  if (request_due_) return read_request(rest);
  if (hello_due_) return read_hello(rest);
  return read_frame(rest);
}

std::optional<Piece> PieceReader::read_request(std::span<const uint8_t> rest) {
  const auto request = tcp::decode_connect_request(rest);
  if (!request) {
    if (request.error() != tcp::WireError::kNeedMore) {
      failure_ = fmt::format("request: {}", tcp::to_string(request.error()));
    }
    return std::nullopt;
  }
  request_due_ = false;
  Piece piece = take(Piece::Kind::kRequest, request->bytes);
  piece.requested_nid = request->value.nid;
  return piece;
}

std::optional<Piece> PieceReader::read_hello(std::span<const uint8_t> rest) {
  const auto hello = tcp::decode_hello(rest);
  if (!hello) {
    if (hello.error() != tcp::WireError::kNeedMore) {
      failure_ = fmt::format("HELLO: {}", tcp::to_string(hello.error()));
    }
    return std::nullopt;
  }
  hello_due_ = false;
  flipped_ = hello->value.flipped;
  form_ = hello->value.version == 4 ? HeaderForm::kNid16 : HeaderForm::kNid4;
  Piece piece = take(Piece::Kind::kHello, hello->bytes);
  piece.hello = hello->value;
  return piece;
}

std::optional<Piece> PieceReader::read_frame(std::span<const uint8_t> rest) {
  if (rest.size() < tcp::kFrameHeaderBytes) return std::nullopt;
  const tcp::FrameHeader frame = tcp::decode_frame_header(rest, flipped_);
  size_t count = tcp::kFrameHeaderBytes;
  std::optional<Header> message;
  if (frame.type == tcp::kFrameLnet) {
    count += header_bytes(form_);
    if (rest.size() < count) return std::nullopt;
    const auto header = decode_header(form_, rest.subspan(tcp::kFrameHeaderBytes));
    if (!header) {
      failure_ = fmt::format("LNet header: {}", ulnet::to_string(header.error()));
      return std::nullopt;
    }
    message = *header;
    count += header->payload_bytes;
    if (rest.size() < count) return std::nullopt;
  } else if (frame.type != tcp::kFrameNoop) {
    failure_ = fmt::format("frame of type {:#x}", frame.type);
    return std::nullopt;
  }
  Piece piece = take(Piece::Kind::kFrame, count);
  piece.frame = frame;
  piece.message = message;
  return piece;
}

Piece PieceReader::take(Piece::Kind kind, size_t count) {
  Piece piece;
  piece.kind = kind;
  piece.form = form_;
  piece.begin = dropped_ + taken_;
  const auto from = bytes_.begin() + static_cast<ptrdiff_t>(taken_);
  piece.bytes.assign(from, from + static_cast<ptrdiff_t>(count));
  taken_ += count;
  return piece;
}

}  // namespace ulnet::interop
