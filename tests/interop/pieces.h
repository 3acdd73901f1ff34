// Cuts one direction of a socklnd connection into its pieces: connect request, HELLO, frames.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/wire/header.h"

namespace ulnet::interop {

using Bytes = std::vector<uint8_t>;

struct Piece {
  enum class Kind : uint8_t { kRequest, kHello, kFrame };
  Kind kind = Kind::kFrame;
  Bytes bytes;         // all of it, as it travelled
  uint64_t begin = 0;  // position of its first byte in the stream
  // What the bytes say, by kind.
  Nid requested_nid;
  tcp::Hello hello;
  tcp::FrameHeader frame;
  HeaderForm form = HeaderForm::kNid4;
  std::optional<Header> message;  // of a frame of type LNET

  // Where the type-specific part of the LNet header begins; every part begins with a wire handle,
  // or with none. REQUIRES: message.
  size_t part_at() const { return tcp::kFrameHeaderBytes + header_bytes(form) - 40; }
  // REQUIRES: message.
  std::span<const uint8_t> payload() const {
    return std::span(bytes).subspan(tcp::kFrameHeaderBytes + header_bytes(form));
  }
  std::string to_string() const;
};

class PieceReader {
 public:
  // The opener's direction begins with a connect request, the other one with a HELLO.
  explicit PieceReader(bool from_opener) : request_due_(from_opener) {}

  void add(std::span<const uint8_t> bytes);
  // The next complete piece; nothing when bytes are missing, or after failure().
  std::optional<Piece> next();
  // What was not understood, or "".
  const std::string& failure() const { return failure_; }
  // Bytes of a piece that is not complete.
  size_t left() const { return bytes_.size() - taken_; }

 private:
  std::optional<Piece> read_request(std::span<const uint8_t> rest);
  std::optional<Piece> read_hello(std::span<const uint8_t> rest);
  std::optional<Piece> read_frame(std::span<const uint8_t> rest);
  Piece take(Piece::Kind kind, size_t count);

  bool request_due_;
  bool hello_due_ = true;
  bool flipped_ = false;
  HeaderForm form_ = HeaderForm::kNid4;
  Bytes bytes_;
  size_t taken_ = 0;      // of bytes_
  uint64_t dropped_ = 0;  // bytes of the stream before bytes_[0]
  std::string failure_;
};

// What an LNet message is for; all false for other pieces. Source: spec lnet-core 4.1.
bool is_request(const Piece& piece);          // PUT or GET
bool is_ping(const Piece& piece);             // a GET of ping info
bool is_push(const Piece& piece);             // a PUT of ping info
bool is_push_ack(const Piece& piece);         // and its ACK
bool is_for_upper_layer(const Piece& piece);  // any other PUT or GET

// The wire handle that begins the type-specific part of an LNet frame.
WireHandle handle_of(const Piece& piece);

}  // namespace ulnet::interop
