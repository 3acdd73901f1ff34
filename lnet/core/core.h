// Core: LNet's decisions for one node, without socket, thread, clock, lock, file or global.
//
// It eats commands of the application and completions of the drivers, each with the time `now`, and
// yields actions for the drivers and events for the application. Given the same calls and the same
// seed it yields the same outputs.
//
// Use: any command or handle_*; then take_actions() and the events; and handle_timeout() when
// next_timeout() has come. Thread: none; the engine or the simulator serialises. Payload: the core
// hands out spans and lengths; except for ping info (its own) it never reads or writes payload.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lnet/core/discovery.h"
#include "lnet/core/health.h"
#include "lnet/core/membership.h"
#include "lnet/core/memory.h"
#include "lnet/core/ni_life.h"
#include "lnet/core/ping_service.h"
#include "lnet/core/receiver.h"
#include "lnet/core/recovery.h"
#include "lnet/core/requests.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"
#include "ulnet/endpoint.h"

namespace ulnet::core {

class Core {
 public:
  // `interface_cookie`: differs at each start of a node. `seed`: of every random choice.
  Core(const GlobalSettings& global, const LimitSettings& limits, uint64_t interface_cookie,
       uint64_t seed);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // ---- local side
  // An id for a NI that its driver is about to start; good for any number of tries.
  NiId reserve_ni() { return state_.nets.reserve_ni(); }
  // A NI that its driver has started; `node`: where its device is. REQUIRES: `id` is reserved.
  // Errors: EEXIST.
  Status add_ni(Time now, NiId id, const NiSettings& settings, const NiStarted& started,
                NumaNode node = kNoNumaNode);
  // Takes a NI away: nothing is sent by it from now on, and what waits to be goes another way or
  // ends. Its driver is to be stopped next; what it completes with ESHUTDOWN is sent again by
  // another NI where it may be. Errors: ENOENT; EINVAL 0@lo.
  Status remove_ni(Time now, NiId id);
  // Also of a NI that is only reserved.
  void handle_ni_fatal(Time now, NiId ni, bool fatal, std::string_view reason = {});
  // How far memory and devices are apart; without it they are all near.
  void set_numa_distances(NumaDistances distances) { state_.numa = std::move(distances); }

  // ---- settings while the node runs; see Endpoint. On failure nothing is changed.
  Status set_global(Time now, std::string_view name, int64_t value);
  Status change_nis(Time now, const NiSelection& which, const NiChange& change);
  Status change_peers(Time now, const std::optional<Nid>& nid, const PeerChange& change);

  // ---- peers
  // See Endpoint for all of these.
  Status configure_peer(Time now, const PeerSettings& peer);
  Status delete_peer(Time now, const Nid& primary, std::span<const Nid> nids, bool force);
  Status add_peer(Time now, std::span<const Nid> nids);
  // `handler` gets one event of kind UNLINK: its status, and `user_data`. Errors: EINVAL a
  // wildcard.
  Status discover(Time now, const Nid& nid, bool force, EventHandler& handler, void* user_data);
  // The name of the node that has this NID, as far as is known now.
  Nid primary_nid(const Nid& nid) const;

  // ---- selection policies; see Endpoint
  Status add_udsp(const Udsp& udsp, std::optional<uint32_t> index);
  Status del_udsp(uint32_t index);
  void del_udsps();
  std::vector<Udsp> udsps() const { return state_.udsps.list(); }

  // ---- memory; see Endpoint
  Result<MeHandle> me_attach(const MeSpec& spec) { return memory_.me_attach(spec); }
  Status me_unlink(MeHandle me) { return memory_.me_unlink(me); }
  Result<MdHandle> md_attach(Time now, MeHandle me, const MdSpec& spec);
  // `node`: where the memory is. MDs of MEs have none: they only answer, by the NI they were asked
  // by.
  Result<MdHandle> bind(const MdSpec& spec, NumaNode node = kNoNumaNode);
  Status unlink(MdHandle md) { return memory_.unlink(md); }
  Status set_lazy(Time now, uint32_t portal, bool lazy);

  // ---- operations; see Endpoint
  Status put(Time now, const PutArgs& args);
  Status get(Time now, const GetArgs& args);

  // ---- faults; see Endpoint
  Status add_fault(Time now, const FaultRule& rule);
  size_t del_faults(Time now, FaultKind kind, const Nid& source, const Nid& dest);
  void reset_faults(Time now, FaultKind kind) { state_.faults.reset(kind, now); }
  std::vector<FaultInfo> faults(FaultKind kind) const { return state_.faults.list(kind); }

  // ---- what drivers report; see LndHost
  MessageVerdict handle_message(Time now, const IncomingMessage& message);
  void handle_receive_done(Time now, ReceiveId id, const Completion& completion);
  void handle_send_done(Time now, SendId id, const Completion& completion);
  void handle_peer_down(Time now, NiId ni, const Nid& peer, Time last_heard);

  // ---- time
  Time next_timeout() const { return state_.timers.next(); }
  void handle_timeout(Time now);

  // ---- outputs
  bool has_actions() const { return !state_.actions.empty(); }
  // Swaps the actions so far into `actions`, which must be empty; in order.
  void take_actions(std::vector<Action>& actions) { actions.swap(state_.actions); }
  // Swapped out likewise by whoever delivers them.
  std::vector<CoreEvent>& handled_events() { return state_.handled_events; }
  std::vector<CoreEvent>& polled_events() { return state_.polled_events; }

  // ---- end
  // Messages that a driver has, or that wait for a credit.
  size_t sends_in_progress() const { return state_.sends.size(); }
  size_t receives_in_progress() const { return state_.receives.size(); }
  // Completes what waits with ESHUTDOWN, drops what is parked, unlinks every MD; what drivers have
  // ends by their completions. Every command gives ESHUTDOWN from now on.
  void shut_down(Time now);

  // ---- looking
  // Wildcard: of a NI whose driver is still starting it.
  Nid nid_of(NiId ni) const { return state_.nets.ni(ni).nid; }
  std::vector<Nid> nids() const;  // net by net, the primary first, without 0@lo
  std::vector<NetInfo> nets() const;
  std::vector<PeerInfo> peers() const;
  // The peer that has this NID.
  std::optional<PeerInfo> find_peer(const Nid& nid) const;
  Statistics statistics() const;
  void reset_statistics();
  const GlobalSettings& global() const { return state_.global; }

 private:
  void handle_event(const Md& md, const Event& event);
  void apply_udsps();
  // What our ping info says has changed: up it goes, and to the peers.
  void own_info_changed();
  // Does what the call in progress has left to do. The last thing each call does.
  void settle();
  // What follows from a change of the global settings.
  void handle_global_changed(const GlobalSettings& before);
  // Derives the NI's LND timeout anew, and tells its driver if it is another.
  void update_lnd_timeout(Ni& ni);
  // Errors: ENOENT nothing of that name; EINVAL 0@lo.
  Result<std::vector<NiId>> select_nis(const NiSelection& which) const;
  void run_released();

  State state_;
  Memory memory_;
  Health health_;
  Sender sender_;
  Receiver receiver_;
  Requests requests_;
  Recovery recovery_;
  PingService ping_;
  Membership membership_;
  Discovery discovery_;
  NiLife ni_life_;
};

}  // namespace ulnet::core
