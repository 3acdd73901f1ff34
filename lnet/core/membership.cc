#include "lnet/core/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::core {
namespace {

Status check_nid(const State& state, const Nid& nid) {
  if (nid.is_any() || nid.is_lo())
    return {EINVAL, fmt::format("{} is no NID of a peer", nid.to_string())};
  if (state.nets.is_local_nid(nid))
    return {EINVAL, fmt::format("{} is a NID of this node", nid.to_string())};
  return Status::ok();
}

bool lists(const PingInfo& info, const Nid& nid) {
  return std::any_of(info.nis.begin(), info.nis.end(),
                     [&](const PingNi& ni) { return ni.nid == nid; });
}

// The primary NID first, each once.
std::vector<Nid> all_nids(const PeerSettings& settings) {
  std::vector<Nid> nids = {settings.primary_nid};
  for (const Nid& nid : settings.nids) {
    if (std::find(nids.begin(), nids.end(), nid) == nids.end()) nids.push_back(nid);
  }
  return nids;
}

bool contains(std::span<const Nid> nids, const Nid& nid) {
  return std::find(nids.begin(), nids.end(), nid) != nids.end();
}

}  // namespace

// ---------------------------------------------------------------- an administrator's word

Status Membership::configure(const PeerSettings& settings) {
  const std::vector<Nid> nids = all_nids(settings);
  PeerNi* primary = state_.peers.find(settings.primary_nid);
  Peer* peer = primary != nullptr ? &state_.peers.peer(primary->peer) : nullptr;
  for (const Nid& nid : nids) {
    if (Status status = check_nid(state_, nid); !status.is_ok()) return status;
    const PeerNi* known = state_.peers.find(nid);
    if (known == nullptr) continue;
    const Peer& owner = state_.peers.peer(known->peer);
    const bool own = &owner == peer && owner.primary_nid == settings.primary_nid;
    if (!owner.is(kPeerConfigured)) continue;
    if (!own || settings.nids.empty()) {
      return {EEXIST,
              fmt::format("{} belongs to peer {}", nid.to_string(), owner.primary_nid.to_string())};
    }
  }
  const bool known_before = peer != nullptr && peer->is(kPeerConfigured);
  if (known_before && peer->is_multi_rail() != settings.multi_rail) {
    return {EPERM, fmt::format("peer {} is {}multi-rail", settings.primary_nid.to_string(),
                               peer->is_multi_rail() ? "" : "not ")};
  }
  if (peer == nullptr) {
    const Nid& nid = settings.primary_nid;
    peer = &state_.peers.peer(
        state_.peers.create(nid, state_.nets.peer_credits(nid.net()), false).peer);
  }
  state_.peers.forget_traffic(*peer);
  if (!known_before) {
    // What discovery said of it is void.
    for (const PeerNiId id : state_.peers.nis_of(*peer)) {
      PeerNi& ni = state_.peers.ni(id);
      if (!contains(nids, ni.nid)) remove_ni(ni);
    }
    peer->primary_nid = settings.primary_nid;
    peer->clear(kPeerMultiRail | kPeerDiscovered | kPeerNidsCurrent);
    peer->set(kPeerConfigured);
    if (settings.multi_rail) state_.peers.make_multi_rail(*peer);
  }
  if (settings.health_sensitivity) peer->health_sensitivity = settings.health_sensitivity;
  if (settings.lock_primary) peer->set(kPeerLockedPrimary);
  for (const Nid& nid : nids) attach(*peer, nid);
  state_.peers.put_first(*peer, peer->primary_nid);
  return Status::ok();
}

Status Membership::remove(const Nid& primary, std::span<const Nid> nids, bool force) {
  PeerNi* ni = state_.peers.find(primary);
  Peer* peer = ni != nullptr ? &state_.peers.peer(ni->peer) : nullptr;
  if (peer == nullptr || peer->primary_nid != primary)
    return {ENOENT, fmt::format("there is no peer {}", primary.to_string())};
  for (const Nid& nid : nids) {
    const PeerNi* named = state_.peers.find(nid);
    if (named == nullptr || named->peer != peer->id) {
      return {ENOENT, fmt::format("{} is no NID of peer {}", nid.to_string(), primary.to_string())};
    }
  }
  const bool whole = nids.empty() || nids.size() == state_.peers.ni_count(peer->id);
  if (!whole && contains(nids, primary)) {
    return {EBUSY, fmt::format("{} is the primary NID of a peer with other NIDs: remove those, or "
                               "the whole peer",
                               primary.to_string())};
  }
  if (whole && (force || !peer->is(kPeerLockedPrimary))) {
    erase(*peer, nullptr);
    return Status::ok();
  }
  for (const PeerNiId id : state_.peers.nis_of(*peer)) {
    PeerNi& each = state_.peers.ni(id);
    if (each.nid != primary && (whole || contains(nids, each.nid))) remove_ni(each);
  }
  if (whole) {
    // The application's name stays, and its node is asked anew at the next need.
    peer->clear(kPeerConfigured | kPeerDiscovered | kPeerNidsCurrent);
    peer->set(kPeerRediscover);
  }
  return Status::ok();
}

