// Endpoint: one LNet node inside this process.
//
//   auto settings = ulnet::load_settings("node.yaml");
//   auto endpoint = ulnet::Endpoint::start(*settings).value();
//   auto md = endpoint->bind({.fragments = {{buffer, bytes}}, .threshold = 2});
//   endpoint->put({.md = *md, .target = {*ulnet::Nid::parse("10.0.0.2@tcp"), ulnet::kPidLustre},
//   .portal = 30});
//   ... endpoint->poll_events(...) until the event marked `unlinked`.
//
// Threads: with `threads: N` (N >= 1) the endpoint has N I/O threads and one event thread for
// handlers; every call below
//          may come from any thread at any time, handlers included. With `threads: 0` it has none:
//          the application's thread drives everything through poll() or poll_events(), one thread
//          at a time; other calls may still come from any thread, and what they start moves at the
//          next poll.
// Order:   what was queued between two polls leaves in as few system calls as possible.
// Source:  spec lnet-core 3 (semantics of every call).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulnet/fault.h"
#include "ulnet/info.h"
#include "ulnet/result.h"
#include "ulnet/settings.h"
#include "ulnet/types.h"

namespace ulnet {

class Logger;

// Reads the YAML that ulnetd reads. Errors: all of them in one text, each with "FILE:LINE: ".
// Warnings go to `warnings` if given. Source: spec config 9, decisions D5.
Result<Settings> load_settings(const std::string& path,
                               std::vector<std::string>* warnings = nullptr);

struct PutArgs {
  MdHandle md;  // a bound MD; all of it is sent
  AckRequest ack = AckRequest::kAck;
  ProcessId target;
  uint32_t portal = 0;
  uint64_t match_bits = 0;
  uint32_t offset = 0;  // in the target MD, if that is remote-managed
  uint64_t hdr_data = 0;
  Nid source;                           // local NI to send from; wildcard = choose
  std::chrono::nanoseconds timeout{0};  // for the ACK; 0 = transaction_timeout
};

struct GetArgs {
  MdHandle md;  // a bound MD; as much as fits is fetched
  ProcessId target;
  uint32_t portal = 0;
  uint64_t match_bits = 0;
  uint32_t offset = 0;
  Nid source;
  std::chrono::nanoseconds timeout{0};  // for the REPLY; 0 = transaction_timeout
};

struct PingArgs {
  Nid nid;
  Nid source;
  std::chrono::nanoseconds timeout = std::chrono::seconds(1);
};

struct DiscoverArgs {
  Nid nid;
  bool force = false;  // ask and tell it, whatever is known already
};

class Endpoint {
 public:
  using PingDone = std::function<void(Result<PingResult>)>;
  using DiscoverDone = std::function<void(Result<PeerInfo>)>;

  // Brings the node up: all NIs (but those that wait_for_interfaces leaves for later), or nothing.
  // Errors: those of the settings, EADDRINUSE, ENODEV, EADDRNOTAVAIL, EACCES; the text names the NI
  // and the place in the file. `logger` must outlive the endpoint; nullptr logs to standard error
  // at settings.node.log_level.
  static Result<std::unique_ptr<Endpoint>> start(const Settings& settings,
                                                 Logger* logger = nullptr);
  // stop(), if that was not called.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Ends the node and loses nothing: what was accepted gets settings.node.shutdown_grace_ms to
  // leave, then ends with ESHUTDOWN; every MD gets its `unlinked` event, and handlers have run,
  // before this returns. With `threads: 0`, and for MDs without a handler, the last events stay
  // readable by poll_events(). Later calls give ESHUTDOWN. Idempotent. Thread: not from a handler.
  void stop();

  // ---- local NIs at run time. The node's other NIs, and what is under way on them, are not
  // disturbed; peers that ask learn of the change by the sequence number of the ping info.
  // Thread: any, but not a handler's; with `threads: 0` the one that polls. One change at a time.

  // Brings one more NI up; its NID. Errors: those of start() for a NI; EEXIST; ENOSPC (names
  // settings.global.max_interfaces).
  Result<Nid> add_ni(const NiSettings& ni);
  // Takes a NI down, a waiting one included. Nothing new is sent by it; what waits goes by another
  // NI, or fails; what its driver has ends there, and is sent again by another NI where that is
  // safe. When the last NI of a net goes, peers that no other net reaches are forgotten, but those
  // of the configuration. Errors: ENOENT (names it).
  Status del_ni(const Nid& nid);
  // All NIs of a net, or those of them on one interface. Errors: ENOENT.
  Status del_net(NetId net, const std::string& interface = {});

  // ---- memory. Errors: EINVAL (names the field), ENOENT (stale handle), ENOMEM (a limit, named),
  // EPERM (portal of the other match type: unique or wildcard), ESHUTDOWN.

  // A match entry, still without memory.
  Result<MeHandle> me_attach(const MeSpec& me);
  // Removes an ME and unlinks its MD, if any.
  Status me_unlink(MeHandle me);
  // Memory behind an ME: passive, target of PUT or GET. On failure the ME is gone, too.
  Result<MdHandle> md_attach(MeHandle me, const MdSpec& md);
  // Both in one call.
  Result<MdHandle> attach(const MeSpec& me, const MdSpec& md);
  // Free-floating memory: active, source of PUTs or sink of GETs; at most 1 MiB.
  Result<MdHandle> bind(const MdSpec& md);
  // When this returns 0, nothing more is read from or written to the memory unless an operation is
  // in the driver's hands; in either case the event marked `unlinked` says when it is the
  // application's again (idle MD: at once, status 0).
  Status unlink(MdHandle md);
  // Requests that match nothing wait on a lazy portal (bounded: settings.limits) instead of being
  // dropped.
  Status set_lazy(uint32_t portal, bool lazy);

