// The recording of odd openings that a script tried on a kernel node: our acceptor gives the same
// bytes and the same end, or what spec tcp-lnd 10 demands of us instead.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lnd_tcp/wire.h"
#include "lnet/base/bytes.h"
#include "tests/interop/peers.h"
#include "tests/support/pcap.h"
#include "ulnet/endpoint.h"

namespace ulnet::interop {
namespace {

using namespace std::chrono_literals;
using test::Direction;
using test::StreamEnd;

constexpr char kOwn[] = "10.77.0.1@tcp";
constexpr auto kQuiet = 150ms;  // no end after this: the connection stays open
constexpr size_t kHelloDestNidAt = 16;
constexpr size_t kHelloIncarnationAt = 32;

// What our node answers otherwise than the kernel did: spec tcp-lnd 10.1 and 10.2 say so.
struct Exception {
  std::string why;
  StreamEnd end = StreamEnd::kFin;
  enum class Answer : uint8_t { kSame, kNothing, kTypeNone, kRightNid } answer = Answer::kSame;
};

// By the port that the probe came from.
const std::map<uint16_t, Exception>& exceptions() {
  using Answer = Exception::Answer;
  static const std::map<uint16_t, Exception> kExceptions = {
      {997, {"unread bytes are drained, so that no reset destroys the answer"}},
      {995, {"HELLO 2 is answered as any unknown version", StreamEnd::kFin, Answer::kTypeNone}},
      {994, {"unread bytes are drained, so that no reset destroys the answer"}},
      {992, {"destination NID that is not the request's", StreamEnd::kFin, Answer::kNothing}},
      {989, {"source NID that is not the sender's", StreamEnd::kFin, Answer::kNothing}},
      {987, {"HELLO 1 is answered as any unknown version", StreamEnd::kFin, Answer::kTypeNone}},
      {986, {"a big-endian NID is read as it was meant", StreamEnd::kOpen, Answer::kRightNid}},
  };
  return kExceptions;
}

struct Outcome {
  Bytes bytes;
  StreamEnd end = StreamEnd::kOpen;
};

std::string_view to_string(StreamEnd end) {
  switch (end) {
    case StreamEnd::kOpen:
      return "open";
    case StreamEnd::kFin:
      return "FIN";
    case StreamEnd::kReset:
      return "RST";
  }
  return "?";
}

std::string hex(const Bytes& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// What the kernel did. It ended a connection after the script had ended it; then it would have left
// it open.
Outcome recorded_outcome(const test::TcpConnection& probe) {
  Outcome outcome{.bytes = probe.bytes(Direction::kToOpener)};
  const auto& script = probe.stream(Direction::kFromOpener);
  const auto& kernel = probe.stream(Direction::kToOpener);
  const bool first = script.end == StreamEnd::kOpen || kernel.end_time_ns < script.end_time_ns;
  if (kernel.end != StreamEnd::kOpen && first) outcome.end = kernel.end;
  return outcome;
}

Outcome try_probe(const test::TcpConnection& probe) {
  Outcome outcome;
  Peers peers;
  const Result<Link*> link = peers.dial(probe.opener, probe.listener);
  EXPECT_TRUE(link) << link.error().to_string();
  if (!link) return outcome;
  const Status sent = peers.send(**link, probe.bytes(Direction::kFromOpener));
  EXPECT_TRUE(sent.is_ok()) << sent.to_string();
  const auto until = std::chrono::steady_clock::now() + kQuiet;
  while (std::chrono::steady_clock::now() < until && !(*link)->ended) peers.poll(5);
  outcome.bytes = (*link)->received;
  if ((*link)->ended) outcome.end = (*link)->reset ? StreamEnd::kReset : StreamEnd::kFin;
  return outcome;
}

// The answer that our node owes, with its own incarnation.
Bytes wanted_answer(const Outcome& recorded, const Exception& exception, const Bytes& actual) {
  using Answer = Exception::Answer;
  Bytes wanted = recorded.bytes;
  if (exception.answer == Answer::kNothing) return {};
  if (exception.answer == Answer::kTypeNone) {
    tcp::Hello none;
    none.source_nid = Nid::parse(kOwn).value();
    none.dest_nid = none.source_nid;
    none.source_pid = kPidLustre;
    none.type = static_cast<uint32_t>(tcp::ConnType::kNone);
    wanted = tcp::encode_hello(none);
  }
  if (exception.answer == Answer::kRightNid) {
    store_le64(&wanted[kHelloDestNidAt], Nid::parse("10.77.0.254@tcp").value().to_nid4());
  }
  if (wanted.size() >= tcp::kHelloV3Bytes && actual.size() >= tcp::kHelloV3Bytes) {
    store_le64(&wanted[kHelloIncarnationAt], load_le64(&actual[kHelloIncarnationAt]));
  }
  return wanted;
}

TEST(Probes, OurAcceptorAnswersAsTheKernelDid) {
  const auto capture =
      test::read_capture(std::filesystem::path(ULNET_VECTORS_DIR) / "tcp-host-probes.pcap.gz");
  ASSERT_TRUE(capture) << capture.error().to_string();
  EXPECT_EQ(capture->connections.size(), 17U);
  Settings settings;
  NiSettings ni;
  ni.nid = Nid::parse(kOwn).value();
  ni.net = ni.nid->net();
  settings.nis.push_back(ni);
  settings.node.log_level = "off";
  const auto node = Endpoint::start(settings).value();
  for (const test::TcpConnection& probe : capture->connections) {
    const Outcome recorded = recorded_outcome(probe);
    const Outcome actual = try_probe(probe);
    const auto found = exceptions().find(probe.opener.port);
    const bool same = found == exceptions().end();
    const Exception exception = same ? Exception{.end = recorded.end} : found->second;
    EXPECT_EQ(hex(actual.bytes), hex(wanted_answer(recorded, exception, actual.bytes)))
        << "from port " << probe.opener.port;
    if (actual.bytes.empty()) {
      // FIN or RST is a matter of what TCP had taken in by then; there is no answer to lose.
      EXPECT_EQ(actual.end == StreamEnd::kOpen, exception.end == StreamEnd::kOpen)
          << "from port " << probe.opener.port;
    } else {
      EXPECT_EQ(to_string(actual.end), to_string(exception.end))
          << "from port " << probe.opener.port;
    }
    fmt::print("tcp-host-probes from port {}: {} bytes, {}{}{}\n", probe.opener.port,
               actual.bytes.size(), to_string(actual.end), same ? "" : "; ", exception.why);
  }
}

}  // namespace
}  // namespace ulnet::interop
