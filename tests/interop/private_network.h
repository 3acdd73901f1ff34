// A network namespace of the test's own, with the recorded addresses on its loopback device: real
// NIDs, privileged ports and port 988, and nobody else's traffic.
#pragma once

#include <set>
#include <string>

#include "ulnet/result.h"

namespace ulnet::interop {

// Moves the calling thread, and the threads it starts from now on, into a new network namespace,
// brings its loopback device up and puts `addresses` ("10.77.0.1", "fd77::1") there.
// Errors: EPERM without the right to do so; what the kernel says otherwise, with the address.
Status enter_private_network(const std::set<std::string>& addresses);

}  // namespace ulnet::interop
