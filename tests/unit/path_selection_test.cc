// Path selection: the table of cases, each criterion alone and before each later one, resends.
// Source: spec lnet-core 6; decisions D2; cases SEL-2, HL-10.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>

#include "tests/support/rails.h"

namespace ulnet {
namespace {

using core::Ni;
using core::PathRequest;
using core::PeerNi;
using test::Rails;

// "SOURCE > NEXT_HOP", "loopback", or the errno's name.
std::string path_of(Rails& rails, const PathRequest& request) {
  core::State& state = rails.state();
  const Result<core::Path> path = core::select_path(state, request);
  if (!path) return errno_name(path.error().code());
  if (path->next_hop == 0) return path->ni == kLoopbackNi ? "loopback" : "?";
  EXPECT_EQ(path->final_dest, state.peers.ni(path->next_hop).nid);
  return state.nets.ni(path->ni).nid.to_string() + " > " + path->final_dest.to_string();
}

PathRequest to(std::string_view dest) {
  PathRequest request;
  request.dest = Nid::parse(dest).value();
  return request;
}

// ---------------------------------------------------------------- the table of cases (6.3)

struct CaseRow {
  const char* name;
  // What is known: our NIDs are 10.0.0.1@tcp, 10.0.0.11@tcp, 10.1.0.1@tcp1 and fd00::1@tcp.
  std::vector<std::string_view> peer;  // its NIDs; empty: unknown
  bool multi_rail;
  const char* dest;
  std::function<void(Rails&, PathRequest&)> change;
  const char* path;
};

void PrintTo(const CaseRow& row, std::ostream* out) {
  *out << row.name;
}

class CaseTest : public testing::TestWithParam<CaseRow> {};

TEST_P(CaseTest, TakesThePathOfItsRow) {
  const CaseRow& row = GetParam();
  Rails rails;
  for (const char* nid : {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1", "fd00::1@tcp"})
    rails.add_ni(nid);
  if (!row.peer.empty()) rails.add_peer(row.peer, row.multi_rail);
  PathRequest request = to(row.dest);
  if (row.change) row.change(rails, request);
  EXPECT_EQ(path_of(rails, request), row.path);
}

void from_11(Rails&, PathRequest& request) {
  request.source = Nid::parse("10.0.0.11@tcp").value();
}
void from_tcp1(Rails&, PathRequest& request) {
  request.source = Nid::parse("10.1.0.1@tcp1").value();
}
void from_ipv6(Rails&, PathRequest& request) {
  request.source = Nid::parse("fd00::1@tcp").value();
}
void from_stranger(Rails&, PathRequest& request) {
  request.source = Nid::parse("10.0.0.99@tcp").value();
}
void prefer_11(Rails& rails, PathRequest& request) {
  rails.state().peers.find(request.dest)->preferred_ni = rails.ni("10.0.0.11@tcp").id;
}
void without_discovery(Rails& rails, PathRequest&) {
  rails.state().global.discovery = false;
  rails.ni("10.0.0.1@tcp").sequence = 1;  // used before: the other would have its turn
}
void dest_is_disowned(Rails& rails, PathRequest& request) {
  rails.state().peers.find(request.dest)->disowned = true;
}
void recovery(Rails& rails, PathRequest& request) {
  prefer_11(rails, request);
  request.pinned = true;
}
void dest_is_ill(Rails& rails, PathRequest& request) {
  rails.state().peers.find(request.dest)->health = 0;
}
void from_11_dest_is_ill(Rails& rails, PathRequest& request) {
  from_11(rails, request);
  dest_is_ill(rails, request);
}
void recovery_of_the_ill(Rails& rails, PathRequest& request) {
  dest_is_ill(rails, request);
  request.pinned = true;
}
// ... which came in by 10.0.0.11, from its source itself.
void response(Rails& rails, PathRequest& request) {
  request.response_ni = &rails.ni("10.0.0.11@tcp");
  request.likely_dest = rails.state().peers.find(request.dest);
}
// ... which came in by the IPv6 NI (capture tcp46-mixed-to-v4only).
void response_by_ipv6(Rails& rails, PathRequest& request) {
  request.response_ni = &rails.ni("fd00::1@tcp");
  request.likely_dest = rails.state().peers.find(request.dest);
}
void response_to_the_ill(Rails& rails, PathRequest& request) {
  response(rails, request);
  dest_is_ill(rails, request);
  rails.ni("10.0.0.11@tcp").health = 0;
}

const std::vector<CaseRow> kCaseRows = {
    {"given_unknown", {}, false, "10.0.0.2@tcp", from_11, "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"given_single_rail",
     {"10.0.0.2@tcp"},
     false,
     "10.0.0.2@tcp",
     from_11,
     "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"given_multi_rail",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     true,
     "10.0.0.2@tcp",
     from_11_dest_is_ill,
     "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"given_not_ours", {"10.0.0.2@tcp"}, true, "10.0.0.2@tcp", from_stranger, "EINVAL"},
    {"given_on_another_net",
     {"10.0.0.2@tcp", "10.1.0.2@tcp1"},
     true,
     "10.0.0.2@tcp",
     from_tcp1,
     "EHOSTUNREACH"},
    {"given_remote", {}, false, "10.5.0.2@tcp5", from_11, "EHOSTUNREACH"},
    {"given_other_family", {"10.0.0.2@tcp"}, true, "10.0.0.2@tcp", from_ipv6, "EHOSTUNREACH"},
    {"any_unknown", {}, false, "10.0.0.2@tcp", nullptr, "10.0.0.1@tcp > 10.0.0.2@tcp"},
    {"any_single_rail",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     false,
     "10.0.0.2@tcp",
     dest_is_ill,
     "10.0.0.1@tcp > 10.0.0.2@tcp"},
    {"any_single_rail_preferred",
     {"10.0.0.2@tcp"},
     false,
     "10.0.0.2@tcp",
     prefer_11,
     "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"any_single_rail_without_discovery",
     {"10.0.0.2@tcp"},
     false,
     "10.0.0.2@tcp",
     without_discovery,
     "10.0.0.1@tcp > 10.0.0.2@tcp"},
    {"any_multi_rail_disowned",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     true,
     "10.0.0.2@tcp",
     dest_is_disowned,
     "10.0.0.1@tcp > 10.0.0.12@tcp"},
    {"any_single_rail_recovery",
     {"10.0.0.2@tcp"},
     false,
     "10.0.0.2@tcp",
     recovery,
     "10.0.0.1@tcp > 10.0.0.2@tcp"},
    {"any_single_rail_remote", {"10.5.0.2@tcp5"}, false, "10.5.0.2@tcp5", nullptr, "EHOSTUNREACH"},
    {"any_single_rail_ipv6", {}, false, "fd00::2@tcp", nullptr, "fd00::1@tcp > fd00::2@tcp"},
    {"any_single_rail_no_ipv6_ni", {}, false, "fd00::2@tcp1", nullptr, "EHOSTUNREACH"},
    {"any_multi_rail",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     true,
     "10.0.0.2@tcp",
     dest_is_ill,
     "10.0.0.1@tcp > 10.0.0.12@tcp"},
    {"any_multi_rail_recovery",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     true,
     "10.0.0.2@tcp",
     recovery_of_the_ill,
     "10.0.0.1@tcp > 10.0.0.2@tcp"},
    {"any_multi_rail_remote_dest",
     {"10.5.0.2@tcp5", "10.1.0.2@tcp1"},
     true,
     "10.5.0.2@tcp5",
     nullptr,
     "10.1.0.1@tcp1 > 10.1.0.2@tcp1"},
    {"any_multi_rail_nowhere_local",
     {"10.5.0.2@tcp5", "10.6.0.2@tcp6"},
     true,
     "10.5.0.2@tcp5",
     nullptr,
     "EHOSTUNREACH"},
    {"any_multi_rail_ipv6_only",
     {"fd00::2@tcp", "10.5.0.2@tcp5"},
     true,
     "10.5.0.2@tcp5",
     nullptr,
     "fd00::1@tcp > fd00::2@tcp"},
    {"any_multi_rail_no_common_family",
     {"fd00::2@tcp1"},
     true,
     "fd00::2@tcp1",
     nullptr,
     "EHOSTUNREACH"},
    {"response_single_rail",
     {"10.0.0.2@tcp"},
     false,
     "10.0.0.2@tcp",
     response,
     "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"response_multi_rail",
     {"10.0.0.2@tcp", "10.0.0.12@tcp"},
     true,
     "10.0.0.2@tcp",
     response_to_the_ill,
     "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {"response_to_another_net",
     {"10.5.0.2@tcp5", "10.0.0.2@tcp"},
     true,
     "10.5.0.2@tcp5",
     response,
     "EHOSTUNREACH"},
    {"response_to_the_other_family",
     {"10.0.0.2@tcp"},
     true,
     "10.0.0.2@tcp",
     response_by_ipv6,
     "fd00::1@tcp > 10.0.0.2@tcp"},
    {"loopback", {}, false, "0@lo", nullptr, "loopback"},
    // SEL-2: every NID of ours is local, not only the first of its net.
    {"own_first", {}, false, "10.0.0.1@tcp", nullptr, "loopback"},
    {"own_second", {}, false, "10.0.0.11@tcp", nullptr, "loopback"},
    {"own_third", {}, false, "fd00::1@tcp", nullptr, "loopback"},
    {"own_pinned",
     {"10.0.0.11@tcp"},
     false,
     "10.0.0.11@tcp",
     recovery,
     "10.0.0.1@tcp > 10.0.0.11@tcp"}};

INSTANTIATE_TEST_SUITE_P(Rows, CaseTest, testing::ValuesIn(kCaseRows),
                         [](const auto& test) { return test.param.name; });

// ---------------------------------------------------------------- criteria (6.4, 6.5)

// Two candidates, number 0 listed first, that a criterion tells apart.
struct Criterion {
  const char* name;
  std::function<void(Rails&, PathRequest&, int)> make_worse;
};

struct Arena {
  const char* name;
  std::function<void(Rails&)> set_up;  // both candidates are equal
  const char* dest;
  const char* paths[2];             // which tell that a candidate was chosen
  std::vector<Criterion> criteria;  // in the order in which they count
};

int other(int candidate) {
  return 1 - candidate;
}

constexpr const char* kNis[] = {"10.0.0.1@tcp", "10.0.0.11@tcp"};
constexpr const char* kPeerNis[] = {"10.0.0.2@tcp", "10.0.0.12@tcp"};
constexpr const char* kNetNis[] = {"10.0.0.1@tcp", "10.1.0.1@tcp1"};
constexpr const char* kNetPeerNis[] = {"10.0.0.2@tcp", "10.1.0.2@tcp1"};

// What the payload's distance is measured from; every NI is near it.
constexpr int kHere = 0;
constexpr int kThere = 1;

void two_numa_nodes(Rails& rails, PathRequest& request) {
  rails.state().numa = {2, {10, 20, 20, 10}};
  request.memory_node = kHere;
  for (NiId id = 1; id < rails.state().nets.ni_count(); ++id) {
    if (rails.state().nets.ni(id).numa_node == core::kNoNumaNode)
      rails.state().nets.ni(id).numa_node = kHere;
  }
}

const Arena kLocalNi{
    "LocalNi",
    [](Rails& rails) {
      for (const char* nid : kNis) rails.add_ni(nid);
      rails.add_peer({"10.0.0.2@tcp"});
    },
    "10.0.0.2@tcp",
    {"10.0.0.1@tcp > 10.0.0.2@tcp", "10.0.0.11@tcp > 10.0.0.2@tcp"},
    {
        {"fatal", [](Rails& rails, PathRequest&, int i) { rails.ni(kNis[i]).fatal = true; }},
        {"just_failed",
         [](Rails& rails, PathRequest& request, int i) { request.avoid_ni = &rails.ni(kNis[i]); }},
        {"health", [](Rails& rails, PathRequest&, int i) { rails.ni(kNis[i]).health = 999; }},
        {"not_kept", [](Rails& rails, PathRequest& request,
                        int i) { request.keep_ni = &rails.ni(kNis[other(i)]); }},
        {"priority",
         [](Rails& rails, PathRequest&, int i) { rails.ni(kNis[other(i)]).priority = 3; }},
        {"numa_distance",
         [](Rails& rails, PathRequest& request, int i) {
           two_numa_nodes(rails, request);
           rails.ni(kNis[i]).numa_node = kThere;
         }},
        {"credits", [](Rails& rails, PathRequest&, int i) { rails.ni(kNis[i]).tx_credits.take(); }},
        {"sequence", [](Rails& rails, PathRequest&, int i) { rails.ni(kNis[i]).sequence = 7; }},
    }};

const Arena kPeerNi{
    "PeerNi",
    [](Rails& rails) {
      rails.add_ni("10.0.0.1@tcp");
      rails.add_peer({kPeerNis[0], kPeerNis[1]});
      // Preferred sources are only looked at where there are policies.
      (void)rails.state().udsps.add({.src = "o2ib"}, std::nullopt);
    },
    "10.0.0.2@tcp",
    {"10.0.0.1@tcp > 10.0.0.2@tcp", "10.0.0.1@tcp > 10.0.0.12@tcp"},
    {
        {"just_failed", [](Rails& rails, PathRequest& request,
                           int i) { request.avoid_peer_ni = &rails.peer_ni(kPeerNis[i]); }},
        {"health",
         [](Rails& rails, PathRequest&, int i) { rails.peer_ni(kPeerNis[i]).health = 999; }},
        {"not_kept", [](Rails& rails, PathRequest& request,
                        int i) { request.keep_peer_ni = &rails.peer_ni(kPeerNis[other(i)]); }},
        {"priority",
         [](Rails& rails, PathRequest&, int i) { rails.peer_ni(kPeerNis[other(i)]).priority = 3; }},
        {"source_not_preferred",
         [](Rails& rails, PathRequest&, int i) {
           rails.peer_ni(kPeerNis[other(i)]).preferred_sources = {rails.ni("10.0.0.1@tcp").id};
         }},
        {"credits",
         [](Rails& rails, PathRequest&, int i) { rails.peer_ni(kPeerNis[i]).tx_credits.take(); }},
        {"sequence",
         [](Rails& rails, PathRequest&, int i) { rails.peer_ni(kPeerNis[i]).sequence = 7; }},
    }};

const Arena kNet{
    "Net",
    [](Rails& rails) {
      for (const char* nid : kNetNis) rails.add_ni(nid);
      rails.add_peer({kNetPeerNis[0], kNetPeerNis[1]});
    },
    "10.0.0.2@tcp",
    {"10.0.0.1@tcp > 10.0.0.2@tcp", "10.1.0.1@tcp1 > 10.1.0.2@tcp1"},
    {
        // HL-10, before the health of the peer's net.
        {"fatal", [](Rails& rails, PathRequest&, int i) { rails.ni(kNetNis[i]).fatal = true; }},
        {"just_failed", [](Rails& rails, PathRequest& request,
                           int i) { request.avoid_peer_ni = &rails.peer_ni(kNetPeerNis[i]); }},
        {"peer_health",
         [](Rails& rails, PathRequest&, int i) { rails.peer_ni(kNetPeerNis[i]).health = 999; }},
        {"peer_ni_not_kept",
         [](Rails& rails, PathRequest& request, int i) {
           request.keep_peer_ni = &rails.peer_ni(kNetPeerNis[other(i)]);
         }},
        {"peer_priority", [](Rails& rails, PathRequest&,
                             int i) { rails.peer_net(kNetPeerNis[other(i)]).priority = 3; }},
        {"local_health",
         [](Rails& rails, PathRequest&, int i) { rails.ni(kNetNis[i]).health = 999; }},
        {"ni_not_kept", [](Rails& rails, PathRequest& request,
                           int i) { request.keep_ni = &rails.ni(kNetNis[other(i)]); }},
        {"local_priority",
         [](Rails& rails, PathRequest&, int i) {
           rails.state().nets.find_net(rails.ni(kNetNis[other(i)]).nid.net())->priority = 3;
         }},
        {"peer_sequence",
         [](Rails& rails, PathRequest&, int i) { rails.peer_net(kNetPeerNis[i]).sequence = 7; }},
        {"local_sequence",
         [](Rails& rails, PathRequest&, int i) {
           rails.state().nets.find_net(rails.ni(kNetNis[i]).nid.net())->sequence = 7;
         }},
    }};

class CriteriaTest : public testing::TestWithParam<const Arena*> {
 protected:
  // The candidate that is chosen when each of `worse` makes its candidate worse.
  std::string chosen(const std::vector<std::pair<const Criterion*, int>>& worse) {
    Rails rails;
    GetParam()->set_up(rails);
    PathRequest request = to(GetParam()->dest);
    for (const auto& [criterion, candidate] : worse)
      criterion->make_worse(rails, request, candidate);
    return path_of(rails, request);
  }
};

TEST_P(CriteriaTest, OfEqualsTheFirstIsTaken) {
  EXPECT_EQ(chosen({}), GetParam()->paths[0]);
}

TEST_P(CriteriaTest, EachDecidesAlone) {
  for (const Criterion& criterion : GetParam()->criteria) {
    for (const int worse : {0, 1})
      EXPECT_EQ(chosen({{&criterion, worse}}), GetParam()->paths[other(worse)]) << criterion.name;
  }
}

TEST_P(CriteriaTest, EachBeatsEachLaterOne) {
  const std::vector<Criterion>& criteria = GetParam()->criteria;
  for (size_t i = 0; i < criteria.size(); ++i) {
    for (size_t j = i + 1; j < criteria.size(); ++j) {
      for (const int worse : {0, 1}) {
        EXPECT_EQ(chosen({{&criteria[i], worse}, {&criteria[j], other(worse)}}),
                  GetParam()->paths[other(worse)])
            << criteria[i].name << " against " << criteria[j].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Arenas, CriteriaTest, testing::Values(&kLocalNi, &kPeerNi, &kNet),
                         [](const auto& test) { return test.param->name; });

TEST(PathSelection, ANetIsAsHealthyAsTheBestOfItsNisThatAreNotFatal) {
  Rails rails;
  for (const char* nid : {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1", "10.1.0.11@tcp1"})
    rails.add_ni(nid);
  rails.add_peer({"10.0.0.2@tcp", "10.0.0.12@tcp", "10.1.0.2@tcp1"});
  rails.ni("10.0.0.1@tcp").fatal = true;
  rails.ni("10.0.0.11@tcp").health = 800;
  rails.ni("10.1.0.1@tcp1").health = 100;
  rails.ni("10.1.0.11@tcp1").health = 801;
  rails.peer_ni("10.0.0.2@tcp").health = 0;
  EXPECT_EQ(path_of(rails, to("10.0.0.2@tcp")), "10.1.0.11@tcp1 > 10.1.0.2@tcp1");
  rails.ni("10.0.0.11@tcp").health = 802;
  EXPECT_EQ(path_of(rails, to("10.0.0.2@tcp")), "10.0.0.11@tcp > 10.0.0.12@tcp");
  rails.peer_ni("10.0.0.12@tcp").health = 999;
  EXPECT_EQ(path_of(rails, to("10.0.0.2@tcp")), "10.1.0.11@tcp1 > 10.1.0.2@tcp1");
}

TEST(PathSelection, WithNothingBetterTheWorstIsUsed) {
  Rails rails;
  rails.add_ni("10.0.0.1@tcp").fatal = true;
  rails.ni("10.0.0.1@tcp").health = 0;
  rails.add_peer({"10.0.0.2@tcp"});
  rails.peer_ni("10.0.0.2@tcp").health = 0;
  PathRequest request = to("10.0.0.2@tcp");
  request.avoid_ni = &rails.ni("10.0.0.1@tcp");
  request.avoid_peer_ni = &rails.peer_ni("10.0.0.2@tcp");
  EXPECT_EQ(path_of(rails, request), "10.0.0.1@tcp > 10.0.0.2@tcp");
}

// ---------------------------------------------------------------- NUMA

struct NumaRow {
  const char* name;
  int32_t range;
  int memory;
  int first;  // node of the NI listed first; the other's is kHere
  const char* path;
};

void PrintTo(const NumaRow& row, std::ostream* out) {
  *out << row.name;
}

class NumaTest : public testing::TestWithParam<NumaRow> {};

TEST_P(NumaTest, TheNearerNiIsTakenUnlessBothAreNearEnough) {
  const NumaRow& row = GetParam();
  GlobalSettings global;
  global.numa_range = row.range;
  Rails rails(global);
  rails.state().numa = {3, {10, 20, 30, 20, 10, 30, 30, 30, 10}};
  rails.add_ni(kNis[0]).numa_node = row.first;
  rails.add_ni(kNis[1]).numa_node = kHere;
  rails.add_peer({"10.0.0.2@tcp"});
  PathRequest request = to("10.0.0.2@tcp");
  request.memory_node = row.memory;
  EXPECT_EQ(path_of(rails, request), row.path);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, NumaTest,
    testing::Values(
        NumaRow{"nearer", 0, kHere, kThere, "10.0.0.11@tcp > 10.0.0.2@tcp"},
        NumaRow{"within_range", 20, kHere, kThere, "10.0.0.1@tcp > 10.0.0.2@tcp"},
        NumaRow{"just_beyond_range", 19, kHere, kThere, "10.0.0.11@tcp > 10.0.0.2@tcp"},
        NumaRow{"huge_range", 1000000, kHere, 2, "10.0.0.1@tcp > 10.0.0.2@tcp"},
        NumaRow{"memory_there", 0, kThere, kThere, "10.0.0.1@tcp > 10.0.0.2@tcp"},
        NumaRow{"memory_unknown", 0, core::kNoNumaNode, kThere, "10.0.0.1@tcp > 10.0.0.2@tcp"},
        NumaRow{"memory_on_no_such_node", 0, 3, kThere, "10.0.0.1@tcp > 10.0.0.2@tcp"},
        // As far as the farthest: 30 from here, which is farther than 20.
        NumaRow{"device_unknown", 0, kThere, core::kNoNumaNode, "10.0.0.11@tcp > 10.0.0.2@tcp"}),
    [](const auto& test) { return test.param.name; });

// ---------------------------------------------------------------- preferred NI (5.4)

TEST(PreferredNi, TheFirstMessageThatIsNoResponseFixesTheSource) {
  Rails rails;
  for (const char* nid : kNis) rails.add_ni(nid);
  PathRequest response = to("10.0.0.2@tcp");
  response.response_ni = &rails.ni(kNis[0]);
  EXPECT_EQ(path_of(rails, response), "10.0.0.1@tcp > 10.0.0.2@tcp");
  EXPECT_EQ(rails.peer_ni("10.0.0.2@tcp").preferred_ni, kLoopbackNi);
  PathRequest recovery = to("10.0.0.2@tcp");
  recovery.pinned = true;
  (void)path_of(rails, recovery);
  EXPECT_EQ(rails.peer_ni("10.0.0.2@tcp").preferred_ni, kLoopbackNi);

  PathRequest given = to("10.0.0.2@tcp");
  given.source = Nid::parse(kNis[1]).value();
  EXPECT_EQ(path_of(rails, given), "10.0.0.11@tcp > 10.0.0.2@tcp");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(path_of(rails, to("10.0.0.2@tcp")), "10.0.0.11@tcp > 10.0.0.2@tcp");
  // Another given one changes nothing.
  given.source = Nid::parse(kNis[0]).value();
  EXPECT_EQ(path_of(rails, given), "10.0.0.1@tcp > 10.0.0.2@tcp");
  EXPECT_EQ(path_of(rails, to("10.0.0.2@tcp")), "10.0.0.11@tcp > 10.0.0.2@tcp");
}

TEST(PreferredNi, IsForgottenWhenThePeerBecomesMultiRail) {
  Rails rails;
  for (const char* nid : kNis) rails.add_ni(nid);
  core::Peer& peer = rails.add_peer({"10.0.0.2@tcp", "10.0.0.12@tcp"}, false);
  (void)path_of(rails, to("10.0.0.2@tcp"));
  EXPECT_NE(rails.peer_ni("10.0.0.2@tcp").preferred_ni, kLoopbackNi);
  rails.state().peers.make_multi_rail(peer);
  EXPECT_EQ(rails.peer_ni("10.0.0.2@tcp").preferred_ni, kLoopbackNi);
  // ... nor recorded again.
  PathRequest given = to("10.0.0.2@tcp");
  given.source = Nid::parse(kNis[1]).value();
  (void)path_of(rails, given);
  EXPECT_EQ(rails.peer_ni("10.0.0.2@tcp").preferred_ni, kLoopbackNi);
}

// ---------------------------------------------------------------- resends (D2)

struct ResendRow {
  const char* name;
  std::vector<std::string_view> nids;
  std::vector<std::string_view> peer;
  bool multi_rail;
  // Of the attempt before, always by the first NI to the first NID; what it blames.
  bool blames_ni;
  bool blames_peer_ni;
  std::function<void(Rails&, PathRequest&)> change;
  const char* path;  // of the resend
  bool other_way;
};

void PrintTo(const ResendRow& row, std::ostream* out) {
  *out << row.name;
}

class ResendTest : public testing::TestWithParam<ResendRow> {};

TEST_P(ResendTest, TheBlamedHalfIsAvoidedAndTheOtherKept) {
  const ResendRow& row = GetParam();
  Rails rails;
  for (const std::string_view nid : row.nids) rails.add_ni(nid);
  rails.add_peer(row.peer, row.multi_rail);
  PathRequest request = to(row.peer.front());
  if (row.change) row.change(rails, request);
  // What the spec's order alone says of a half that was used last: last among equals.
  Ni& ni = rails.ni(row.nids.front());
  PeerNi& peer_ni = rails.peer_ni(row.peer.front());
  (row.blames_ni ? request.avoid_ni : request.keep_ni) = &ni;
  (row.blames_peer_ni ? request.avoid_peer_ni : request.keep_peer_ni) = &peer_ni;
  EXPECT_EQ(core::has_other_way(rails.state(), request), row.other_way);
  EXPECT_EQ(path_of(rails, request), row.path);
}

const std::vector<std::string_view> kTwoNis = {"10.0.0.1@tcp", "10.0.0.11@tcp"};
const std::vector<std::string_view> kTwoPeerNis = {"10.0.0.2@tcp", "10.0.0.12@tcp"};
const std::vector<std::string_view> kTwoNets = {"10.0.0.1@tcp", "10.1.0.1@tcp1"};
const std::vector<std::string_view> kTwoPeerNets = {"10.0.0.2@tcp", "10.1.0.2@tcp1"};

void given_first(Rails&, PathRequest& request) {
  request.source = Nid::parse("10.0.0.1@tcp").value();
}
void as_response(Rails& rails, PathRequest& request) {
  request.response_ni = &rails.ni("10.0.0.1@tcp");
}
void used_once(Rails& rails, PathRequest& request) {
  EXPECT_EQ(path_of(rails, request), "10.0.0.1@tcp > 10.0.0.2@tcp");
}
void others_are_ill(Rails& rails, PathRequest&) {
  rails.ni("10.0.0.11@tcp").health = 0;
  rails.peer_ni("10.0.0.12@tcp").health = 0;
}
void kept_are_ill(Rails& rails, PathRequest&) {
  rails.ni("10.0.0.1@tcp").health = 900;
  rails.peer_ni("10.0.0.2@tcp").health = 900;
}
void other_ni_is_fatal(Rails& rails, PathRequest&) {
  rails.ni("10.0.0.11@tcp").fatal = true;
}
void other_net_is_fatal(Rails& rails, PathRequest&) {
  rails.ni("10.1.0.1@tcp1").fatal = true;
}

const std::vector<ResendRow> kResendRows = {
    {"local", kTwoNis, kTwoPeerNis, true, true, false, used_once, "10.0.0.11@tcp > 10.0.0.2@tcp",
     true},
    {"remote", kTwoNis, kTwoPeerNis, true, false, true, used_once, "10.0.0.1@tcp > 10.0.0.12@tcp",
     true},
    {"network", kTwoNis, kTwoPeerNis, true, true, true, nullptr, "10.0.0.11@tcp > 10.0.0.12@tcp",
     true},
    {"local_though_others_are_ill", kTwoNis, kTwoPeerNis, true, true, false, others_are_ill,
     "10.0.0.11@tcp > 10.0.0.2@tcp", true},
    {"remote_though_others_are_ill", kTwoNis, kTwoPeerNis, true, false, true, others_are_ill,
     "10.0.0.1@tcp > 10.0.0.12@tcp", true},
    {"local_keeps_only_the_healthiest", kTwoNis, kTwoPeerNis, true, true, false, kept_are_ill,
     "10.0.0.11@tcp > 10.0.0.12@tcp", true},
    {"remote_keeps_only_the_healthiest", kTwoNis, kTwoPeerNis, true, false, true, kept_are_ill,
     "10.0.0.11@tcp > 10.0.0.12@tcp", true},
    {"local_other_is_fatal", kTwoNis, kTwoPeerNis, true, true, false, other_ni_is_fatal,
     "10.0.0.1@tcp > 10.0.0.2@tcp", false},
    {"network_other_ni_is_fatal", kTwoNis, kTwoPeerNis, true, true, true, other_ni_is_fatal,
     "10.0.0.1@tcp > 10.0.0.12@tcp", true},
    {"local_two_nets", kTwoNets, kTwoPeerNets, true, true, false, nullptr,
     "10.1.0.1@tcp1 > 10.1.0.2@tcp1", true},
    {"remote_two_nets", kTwoNets, kTwoPeerNets, true, false, true, nullptr,
     "10.1.0.1@tcp1 > 10.1.0.2@tcp1", true},
    {"network_two_nets", kTwoNets, kTwoPeerNets, true, true, true, nullptr,
     "10.1.0.1@tcp1 > 10.1.0.2@tcp1", true},
    {"network_two_nets_other_is_fatal", kTwoNets, kTwoPeerNets, true, true, true,
     other_net_is_fatal, "10.0.0.1@tcp > 10.0.0.2@tcp", false},
    // Blame local, and another NI on the same net: the peer NI is kept, though the
    // other net has not had its turn.
    {"local_keeps_the_peer_ni_on_its_net",
     {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1"},
     kTwoPeerNets,
     true,
     true,
     false,
     used_once,
     "10.0.0.11@tcp > 10.0.0.2@tcp",
     true},
    {"remote_keeps_the_ni_on_its_net",
     kTwoNets,
     {"10.0.0.2@tcp", "10.0.0.12@tcp", "10.1.0.2@tcp1"},
     true,
     false,
     true,
     used_once,
     "10.0.0.1@tcp > 10.0.0.12@tcp",
     true},
    {"network_shares_neither",
     {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1"},
     kTwoPeerNets,
     true,
     true,
     true,
     nullptr,
     "10.1.0.1@tcp1 > 10.1.0.2@tcp1",
     true},
    {"remote_other_family",
     {"10.0.0.1@tcp", "fd00::1@tcp"},
     {"10.0.0.2@tcp", "fd00::2@tcp"},
     true,
     false,
     true,
     nullptr,
     "fd00::1@tcp > fd00::2@tcp",
     true},
    {"only_path",
     {"10.0.0.1@tcp"},
     {"10.0.0.2@tcp"},
     true,
     true,
     true,
     nullptr,
     "10.0.0.1@tcp > 10.0.0.2@tcp",
     false},
    {"given_source", kTwoNis, kTwoPeerNis, true, true, true, given_first,
     "10.0.0.1@tcp > 10.0.0.2@tcp", false},
    {"response", kTwoNis, kTwoPeerNis, true, true, true, as_response, "10.0.0.1@tcp > 10.0.0.2@tcp",
     false},
    {"single_rail_remote", kTwoNis, kTwoPeerNis, false, false, true, used_once,
     "10.0.0.1@tcp > 10.0.0.2@tcp", false},
    {"single_rail_local", kTwoNis, kTwoPeerNis, false, true, false, used_once,
     "10.0.0.1@tcp > 10.0.0.2@tcp", false}};

INSTANTIATE_TEST_SUITE_P(Rows, ResendTest, testing::ValuesIn(kResendRows),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ulnet
