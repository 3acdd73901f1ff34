// A stream of socklnd frames with the LNet messages in them, as a connection reads it. The first
// byte says which form the LNet headers have and whether the peer is big-endian.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lnd_tcp/wire.h"
#include "lnet/base/assert.h"
#include "lnet/wire/header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace ulnet;
  if (size == 0) return 0;
  const HeaderForm form = (bytes[0] & 1) != 0 ? HeaderForm::kNid16 : HeaderForm::kNid4;
  const bool flipped = (bytes[0] & 2) != 0;
  std::span<const uint8_t> rest(bytes + 1, size - 1);
  while (rest.size() >= tcp::kFrameHeaderBytes) {
    const auto frame = tcp::decode_frame_header(rest, flipped);
    uint8_t again[tcp::kFrameHeaderBytes];
    tcp::encode_frame_header(frame, again);
    ULNET_ASSERT(tcp::decode_frame_header(again, false) == frame, "a frame header changed");
    rest = rest.subspan(tcp::kFrameHeaderBytes);
    if (frame.type == tcp::kFrameNoop) continue;
    if (frame.type != tcp::kFrameLnet) return 0;
    const auto header = decode_header(form, rest);
    if (!header) return 0;
    rest = rest.subspan(header_bytes(form));
    const auto payload = rest.first(std::min<size_t>(rest.size(), header->payload_bytes));
    // In two pieces as in one.
    const auto head = payload.first(payload.size() / 2);
    const auto tail = payload.subspan(head.size());
    ULNET_ASSERT(tcp::checksum(tcp::checksum(tcp::kChecksumSeed, head), tail) ==
                     tcp::checksum(tcp::kChecksumSeed, payload),
                 "a checksum depends on how its bytes came");
    rest = rest.subspan(payload.size());
  }
  return 0;
}
