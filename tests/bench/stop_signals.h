// SIGINT and SIGTERM, asked for instead of delivered.
#pragma once

#include <csignal>

namespace ulnet::bench {

// Blocks both signals in this thread and in those it starts later, so create it before the node.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigprocmask(SIG_BLOCK, &set_, nullptr);
  }
  // True once for each signal that came. Thread: any.
  bool received() const {
    const timespec at_once{};
    return sigtimedwait(&set_, nullptr, &at_once) > 0;
  }

 private:
  sigset_t set_;
};

}  // namespace ulnet::bench
