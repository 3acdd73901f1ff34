// OurNode: the node under test, an ordinary Endpoint; and the upper layer above it, which does what
// the recorded node's upper layer did: it attaches memory before a request comes, and sends the
// recorded PUTs and GETs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/interop/pieces.h"
#include "ulnet/endpoint.h"

namespace ulnet::interop {

class OurNode {
 public:
  // One expected event of one MD, and the bytes its memory should hold then.
  struct Operation {
    Bytes memory;
    Bytes expected;              // prefix of `memory` after a PUT or REPLY
    std::optional<Event> event;  // the PUT, GET, REPLY or ACK
    bool failed = false;         // any event came with an error
  };

  static Result<std::unique_ptr<OurNode>> start(const Settings& settings);
  ~OurNode();

  // ---- what the recorded node asked for. `recorded` is the frame that has to leave.

  Status put(const Piece& recorded);
  Status get(const Piece& recorded);
  // What `lnetctl ping` sends to `nid`, which need not be the NID that the recorded frame goes to:
  // the node chooses.
  Status ping(const Piece& recorded, const Nid& nid);
  void discover(const Nid& nid, bool force);
  // An ACK or REPLY is about to come for the MD that sent `recorded handle`: gives what to wait
  // for. Null when no such MD is there.
  Operation* find_response(const Piece& recorded);
  // A GET of ping info that no recorded frame shows: the recorded connect was refused.
  Status ping(const Nid& nid);

  // ---- what is about to be asked of our node.

  // Memory for a PUT. `mlength`: how much of it the recorded node took.
  Result<Operation*> serve_put(const Piece& recorded, uint32_t mlength);
  // Memory that answers a GET with `payload`.
  Result<Operation*> serve_get(const Piece& recorded, std::span<const uint8_t> payload);

  // True when it has ended well, with the bytes it should have.
  bool is_done(const Operation& operation);
  // How each discover() ended so far, in the order of their calls.
  std::vector<std::optional<Result<PeerInfo>>> discoveries();

  Endpoint& endpoint() { return *endpoint_; }

 private:
  class Handler final : public EventHandler {
   public:
    explicit Handler(OurNode& node) : node_(node) {}
    void handle_event(const Event& event) override { node_.handle_event(event); }

   private:
    OurNode& node_;
  };

  OurNode() = default;
  void handle_event(const Event& event);
  Operation& add_operation(size_t bytes);
  Status start_get(const Piece& recorded, const Nid& target, const Nid& source);
  MdSpec md_of(Operation& operation, int32_t threshold, uint32_t options);

  std::mutex mutex_;
  std::deque<Operation> operations_;  // addresses stay
  std::vector<std::optional<Result<PeerInfo>>> discoveries_;
  std::map<std::pair<uint64_t, uint64_t>, Operation*> by_handle_;  // of recorded MDs
  Handler handler_{*this};
  std::unique_ptr<Endpoint> endpoint_;  // ends before what its events refer to
};

}  // namespace ulnet::interop
