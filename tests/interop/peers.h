// Peers: the other end of everything our node does on the network, made of raw sockets that know
// nothing of LNet but where a piece ends.
//
// Thread: one.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lnet/base/unique_fd.h"
#include "tests/interop/pieces.h"
#include "tests/support/pcap.h"

namespace ulnet::interop {

// One TCP connection with our node.
struct Link {
  Link(UniqueFd socket, bool dialled_by_us)
      : fd(std::move(socket)), dialled(dialled_by_us), reader(dialled_by_us) {}
  UniqueFd fd;
  bool dialled;          // by our node
  test::TcpAddress own;  // our node's end
  test::TcpAddress remote;
  PieceReader reader;  // of what our node sends
  Bytes received;      // all of it
  bool ended = false;  // our node has closed, or reset
  bool reset = false;
  bool finished = false;  // we have sent our FIN
};

struct Arrival {
  Link* link = nullptr;
  bool ended = false;  // our node has ended the connection; no piece
  Piece piece;
};

class Peers {
 public:
  // Takes connections to this address and port.
  Status listen(const test::TcpAddress& address);
  // Dials our node from one of our addresses; waits until it is connected. Errors: ECONNREFUSED ...
  Result<Link*> dial(const test::TcpAddress& from, const test::TcpAddress& to);
  // Reads meanwhile, so that two full socket buffers do not stop both sides for ever.
  Status send(Link& link, const Bytes& bytes);
  // By FIN, and later bytes are still read; or by RST, and they are not.
  void end(Link& link, bool reset);

  // Reads what there is; waits at most so long for the first.
  void poll(int milliseconds);
  std::optional<Arrival> next();
  // What our node sent and is no piece, or "".
  const std::string& failure() const { return failure_; }
  std::deque<Link>& links() { return links_; }

 private:
  void accept(int listener);
  void read(Link& link);

  std::map<test::TcpAddress, UniqueFd> listeners_;
  std::deque<Link> links_;  // addresses stay
  std::deque<Arrival> arrivals_;
  std::string failure_;
};

}  // namespace ulnet::interop
