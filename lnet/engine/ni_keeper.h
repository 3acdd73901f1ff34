// NiKeeper: the local NIs of a running node. Brings them up and takes them down, waits for
// interfaces that are not there yet, and follows addresses that change.
//
//   ──> driver starts it ──> UP ──────────────────────────────> gone (remove)
//             │ ENODEV, EADDRNOTAVAIL,      │ another address on its interface,
//             │ and waiting is allowed      │ and addresses are followed
//             v                             v
//          WAITING ──> UP                a new NI with that address comes up, this one goes
//
// A waiting NI is tried when the host's interfaces change, and by a slow back-off besides. That a
// NI which is up has lost its link or address is the driver's to notice (LndHost::handle_ni_fatal).
//
// Locks: change_mutex_ makes changes one after another and is held over calls of drivers;
// list_mutex_ guards the list and is held over no call.
// Source: cases SL-10, HL-9.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lnet/base/log.h"
#include "lnet/engine/engine.h"

namespace ulnet {

class NiKeeper {
 public:
  struct Options {
    bool wait_for_interfaces = false;
    AddressChange address_change = AddressChange::kKeep;
    // The driver of the NI's net; made when it is the first. Called with the change_mutex_.
    std::function<Result<Lnd*>(const NiSettings&)> find_driver;
    // The NID that such a NI would have now.
    std::function<Result<Nid>(const NiSettings&)> find_nid;
    // Where an interface is.
    std::function<core::NumaNode(const std::string&)> find_node;
  };
  struct Entry {
    NiSettings settings;
    NiId id = 0;
    Lnd* driver = nullptr;
    bool up = false;
    Nid nid;             // when up; before that the one asked for, or address 0 on the net
    std::string reason;  // why it is not up
    uint32_t tries = 0;  // that have failed
    Time next_try = kNever;
  };

  // Lifetime: engine and logger outlive this.
  NiKeeper(Engine& engine, Logger& logger, Options options)
      : engine_(engine), logger_(logger), options_(std::move(options)) {}
  ~NiKeeper() { stop(); }
  NiKeeper(const NiKeeper&) = delete;
  NiKeeper& operator=(const NiKeeper&) = delete;

  // A NI of the configuration. Errors: as add(), but absent interfaces when those are waited for.
  Status configure(const NiSettings& settings);
  // See Endpoint::add_ni, del_ni, del_net.
  Result<Nid> add(const NiSettings& settings);
  Status remove(const Nid& nid);
  Status remove(NetId net, const std::string& interface);

  // The node's drivers have been opened: from here on that of a NI that comes up is, too, and
  // absent ones are tried again. `own_thread`: by a thread of this; else by poll().
  void open(bool own_thread);
  // Does what is due. Thread: one at a time.
  void poll();
  // Links or addresses of this host have changed. Thread: any.
  void handle_interfaces_changed();
  // No change from now on; ESHUTDOWN. The list is empty.
  void stop();

  std::vector<Entry> list() const;

 private:
  // All of these with change_mutex_.
  Result<Nid> bring_up(const NiSettings& settings, bool may_wait);
  Status try_start(Entry& entry);
  void take_down(const Entry& entry);
  Status check_limit() const;
  NiId take_id();
  void wait_on(Entry& entry, const Status& why);
  void retry(Time now, bool changed);
  void follow_addresses();
  void follow(const Entry& entry, const Nid& now_has);
  Status remove_all(const std::vector<Entry>& entries, const std::string& what);

  void store(const Entry& entry);
  void erase(NiId id);
  void note_next_try();  // with list_mutex_
  void run();

  Engine& engine_;
  Logger& logger_;
  const Options options_;

  std::mutex change_mutex_;
  bool stopped_ = false;         // guarded by change_mutex_
  bool opened_ = false;          // guarded by change_mutex_
  std::vector<NiId> spare_ids_;  // guarded by change_mutex_: reserved, and not come to be used

  mutable std::mutex list_mutex_;
  std::vector<Entry> entries_;          // guarded by list_mutex_, in the order in which they came
  std::atomic<Time> next_try_{kNever};  // of the entries; written with list_mutex_

  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool ending_ = false;               // guarded by wake_mutex_
  std::atomic<bool> changed_{false};  // set with wake_mutex_
  std::thread thread_;
};

}  // namespace ulnet
