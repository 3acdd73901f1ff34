#include "lnet/engine/ni_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lnet/base/assert.h"
#include "lnet/engine/clock.h"

namespace ulnet {
namespace {

// Between tries that nothing gives a reason for: 1, 2, 4, ... s, and up to a quarter more at random
// (decisions D6).
constexpr uint32_t kTryDoublingsMax = 5;

std::string name_of(const NiSettings& ni) {
  std::string name = ni.net.to_string();
  if (ni.nid) name = ni.nid->to_string();
  if (!ni.interface.empty()) name += fmt::format("({})", ni.interface);
  return ni.where.empty() ? name : fmt::format("{}: {}", ni.where, name);
}

Failure failure_of(const NiSettings& ni, const Status& status) {
  return fail(status.code(), fmt::format("{}: cannot start: {}", name_of(ni), status.text()));
}

bool is_absence(const Status& status) {
  return status.code() == ENODEV || status.code() == EADDRNOTAVAIL;
}

// What a NI waits for, or why a later try failed.
std::string reason_of(const NiSettings& ni, const Status& status) {
  if (!is_absence(status)) return status.text();
  if (!ni.nid) return fmt::format("waiting for {}", ni.interface);
  const std::string where = ni.interface.empty() ? "" : fmt::format(" on {}", ni.interface);
  return fmt::format("waiting for the address of {}{}", ni.nid->to_string(), where);
}

Failure stopped() {
  return fail(ESHUTDOWN, "the node has been stopped");
}

}  // namespace

// ---------------------------------------------------------------- changes

Status NiKeeper::configure(const NiSettings& settings) {
  const std::lock_guard lock(change_mutex_);
  const Result<Nid> nid = bring_up(settings, options_.wait_for_interfaces);
  return nid ? Status::ok() : nid.error();
}

Result<Nid> NiKeeper::add(const NiSettings& settings) {
  const std::lock_guard lock(change_mutex_);
  return bring_up(settings, false);
}

Status NiKeeper::remove(const Nid& nid) {
  const std::lock_guard lock(change_mutex_);
  std::vector<Entry> entries = list();
  std::erase_if(entries, [&](const Entry& entry) { return entry.nid != nid; });
  return remove_all(entries, nid.to_string());
}

Status NiKeeper::remove(NetId net, const std::string& interface) {
  const std::lock_guard lock(change_mutex_);
  // The device or label that a NI was asked for, or that its address was found on.
  const auto is_on = [&](const Entry& entry) {
    if (interface.empty() || entry.settings.interface == interface) return true;
    return entry.up && engine_.look([&](const core::Core& core) {
      for (const NetInfo& each : core.nets()) {
        for (const NiInfo& ni : each.nis) {
          if (ni.nid == entry.nid) return ni.interface == interface;
        }
      }
      return false;
    });
  };
  std::vector<Entry> entries = list();
  std::erase_if(entries,
                [&](const Entry& entry) { return entry.settings.net != net || !is_on(entry); });
  const std::string where = interface.empty() ? "" : fmt::format(" on {}", interface);
  return remove_all(entries, fmt::format("NI of net {}{}", net.to_string(), where));
}

Status NiKeeper::remove_all(const std::vector<Entry>& entries, const std::string& what) {
  if (stopped_) return stopped().value();
  if (entries.empty()) return {ENOENT, fmt::format("there is no local {}", what)};
  for (const Entry& entry : entries) take_down(entry);
  return Status::ok();
}

Status NiKeeper::check_limit() const {
  const auto max = static_cast<size_t>(
      engine_.look([](const core::Core& core) { return core.global().max_interfaces; }));
  if (list().size() < max) return Status::ok();
  return {ENOSPC, fmt::format("too many NIs: max_interfaces allows {}", max)};
}

Result<Nid> NiKeeper::bring_up(const NiSettings& settings, bool may_wait) {
  if (stopped_) return stopped();
  if (const Status status = check_limit(); !status.is_ok()) return failure_of(settings, status);
  const Result<Lnd*> driver = options_.find_driver(settings);
  if (!driver) return failure_of(settings, driver.error());
  Entry entry;
  entry.settings = settings;
  entry.driver = *driver;
  entry.nid = settings.nid.value_or(Nid::from_ipv4(settings.net, 0));
  entry.id = take_id();
  const Status status = try_start(entry);
  if (!status.is_ok() && !(may_wait && is_absence(status))) {
    spare_ids_.push_back(entry.id);
    return failure_of(settings, status);
  }
  if (!status.is_ok()) wait_on(entry, status);
  store(entry);
  return entry.nid;
}

// An id is good for any number of failed starts.
NiId NiKeeper::take_id() {
  if (spare_ids_.empty())
    return engine_.with_core([](core::Core& core, Time) { return core.reserve_ni(); });
  const NiId id = spare_ids_.back();
  spare_ids_.pop_back();
  return id;
}

Status NiKeeper::try_start(Entry& entry) {
  engine_.bind_driver(entry.id, entry.driver);
  const Result<NiStarted> started = entry.driver->start_ni(entry.id, entry.settings);
  if (!started) return started.error();
  const core::NumaNode node = options_.find_node(started->interface);
  const Status added = engine_.with_core([&](core::Core& core, Time now) {
    return core.add_ni(now, entry.id, entry.settings, *started, node);
  });
  ULNET_ASSERT(added.is_ok(), "a driver starts a NID that the core has already");
  entry.up = true;
  entry.nid = started->nid;
  entry.reason.clear();
  if (opened_) entry.driver->open();
  logger_.info("NI {} is up{}", started->nid.to_string(),
               started->interface.empty() ? "" : fmt::format(" on {}", started->interface));
  return Status::ok();
}

// The core first: what the driver then completes finds another NI, if there is one.
void NiKeeper::take_down(const Entry& entry) {
  erase(entry.id);
  if (!entry.up) {
    spare_ids_.push_back(entry.id);
    return;
  }
  (void)engine_.with_core(
      [&](core::Core& core, Time now) { return core.remove_ni(now, entry.id); });
  entry.driver->stop_ni(entry.id);
  engine_.drain_actions();
  logger_.info("NI {} is removed", entry.nid.to_string());
}

// ---------------------------------------------------------------- absent interfaces

void NiKeeper::wait_on(Entry& entry, const Status& why) {
  std::string reason = reason_of(entry.settings, why);
  if (reason != entry.reason)
    logger_.warn("{}: {} ({})", name_of(entry.settings), reason, why.text());
  entry.reason = std::move(reason);
  const Duration pause = std::chrono::seconds(1 << std::min(entry.tries, kTryDoublingsMax));
  const auto spread = engine_.random_below(static_cast<uint64_t>(pause.count()) / 4);
  entry.next_try = clock_now() + pause + Duration(spread);
  ++entry.tries;
}

void NiKeeper::retry(Time now, bool changed) {
  for (Entry& entry : list()) {
    if (entry.up || (!changed && entry.next_try > now)) continue;
    if (const Status status = try_start(entry); !status.is_ok()) wait_on(entry, status);
    store(entry);
  }
}

void NiKeeper::follow_addresses() {
  for (const Entry& entry : list()) {
    if (!entry.up || entry.settings.nid) continue;
    const Result<Nid> now_has = options_.find_nid(entry.settings);
    if (!now_has || *now_has == entry.nid) continue;
    NiSettings before = entry.settings;
    before.nid = entry.nid;
    if (!options_.find_nid(before)) follow(entry, *now_has);
  }
}

// The new one first, so that what the old one had has somewhere to go and no peer is forgotten.
void NiKeeper::follow(const Entry& entry, const Nid& now_has) {
  logger_.warn("{}: the address is now that of {}, not of {}", name_of(entry.settings),
               now_has.to_string(), entry.nid.to_string());
  const bool full = !check_limit().is_ok();
  if (full) take_down(entry);
  const Result<Nid> nid = bring_up(entry.settings, true);
  if (!nid) {
    logger_.error("{}", nid.error().text());
  } else if (!full) {
    take_down(entry);
  }
}

// ---------------------------------------------------------------- driving

void NiKeeper::open(bool own_thread) {
  {
    const std::lock_guard lock(change_mutex_);
    opened_ = true;
  }
  if (own_thread) thread_ = std::thread([this] { run(); });
}

void NiKeeper::poll() {
  const bool changed = changed_.load(std::memory_order_relaxed) && changed_.exchange(false);
  const Time next_try = next_try_.load(std::memory_order_relaxed);
  if (!changed && next_try == kNever) return;
  const Time now = clock_now();
  if (!changed && next_try > now) return;
  const std::lock_guard lock(change_mutex_);
  if (stopped_) return;
  retry(now, changed);
  if (changed && options_.address_change == AddressChange::kFollow) follow_addresses();
}

void NiKeeper::run() {
  for (;;) {
    poll();
    const Time until = std::min(next_try_.load(), clock_now() + std::chrono::hours(1));
    std::unique_lock lock(wake_mutex_);
    wake_.wait_until(lock, std::chrono::steady_clock::time_point(until.time_since_epoch()),
                     [this] { return ending_ || changed_; });
    if (ending_) return;
  }
}

void NiKeeper::handle_interfaces_changed() {
  {
    const std::lock_guard lock(wake_mutex_);
    changed_ = true;
  }
  wake_.notify_one();
}

void NiKeeper::stop() {
  {
    const std::lock_guard lock(wake_mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard change(change_mutex_);
  stopped_ = true;
  const std::lock_guard lock(list_mutex_);
  entries_.clear();
}

// ---------------------------------------------------------------- the list

std::vector<NiKeeper::Entry> NiKeeper::list() const {
  const std::lock_guard lock(list_mutex_);
  return entries_;
}

void NiKeeper::store(const Entry& entry) {
  const std::lock_guard lock(list_mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& each) { return each.id == entry.id; });
  if (known != entries_.end()) {
    *known = entry;
  } else {
    entries_.push_back(entry);
  }
  note_next_try();
}

void NiKeeper::erase(NiId id) {
  const std::lock_guard lock(list_mutex_);
  std::erase_if(entries_, [id](const Entry& each) { return each.id == id; });
  note_next_try();
}

void NiKeeper::note_next_try() {
  Time next = kNever;
  for (const Entry& entry : entries_) {
    if (!entry.up) next = std::min(next, entry.next_try);
  }
  next_try_ = next;
}

}  // namespace ulnet
