#include "tests/sim/saboteur.h"

#include <optional>

namespace ulnet::sim {
namespace {

// Passes everything on; each bug is a subclass that overrides one call.
class Passing : public LndHost {
 public:
  Passing(LndHost& inner, uint32_t nth) : inner_(inner), left_(nth) {}

  MessageVerdict handle_message(const IncomingMessage& message) override {
    return inner_.handle_message(message);
  }
  void handle_receive_done(ReceiveId id, const Completion& completion) override {
    inner_.handle_receive_done(id, completion);
  }
  void handle_send_done(SendId id, const Completion& completion) override {
    inner_.handle_send_done(id, completion);
  }
  void handle_peer_down(NiId ni, const Nid& peer, Time last_heard) override {
    inner_.handle_peer_down(ni, peer, last_heard);
  }
  void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) override {
    inner_.handle_ni_fatal(ni, fatal, reason);
  }
  void drain_actions() override { inner_.drain_actions(); }
  Time now() const override { return inner_.now(); }
  uint64_t random_below(uint64_t bound) override { return inner_.random_below(bound); }

 protected:
  // True once: the time to do harm.
  bool now_is_the_time() { return left_ > 0 && --left_ == 0; }

  LndHost& inner_;

 private:
  uint32_t left_;
};

class DropCompletion final : public Passing {
 public:
  using Passing::Passing;
  void handle_send_done(SendId id, const Completion& completion) override {
    if (!now_is_the_time()) inner_.handle_send_done(id, completion);
  }
};

class WrongByte final : public Passing {
 public:
  using Passing::Passing;
  MessageVerdict handle_message(const IncomingMessage& message) override {
    const MessageVerdict verdict = inner_.handle_message(message);
    const auto* put = std::get_if<PutPart>(&message.header.part);
    // Pings have their own contents.
    if (put != nullptr && verdict.kind == MessageVerdict::Kind::kReceive &&
        put->portal != kReservedPortal && now_is_the_time())
      harmed_ = {verdict.id, verdict.into};
    return verdict;
  }
  void handle_receive_done(ReceiveId id, const Completion& completion) override {
    if (harmed_ && harmed_->first == id) {
      const PayloadView& into = harmed_->second;
      static_cast<uint8_t*>(into.fragments.front().iov_base)[into.offset] ^= 1;
      harmed_.reset();
    }
    inner_.handle_receive_done(id, completion);
  }

 private:
  std::optional<std::pair<ReceiveId, PayloadView>> harmed_;
};

class DoubleCompletion final : public Passing {
 public:
  using Passing::Passing;
  void handle_send_done(SendId id, const Completion& completion) override {
    if (now_is_the_time()) inner_.handle_send_done(id, completion);
    inner_.handle_send_done(id, completion);
  }
};

class DuplicateMessage final : public Passing {
 public:
  using Passing::Passing;
  MessageVerdict handle_message(const IncomingMessage& message) override {
    const MessageVerdict verdict = inner_.handle_message(message);
    const bool taken = verdict.kind == MessageVerdict::Kind::kDone && !verdict.dropped;
    if (taken && message.header.type() == MessageType::kPut && now_is_the_time())
      (void)inner_.handle_message(message);
    return verdict;
  }
};

class DeafToPings final : public Passing {
 public:
  using Passing::Passing;
  MessageVerdict handle_message(const IncomingMessage& message) override {
    const auto* get = std::get_if<GetPart>(&message.header.part);
    if (get == nullptr || get->portal != kReservedPortal) return inner_.handle_message(message);
    deaf_ = deaf_ || now_is_the_time();
    return deaf_ ? MessageVerdict{.dropped = true} : inner_.handle_message(message);
  }

 private:
  bool deaf_ = false;
};

class StaysFatal final : public Passing {
 public:
  using Passing::Passing;
  void handle_ni_fatal(NiId ni, bool fatal, std::string_view reason) override {
    if (fatal) inner_.handle_ni_fatal(ni, fatal, reason);
  }
};

}  // namespace

std::unique_ptr<LndHost> make_saboteur(LndHost& inner, Sabotage sabotage, uint32_t nth) {
  switch (sabotage) {
    case Sabotage::kDropCompletion:
      return std::make_unique<DropCompletion>(inner, nth);
    case Sabotage::kWrongByte:
      return std::make_unique<WrongByte>(inner, nth);
    case Sabotage::kDoubleCompletion:
      return std::make_unique<DoubleCompletion>(inner, nth);
    case Sabotage::kDuplicateMessage:
      return std::make_unique<DuplicateMessage>(inner, nth);
    case Sabotage::kDeafToPings:
      return std::make_unique<DeafToPings>(inner, nth);
    case Sabotage::kStaysFatal:
      return std::make_unique<StaysFatal>(inner, nth);
  }
  return nullptr;
}

Cluster::DecorateListener make_listener_saboteur(ListenerSabotage sabotage, uint32_t nth) {
  return [sabotage, nth](Cluster::Listener inner) -> Cluster::Listener {
    return
        [sabotage, left = nth, inner = std::move(inner)](Node& node, const Event& event) mutable {
          const bool harm =
              event.unlinked && event.kind != EventKind::kUnlink && left > 0 && --left == 0;
          const int harmed = sabotage == ListenerSabotage::kLoseLastEvent ? 0 : 2;
          for (int times = harm ? harmed : 1; times > 0; --times) inner(node, event);
        };
  };
}

}  // namespace ulnet::sim
