#include "lnet/core/match_table.h"

#include <fmt/format.h>

#include <cerrno>

namespace ulnet::core {
namespace {

PortalType type_for(const MeSpec& spec) {
  const bool unique =
      spec.ignore_bits == 0 && !spec.match_id.nid.is_any() && spec.match_id.pid != kPidAny;
  return unique ? PortalType::kUnique : PortalType::kWildcard;
}

}  // namespace

Result<MeId> MatchTable::attach(const MeSpec& spec) {
  if (spec.portal >= kPortals)
    return fail(EINVAL, fmt::format("portal {} is not in 0..{}", spec.portal, kPortals - 1));
  Portal& portal = portals_[spec.portal];
  const PortalType type = type_for(spec);
  if (portal.type != PortalType::kUnset && portal.type != type) {
    return fail(EPERM,
                fmt::format("portal {} takes {} match entries only, this one is {}", spec.portal,
                            portal.type == PortalType::kUnique ? "unique" : "wildcard",
                            type == PortalType::kUnique ? "unique" : "wildcard"));
  }
  portal.type = type;

  const MeId id = mes_.insert();
  Me& me = mes_.at(id);
  me.id = id;
  me.spec = spec;
  List& list = list_of(spec);
  if (list.head == 0) {
    list.head = list.tail = id;
  } else if (spec.position == MePosition::kBefore) {
    me.next = list.head;
    mes_.at(list.head).previous = id;
    list.head = id;
  } else {
    me.previous = list.tail;
    mes_.at(list.tail).next = id;
    list.tail = id;
  }
  return id;
}

void MatchTable::erase(MeId id) {
  const Me& me = mes_.at(id);
  List& list = list_of(me.spec);
  (me.previous != 0 ? mes_.at(me.previous).next : list.head) = me.next;
  (me.next != 0 ? mes_.at(me.next).previous : list.tail) = me.previous;
  if (list.head == 0 && me.spec.ignore_bits == 0)
    portals_[me.spec.portal].exact.erase(me.spec.match_bits);
  mes_.erase(id);
}

MatchTable::List& MatchTable::list_of(const MeSpec& spec) {
  Portal& portal = portals_[spec.portal];
  return spec.ignore_bits != 0 ? portal.with_ignore_bits : portal.exact[spec.match_bits];
}

MatchResult MatchTable::match(uint32_t portal_index, const MatchRequest& request) {
  const Portal& portal = portals_[portal_index];
  const MatchResult result = search(portal.with_ignore_bits, request);
  if (result.kind != MatchResult::Kind::kNone) return result;
  const auto exact = portal.exact.find(request.match_bits);
  return exact != portal.exact.end() ? search(exact->second, request) : MatchResult{};
}

MatchResult MatchTable::match_md(const Md& md, const MatchRequest& request) const {
  const Me* me = mes_.find(md.me);
  return me != nullptr ? try_me(*me, request) : MatchResult{};
}

MatchResult MatchTable::search(const List& list, const MatchRequest& request) const {
  for (MeId id = list.head; id != 0;) {
    const Me& me = *mes_.find(id);
    const MatchResult result = try_me(me, request);
    if (result.kind != MatchResult::Kind::kNone) return result;
    id = me.next;
  }
  return {};
}

// The tests in the spec's order; "no match" means: go on to the next ME.
MatchResult MatchTable::try_me(const Me& me, const MatchRequest& request) const {
  const Md* md = me.md != 0 ? mds_.find(me.md) : nullptr;
  if (md == nullptr || md->exhausted()) return {};
  if ((md->options & (request.is_put ? kMdPut : kMdGet)) == 0) return {};
  if (((me.spec.match_bits ^ request.match_bits) & ~me.spec.ignore_bits) != 0) return {};
  if (me.spec.match_id.pid != kPidAny && me.spec.match_id.pid != request.source_pid) return {};
  if (!me.spec.match_id.nid.is_any() && me.spec.match_id.nid != request.source_primary) return {};

  MatchResult result;
  result.md = md->id;
  result.fit = fit_request(*md, request.requested_bytes, request.offset);
  switch (result.fit.kind) {
    case Fit::Kind::kAccepted:
      result.kind = MatchResult::Kind::kMatched;
      break;
    case Fit::Kind::kTooLong:
      result.kind = MatchResult::Kind::kTooLong;
      break;
    case Fit::Kind::kBadOffset:
      result.kind = MatchResult::Kind::kBadOffset;
      break;
  }
  return result;
}

}  // namespace ulnet::core