  // ---- operations. An immediate error means that no event follows. Whatever goes wrong later, "no
  // route" included, arrives as an event. Each operation ends by its bound at the latest (`ulnetctl
  // global show`). Errors: ENOENT (stale handle), EINVAL a wildcard as the target, ESHUTDOWN.

  Status put(const PutArgs& args);
  Status get(const GetArgs& args);
  // `done` runs once, where handlers run. Fails as soon as the send fails (EHOSTUNREACH,
  // ECONNREFUSED, ...), ETIMEDOUT, EINVAL a wildcard.
  void ping(const PingArgs& args, PingDone done);
  // Waits. With `threads: 0` this polls meanwhile. Thread: not from a handler.
  Result<PingResult> ping(const PingArgs& args);

  // ---- peers. Nothing here is needed to talk: the first message to a NID finds out whose it is.

  // Finds out who has this NID: asks it, unless that is known, and tells it who we are. `done` runs
  // once, where handlers run. Errors: those of a ping, EPROTO answers that make no sense,
  // ESHUTDOWN.
  void discover(const DiscoverArgs& args, DiscoverDone done);
  // Waits. With `threads: 0` this polls meanwhile. Thread: not from a handler.
  Result<PeerInfo> discover(const DiscoverArgs& args);
  // The application's word: these NIDs are one node, which it calls by the first (LNetAddPeer).
  // That name stays its primary NID, whatever the node calls itself; all are discovered in the
  // background. Errors: EINVAL a wildcard, 0@lo, or a NID of this node.
  Status add_peer(const std::vector<Nid>& nids);
  // The name of the node that has this NID (LNetPrimaryNID): as the application named it, at once;
  // else as the node calls itself, for which it is discovered if need be. Errors: as discover().
  // Thread: not from a handler.
  Result<Nid> primary_nid(const Nid& nid);
  // An administrator's word, which discovery does not overrule (`peer:`, `ulnetctl peer add`):
  // these NIDs are one node; known ones are added to. Errors: EEXIST (names it) a NID of another
  // such peer, EINVAL, EPERM multi-rail or not, other than before.
  Status configure_peer(const PeerSettings& peer);
  // Forgets the peer, or these NIDs of it. A name that the application gave is forgotten with
  // `force` only. Errors: ENOENT, EBUSY the primary NID without the others.
  Status delete_peer(const Nid& primary, const std::vector<Nid>& nids = {}, bool force = false);

  // ---- faults, at will; see fault.h.

  // Puts a rule before the others of its kind. Errors: those of validate_fault(), ENOSPC
  // kFaultRulesMax, ESHUTDOWN.
  Status add_fault(const FaultRule& rule);
  // Removes the rules of this kind with this source and this destination, a wildcard standing for
  // any; what they held goes on at once. Returns how many.
  size_t del_faults(FaultKind kind, const Nid& source, const Nid& dest);
  // Sets the counters of all rules of this kind to 0 and draws their random choices again.
  void reset_faults(FaultKind kind);
  // In the order in which they are tried.
  std::vector<FaultInfo> faults(FaultKind kind) const;

  // ---- selection policies, in order: the first of contradictory ones counts. Source: spec
  // lnet-core 10.2.

  // Adds one at `index`, moving the others up, or at the end. One with the descriptors of another
  // and a different priority changes that one instead. Errors: EINVAL (names descriptor and
  // reason), EALREADY the same exists, ENOSPC too many.
  Status add_udsp(const Udsp& udsp, std::optional<uint32_t> index = std::nullopt);
  // Errors: ENOENT no policy has this index.
  Status del_udsp(uint32_t index);
  void del_udsps();
  // Descriptors in their canonical form. The position is the index.
  std::vector<Udsp> udsps() const;

  // ---- driving and events.

  // Takes up to events.size() events of MDs without a handler; waits at most `max_wait` for the
  // first. Returns how many. With `threads: 0` this also does the node's work.
  size_t poll_events(std::span<Event> events, std::chrono::nanoseconds max_wait);
  // `threads: 0`: does the node's work, handlers included; waits at most `max_wait` when there is
  // none. True if anything was done. With threads it returns false at once.
  bool poll(std::chrono::nanoseconds max_wait);

  // ---- changing the running node. In force on return; what is under way keeps the deadlines it
  // began with. On failure nothing is changed, and the text says which value would do. Errors:
  // EINVAL; ENOENT nothing of that name; ESHUTDOWN.

  // One of kGlobalFields by its name, as `ulnetctl set NAME VALUE`.
  Status set_global(std::string_view name, int64_t value);
  Status change_nis(const NiSelection& which, const NiChange& change);
  // The peer NI with this NID (for its health) and its peer (for the sensitivity), or all.
  Status change_peers(const std::optional<Nid>& nid, const PeerChange& change);

  // ---- looking.

  // Own NIDs, net by net in the order in which they came up, without 0@lo. The first one is the
  // primary NID.
  std::vector<Nid> nids() const;
  // As the node was started with.
  const Settings& settings() const;
  // As they are in force.
  GlobalSettings global() const;
  std::vector<NetInfo> nets() const;    // lo first
  std::vector<PeerInfo> peers() const;  // in order of creation
  Statistics statistics() const;
  void reset_statistics();

 private:
  class Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ulnet
