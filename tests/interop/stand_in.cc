#include "tests/interop/stand_in.h"

#include <algorithm>

#include "lnet/base/assert.h"
#include "lnet/wire/ping_info.h"

namespace ulnet::interop {
namespace {

Bytes info_of(const std::vector<Nid>& nids) {
  PingInfo info;
  info.features = kPingNiStatus | kPingRoutingDisabled | kPingMultiRail | kPingDiscovery;
  // `lnetctl lnet configure` counts once, each `net add` once more.
  info.sequence = static_cast<uint32_t>(nids.size()) + 1;
  for (const Nid& nid : nids) info.nis.push_back({.nid = nid});
  return encode_ping_info(info);
}

}  // namespace

Bytes stand_in_answer(const Piece& request, const std::vector<Nid>& nids) {
  const Header& asked = *request.message;
  Header header;
  header.dest_nid = asked.source_nid;
  header.source_nid = asked.dest_nid;
  header.dest_pid = asked.source_pid;
  header.source_pid = asked.dest_pid;
  Bytes payload;
  if (const auto* put = std::get_if<PutPart>(&asked.part)) {
    header.part = AckPart{put->ack_md, put->match_bits, asked.payload_bytes};
  } else {
    payload = info_of(nids);
    header.part = ReplyPart{handle_of(request)};
  }
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  Bytes bytes(tcp::kFrameHeaderBytes + header_bytes(request.form));
  tcp::encode_frame_header({.type = tcp::kFrameLnet}, bytes);
  encode_header(request.form, header, std::span(bytes).subspan(tcp::kFrameHeaderBytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace ulnet::interop
