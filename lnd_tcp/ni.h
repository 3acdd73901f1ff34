// Ni: one local interface of the TCP driver: its peers, their connections and what waits for them,
// under one lock.
//
// Nothing here makes a system call or calls LNet. What must follow a decision is returned as
// Effects, which the caller carries out (Driver::apply) once the lock is free.
//
// Locks: Ni::mutex is the only lock of the data path; it also guards the transmit half of each
// connection of the NI.
#pragma once

#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lnd_tcp/counters.h"
#include "lnd_tcp/peer.h"
#include "lnd_tcp/transmit_queue.h"
#include "lnd_tcp/wire.h"
#include "lnet/lnd.h"

namespace ulnet::tcp {

class IoConnection;
class Ni;
struct PeerLink;

// What is to be done once no lock is held.
struct Effects {
  struct Dial {
    std::shared_ptr<PeerLink> peer;
    ConnType type;
  };
  struct Close {
    std::shared_ptr<IoConnection> connection;
    CloseReason reason;
  };
  struct Down {
    Nid peer;
    Time last_heard;
  };
  std::vector<std::pair<SendId, Completion>> completions;
  std::vector<std::shared_ptr<IoConnection>> flush;
  std::vector<Close> close;
  std::vector<Dial> dials;
  std::vector<Down> down;
};

// A message that has no connection yet.
struct WaitingSend {
  SendAction action;
  std::vector<iovec> fragments;  // action.payload.fragments points here
  Time give_up;
};

// Guarded by Ni::mutex but where noted.
struct PeerLink : std::enable_shared_from_this<PeerLink> {
  PeerLink(Ni& owner, const PeerSettings& settings) : ni(owner), logic(settings) {}

  Ni& ni;
  PeerLogic logic;
  bool retired = false;  // closed by the node: what is still being dialled for it is not wanted
  std::vector<std::shared_ptr<IoConnection>> connections;
  std::deque<WaitingSend> waiting;
  int last_dial_error = EIO;  // why we are in back-off, for those who send meanwhile
  Time last_keepalive = Time::min();
  std::atomic<int64_t> last_heard_ns{0};  // any thread, no lock

  const Nid& nid() const { return logic.settings().nid; }
  Time last_heard() const { return Time(Duration(last_heard_ns.load(std::memory_order_relaxed))); }
  IoConnection* find(ConnectionId id) const;
};

struct NiIdentity {
  NiId id = 0;
  Nid nid;
  NiSettings settings;
  std::string interface;
  std::string device;
  int32_t conns_per_peer = 1;
  Duration lnd_timeout{};  // at the start
  uint64_t incarnation = 0;
  bool privileged_ports = true;
};

class Ni {
 public:
  explicit Ni(NiIdentity identity)
      : identity_(std::move(identity)), lnd_timeout_ns_(identity_.lnd_timeout.count()) {}

  const NiIdentity& identity() const { return identity_; }
  const Nid& nid() const { return identity_.nid; }
  const TcpTunables& tunables() const { return identity_.settings.tcp; }
  // In force. Thread: any, both.
  Duration lnd_timeout() const { return Duration(lnd_timeout_ns_.load(std::memory_order_relaxed)); }
  void set_lnd_timeout(Duration timeout) {
    lnd_timeout_ns_.store(timeout.count(), std::memory_order_relaxed);
  }
  Counters& counters() { return counters_; }
  std::mutex& mutex() { return mutex_; }

  // ---- sending. Thread: any.

  enum class SendResult : uint8_t {
    kQueued,            // on a connection that is, or was, told already
    kQueuedFlush,       // on `*connection`, whose flush is due
    kQueuedIncomplete,  // kQueuedFlush, and continue_job() may dial more
    kNoConnection,      // nothing done: call send_without_connection()
    kStopped,           // nothing done
  };
  SendResult send(const SendAction& send, std::shared_ptr<IoConnection>* connection);
  void send_without_connection(const SendAction& send, Time now, Effects* effects);
  void continue_job(const Nid& peer, Time now, Effects* effects);

  // ---- connections. Thread: the connection's loop.

  struct Incoming {
    ProcessId peer;
    ConnType type = ConnType::kControl;  // our name for it
    uint32_t version = 0;
    uint64_t incarnation = 0;
    bool from_nid_address = true;
  };
  // On kAccept the connection belongs to the peer, and `answer` is the first thing in its transmit
  // queue. Nothing when the NI is stopping.
  std::optional<PeerLogic::Admission> admit(const std::shared_ptr<IoConnection>& connection,
                                            const Incoming& incoming,
                                            std::span<const uint8_t> answer, Effects* effects);
  // A dial that got its answer. `refused`: the answer was NONE. False when the connection is not
  // wanted any more.
  bool finish_dial(const std::shared_ptr<IoConnection>& connection, uint32_t version,
                   uint64_t incarnation, bool refused, Time now, uint32_t random, Effects* effects);
  void fail_dial(PeerLink& peer, const Completion& completion, Time now, uint32_t random,
                 Effects* effects);
  // An established connection has ended. Its frames end with `completion`, but those its writer
  // holds.
  void remove(IoConnection& connection, CloseReason reason, const Completion& completion,
              Effects* effects);

  // ---- upkeep

  // Deadlines of what waits, delayed dials, keepalives, forgotten peers. Called at least each
  // second.
  void scan(Time now, Effects* effects);
  // From now on nothing is sent or accepted; everything that waits ends. Connections are the
  // caller's to close.
  void stop(Effects* effects);
  // Closes all connections to `nid`, whatever the pid.
  void close_peer(const Nid& nid, Effects* effects);
  void close_all_peers(CloseReason reason, Effects* effects);
  std::vector<std::shared_ptr<IoConnection>> connections(const Nid& nid) const;
  bool running() const;

 private:
  struct Key {
    Nid nid;
    Pid pid;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const noexcept { return std::hash<Nid>()(key.nid) ^ key.pid; }
  };

  PeerLink* find(const Nid& nid, Pid pid) const;
  PeerLink* find_target(const SendAction& send) const;
  std::shared_ptr<PeerLink> find_or_create(const Nid& nid, Pid pid);
  uint64_t frame_bytes(const SendAction& send) const;
  void start_dial(PeerLink& peer, Effects* effects);
  void queue(PeerLink& peer, IoConnection& connection, const SendAction& send);
  void attach(PeerLink& peer, const std::shared_ptr<IoConnection>& connection, ConnType type,
              bool active, Effects* effects);
  void end_dial(PeerLink& peer, PeerLogic::DialResult result, const Completion& completion,
                Time now, uint32_t random, Effects* effects);
  void fail_waiting(PeerLink& peer, const Completion& completion, Effects* effects);
  void close_all(PeerLink& peer, CloseReason reason, Effects* effects);
  void expire(PeerLink& peer, Time now, Effects* effects);
  void keep_alive(PeerLink& peer, Time now, Effects* effects);

  const NiIdentity identity_;
  std::atomic<int64_t> lnd_timeout_ns_;
  Counters counters_;

  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::unordered_map<Key, std::shared_ptr<PeerLink>, KeyHash> peers_;
};

Completion failure(int error, HealthStatus health, FailureKind kind = FailureKind::kNone,
                   bool nothing_posted = true);
// Of messages that wait for a connection, by the errno of the connect job (spec 5.5).
Completion connect_failure(int error);
Completion shutdown_completion();

}  // namespace ulnet::tcp
