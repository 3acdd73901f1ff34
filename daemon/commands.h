// What ulnetd answers on its control socket.
//
//   command       args                                     result
//   net show      net, level (0..4)                        {"net": [...]}
//   net add       net, interfaces (1..64), or nid, or      {"nids": [...]}; a change
//                 nid and interfaces; peer_timeout,
//                 peer_credits, peer_buffer_credits,
//                 credits, conns_per_peer, tos, cpt
//   net del       net, interfaces; or nid                  {}; a change
//   peer show     nid, level                               {"peer": [...]}, {} without peers
//   peer list                                              {"peer list": [...]}, {} without peers
//   stats show    level                                    {"statistics": {...}}
//   stats reset                                            {}; a change
//   global show                                            {"global": {...}}
//   set           name, value                              {}; a change
//   net set       nid, net or all; health,                 {}; a change
//                 health_sensitivity, lnd_timeout
//   peer set      nid or all; health, health_sensitivity   {}; a change
//   peer add      primary, nids; non_mr, lock_primary      {}; a change
//   peer del      primary, nids; force                     {}; a change
//   discover      nids (1..128), force                     as ping
//   check path    nid, needed; source                      {"path": {...}}; as a change, for it
//                                                          loads the path
//   ping          nids (1..128), source, timeout_ms        {"results": [{"nid", "pong" or "error"},
//   ...]}, in their order version                                                {"version":
//   "0.1.0", "nids": [...]}
//
//   `fault drop ...` and `fault delay ...`:
//   add           the fields of fault.h, each a word or a list of words; source and dest are needed
//                                                          {}; a change
//   del           source and dest, or all (true)           {}; a change
//   reset                                                  {}; a change
//   show          level                                    {"fault": [...]}, {} without rules
//
// Every argument but `nids`, `name`, `value` and those said to be needed may be left out. An
// unknown argument is an error. Numbers of the commands that set something may be written as text,
// as a person did; health_sensitivity may be "default". Of several NIs that `net add` is asked for
// all come up or none.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string_view>

#include "daemon/control.h"
#include "daemon/node_view.h"

namespace ulnet::daemon {

inline constexpr size_t kPingNidsMax = 128;
inline constexpr size_t kInterfacesMax = 64;  // of one `net add` or `net del`
inline constexpr size_t kPeerNidsMax = 4096;
inline constexpr size_t kPingsInFlightMax = 4096;  // of all clients together; more get EBUSY
inline constexpr int64_t kPingTimeoutMsMax = 3'600'000;

class Commands {
 public:
  using Done = std::function<void(Reply)>;

  // `node` must outlive this and every reply that is still to come.
  explicit Commands(NodeView& node) : node_(node) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // Whether the command alters the node. False for an unknown one.
  static bool is_change(std::string_view command);

  // `done` runs exactly once: before this returns for all but `ping`, `discover` and `check path`,
  // which answer from the node's threads. Errors: ENOSYS unknown command, EINVAL an argument
  // (named), ESRCH no such net, EBUSY too many pings.
  void execute(const Request& request, Done done);

 private:
  struct Row;
  static const Row* find(std::string_view command);

  Reply show_nets(const Json& args);
  Reply add_nis(const Json& args);
  Reply del_nis(const Json& args);
  Reply show_peers(const Json& args);
  Reply list_peers(const Json& args);
  Reply show_statistics(const Json& args);
  Reply reset_statistics(const Json& args);
  Reply show_global(const Json& args);
  Reply set_global(const Json& args);
  Reply set_nis(const Json& args);
  Reply set_peers(const Json& args);
  Reply add_peer(const Json& args);
  Reply delete_peer(const Json& args);
  Reply version(const Json& args);
  template <Reply (*answer)(NodeView&, FaultKind, const Json&), FaultKind kind>
  Reply fault(const Json& args) {
    return answer(node_, kind, args);
  }
  void ping(const Json& args, Done done);
  void discover(const Json& args, Done done);
  void check_path(const Json& args, Done done);
  Status begin_pings(size_t count);

  NodeView& node_;
  std::atomic<size_t> pings_in_flight_{0};
};

}  // namespace ulnet::daemon
