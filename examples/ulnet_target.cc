// ulnet_target: a node that offers one buffer of 1 MiB. Whoever knows portal and match bits may PUT
// into it and GET from it. It prints what happens and ends on SIGINT or SIGTERM.
//
//   ulnet_target NODE.yaml
//   ulnet_target 127.0.0.2@tcp 9880        (the port is listened on and dialled: the same on all
//   nodes of a net)
#include <array>
#include <chrono>
#include <csignal>
#include <vector>

#include "node.h"

namespace {

volatile std::sig_atomic_t stop_requested = 0;

void print_event(const ulnet::Event& event) {
  if (event.status != 0) {
    std::printf("failed: %s\n", ulnet::errno_text(event.status).c_str());
  } else if (event.kind == ulnet::EventKind::kPut) {
    std::printf("PUT of %u bytes at offset %u from %s, hdr_data %llu\n", event.mlength,
                event.offset, event.initiator.to_string().c_str(),
                static_cast<unsigned long long>(event.hdr_data));
  } else if (event.kind == ulnet::EventKind::kGet) {
    std::printf("GET of %u bytes at offset %u by %s\n", event.mlength, event.offset,
                event.initiator.to_string().c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ulnet_target NODE.yaml | NID [PORT]\n");
    return 2;
  }
  std::signal(SIGINT, [](int) { stop_requested = 1; });
  std::signal(SIGTERM, [](int) { stop_requested = 1; });

  // 1. A node: its NIs listen as soon as start() returns.
  const auto endpoint =
      start_node(argv[1], argc > 2 ? static_cast<uint16_t>(std::atoi(argv[2])) : 988);

  // 2. A match entry says which requests are meant; the memory descriptor behind it is the memory
  // they reach. This one
  //    takes any number of requests from anybody, and the initiator says at which offset.
  std::vector<uint8_t> buffer(kBufferBytes);
  value_or_exit(endpoint->attach({.portal = kPortal,
                                  .match_id = ulnet::ProcessId::any(),
                                  .match_bits = kMatchBits,
                                  .unlink = ulnet::UnlinkPolicy::kRetain},
                                 {.fragments = {{buffer.data(), buffer.size()}},
                                  .options = ulnet::kMdPut | ulnet::kMdGet | ulnet::kMdManageRemote,
                                  .unlink = ulnet::UnlinkPolicy::kRetain}),
                "attach");
  std::printf("ready: %s\n", endpoint->nids().front().to_string().c_str());
  std::fflush(stdout);

  // 3. Each finished request is an event.
  std::array<ulnet::Event, 16> events;
  while (!stop_requested) {
    const size_t count = endpoint->poll_events(events, std::chrono::milliseconds(200));
    for (size_t i = 0; i < count; ++i) print_event(events[i]);
  }

  // 4. stop() ends what is under way and gives the buffer back; only then may it go.
  endpoint->stop();
  return 0;
}
