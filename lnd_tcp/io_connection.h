// IoConnection: one TCP socket on its loop, around the Connection (bytes in) and the TransmitQueue
// (bytes out).
//
//   dial():    CONNECTING --connected--> SETUP --HELLO answer is good--> ESTABLISHED
//   adopt():                             SETUP --HELLO is good---------> ESTABLISHED
//                                        SETUP --refused with an answer--> LINGERING   (answer
//                                        sent, reading to the end so
//   begin_shutdown():                    ESTABLISHED --------------------> LINGERING    that no
//   reset destroys it) any --error, end of stream, deadline, close()--> CLOSED
//
// Thread: the loop's, but for flush(), post_close(), counters and what Ni::mutex guards
// (transmit()). Writing: whoever finds `transmit().writing` false may set it and write, from any
// thread; see TransmitQueue.
#pragma once

#include <uv.h>

#include <atomic>
#include <functional>
#include <memory>

#include "lnd_tcp/connection.h"
#include "lnd_tcp/driver.h"
#include "lnd_tcp/handshake.h"
#include "lnd_tcp/ni.h"
#include "lnd_tcp/sockets.h"
#include "lnd_tcp/transmit_queue.h"

namespace ulnet::tcp {

// The sending half. Guarded by Ni::mutex; `queue` as its header says.
struct Transmit {
  TransmitQueue queue;
  bool writing = false;      // somebody is the writer
  bool blocked = false;      // the socket is full, or broken: the loop goes on
  bool flush_due = false;    // flush() will be called
  bool kick_posted = false;  // the loop has been told to flush
  bool closed = false;       // `end` is what remaining frames end with
  Completion end;
};

class IoConnection final : public std::enable_shared_from_this<IoConnection>, public Loop::Source {
 public:
  enum class Phase : uint8_t { kConnecting, kSetup, kEstablished, kLingering, kClosed };

  // Dials `peer`. Tells its Ni how it went. Thread: the context's loop.
  static void dial(LoopContext& context, const std::shared_ptr<PeerLink>& peer, ConnType type);
  // Takes over an accepted socket; `setup_over` is called once when the set-up has ended, well or
  // not.
  static void adopt(LoopContext& context, Ni& listener, UniqueFd fd, const SocketAddress& remote,
                    std::function<void()> setup_over);
  ~IoConnection() override = default;

  ConnectionId id() const { return id_; }
  Ni& ni() const { return *ni_; }
  LoopContext& context() const { return context_; }
  const std::shared_ptr<PeerLink>& peer() const { return peer_; }
  ConnType type() const { return type_; }
  HeaderForm form() const { return form_; }
  Transmit& transmit() { return transmit_; }
  // REQUIRES: Ni::mutex.
  void set_peer(const std::shared_ptr<PeerLink>& peer, ConnType type) {
    peer_ = peer;
    type_ = type;
  }

  // Makes what is queued move. True when LNet has been told of completions. Thread: any, no lock
  // held.
  bool flush();
  void post_close(CloseReason reason, int error);
  // The answer to a kWait verdict. Thread: any.
  void post_receive(const ReceiveAction& receive);

  void close(CloseReason reason, int error);
  // Stop: nothing more is taken in or sent; what the socket holds may still reach the peer.
  void begin_shutdown();
  // True once the peer's TCP has everything, or the connection is gone.
  bool shutdown_finished() const;
  // True while another thread is writing.
  bool has_writer();
  // Deadlines of this connection (spec 5.2). Called at least each second.
  void scan(Time now);

  bool poll() override;  // as a hot source
  ConnectionInfo info();
  Phase phase() const { return phase_; }

 private:
  IoConnection(LoopContext& context, Ni& ni, UniqueFd fd, Connection::Role role);
  static std::shared_ptr<IoConnection> make(LoopContext& context, Ni& ni, UniqueFd fd,
                                            Connection::Role role);

  // Set-up (io_setup.cc).
  void handle_connected();
  void handle_connect_request();
  void handle_hello();
  void handle_passive_hello();
  void handle_answer();
  void answer_and_linger(std::span<const uint8_t> answer, CloseReason reason);
  void refuse(CloseReason reason);
  void prepare_socket(const Nid& peer);
  void handle_setup_deadline();
  Completion dial_failure(CloseReason reason, int error) const;
  void log_end(CloseReason reason, int error);
  std::string privileged_port_hint(CloseReason reason) const;
  std::string stalled_frame();

  // Data (io_connection.cc).
  void watch();  // has libuv watch for what we wait for
  void handle_events(int status, int events);
  bool receive();  // true when bytes came
  void process();  // all events of `rx_`
  void handle_message();
  void discard();
  bool write();  // REQUIRES: being the writer. True when LNet has been told of completions.
  enum class AfterWrite : uint8_t { kGoOn, kStop, kKick, kBlocked, kBroken };
  AfterWrite after_write(size_t sent, int error, bool budget_spent, bool* told);
  bool complete_written(size_t sent);
  void post_kick();
  void apply(Effects& effects);
  void note_heard();
  Completion end_of_frames(CloseReason reason, int error) const;

  LoopContext& context_;
  Ni* ni_;  // of the listener, until the connect request has named one
  UniqueFd fd_;
  ConnectionId id_ = 0;
  std::shared_ptr<PeerLink> peer_;
  ConnType type_ = ConnType::kControl;
  HeaderForm form_ = HeaderForm::kNid4;
  Phase phase_ = Phase::kSetup;
  bool attached_ = false;   // belongs to its peer's set
  bool dial_over_ = false;  // its Ni knows how the dial went
  Connection rx_;

  uv_poll_t* poll_ = nullptr;  // freed by its close callback
  int watched_ = 0;
  bool read_paused_ = false;  // LNet holds a message
  bool want_writable_ = false;
  bool hot_ = false;
  uint32_t empty_polls_ = 0;
  bool acks_due_ = false;

  SocketAddress local_;
  SocketAddress remote_;
  std::unique_ptr<LoopTimer> setup_timer_;
  std::function<void()> setup_over_;
  CloseReason linger_reason_ = CloseReason::kNone;
  uint64_t discarded_ = 0;

  Transmit transmit_;
  std::vector<SendId> done_;  // the writer's

  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<uint64_t> received_bytes_{0};
  // For the deadlines: what was seen at the last scan.
  uint64_t seen_received_ = 0;
  uint64_t seen_acknowledged_ = 0;
  Time receive_progress_ = Time::min();
  Time transmit_progress_ = Time::min();
  bool was_mid_frame_ = false;
  bool was_transmitting_ = false;
};

}  // namespace ulnet::tcp
