// Local NIs that come and go, and what that means for peers: credits, and who is still a peer.
//
// When the last NI of a net goes, its peer NIs have no credits until the net is back. Peers whom no
// other net of ours reaches are forgotten then, as soon as no driver has a message for them; those
// that the configuration or the application has named stay. Source: spec lnet-core 4.5, 5.1, 5.2.
#pragma once

#include "lnet/core/membership.h"
#include "lnet/core/sender.h"
#include "lnet/core/state.h"

namespace ulnet::core {

class NiLife {
 public:
  NiLife(State& state, Sender& sender, Membership& membership)
      : state_(state), sender_(sender), membership_(membership) {}

  // REQUIRES: `id` is reserved. Errors: EEXIST.
  Status add_ni(NiId id, const NiSettings& settings, const NiStarted& started);
  // Errors: ENOENT no such NI, or not any more; EINVAL 0@lo.
  Status remove_ni(NiId id);
  // Those that a removed net has left behind, but for those that a driver has messages for or of.
  // What waits for their discovery starts again, and fails. True if there was any.
  bool forget_unreachable_peers() {
    return forget_due_ && !state_.shutting_down && forget_idle_unreachable_peers();
  }

 private:
  void set_peer_credits(NetId net, int32_t credits);
  bool forget_idle_unreachable_peers();
  bool is_unreachable(const Peer& peer) const;
  std::vector<PeerId> peers_in_use() const;

  State& state_;
  Sender& sender_;
  Membership& membership_;
  bool forget_due_ = false;  // there may be such peers
};

}  // namespace ulnet::core
