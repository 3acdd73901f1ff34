// MEs and MDs: attaching, unlinking, the operations in progress on an MD, and the wait for its
// response. Source: spec lnet-core 3.2 to 3.4, 8.1, 8.2; decisions D5.
#pragma once

#include <functional>

#include "lnet/core/state.h"

namespace ulnet::core {

class Memory {
 public:
  // Takes the events of MDs the core itself owns.
  using InternalEvent = std::function<void(const Md&, const Event&)>;

  explicit Memory(State& state) : state_(state) {}
  void set_internal_events(InternalEvent handle) { internal_event_ = std::move(handle); }

  Result<MeHandle> me_attach(const MeSpec& spec);
  Status me_unlink(MeHandle me);
  // On failure the ME is gone.
  Result<MdHandle> md_attach(MeHandle me, const MdSpec& spec,
                             MdOwner owner = MdOwner::kApplication);
  Result<MdHandle> bind(const MdSpec& spec, MdOwner owner = MdOwner::kApplication);
  Status unlink(MdHandle md);

  // The MD that a response or a request of ours names, or nullptr: gone or unlinked.
  Md* find_active(MdId id);

  // An operation that uses `md` starts. Takes one from the threshold; an exhausted target MD that
  // unlinks leaves its ME.
  void begin_operation(Md& md);
  // ... and ends. Completes `event` (md, user data, unlinked, missing response) and emits it; frees
  // the MD with its last operation if it is due.
  void end_operation(MdId md, Event event);

  // A response is awaited until `deadline`.
  void expect_response(Md& md, bool is_put, Time deadline);
  // One awaited response came.
  void response_settled(Md& md, bool is_put);
  // One awaited response cannot come: its request was never sent. It gives up the unit of threshold
  // that was meant for it, so that the failed send's event is the MD's last where the response's
  // would have been.
  void response_impossible(Md& md, bool is_put);
  // `md`'s response deadline passed. Returns the next hop the request went to (0: nowhere).
  PeerNiId response_expired(MdId md);

  // Unlinks every MD and removes every ME; MDs in the drivers' hands follow with their last
  // operation.
  void shut_down();

 private:
  Result<MdHandle> make_md(const MdSpec& spec, bool passive, MdOwner owner);
  void abort(Md& md);
  void make_zombie(Md& md);
  void release_if_done(Md& md, Event& event);
  void emit(Md& md, const Event& event);

  State& state_;
  InternalEvent internal_event_;
};

}  // namespace ulnet::core
