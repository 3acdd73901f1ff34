// ulnet_initiator: PUTs a pattern into the buffer of ulnet_target, GETs it back and compares.
//
//   ulnet_initiator NODE.yaml     TARGET_NID
//   ulnet_initiator 127.0.0.3@tcp TARGET_NID 9880
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "node.h"

namespace {

// Waits until the node is done with `md`, and returns the event of `kind` (ACK or REPLY) that the
// operation brought.
ulnet::Result<ulnet::Event> wait_for(ulnet::Endpoint& endpoint, ulnet::MdHandle md,
                                     ulnet::EventKind kind) {
  ulnet::Result<ulnet::Event> found = ulnet::fail(ETIMEDOUT, "no answer in 10 s");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    std::array<ulnet::Event, 4> events;
    const size_t count = endpoint.poll_events(events, std::chrono::milliseconds(200));
    for (size_t i = 0; i < count; ++i) {
      const ulnet::Event& event = events[i];
      if (event.md != md) continue;
      if (event.status != 0) return ulnet::fail(-event.status, "the operation failed");
      if (event.kind == kind) found = event;
      if (event.unlinked) return found;  // the last event of an MD: its memory is ours again
    }
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ulnet_initiator NODE.yaml|NID TARGET_NID [PORT]\n");
    return 2;
  }
  const auto endpoint =
      start_node(argv[1], argc > 3 ? static_cast<uint16_t>(std::atoi(argv[3])) : 988);
  const ulnet::ProcessId target = {value_or_exit(ulnet::Nid::parse(argv[2]), "target"),
                                   ulnet::kPidLustre};

  // 1. Is it there?
  const auto pong = value_or_exit(endpoint->ping({.nid = target.nid}), "ping");
  std::printf("%s answers in %.0f us\n", pong.primary_nid.to_string().c_str(),
              static_cast<double>(pong.rtt_ns) / 1e3);

  // 2. PUT with an acknowledgement. A bound MD that lives for one PUT takes two operations: SEND
  // and ACK.
  std::vector<uint8_t> sent(kBufferBytes);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 31 + (i >> 8));
  const auto source = value_or_exit(
      endpoint->bind({.fragments = {{sent.data(), sent.size()}}, .threshold = 2}), "bind");
  if (const ulnet::Status put = endpoint->put({.md = source,
                                               .target = target,
                                               .portal = kPortal,
                                               .match_bits = kMatchBits,
                                               .hdr_data = 42});
      !put.is_ok()) {
    std::fprintf(stderr, "put: %s\n", put.to_string().c_str());
    return 1;
  }
  const auto ack = value_or_exit(wait_for(*endpoint, source, ulnet::EventKind::kAck), "PUT");
  std::printf("PUT: %u of %u bytes acknowledged\n", ack.mlength, kBufferBytes);

  // 3. GET the same bytes back: SEND and REPLY.
  std::vector<uint8_t> fetched(kBufferBytes);
  const auto sink = value_or_exit(
      endpoint->bind({.fragments = {{fetched.data(), fetched.size()}}, .threshold = 2}), "bind");
  if (const ulnet::Status get = endpoint->get(
          {.md = sink, .target = target, .portal = kPortal, .match_bits = kMatchBits});
      !get.is_ok()) {
    std::fprintf(stderr, "get: %s\n", get.to_string().c_str());
    return 1;
  }
  const auto reply = value_or_exit(wait_for(*endpoint, sink, ulnet::EventKind::kReply), "GET");
  const bool equal = reply.mlength == kBufferBytes && sent == fetched;
  std::printf("GET: %u bytes, %s\n", reply.mlength,
              equal ? "equal to what was sent" : "DIFFERENT from what was sent");
  endpoint->stop();
  return equal ? 0 : 1;
}