// ---------------------------------------------------------------- the application's word

Result<PeerId> Membership::name(std::span<const Nid> nids) {
  if (nids.empty()) return fail(EINVAL, "no NID of the peer");
  for (const Nid& nid : nids) {
    if (Status status = check_nid(state_, nid); !status.is_ok()) return Failure(std::move(status));
  }
  PeerNi* first = find_or_create_peer_ni(state_, nids.front(), false);
  Peer& peer = state_.peers.peer(first->peer);
  state_.peers.forget_traffic(peer);
  if (!state_.global.discovery) return peer.id;
  if (!peer.is(kPeerLockedPrimary)) {
    peer.primary_nid = nids.front();
    peer.set(kPeerLockedPrimary);
  }
  if (!peer.is(kPeerConfigured | kPeerNoDiscovery)) state_.peers.make_multi_rail(peer);
  for (const Nid& nid : nids.subspan(1)) {
    Peer& other = state_.peers.peer(find_or_create_peer_ni(state_, nid, false)->peer);
    if (&other == &peer || other.is(kPeerConfigured | kPeerLockedPrimary)) continue;
    state_.peers.forget_traffic(other);
    other.discovery.name = peer.primary_nid;
    peer.discovery.aliases.push_back(other.id);
  }
  return peer.id;
}

// ---------------------------------------------------------------- the node's word

bool Membership::is_live(const Peer& peer) const {
  const std::vector<PeerNiId> nis = state_.peers.nis_of(peer);
  return std::any_of(nis.begin(), nis.end(),
                     [this](PeerNiId id) { return state_.peers.ni(id).heard; });
}

// The peer whose node the application says this is, if that can be.
Peer* Membership::named_peer(Peer& peer, const PingInfo& info) {
  const PeerNi* named = state_.peers.find(peer.discovery.name);
  peer.discovery.name = Nid::any();
  if (named == nullptr || named->peer == peer.id) return nullptr;
  Peer& other = state_.peers.peer(named->peer);
  // A node that does not list the name is joined to it by nothing but the application's word. That
  // must do while nobody else answers to the name.
  if (lists(info, named->nid) || !other.is(kPeerDiscovered)) return &other;
  peer.set(kPeerBadConfig);
  other.set(kPeerBadConfig);
  return nullptr;
}

Peer* Membership::subject_of(Peer& peer, const PingInfo& info, const Nid& source) {
  const Nid primary = info.primary_nid();
  peer.discovery.their_primary = primary;
  if (Peer* named = named_peer(peer, info)) return named;
  if (primary == peer.primary_nid || state_.nets.is_local_nid(primary)) return &peer;
  PeerNi* owner = state_.peers.find(primary);
  if (owner != nullptr && owner->peer != peer.id) {
    Peer& other = state_.peers.peer(owner->peer);
    if (contains(other.discovery.listed, source) || !is_live(other)) return &other;
    hooks_.ask(other, primary);
    return nullptr;
  }
  if (!peer.is(kPeerLockedPrimary | kPeerConfigured)) {
    attach(peer, primary);
    peer.primary_nid = primary;
  }
  return &peer;
}

void Membership::merge(Peer& peer, const PingInfo& info, const Nid& source, bool statuses_only) {
  peer.discovery.their_primary = info.primary_nid();
  take_statuses(peer, info);
  if (statuses_only || peer.is(kPeerConfigured)) return;
  peer.discovery.listed.clear();
  for (const PingNi& ni : info.nis) peer.discovery.listed.push_back(ni.nid);
  for (const PingNi& ni : info.nis) claim(peer, ni.nid, source);
  remove_unlisted(peer, info);
  state_.peers.put_first(peer, peer.primary_nid);
}

void Membership::take_statuses(Peer& peer, const PingInfo& info) {
  for (const PingNi& listed : info.nis) {
    PeerNi* ni = state_.peers.find(listed.nid);
    if (ni == nullptr || ni->peer != peer.id) continue;
    ni->disowned = false;
    if (listed.status == kNiStatusUp) {
      if (ni->up && !ni->heard) ni->health = kHealthMax;
      ni->up = true;
    } else if (listed.status == kNiStatusDown) {
      if (ni->up) health_.reported_down(*ni);
      ni->up = false;
    }
  }
}

