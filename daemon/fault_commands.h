// `fault drop ...` and `fault delay ...` on the control socket; commands.h lists their arguments.
#pragma once

#include "daemon/control.h"
#include "daemon/node_view.h"

namespace ulnet::daemon {

// Errors, of each: EINVAL an argument (named); of add_fault also ENOSPC too many rules; of
// del_faults also ENOENT no such rule.
Reply add_fault(NodeView& node, FaultKind kind, const Json& args);
Reply del_faults(NodeView& node, FaultKind kind, const Json& args);
Reply reset_faults(NodeView& node, FaultKind kind, const Json& args);
Reply show_faults(NodeView& node, FaultKind kind, const Json& args);

}  // namespace ulnet::daemon
