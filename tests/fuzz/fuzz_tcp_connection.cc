// Arbitrary bytes, cut at arbitrary offsets, into the passive side of a connection. The first bytes
// of the input choose the cuts and LNet's verdicts; with an odd first byte a good opening comes
// before the rest, so that frames are reached.
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "lnd_tcp/connection.h"
#include "lnd_tcp/wire.h"
#include "lnet/base/assert.h"

namespace ulnet::tcp {
namespace {

class Harness {
 public:
  explicit Harness(uint8_t choices) : choices_(choices) {}

  void feed(std::span<const uint8_t> bytes) {
    settle();
    while (!bytes.empty()) {
      std::array<iovec, Connection::kWindowFragmentsMax> window;
      const size_t pieces = connection_.window(window);
      if (pieces == 0) return;
      size_t taken = 0;
      for (size_t i = 0; i < pieces && !bytes.empty(); ++i) {
        const size_t n = std::min(window[i].iov_len, bytes.size());
        if (n > 0) std::memcpy(window[i].iov_base, bytes.data(), n);
        bytes = bytes.subspan(n);
        taken += n;
      }
      connection_.handle_bytes(taken);
      settle();
    }
  }

  void finish() {
    connection_.handle_end_of_stream();
    settle();
    ULNET_ASSERT(closed_ == 1, "a connection that has ended says so once");
    ULNET_ASSERT(open_.empty(), "every receive ends");
    std::array<iovec, Connection::kWindowFragmentsMax> window;
    ULNET_ASSERT(connection_.window(window) == 0, "a closed connection reads nothing");
  }

 private:
  using Kind = Connection::Event::Kind;

  PayloadView memory(uint32_t bytes) {
    memory_.assign(bytes + 1, 0);
    fragments_ = {{memory_.data(), bytes / 3},
                  {memory_.data() + bytes / 3, memory_.size() - bytes / 3}};
    return {fragments_, 0, bytes};
  }

  void settle() {
    for (;;) {
      const Connection::Event event = connection_.poll();
      switch (event.kind) {
        case Kind::kNone:
          return;
        case Kind::kConnectRequest:
          connection_.accept_request();
          break;
        case Kind::kHello:
          connection_.establish(
              connection_.hello().version == 4 ? HeaderForm::kNid16 : HeaderForm::kNid4,
              connection_.hello().flipped);
          break;
        case Kind::kMessage:
          answer();
          break;
        case Kind::kReceiveDone:
          ULNET_ASSERT(open_.erase(event.id) == 1, "a receive ends once");
          break;
        case Kind::kZcAck:
          ULNET_ASSERT(event.cookie != 0, "cookie 0 asks for nothing");
          break;
        case Kind::kKeepalive:
          break;
        case Kind::kClosed:
          ++closed_;
          break;
      }
    }
  }

  void answer() {
    const uint32_t bytes = connection_.header().payload_bytes;
    ULNET_ASSERT(bytes <= kPayloadBytesMax, "a payload above 1 MiB never reaches LNet");
    MessageVerdict verdict;
    choices_ = static_cast<uint8_t>(choices_ * 5 + 1);
    if (choices_ % 4 != 0) {
      verdict.kind = MessageVerdict::Kind::kReceive;
      verdict.id = ++last_id_;
      open_.insert(verdict.id);
      verdict.into = memory(choices_ % 4 == 1 ? bytes / 2 : bytes);
    }
    if (choices_ % 4 == 3) {
      verdict.kind = MessageVerdict::Kind::kWait;
      connection_.handle_verdict(verdict);
      connection_.receive_into(verdict.id, memory(bytes));
      return;
    }
    connection_.handle_verdict(verdict);
  }

  Connection connection_{Connection::Role::kPassive};
  uint8_t choices_;
  ReceiveId last_id_ = 0;
  std::set<ReceiveId> open_;
  std::vector<uint8_t> memory_;
  std::vector<iovec> fragments_;
  int closed_ = 0;
};

std::vector<uint8_t> good_opening() {
  const Nid node = Nid::from_ipv4({NetType::kTcp, 0}, 0x0A000002);
  std::vector<uint8_t> bytes = encode_connect_request({node});
  Hello hello;
  hello.source_nid = Nid::from_ipv4({NetType::kTcp, 0}, 0x0A000001);
  hello.dest_nid = node;
  hello.source_pid = kPidLustre;
  const auto rest = encode_hello(hello);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

}  // namespace
}  // namespace ulnet::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ulnet::tcp;
  if (size < 4) return 0;
  Harness harness(data[1]);
  if (data[0] % 2 == 1) harness.feed(good_opening());
  const std::array<size_t, 2> steps = {size_t{1} + data[2], size_t{1} + data[3] * 16U};
  std::span<const uint8_t> rest(data + 4, size - 4);
  for (size_t i = 0; !rest.empty(); ++i) {
    const size_t n = std::min(rest.size(), steps[i % 2]);
    harness.feed(rest.first(n));
    rest = rest.subspan(n);
  }
  harness.finish();
  return 0;
}
