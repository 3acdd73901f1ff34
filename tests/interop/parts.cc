#include "tests/interop/parts.h"

namespace ulnet::interop {
namespace {

constexpr char kRouter[] = "the router's place: it claims to forward, ours does not yet";
constexpr char kO2ib[] = "has a NI on o2ib, for which there is no driver yet";
constexpr char kNoLnet[] = "no node of LNet";
constexpr char kOff[] = "discovery off, as its notes say";
constexpr char kMetBefore[] = "discovery done before the recording";
constexpr char kOverIpv4[] = "push over IPv4";

// `met`: the router remembers from before the peer's start that it has told that peer.
Part router(std::string capture, std::string node, bool met = true) {
  return {.capture = std::move(capture),
          .node = std::move(node),
          .why = kRouter,
          .router = true,
          .more_discovery = met ? kMetBefore : ""};
}

const std::vector<Part> kParts = {
    {.capture = "tcp-2.15-discovers-2.17-with-ipv6",
     .node = "10.77.0.1",
     .why = "without the pushes under the IPv6 NID cut to 4 bytes, a fault of that version",
     .limits = {.left_out = {{"10.77.0.4", 988}}},
     .more_discovery = kOverIpv4},
    {.capture = "tcp-2.15-discovers-2.17-with-ipv6",
     .node = "10.77.0.4",
     .why = "without connections whose HELLO has a NID cut to 4 bytes: the address is not the "
            "sender's, we refuse it (spec tcp-lnd 10.2)",
     .limits = {.left_out = {{"10.77.0.1", 1021}, {"10.77.0.1", 1022}, {"10.77.0.1", 1023}}}},
    {.capture = "tcp-brw-64k-c8-cpp2", .why = "conns_per_peer 2", .conns_per_peer = 2},
    {.capture = "tcp-conns-per-peer-3", .why = "conns_per_peer 3", .conns_per_peer = 3},
    {.capture = "tcp-conn-refused", .node = "10.77.0.2", .why = kNoLnet, .left_out = true},
    {.capture = "tcp-conn-wrong-net",
     .node = "10.77.0.2",
     .why = "in net tcp, as its notes say",
     .nids = {"10.77.0.2@tcp"}},
    {.capture = "tcp-conn-wrong-nid",
     .node = "10.77.0.12",
     .why = "the address is no NI's, as its notes say",
     .nids = {"10.77.0.2@tcp"}},
    {.capture = "tcp-discovery-peer-off", .node = "10.77.0.2", .why = kOff, .discovery = false},
    {.capture = "tcp-discovery-push",
     .node = "10.77.0.1",
     .why = "pings of one NID, as its notes say: the paths are our node's choice",
     .pinged = {"10.77.0.2@tcp", "10.77.0.2@tcp", "10.77.0.2@tcp"}},
    {.capture = "tcp-host-probes", .why = "probe by probe in Probes", .left_out = true},
    {.capture = "tcp-idle-noop", .why = "keepalive after 1 s instead of 30", .keepalive_s = 1},
    {.capture = "tcp-link-cut",
     .node = "10.77.0.1",
     .why = "discovery off; before the cut (silence of 70 s is not waited for, nor its frames "
            "recorded)",
     .limits = {.until_s = 1},
     .discovery = false},
    {.capture = "tcp-link-cut",
     .node = "10.77.0.1",
     .why = "discovery off; after the cut",
     .limits = {.from_s = 84},
     .discovery = false,
     .more_discovery = kMetBefore},
    {.capture = "tcp-link-cut", .node = "10.77.0.2", .why = "discovery off", .discovery = false},
    {.capture = "tcp-o2ib-router-brw-4k", .node = "10.77.0.2", .why = kO2ib, .left_out = true},
    {.capture = "tcp-o2ib-router-brw-read-1m-o2ib-side",
     .why = "nothing of it is on tcp",
     .left_out = true},
    {.capture = "tcp-o2ib-router-brw-write-1m-o2ib-side",
     .why = "nothing of it is on tcp",
     .left_out = true},
    {.capture = "tcp-o2ib-router-ping-discover",
     .node = "10.77.0.2",
     .why = kO2ib,
     .left_out = true},
    {.capture = "tcp-ping", .why = kOff, .discovery = false},
    {.capture = "tcp-ping-then-unconfigure",
     .node = "10.77.0.1",
     .why = "stop() where the node was unconfigured",
     .stops = true},
    router("tcp-router-brw-4k", "10.77.0.2"),
    router("tcp-router-brw-read-1m-farside", "10.77.1.2"),
    router("tcp-router-brw-write-1m-nearside", "10.77.0.2"),
    router("tcp-router-discover", "10.77.0.2"),
    router("tcp-router-enable", "10.77.0.2", false),
    router("tcp-router-ping", "10.77.0.2"),
    {.capture = "tcp-stale-restarted-sends", .node = "10.77.0.1", .why = kOff, .discovery = false},
    {.capture = "tcp-stale-restarted-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its first life",
     .limits = {.until_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-restarted-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its second life",
     .limits = {.from_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-survivor-sends", .node = "10.77.0.1", .why = kOff, .discovery = false},
    {.capture = "tcp-stale-survivor-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its first life",
     .limits = {.until_s = 20},
     .discovery = false},
    {.capture = "tcp-stale-survivor-sends",
     .node = "10.77.0.2",
     .why = "discovery off; its second life",
     .limits = {.from_s = 100},
     .discovery = false},
    {.capture = "tcp-untyped-conns-hang",
     .node = "10.77.0.1",
     .why = "dials with type ANY, a known fault: we never do",
     .left_out = true},
    {.capture = "tcp46-mixed-to-v4only",
     .node = "10.77.0.2",
     .why = "without its dial of an IPv6 NID from an IPv4 one: we never do (spec tcp-lnd 2.1)",
     .limits = {.left_out = {{"fd77::1", 988}}},
     .more_discovery = kOverIpv4},
};

}  // namespace

const std::vector<Part>& parts() {
  return kParts;
}

bool concerns(const Part& part, const std::string& capture, const NodeAddresses& node) {
  return part.capture == capture && (part.node.empty() || node.contains(part.node));
}

}  // namespace ulnet::interop
