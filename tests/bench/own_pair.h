// `ulnet_perf own`: client and server as two processes of this machine, on 127.0.0.2 and 127.0.0.3.
#pragma once

#include <span>

namespace ulnet::bench {

// `words`: bw|rtt|rate SIZE CPU_A CPU_B CPU_PROXY PORT, as tests/bench/peers.sh gives them; cpu -1
// means any. Prints one number: MB/s, us (median), or messages/s. For what ulnet cannot do yet
// (proxy-*) it prints none. Returns the exit status.
int run_own_pair(std::span<char*> words);

}  // namespace ulnet::bench
