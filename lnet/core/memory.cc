#include "lnet/core/memory.h"

#include <fmt/format.h>

#include <cerrno>

namespace ulnet::core {

Result<MeHandle> Memory::me_attach(const MeSpec& spec) {
  if (state_.shutting_down) return Failure(State::stopping());
  if (state_.matches.me_count() >= Slab<Me>::kObjectsMax)
    return fail(ENOMEM, "too many match entries");
  return state_.matches.attach(spec).map([](MeId id) { return MeHandle{id}; });
}

Status Memory::me_unlink(MeHandle handle) {
  const Me* me = state_.matches.find(handle.value);
  if (me == nullptr) return {ENOENT, fmt::format("no match entry {:#x}", handle.value)};
  if (Md* md = me->md != 0 ? state_.mds.find(me->md) : nullptr; md != nullptr) abort(*md);
  if (state_.matches.find(handle.value) != nullptr) state_.matches.erase(handle.value);
  return Status::ok();
}

Result<MdHandle> Memory::md_attach(MeHandle handle, const MdSpec& spec, MdOwner owner) {
  Me* me = state_.matches.find(handle.value);
  if (me == nullptr) return fail(ENOENT, fmt::format("no match entry {:#x}", handle.value));
  if (me->md != 0)
    return fail(EBUSY, fmt::format("match entry {:#x} has an MD already", handle.value));
  const Result<MdHandle> md = make_md(spec, true, owner);
  if (!md) {
    state_.matches.erase(handle.value);
    return md;
  }
  me->md = md->value;
  state_.mds.at(md->value).me = handle.value;
  return md;
}

Result<MdHandle> Memory::bind(const MdSpec& spec, MdOwner owner) {
  return make_md(spec, false, owner);
}

Result<MdHandle> Memory::make_md(const MdSpec& spec, bool passive, MdOwner owner) {
  if (state_.shutting_down) return Failure(State::stopping());
  if (Status status = validate_md(spec, passive); !status.is_ok())
    return Failure(std::move(status));
  if (state_.mds.size() >= Slab<Md>::kObjectsMax)
    return fail(ENOMEM, "too many memory descriptors");
  const MdId id = state_.mds.insert();
  Md& md = state_.mds.at(id);
  md.id = id;
  md.passive = passive;
  md.owner = owner;
  md.unlink = spec.unlink;
  md.options = spec.options;
  md.threshold = spec.threshold;
  md.max_size = spec.max_size;
  md.handler = spec.handler;
  md.user_data = spec.user_data;
  md.set_fragments(spec.fragments);
  md.response.id = id;
  md.response.kind = TimerKind::kResponse;
  return MdHandle{id};
}

Status Memory::unlink(MdHandle handle) {
  Md* md = state_.mds.find(handle.value);
  if (md == nullptr || md->zombie)
    return {ENOENT, fmt::format("no memory descriptor {:#x}", handle.value)};
  abort(*md);
  return Status::ok();
}

Md* Memory::find_active(MdId id) {
  Md* md = state_.mds.find(id);
  return md != nullptr && !md->zombie ? md : nullptr;
}

void Memory::begin_operation(Md& md) {
  md.take_operation();
  ++md.operations;
  if (md.passive && md.exhausted() && md.unlink == UnlinkPolicy::kUnlink) make_zombie(md);
}

void Memory::end_operation(MdId id, Event event) {
  Md& md = state_.mds.at(id);
  ULNET_ASSERT(md.operations > 0, "an operation ended that never began");
  --md.operations;
  if (md.aborted && event.status == 0) event.status = -ETIMEDOUT;
  release_if_done(md, event);
}

void Memory::expect_response(Md& md, bool is_put, Time deadline) {
  ++(is_put ? md.acks_awaited : md.replies_awaited);
  md.expected = is_put ? MissingResponse::kAck : MissingResponse::kReply;
  if (deadline != kNever) state_.timers.set(md.response, deadline);
}

void Memory::response_settled(Md& md, bool is_put) {
  uint32_t& awaited = is_put ? md.acks_awaited : md.replies_awaited;
  if (awaited > 0) --awaited;
  if (md.acks_awaited == 0 && md.replies_awaited == 0) state_.timers.cancel(md.response);
}

void Memory::response_impossible(Md& md, bool is_put) {
  response_settled(md, is_put);
  if (md.threshold > 0) --md.threshold;
}

PeerNiId Memory::response_expired(MdId id) {
  Md& md = state_.mds.at(id);
  const PeerNiId next_hop = md.response_next_hop;
  md.response_lost = true;
  abort(md);
  return next_hop;
}

void Memory::shut_down() {
  state_.mds.for_each([this](MdId, Md& md) {
    if (!md.zombie) abort(md);
  });
  state_.matches.for_each_me([this](MeId id, Me&) { state_.matches.erase(id); });
}

// From here on the MD starts nothing, matches nothing, and what runs is its last.
void Memory::abort(Md& md) {
  md.aborted = true;
  state_.timers.cancel(md.response);
  make_zombie(md);
  if (md.operations > 0) return;
  Event event;
  event.kind = EventKind::kUnlink;
  event.status = md.response_lost ? -ETIMEDOUT : 0;
  release_if_done(md, event);
}

void Memory::make_zombie(Md& md) {
  md.zombie = true;
  Me* me = md.me != 0 ? state_.matches.find(md.me) : nullptr;
  md.me = 0;
  if (me == nullptr) return;
  me->md = 0;
  if (me->spec.unlink == UnlinkPolicy::kUnlink) state_.matches.erase(me->id);
}

void Memory::release_if_done(Md& md, Event& event) {
  const bool spent = md.exhausted() && md.unlink == UnlinkPolicy::kUnlink;
  event.unlinked = md.operations == 0 && (md.zombie || spent);
  event.md = MdHandle{md.id};
  event.user_data = md.user_data;
  if (md.response_lost && event.status == -ETIMEDOUT) event.missing = md.expected;
  if (event.unlinked) {
    state_.timers.cancel(md.response);
    make_zombie(md);
  }
  emit(md, event);
  if (event.unlinked) state_.mds.erase(md.id);
}

void Memory::emit(Md& md, const Event& event) {
  if (md.owner != MdOwner::kApplication) {
    internal_event_(md, event);
  } else if (md.handler != nullptr) {
    state_.handled_events.push_back({event, md.handler});
  } else {
    state_.polled_events.push_back({event, nullptr});
  }
}

}  // namespace ulnet::core
