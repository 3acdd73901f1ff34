// Membership: which NIDs are one node, and what that node is called.
//
// Three voices, in this order of weight: an administrator (`peer:`, `ulnetctl peer add`), whom
// nobody overrules; the application, whose name for a node stays its primary NID; and discovery,
// that is, what the node says of itself. A node's word counts for its own NIDs: a NID that another
// live node uses is not taken on the word of a third: both must say that they are one, and who has
// not is asked.
//
// Source: spec lnet-core 4.10 (conflicts, row by row), 4.11; cases DS-1, DS-2, DS-8, SE-3.
#pragma once

#include <functional>
#include <span>

#include "lnet/core/health.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class Membership {
 public:
  // `ask`: wants a ping to exactly this NID of the peer. `leaves`: a peer is about to go; what
  // waits for it goes to `heir` (nullptr: starts again).
  struct Hooks {
    std::function<void(Peer&, const Nid&)> ask;
    std::function<void(Peer&, Peer* heir)> leaves;
  };

  Membership(State& state, Sender& sender, Health& health)
      : state_(state), sender_(sender), health_(health) {}
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // ---- an administrator's word

  // These NIDs are one node; with a primary NID that is configured already they are added to it.
  // NIDs that discovery gave to others are taken from them.
  // Errors: EINVAL a wildcard, loopback or own NID; EEXIST (names it) a NID of another configured
  // peer; EPERM multi-rail or not, other than before.
  Status configure(const PeerSettings& settings);
  // Forgets these NIDs of the peer; without NIDs, or with its primary one, the whole peer.
  // A primary NID that the application has given is kept, but for `force`.
  // Errors: ENOENT no such peer, or a NID that is not its; EBUSY the primary NID, and others not
  // named.
  Status remove(const Nid& primary, std::span<const Nid> nids, bool force);

  // The NID is ours from now on, whoever was thought to have it.
  void becomes_own(const Nid& nid);
  // Nothing of ours reaches it any more: forgets it.
  void forget(Peer& peer) { erase(peer, nullptr); }

  // ---- the application's word

  // The node that the application calls by the first of these NIDs. The others are said to be the
  // same node's: each is a peer of its own until its node has said so, too.
  Result<PeerId> name(std::span<const Nid> nids);

  // ---- the node's word

  // Whom an info that `source` gave for `peer` is about: often the peer itself, which may get
  // another primary NID by it; else another peer, to which the info is to be handed over; or
  // nullptr: nobody yet, because it names a live node that has not said so itself.
  Peer* subject_of(Peer& peer, const PingInfo& info, const Nid& source);
  // Takes over what the node says of itself. `source`: the NID that said so. With `statuses_only`
  // no NID is added or removed.
  void merge(Peer& peer, const PingInfo& info, const Nid& source, bool statuses_only);
  // The node takes no part in discovery: it is its primary NID and nothing else.
  void reduce(Peer& peer);
  // Something came from one of its NIDs.
  bool is_live(const Peer& peer) const;

 private:
  void take_statuses(Peer& peer, const PingInfo& info);
  // Makes the NID the peer's, if the rules allow it.
  void claim(Peer& peer, const Nid& nid, const Nid& source);
  bool may_take(Peer& owner, const PeerNi& ni, Peer& claimant, const Nid& source);
  void attach(Peer& peer, const Nid& nid);
  void take_over(PeerNi& ni, Peer& peer);
  void choose_primary(Peer& peer, const Nid& gone);
  void remove_unlisted(Peer& peer, const PingInfo& info);
  void remove_ni(PeerNi& ni);
  void erase(Peer& peer, Peer* heir);
  Peer* named_peer(Peer& peer, const PingInfo& info);

  State& state_;
  Sender& sender_;
  Health& health_;
  Hooks hooks_;
};

}  // namespace ulnet::core
