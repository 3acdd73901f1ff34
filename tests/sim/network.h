// The wire between simulated nodes, and the driver that stands on it.
//
// It carries whole messages with the promises of the TCP driver. Each (source NID, target NID) has
// at most one open connection, dialled by the first send and used by that direction only (as the
// typed bulk connections are):
//
//   CONNECTING ──answer──> UP ──deadline, reset, peer gone──> closed at the sender
//       │ refused, unreachable, no answer                     (the receiver learns it a little
//       later) └──────> failed: what waits fails with the reason; back-off 1, 2, 4 ... s
//
// A send is OK when its last byte is in the socket: then its payload is copied, and whatever
// happens later is the receiver's loss and nobody's failure. Before that it fails with the status
// that the spec's table names. Packets are never lost for good: TCP repeats them, so loss is delay,
// and a blackhole holds everything until it heals or a deadline closes the connection.
//
// Source: spec tcp-lnd 5.2 to 5.6; decisions D1.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "lnet/base/rng.h"
#include "lnet/lnd.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/trace.h"

namespace ulnet::sim {

// What the packets of one net meet.
struct NetModel {
  Duration latency = std::chrono::microseconds(50);
  Duration jitter{};                             // added to it, uniform
  uint64_t bytes_per_second = 1'250'000'000;     // of one NI, sending
  uint32_t loss_per_million = 0;                 // of messages; each costs a retransmission
  uint64_t window_bytes = uint64_t{256} * 1024;  // written and not yet read
};

// How a node leaves.
enum class Farewell : uint8_t {
  kStop,       // everything is completed with ESHUTDOWN
  kKill,       // the process is gone; its host closes the connections
  kPowerLoss,  // nobody is told
};

class Network {
 public:
  Network(EventQueue& queue, Trace& trace, uint64_t seed)
      : queue_(queue), trace_(trace), rng_(seed) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Made with defaults when it is first asked for.
  NetModel& model(NetId net) { return models_[net]; }

  // ---- drivers. A NID belongs to one node for the whole run; it listens from open to close.
  void open(const Nid& nid, uint32_t node, NiId ni, const TcpTunables& tunables, LndHost& host);
  void set_lnd_timeout(const Nid& nid, Duration timeout);
  void close(const Nid& nid, Farewell how);
  void send(const Nid& source, const SendAction& send);
  void receive(const ReceiveAction& receive);
  void close_peer(const Nid& source, const Nid& peer);

  // ---- faults. Switches count: what two faults have broken needs two repairs.
  void blackhole(const Nid& source, const Nid& target, bool on);  // this direction only, silently
  void mute(const Nid& nid, bool on);                             // likewise, towards everybody
  // So many of a million messages cost a retransmission in this direction, beside the net's own.
  void set_loss(const Nid& source, const Nid& target, uint32_t per_million);
  void cut(const Nid& nid, bool on);       // both directions, silently
  void refuse(const Nid& nid, bool on);    // no listener
  void hide(const Nid& nid, bool on);      // no route to it for new dials
  void reset(const Nid& a, const Nid& b);  // connections between the two
  // The node's process stands still: reads, writes and notices nothing.
  void stall(const Nid& nid, Time until);
  // Takes every fault back, loss included; stalls end by themselves.
  void heal();

  // ---- looking
  // Sends the driver has and has not completed.
  uint32_t in_driver(const Nid& source, const Nid& peer) const;
  uint32_t in_driver(const Nid& source) const;
  size_t connections() const { return connections_.size(); }
  uint64_t delivered() const { return delivered_; }
  // Messages that had left and never came to the core they were for.
  uint64_t lost() const { return lost_; }
  uint64_t protocol_errors() const { return protocol_errors_; }

