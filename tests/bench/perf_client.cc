#include "tests/bench/perf_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/bench/pattern.h"

namespace ulnet::bench {
namespace {

// Longer than any time the node itself takes to give an operation up by default.
constexpr auto kSilenceMax = std::chrono::seconds(200);
constexpr auto kReportWait = std::chrono::seconds(20);

uint32_t source_block(uint64_t iteration) {
  return static_cast<uint32_t>(iteration % kSourceBlocks);
}

Status failure_of(const Event& event) {
  return Status(-event.status, fmt::format("{} of {} bytes to {} failed", to_string(event.kind),
                                           event.rlength, event.target.to_string()));
}

}  // namespace

PerfClient::PerfClient(std::unique_ptr<Endpoint> endpoint, const Nid& server)
    : endpoint_(std::move(endpoint)), server_{server, kPidLustre} {}

// The node goes before the memory that it borrows.
PerfClient::~PerfClient() {
  endpoint_.reset();
}

Result<Outcome> PerfClient::run(const Load& load, const std::function<bool(uint64_t)>& more) {
  if (Status status = open_slots(load); !status.is_ok()) return Failure(status);
  Outcome outcome;
  uint64_t started = 0;
  const Clock::time_point begin = Clock::now();
  for (;;) {
    while (!free_slots_.empty() && more(started)) {
      Slot* slot = free_slots_.back();
      free_slots_.pop_back();
      if (Status status = start_operation(load, *slot, started++); !status.is_ok())
        return Failure(status);
    }
    if (free_slots_.size() == slots_.size()) break;
    if (Status status = handle_events(load, outcome); !status.is_ok()) return Failure(status);
  }
  outcome.elapsed = Clock::now() - begin;
  if (Status status = close_slots(); !status.is_ok()) return Failure(status);
  return outcome;
}

Result<Outcome> PerfClient::run_for(const Load& load, std::chrono::duration<double> duration) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(duration);
  return run(load, [end](uint64_t) { return Clock::now() < end; });
}

Result<Outcome> PerfClient::run_count(const Load& load, uint64_t operations) {
  return run(load, [operations](uint64_t started) { return started < operations; });
}

Result<double> PerfClient::median_us(Load load, std::chrono::duration<double> duration) {
  load.in_flight = 1;
  std::vector<double> times;
  times.reserve(size_t{1} << 20);
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(duration);
  Clock::time_point last = Clock::now();
  const auto outcome = run(load, [&](uint64_t started) {
    const Clock::time_point now = Clock::now();
    // While the only slot is busy nobody asks for more: each call but the first one follows the end
    // of an operation.
    if (started > times.size())
      times.push_back(std::chrono::duration<double, std::micro>(now - last).count());
    last = now;
    return now < end;
  });
  if (!outcome) return Failure(outcome.error());
  if (times.empty()) return fail(ETIMEDOUT, "no operation ended in time");
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Result<PerfClient::Report> PerfClient::fetch_report() {
  const auto report_md = endpoint_->attach(
      {.portal = kReportPortal, .match_id = ProcessId::any(), .ignore_bits = ~uint64_t{0}},
      {.options = kMdPut, .threshold = 1});
  if (!report_md) return Failure(report_md.error());
  const auto empty = endpoint_->bind({.threshold = 1});
  if (!empty) return Failure(empty.error());
  if (Status status = endpoint_->put(
          {.md = *empty, .ack = AckRequest::kNoAck, .target = server_, .portal = kDonePortal});
      !status.is_ok()) {
    return Failure(status);
  }
  for (const auto end = Clock::now() + kReportWait; Clock::now() < end;) {
    const size_t count = endpoint_->poll_events(events_, std::chrono::milliseconds(200));
    for (const Event& event : std::span(events_).first(count)) {
      if (event.status != 0) return Failure(failure_of(event));
      if (event.md == *report_md) return Report{event.match_bits, event.hdr_data};
    }
  }
  return fail(ETIMEDOUT, fmt::format("no report from {}", server_.to_string()));
}

Status PerfClient::open_slots(const Load& load) {
  const size_t buffers = load.verify ? load.in_flight : 1;
  memory_.resize(std::max<size_t>(1, buffers * load.bytes));
  slots_.assign(load.in_flight, Slot{});
  free_slots_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.memory = std::span(memory_).subspan(load.verify ? i * load.bytes : 0, load.bytes);
    MdSpec md{.unlink = UnlinkPolicy::kRetain, .user_data = &slot};
    if (load.bytes > 0) md.fragments = {{slot.memory.data(), slot.memory.size()}};
    const auto bound = endpoint_->bind(md);
    if (!bound) return bound.error();
    slot.md = *bound;
    free_slots_.push_back(&slot);
  }
  return Status::ok();
}

Status PerfClient::close_slots() {
  for (const Slot& slot : slots_) {
    if (Status status = endpoint_->unlink(slot.md); !status.is_ok()) return status;
  }
  for (size_t unlinked = 0; unlinked < slots_.size();) {
    const size_t count = endpoint_->poll_events(events_, kSilenceMax);
    if (count == 0) return Status(ETIMEDOUT, "an idle MD did not unlink");
    for (const Event& event : std::span(events_).first(count)) {
      unlinked += event.unlinked && event.user_data != nullptr ? 1 : 0;
    }
  }
  return Status::ok();
}

Status PerfClient::start_operation(const Load& load, Slot& slot, uint64_t iteration) {
  slot.iteration = iteration;
  slot.events_due = 2;
  if (load.kind == Load::Kind::kPut) {
    if (load.verify) fill_pattern(slot.memory, iteration);
    return endpoint_->put(
        {.md = slot.md, .target = server_, .portal = load.portal, .hdr_data = iteration});
  }
  return endpoint_->get({.md = slot.md,
                         .target = server_,
                         .portal = load.portal,
                         .offset = source_block(iteration) * kPayloadBytesMax});
}

Status PerfClient::handle_events(const Load& load, Outcome& outcome) {
  const size_t count = endpoint_->poll_events(events_, kSilenceMax);
  if (count == 0) return Status(ETIMEDOUT, fmt::format("{} is silent", server_.to_string()));
  for (const Event& event : std::span(events_).first(count)) {
    if (event.status != 0) return failure_of(event);
    if (event.user_data == nullptr) continue;  // of fetch_report()'s own MDs
    Slot& slot = *static_cast<Slot*>(event.user_data);
    if (event.kind == EventKind::kReply && load.verify) {
      const bool right = event.mlength == load.bytes &&
                         !find_difference(slot.memory, source_block(slot.iteration));
      outcome.wrong += right ? 0 : 1;
    }
    if (--slot.events_due > 0) continue;
    ++outcome.operations;
    free_slots_.push_back(&slot);
  }
  return Status::ok();
}

}  // namespace ulnet::bench
