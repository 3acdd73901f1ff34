// TcpLnd: LNet over TCP, compatible with Lustre's socklnd. The public face of the driver.
//
// Files: wire (bytes), connection + transmit_queue (one connection's protocol), handshake + peer
// (rules and decisions), none of which do I/O; ni (bookkeeping under one lock), io_connection +
// io_setup (sockets on loops), acceptor, sockets, interfaces (system calls), driver (what they
// share), tcp_lnd (the Lnd).
//
// Source: spec tcp-lnd; decisions D1, D6, D7, D8.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lnet/base/log.h"
#include "lnet/lnd.h"
#include "lnet/loop/loop.h"

namespace ulnet::tcp {

class TcpLnd final : public Lnd {
 public:
  // Lifetime: host, loops and logger outlive this object. `loops`: at least one; all with a thread,
  // or one without whose run_once() the application calls. Loops keep running until the destructor
  // has returned.
  // `interfaces_changed` is called on the first loop when links or addresses of this host have
  // changed, and the NIs concerned have been told.
  TcpLnd(LndHost& host, std::vector<Loop*> loops, const AcceptorSettings& acceptor,
         const GlobalSettings& global, Logger& logger,
         std::function<void()> interfaces_changed = {});
  // Stops without grace, if stop() has not been called. Thread: not a loop's.
  ~TcpLnd() override;

  NetType type() const override { return NetType::kTcp; }
  Result<NiStarted> start_ni(NiId ni, const NiSettings& settings) override;
  // The NID that a NI with these settings has now. Errors: those of start_ni() that tell of the
  // address.
  static Result<Nid> find_nid(const NiSettings& settings);
  // NIs that are started later accept at once.
  void open() override;
  void stop_ni(NiId ni) override;
  void set_lnd_timeout(NiId ni, Duration timeout) override;
  void send(const SendAction& send) override;
  void flush() override;
  void receive(const ReceiveAction& receive) override;
  void close_peer(NiId ni, const Nid& peer, std::string_view reason) override;
  void stop(Duration grace) override;
  std::vector<CounterInfo> counters(NiId ni) const override;
  std::vector<ConnectionInfo> connections(NiId ni, const Nid& peer) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ulnet::tcp
