// A node with discovery on among hostile peers. The input is a script: each step is a message with
// a header of the fuzzer's making, a push or an answer to one of our pings with a ping info of its
// making, a command of our own, or time that passes. Whatever comes, the peer table keeps its
// rules: every NID is one peer's, our own NIDs and nobody's are no peer's, and what the driver was
// handed ends.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "lnet/base/assert.h"
#include "lnet/core/core.h"
#include "lnet/engine/loopback_lnd.h"
#include "lnet/wire/header.h"
#include "lnet/wire/ping_info.h"
#include "tests/support/nid.h"

namespace ulnet {
namespace {

using namespace std::chrono_literals;

constexpr size_t kStepsMax = 200;
constexpr uint32_t kPortal = 30;

// The input, value by value; zeros behind its end.
class Script {
 public:
  Script(const uint8_t* bytes, size_t size) : rest_(bytes, size) {}
  bool is_over() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  uint32_t below(uint32_t bound) { return byte() % bound; }
  uint32_t word() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
  std::span<const uint8_t> bytes(size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

using test::nid;

struct Silent : EventHandler {
  void handle_event(const Event&) override {}
};

class HostileWorld {
 public:
  explicit HostileWorld(Script script)
      : script_(script), core_(GlobalSettings{}, few_peers(), 0xC00C1E, 1) {
    for (const char* text : {"10.0.1.1@tcp", "10.0.1.11@tcp", "10.0.2.1@tcp1", "fd00::1@tcp"}) {
      own_.push_back(nid(text));
      add_ni(own_.back());
    }
    for (const char* text :
         {"10.0.1.2@tcp", "10.0.1.12@tcp", "10.0.1.3@tcp", "10.0.2.3@tcp1", "10.0.9.9@tcp9",
          "fd00::2@tcp", "10.0.1.1@tcp", "10.0.1.11@tcp", "0@lo", "<?>"}) {
      nids_.push_back(text == std::string_view("<?>") ? Nid::any() : nid(text));
    }
    MdSpec md;
    md.fragments = {{target_.data(), target_.size()}};
    md.options = kMdPut | kMdGet | kMdManageRemote | kMdTruncate;
    MeSpec me;
    me.portal = kPortal;
    ULNET_ASSERT(core_.md_attach(now_, core_.me_attach(me).value(), md).has_value(), "a target");
    ULNET_ASSERT(core_.set_lazy(now_, kLazyPortal, true).is_ok(), "a lazy portal");
  }

  void run() {
    for (size_t i = 0; i < kStepsMax && !script_.is_over(); ++i) {
      step();
      take();
      check_peers();
    }
    core_.shut_down(now_);
    take();
    while (!sends_.empty())
      complete({.error = ESHUTDOWN, .health = HealthStatus::kLocalError, .nothing_posted = true});
    reading_.merge(waiting_);
    for (const ReceiveId id : reading_) core_.handle_receive_done(now_, id, {.error = ESHUTDOWN});
    take();
    ULNET_ASSERT(core_.sends_in_progress() == 0, "a message that never ends");
    ULNET_ASSERT(core_.receives_in_progress() == 0, "a receive that never ends");
  }

 private:
  static constexpr uint32_t kLazyPortal = 12;

  static LimitSettings few_peers() {
    LimitSettings limits;
    limits.peers_by_traffic_max = 20;
    return limits;
  }

  void add_ni(const Nid& own) {
    NiSettings settings;
    settings.nid = own;
    settings.net = own.net();
    settings.tunables.peer_credits = 2;
    const NiStarted started{.nid = own, .interface = {}, .lnd_timeout = 49s};
    const NiId id = core_.reserve_ni();
    ULNET_ASSERT(core_.add_ni(now_, id, settings, started).is_ok(), "an NI");
    nis_.push_back(id);
  }

  void step() {
    switch (script_.below(10)) {
      case 0:
        return receive_anything();
      case 1:
        return push();
      case 2:
      case 3:
        return answer();
      case 4:
        return complete(Completion{});
      case 5:
        return complete({.error = ECONNREFUSED,
                         .health = HealthStatus::kRemoteDropped,
                         .kind = FailureKind::kPeerNiNoListener,
                         .nothing_posted = true});
      case 6:
        now_ += std::chrono::seconds(script_.byte());
        return core_.handle_timeout(now_);
      case 7:
        return put();
      case 8:
        return administer();
      case 9:
        return end_receive();
    }
  }

  // One of the NIDs that the peers fight about; or any IPv4 NID at all.
  Nid any_nid() {
    const uint32_t choice = script_.below(16);
    if (choice < nids_.size()) return nids_[choice];
    return Nid::from_ipv4({NetType::kTcp, static_cast<uint16_t>(script_.below(3))}, script_.word());
  }

  // A driver knows who its peers are: never nobody; and nobody here has one of our own NIDs.
  Nid last_hop(const Nid& claimed) const {
    const bool is_own = std::find(own_.begin(), own_.end(), claimed) != own_.end();
    return is_own || claimed.is_any() || claimed.is_lo() ? nids_.front() : claimed;
  }

  WireHandle handle() {
    // Often one that we have given out.
    if (script_.below(4) != 0 && !handles_.empty())
      return handles_[script_.byte() % handles_.size()];
    return {script_.below(2) == 0 ? 0xC00C1EU : script_.word(), script_.word()};
  }

  uint32_t portal() {
    constexpr std::array<uint32_t, 4> kPortals = {0, kPortal, kLazyPortal, 64};
    return kPortals[script_.below(kPortals.size())];
  }

  Header header(const Nid& dest) {
    Header header;
    header.dest_nid = dest;
    header.source_nid = any_nid();
    header.dest_pid = header.source_pid = kPidLustre;
    header.payload_bytes = script_.below(2) == 0 ? 0 : script_.word() % kPayloadBytesMax;
    const uint64_t bits = script_.below(2) == 0 ? kPingMatchBits : script_.word();
    switch (script_.below(4)) {
      case 0:
        header.part = PutPart{handle(), bits, 0, portal(), script_.word()};
        break;
      case 1:
        header.part = GetPart{handle(), bits, portal(), script_.word(), script_.word()};
        break;
      case 2:
        header.part = AckPart{handle(), bits, script_.word()};
        break;
      case 3:
        header.part = ReplyPart{handle()};
        break;
    }
    return header;
  }

  void receive_anything() {
    const uint32_t ni = script_.below(static_cast<uint32_t>(own_.size()));
    const Header wrong = header(script_.below(8) == 0 ? any_nid() : own_[ni]);
    const Nid from = script_.below(4) == 0 ? any_nid() : wrong.source_nid;
    receive_by(nis_[ni], last_hop(from), wrong, {});
  }

  void receive_by(NiId ni, const Nid& last_hop, const Header& header,
                  const std::vector<uint8_t>& payload) {
    const MessageVerdict verdict = core_.handle_message(now_, {ni, last_hop, header, ++cookie_});
    if (verdict.kind == MessageVerdict::Kind::kWait) waiting_.insert(verdict.id);
    if (verdict.kind != MessageVerdict::Kind::kReceive) return;
    if (payload.empty()) {
      reading_.insert(verdict.id);  // its payload takes its time
      return;
    }
    const iovec from{const_cast<uint8_t*>(payload.data()), payload.size()};
    copy_payload(PayloadView{{&from, 1}, 0, verdict.into.bytes}, verdict.into);
    core_.handle_receive_done(now_, verdict.id, Completion{});
  }

  std::vector<uint8_t> ping_info() {
    PingInfo info;
    info.features = script_.below(4) == 0 ? script_.byte() | kPingNiStatus : 0x1E;
    info.sequence = script_.byte();
    const uint32_t count = script_.below(6);
    for (uint32_t i = 0; i < count; ++i)
      info.nis.push_back({any_nid(), script_.below(3) == 0 ? kNiStatusDown : kNiStatusUp});
    std::vector<uint8_t> bytes = encode_ping_info(info);
    const uint32_t damage = script_.below(8);
    if (damage == 0) bytes.resize(script_.byte() % bytes.size() + 1);
    if (damage == 1) bytes[script_.byte() % bytes.size()] = script_.byte();
    return bytes;
  }

  void push() {
    const std::vector<uint8_t> bytes = ping_info();
    Header header;
    header.source_nid = last_hop(any_nid());
    const uint32_t ni = script_.below(static_cast<uint32_t>(own_.size()));
    header.dest_nid = own_[ni];
    header.source_pid = header.dest_pid = kPidLustre;
    header.payload_bytes = static_cast<uint32_t>(bytes.size());
    header.part = PutPart{handle(), kPingMatchBits, 0, 0, 0};
    receive_by(nis_[ni], header.source_nid, header, bytes);
  }

  // To the oldest message that the driver has: as if it had arrived.
  void answer() {
    if (sends_.empty()) return;
    const SendAction send = sends_.front();
    complete(Completion{});
    if (send.ni == kLoopbackNi) return;
    Header header;
    header.source_nid = script_.below(8) == 0 ? any_nid() : send.header.dest_nid;
    header.dest_nid = send.header.source_nid;
    header.source_pid = header.dest_pid = kPidLustre;
    std::vector<uint8_t> bytes;
    if (const auto* get = std::get_if<GetPart>(&send.header.part)) {
      bytes = ping_info();
      bytes.resize(std::min<size_t>(bytes.size(), get->sink_length));
      header.payload_bytes = static_cast<uint32_t>(bytes.size());
      header.part = ReplyPart{get->return_md};
    } else if (const auto* put = std::get_if<PutPart>(&send.header.part)) {
      header.part = AckPart{put->ack_md, put->match_bits, send.header.payload_bytes};
    } else {
      return;
    }
    receive_by(send.ni, last_hop(send.next_hop), header, bytes);
  }

  void complete(const Completion& completion) {
    if (sends_.empty()) return;
    const SendId id = sends_.front().id;
    sends_.pop_front();
    core_.handle_send_done(now_, id, completion);
  }

  void put() {
    MdSpec md;
    md.fragments = {{source_.data(), source_.size()}};
    const bool ack = script_.below(2) == 0;
    md.threshold = ack ? 2 : 1;
    const Result<MdHandle> handle = core_.bind(md);
    if (!handle) return;
    PutArgs args;
    args.md = *handle;
    args.ack = ack ? AckRequest::kAck : AckRequest::kNoAck;
    args.target = {any_nid(), kPidLustre};
    args.portal = kPortal;
    (void)core_.put(now_, args);
    if (script_.below(4) == 0) (void)core_.unlink(*handle);
  }

  void administer() {
    const std::array<Nid, 2> nids = {any_nid(), any_nid()};
    switch (script_.below(7)) {
      case 0:
        (void)core_.add_peer(now_, nids);
        break;
      case 1: {
        PeerSettings peer;
        peer.primary_nid = nids[0];
        peer.nids = {nids[1]};
        (void)core_.configure_peer(now_, peer);
        break;
      }
      case 2:
        (void)core_.delete_peer(now_, nids[0], {}, script_.below(2) == 0);
        break;
      case 3:
        (void)core_.discover(now_, nids[0], script_.below(2) == 0, silent_, nullptr);
        break;
      case 4:
        (void)core_.set_global(now_, "discovery", script_.below(2));
        break;
      case 5:
        core_.handle_ni_fatal(now_, nis_[script_.below(2)], script_.below(2) == 0, "unplugged");
        break;
      case 6:
        if (script_.below(4) == 0) core_.shut_down(now_);
        break;
    }
  }

  void end_receive() {
    if (reading_.empty()) return;
    const ReceiveId id = *reading_.begin();
    reading_.erase(reading_.begin());
    const bool failed = script_.below(4) == 0;
    core_.handle_receive_done(
        now_, id,
        failed ? Completion{.error = EIO, .health = HealthStatus::kLocalError} : Completion{});
  }

  void take() {
    for (std::vector<core::Action> actions; core_.has_actions();) {
      actions.clear();
      core_.take_actions(actions);
      for (const core::Action& action : actions) take(action);
    }
    core_.handled_events().clear();
    core_.polled_events().clear();
  }

  void take(const core::Action& action) {
    if (const auto* send = std::get_if<SendAction>(&action)) {
      sends_.push_back(*send);
      if (const auto* get = std::get_if<GetPart>(&send->header.part))
        handles_.push_back(get->return_md);
      if (const auto* put = std::get_if<PutPart>(&send->header.part))
        handles_.push_back(put->ack_md);
    } else if (const auto* receive = std::get_if<ReceiveAction>(&action)) {
      ULNET_ASSERT(waiting_.erase(receive->id) == 1, "the driver holds no such message");
      reading_.insert(receive->id);
    }
  }

  void check_peers() const {
    std::set<Nid> seen;
    for (const PeerInfo& peer : core_.peers()) {
      ULNET_ASSERT(!peer.nis.empty(), "a peer without NIDs");
      bool has_primary = false;
      for (const PeerNiInfo& ni : peer.nis) {
        ULNET_ASSERT(seen.insert(ni.nid).second, "a NID of two peers");
        ULNET_ASSERT(!ni.nid.is_any() && !ni.nid.is_lo(), "nobody's NID");
        // A sick NI of ours is pinged by its own NID, and is a peer of its own for that.
        const bool is_own = std::find(own_.begin(), own_.end(), ni.nid) != own_.end();
        ULNET_ASSERT(!is_own || peer.nis.size() == 1, "our own NID with another node's");
        ULNET_ASSERT(ni.health >= 0 && ni.health <= 1000, "health");
        has_primary |= ni.nid == peer.primary_nid;
      }
      ULNET_ASSERT(has_primary, "a primary NID that is not its peer's");
      const auto found = core_.find_peer(peer.primary_nid);
      ULNET_ASSERT(found && found->nis.size() == peer.nis.size(), "another peer by that name");
    }
  }

  Script script_;
  Time now_ = Time(1000s);
  core::Core core_;
  std::vector<Nid> own_;
  std::vector<NiId> nis_;
  std::vector<Nid> nids_;
  std::deque<SendAction> sends_;  // the driver has them
  std::vector<WireHandle> handles_;
  std::set<ReceiveId> waiting_;  // the driver holds their payload
  std::set<ReceiveId> reading_;  // ... reads it, or throws it away
  uint64_t cookie_ = 0;
  Silent silent_;
  std::array<uint8_t, 64> source_{};
  std::array<uint8_t, 4096> target_{};
};

}  // namespace
}  // namespace ulnet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  ulnet::HostileWorld world(ulnet::Script(bytes, size));
  world.run();
  return 0;
}
