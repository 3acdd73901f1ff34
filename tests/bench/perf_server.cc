#include "tests/bench/perf_server.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <utility>

#include "tests/bench/pattern.h"

namespace ulnet::bench {
namespace {

constexpr size_t kVerifyBuffers = 32;
constexpr uint64_t kAllBits = ~uint64_t{0};

}  // namespace

PerfServer::PerfServer(std::unique_ptr<Endpoint> endpoint)
    : endpoint_(std::move(endpoint)),
      sink_(kPayloadBytesMax),
      source_(size_t{kSourceBlocks} * kPayloadBytesMax),
      verify_buffers_(kVerifyBuffers, std::vector<uint8_t>(kPayloadBytesMax)) {}

// The node goes before the memory that it borrows.
PerfServer::~PerfServer() {
  endpoint_.reset();
}

Status PerfServer::attach() {
  for (uint32_t block = 0; block < kSourceBlocks; ++block) {
    fill_pattern(std::span(source_).subspan(size_t{block} * kPayloadBytesMax, kPayloadBytesMax),
                 block);
  }
  // A verified PUT needs a buffer of its own until it is checked: an ACK says that it has arrived,
  // not that it was looked at. While all buffers are in use, PUTs wait on the lazy portal.
  if (Status status = endpoint_->set_lazy(kVerifyPortal, true); !status.is_ok()) return status;
  for (std::vector<uint8_t>& buffer : verify_buffers_) {
    if (Status status = attach_verify_buffer(buffer); !status.is_ok()) return status;
  }
  std::vector<uint8_t> nothing;
  if (Status status = attach_persistent(kDonePortal, nothing, kMdPut); !status.is_ok())
    return status;
  if (Status status = attach_persistent(kSinkPortal, sink_, kMdPut); !status.is_ok()) return status;
  return attach_persistent(kSourcePortal, source_, kMdGet);
}

Status PerfServer::attach_persistent(uint32_t portal, std::vector<uint8_t>& memory,
                                     uint32_t operations) {
  MdSpec md{.options = operations | kMdManageRemote, .unlink = UnlinkPolicy::kRetain};
  if (!memory.empty()) md.fragments = {{memory.data(), memory.size()}};
  const auto attached = endpoint_->attach({.portal = portal,
                                           .match_id = ProcessId::any(),
                                           .ignore_bits = kAllBits,
                                           .unlink = UnlinkPolicy::kRetain},
                                          md);
  return attached ? Status::ok() : attached.error();
}

Status PerfServer::attach_verify_buffer(std::vector<uint8_t>& buffer) {
  const auto attached = endpoint_->attach(
      {.portal = kVerifyPortal, .match_id = ProcessId::any(), .ignore_bits = kAllBits},
      {.fragments = {{buffer.data(), buffer.size()}},
       .options = kMdPut,
       .threshold = 1,
       .user_data = &buffer});
  return attached ? Status::ok() : attached.error();
}

void PerfServer::run(const std::function<bool()>& stop) {
  std::array<Event, 128> events;
  for (uint32_t round = 0;; ++round) {
    const size_t count = endpoint_->poll_events(events, std::chrono::milliseconds(50));
    for (size_t i = 0; i < count; ++i) handle_event(events[i]);
    // Asking may cost a system call, so not behind every message.
    if ((count == 0 || round % 256 == 0) && stop()) return;
  }
}

void PerfServer::handle_event(const Event& event) {
  if (event.kind != EventKind::kPut) return;
  if (event.portal == kVerifyPortal) handle_verified_put(event);
  if (event.portal == kDonePortal && event.status == 0) report_to(event.initiator);
}

void PerfServer::handle_verified_put(const Event& event) {
  auto& buffer = *static_cast<std::vector<uint8_t>*>(event.user_data);
  Tally& tally = tallies_[event.initiator.nid];
  const auto difference = find_difference(std::span(buffer).first(event.mlength), event.hdr_data);
  if (event.status == 0 && event.mlength == event.rlength && !difference) {
    ++right_;
    ++tally.right;
  } else {
    ++wrong_;
    ++tally.wrong;
    fmt::print(stderr, "PUT {} from {}: status {}, {} of {} bytes, first difference at {}\n",
               event.hdr_data, event.initiator.to_string(), event.status, event.mlength,
               event.rlength, difference ? fmt::to_string(*difference) : "-");
  }
  if (Status status = attach_verify_buffer(buffer); !status.is_ok()) {
    fmt::print(stderr, "attach: {}\n", status.to_string());
  }
}

// Events come in the order of the PUTs they tell of, so a client that has all its ACKs gets a
// complete report.
void PerfServer::report_to(const ProcessId& initiator) {
  const Tally tally = std::exchange(tallies_[initiator.nid], Tally{});
  const auto empty = endpoint_->bind({.threshold = 1});
  Status status = empty ? endpoint_->put({.md = *empty,
                                          .ack = AckRequest::kNoAck,
                                          .target = {initiator.nid, kPidLustre},
                                          .portal = kReportPortal,
                                          .match_bits = tally.right,
                                          .hdr_data = tally.wrong})
                        : empty.error();
  if (!status.is_ok())
    fmt::print(stderr, "report to {}: {}\n", initiator.to_string(), status.to_string());
}

}  // namespace ulnet::bench
