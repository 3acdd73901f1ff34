// Tells the service manager how the daemon is doing: sd_notify(3)'s datagram, without its library.
#pragma once

#include <string>
#include <string_view>

#include "ulnet/status.h"

namespace ulnet::daemon {

// Sends `state` ("READY=1\nSTATUS=...") to the socket that `notify_socket`, the value of
// $NOTIFY_SOCKET, names: a path, or with a leading '@' an abstract name. Ok, and nothing is sent,
// when that is null or empty.
Status notify_service_manager(const char* notify_socket, std::string_view state);

}  // namespace ulnet::daemon