void Membership::claim(Peer& peer, const Nid& nid, const Nid& source) {
  if (nid.is_any() || nid.is_lo() || state_.nets.is_local_nid(nid)) return;
  PeerNi* ni = state_.peers.find(nid);
  if (ni == nullptr) return attach(peer, nid);
  if (ni->peer == peer.id) return;
  Peer& owner = state_.peers.peer(ni->peer);
  if (!may_take(owner, *ni, peer, source)) return;
  if (owner.primary_nid != nid) return take_over(*ni, peer);
  const PeerId owner_id = owner.id;

  // The whole of that peer was this node under another name.
  const bool locked = owner.is(kPeerLockedPrimary);
  if (locked && !peer.is(kPeerLockedPrimary)) {
    peer.primary_nid = nid;
    peer.set(kPeerLockedPrimary);
  }
  take_over(*ni, peer);
  if (Peer* rest = state_.peers.find_peer(owner_id)) erase(*rest, &peer);
}

// The table of conflicts in 4.10.
bool Membership::may_take(Peer& owner, const PeerNi& ni, Peer& claimant, const Nid& source) {
  if (owner.is(kPeerConfigured)) return false;
  const bool is_name = owner.primary_nid == ni.nid && owner.is(kPeerLockedPrimary);
  if (is_name && state_.peers.ni_count(owner.id) > 1) {
    owner.set(kPeerBadConfig);
    claimant.set(kPeerBadConfig);
    return false;
  }
  if (ni.nid == source || !is_live(owner)) return true;
  if (owner.discovery.their_primary == claimant.discovery.their_primary) return true;
  // Somebody uses it: only who answers there can say that it is this node's (SE-3).
  hooks_.ask(owner, ni.nid);
  return false;
}

void Membership::attach(Peer& peer, const Nid& nid) {
  if (PeerNi* ni = state_.peers.find(nid)) {
    if (ni->peer != peer.id) take_over(*ni, peer);
    return;
  }
  state_.peers.add(peer.id, nid, state_.nets.peer_credits(nid.net()));
}

void Membership::take_over(PeerNi& ni, Peer& peer) {
  Peer& from = state_.peers.peer(ni.peer);
  state_.peers.move(ni, peer);
  ni.disowned = false;
  if (peer.is_multi_rail()) ni.preferred_ni = kLoopbackNi;
  if (from.nets.empty()) {
    erase(from, &peer);
  } else {
    choose_primary(from, ni.nid);
  }
}

// The next NID is the primary one when that has `gone`, until the node says otherwise.
void Membership::choose_primary(Peer& peer, const Nid& gone) {
  if (peer.primary_nid != gone) return;
  peer.primary_nid = state_.peers.ni(peer.nets.front().nis.front()).nid;
  peer.clear(kPeerLockedPrimary | kPeerDiscovered | kPeerNidsCurrent);
}

void Membership::remove_unlisted(Peer& peer, const PingInfo& info) {
  for (const PeerNiId id : state_.peers.nis_of(peer)) {
    PeerNi& ni = state_.peers.ni(id);
    if (lists(info, ni.nid)) continue;
    if (ni.nid != peer.primary_nid) {
      remove_ni(ni);
    } else if (peer.is(kPeerLockedPrimary)) {
      ni.disowned = true;
      ni.up = false;
    }
  }
}

void Membership::reduce(Peer& peer) {
  for (const PeerNiId id : state_.peers.nis_of(peer)) {
    PeerNi& ni = state_.peers.ni(id);
    if (ni.nid != peer.primary_nid) remove_ni(ni);
  }
  peer.clear(kPeerMultiRail);
}

void Membership::becomes_own(const Nid& nid) {
  PeerNi* ni = state_.peers.find(nid);
  if (ni == nullptr) return;
  Peer& peer = state_.peers.peer(ni->peer);
  if (state_.peers.ni_count(peer.id) == 1) return erase(peer, nullptr);
  remove_ni(*ni);
  choose_primary(peer, nid);
}

void Membership::remove_ni(PeerNi& ni) {
  sender_.peer_ni_leaves(ni);
  state_.timers.cancel(ni.recovery);
  state_.peers.remove(ni);
}

void Membership::erase(Peer& peer, Peer* heir) {
  hooks_.leaves(peer, heir);
  for (const PeerNiId id : state_.peers.nis_of(peer)) remove_ni(state_.peers.ni(id));
  state_.peers.remove(peer);
}

}  // namespace ulnet::core