 private:
  // One direction as its source sees it.
  struct Link {
    uint64_t connection = 0;  // open, or being dialled
    Duration back_off{};
    Time no_dial_before = Time::min();
    int32_t last_error = 0;
    uint32_t in_driver = 0;
    uint32_t blackholes = 0;
    uint32_t loss_per_million = 0;
    Time last_heard = Time::min();  // from that peer
  };
  // One NI of a node.
  struct Port {
    Nid nid;
    uint32_t node = 0;
    NiId ni = 0;
    LndHost* host = nullptr;  // nullptr: no process
    bool powered = true;      // its machine answers
    Duration lnd_timeout{};
    Duration reconnect_min{};
    Duration reconnect_max{};
    Time transmit_free = Time::min();  // the NIC sends one message after another
    Time stalled_until = Time::min();
    uint32_t cuts = 0;
    uint32_t mutes = 0;
    uint32_t refusals = 0;
    uint32_t hidings = 0;
    std::map<Nid, Link> links;
    std::set<uint64_t> connections;  // ids of those with an end here
  };
  struct Outgoing {
    SendAction action;
    bool started = false;  // its first byte may be on the wire
  };
  struct Frame {
    Header header;
    std::vector<uint8_t> payload;
    uint64_t bytes() const { return payload.size() + kHeaderNid16Bytes; }
  };
  // A message whose header LNet has seen.
  struct Reading {
    ReceiveId id = 0;
    bool waits = false;  // kWait, and no receive() yet
    PayloadView into;
    std::vector<uint8_t> payload;
  };
  struct Connection {
    uint64_t id = 0;
    Port* source = nullptr;
    Port* target = nullptr;  // nullptr: nobody has this NID
    Nid target_nid;
    Time dialled;
    bool up = false;
    // ---- sending end
    bool sender_open = true;
    bool writing = false;
    bool watched = false;  // an entry in the queue looks at `progress`
    std::deque<Outgoing> queue;
    uint64_t window_used = 0;  // written, not read
    uint64_t unacknowledged = 0;
    uint64_t acks_held = 0;  // received, but the way back is blocked
    Time progress;
    // ---- on the way, in order
    std::deque<Frame> wire;
    uint32_t due = 0;  // how many of them have had their time
    Time last_arrival = Time::min();
    // ---- receiving end
    bool receiver_open = false;
    std::deque<Frame> arrived;
    std::optional<Reading> reading;
  };

  Connection* find(uint64_t id);
  Port* find_port(const Nid& nid);
  Link& link(Port& source, const Nid& target) { return source.links[target]; }
  bool is_open(const Port& source, const Port& target) const;
  bool stalled(const Port& port) const { return port.stalled_until > queue_.now(); }
  // When stalled: runs `what` at the stall's end instead, and true.
  bool put_off(const Port& port, EventQueue::What what);

  // ---- connecting
  Connection& dial(Port& source, const Nid& target);
  void dialled(uint64_t id);
  void fail_dial(Connection& connection, int32_t error);
  void report_down(Port& port, const Nid& peer);

  // ---- sending
  void pump(Connection& connection);
  void written(uint64_t id);
  void watch(Connection& connection);
  void check_progress(uint64_t id);
  void expire(uint64_t id, SendId send);
  void close_sender(Connection& connection, const Completion& completion);
  void complete(Port& port, const Nid& peer, SendId send, const Completion& completion);
  Duration travel_time(NetId net) { return travel_time(net, 0); }
  Duration travel_time(NetId net, uint32_t extra_loss_per_million);

  // ---- receiving
  void arrive(uint64_t id);
  void deliver(Connection& connection);
  void read(uint64_t id);
  void hand_up(Connection& connection, Frame frame);
  void finish_read(uint64_t id);
  void close_receiver(Connection& connection, const Completion& completion);
  void lose(std::deque<Frame>& frames);
  void erase_if_done(uint64_t id);
  void leave_sender(Connection& connection, Farewell how);
  void leave_receiver(Connection& connection, Farewell how);
  std::vector<uint64_t> connection_ids() const;
  void revive();

  EventQueue& queue_;
  Trace& trace_;
  Rng rng_;
  std::map<NetId, NetModel> models_;
  std::map<Nid, Port> ports_;  // never erased: connections point into it
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t next_connection_ = 1;
  uint64_t delivered_ = 0;
  uint64_t lost_ = 0;
  uint64_t protocol_errors_ = 0;
};

// The driver of one start of one node.
class SimLnd final : public Lnd {
 public:
  SimLnd(Network& network, uint32_t node, LndHost& host)
      : network_(network), node_(node), host_(host) {}

  NetType type() const override { return NetType::kTcp; }
  // REQUIRES: settings.nid is given.
  Result<NiStarted> start_ni(NiId ni, const NiSettings& settings) override;
  void open() override;
  void stop_ni(NiId ni) override;
  void set_lnd_timeout(NiId ni, Duration timeout) override;
  void send(const SendAction& send) override;
  void flush() override {}
  void receive(const ReceiveAction& receive) override { network_.receive(receive); }
  void close_peer(NiId ni, const Nid& peer, std::string_view reason) override;
  void stop(Duration grace) override;
  void leave(Farewell how);
  std::vector<CounterInfo> counters(NiId) const override { return {}; }
  std::vector<ConnectionInfo> connections(NiId, const Nid&) const override { return {}; }

 private:
  Network& network_;
  const uint32_t node_;
  LndHost& host_;
  std::map<NiId, NiSettings> nis_;  // those that have not been stopped
  std::set<NiId> opened_;
};

}  // namespace ulnet::sim
