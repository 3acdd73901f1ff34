// The applications on all nodes of a cluster: they start operations, own the memory, and check
// every event against what they know.
//
// What must hold for each MD: exactly one event marked `unlinked` and none after it; an operation's
// last event comes by its bound; a PUT lands at most once, at its target, with its bytes; an ACK
// follows its PUT; a REPLY carries the target's bytes.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace ulnet::sim {

// What was found to be wrong, in words; the first few are kept.
class Violations {
 public:
  void add(Time now, std::string text);
  bool empty() const { return count_ == 0; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  static constexpr size_t kTextsMax = 8;
  size_t count_ = 0;
  std::vector<std::string> texts_;
};

enum class OperationKind : uint8_t { kPut, kPutNoAck, kGet, kPing, kTarget };

// What became of a finished operation.
struct Outcome {
  std::string label;
  OperationKind kind = OperationKind::kPut;
  EventKind last = EventKind::kUnlink;
  int32_t status = 0;  // of the last event, negative errno
  MissingResponse missing = MissingResponse::kNone;
  Time started;
  Time ended;
};

// One MD's life.
struct Operation {
  uint64_t id = 0;
  OperationKind kind = OperationKind::kPut;
  std::string label;  // a scenario's name for it
  MdHandle md;
  Nid target;  // NID asked for
  uint64_t match_bits = 0;
  uint32_t offset = 0;  // of a GET, in the target's MD
  Time started;
  Time bound = kNever;  // its last event comes by then
  uint32_t sends = 0;
  uint32_t answers = 0;
  std::vector<uint8_t> memory;
  std::function<void(const Outcome&)> done;  // hears of the end
};

class Applications {
 public:
  struct PutOptions {
    Nid target;
    uint32_t portal = 1;
    uint64_t match_bits = 0;
    uint32_t bytes = 0;
    uint32_t fragments = 1;
    bool ack = true;
    Duration timeout{};
    std::string label;
    std::function<void(const Outcome&)> done;  // called once, unless the node goes first
  };
  struct GetOptions {
    Nid target;
    uint32_t portal = 3;
    uint64_t match_bits = 0;
    uint32_t bytes = 0;
    uint32_t offset = 0;
    Duration timeout{};
    std::string label;
  };
  struct TargetOptions {
    uint32_t portal = 1;
    uint64_t match_bits = 0;
    uint64_t ignore_bits = 0;
    uint32_t bytes = 0;
    int32_t threshold = kThresholdInfinite;
    uint32_t options = kMdPut;
    uint32_t max_size = 0;  // counts with kMdMaxSize
    std::string label;
  };

  // Becomes the cluster's listener.
  Applications(Cluster& cluster, Violations& violations);

  // REQUIRES: node.running(). Each settles the node.
  void put(Node& node, const PutOptions& options);
  void get(Node& node, const GetOptions& options);
  void ping(Node& node, const Nid& target, Duration timeout, const std::string& label = {});
  void attach(Node& node, const TargetOptions& options);
  // Unlinks the `index`th MD of the node (counted modulo their number); false when it has none.
  bool unlink(Node& node, uint64_t index);
  // Unlinks all target MDs.
  void unlink_targets(Node& node);
  void stop(Node& node);
  void crash(Node& node, Farewell how);

  // Operations, targets not counted, that have not ended.
  size_t unfinished() const;
  // Names operations whose bound has passed.
  void check_overdue();
  // Outcomes of labelled operations and pings, in order of ending.
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  uint64_t started() const { return next_id_ - 1; }
  uint64_t events() const { return events_; }

 private:
  // A PUT as its target must see it. Kept for the whole run: duplicates come late.
  struct PutFacts {
    Nid target;
    uint32_t bytes = 0;
    uint64_t match_bits = 0;
    std::optional<uint32_t> landed;  // bytes moved, when it has landed
  };
  using Table = std::map<uint64_t, std::unique_ptr<Operation>>;  // by MD handle

  Table& of(const Node& node) { return tables_[node.index()]; }
  Operation* bind(Node& node, OperationKind kind, uint32_t bytes, uint32_t fragments,
                  uint32_t options, int32_t threshold);
  void handle_event(Node& node, const Event& event);
  void check_source_event(Node& node, Operation& operation, const Event& event);
  void check_put(Node& node, const Operation& target, const Event& event);
  void check_ack(Node& node, const Operation& operation, const Event& event);
  void check_reply(Node& node, const Operation& operation, const Event& event);
  void check_last(Node& node, const Operation& operation, const Event& event);
  void end(const Operation& operation, const Event& event);
  void wrong(const Node& node, const Operation& operation, const std::string& text);
  Time late_after(const Node& node, const Operation& operation) const;

  Cluster& cluster_;
  Violations& violations_;
  uint64_t next_id_ = 1;
  uint64_t events_ = 0;
  std::map<uint32_t, Table> tables_;  // by node
  std::map<uint64_t, PutFacts> puts_;
  std::vector<Outcome> outcomes_;
};

}  // namespace ulnet::sim
