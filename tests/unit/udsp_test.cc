// Selection policies: descriptors, the list and its refusals, what it does to the choice of a path.
// Source: spec lnet-core 10.2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "lnet/core/udsp.h"
#include "tests/support/core_world.h"

namespace ulnet {
namespace {

using core::UdspDescriptor;
using core::UdspList;
using test::CoreWorld;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// ---------------------------------------------------------------- descriptors

struct DescriptorRow {
  const char* text;
  const char* canonical;
  bool is_net;
  std::vector<const char*> matching;
  std::vector<const char*> others;
};

class DescriptorTest : public testing::TestWithParam<DescriptorRow> {};

TEST_P(DescriptorTest, MatchesWhatItSays) {
  const DescriptorRow& row = GetParam();
  const auto descriptor = UdspDescriptor::parse(row.text);
  ASSERT_TRUE(descriptor.has_value()) << descriptor.error().to_string();
  EXPECT_EQ(descriptor->is_net(), row.is_net);
  EXPECT_EQ(descriptor->to_string(), row.canonical);
  EXPECT_EQ(UdspDescriptor::parse(row.canonical).value(), *descriptor);
  for (const char* nid : row.matching) EXPECT_TRUE(descriptor->matches(test::nid(nid))) << nid;
  for (const char* nid : row.others) EXPECT_FALSE(descriptor->matches(test::nid(nid))) << nid;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, DescriptorTest,
    testing::Values(
        DescriptorRow{"tcp",
                      "tcp",
                      true,
                      {"10.0.0.1@tcp", "fd00::1@tcp"},
                      {"10.0.0.1@tcp1", "10.0.0.1@o2ib"}},
        DescriptorRow{"tcp0", "tcp", true, {"10.0.0.1@tcp"}, {"10.0.0.1@tcp1"}},
        DescriptorRow{"tcp1", "tcp1", true, {"10.0.0.1@tcp1"}, {"10.0.0.1@tcp", "10.0.0.1@tcp11"}},
        DescriptorRow{
            "o2ib*", "o2ib*", true, {"10.0.0.1@o2ib", "10.0.0.1@o2ib65535"}, {"10.0.0.1@tcp"}},
        DescriptorRow{"tcp[1-3,7]",
                      "tcp[1-3,7]",
                      true,
                      {"10.0.0.1@tcp2", "10.0.0.1@tcp7"},
                      {"10.0.0.1@tcp", "10.0.0.1@tcp4"}},
        DescriptorRow{
            "tcp[0-8/4]", "tcp[0-8/4]", true, {"10.0.0.1@tcp", "10.0.0.1@tcp4"}, {"10.0.0.1@tcp2"}},
        DescriptorRow{"10.1.0.[2-9]@tcp",
                      "10.1.0.[2-9]@tcp",
                      false,
                      {"10.1.0.2@tcp"},
                      {"10.1.0.1@tcp", "10.1.0.2@tcp1"}},
        DescriptorRow{"10.*.0.2@tcp[1-2]",
                      "10.*.0.2@tcp[1-2]",
                      false,
                      {"10.1.0.2@tcp1", "10.9.0.2@tcp2"},
                      {"10.1.0.2@tcp", "10.1.1.2@tcp1"}},
        // Octets are not compared with the beginning of an IPv6 address, as a kernel does.
        DescriptorRow{"*.*.*.*@tcp", "*.*.*.*@tcp", false, {"10.0.0.1@tcp"}, {"fd00::1@tcp"}},
        DescriptorRow{
            "*@tcp*", "*@tcp*", false, {"10.0.0.1@tcp", "fd00::1@tcp9"}, {"10.0.0.1@o2ib"}},
        DescriptorRow{"[1-100/3]@kfi2", "[1-100/3]@kfi2", false, {"4@kfi2"}, {"5@kfi2", "4@kfi"}}),
    [](const auto& test) { return "Row" + std::to_string(test.index); });

TEST(Descriptor, WhatIsWrongIsNamed) {
  const auto reason = [](const char* text) {
    const auto descriptor = UdspDescriptor::parse(text);
    EXPECT_FALSE(descriptor.has_value()) << text;
    if (descriptor) return std::string();
    EXPECT_EQ(descriptor.error().code(), EINVAL);
    return descriptor.error().text();
  };
  EXPECT_THAT(reason("tpc1"), HasSubstr("'tpc1' is not a net"));
  EXPECT_THAT(reason("10.0.0.1@"), HasSubstr("'' is not a net"));
  EXPECT_THAT(reason("10.0.0@tcp"), HasSubstr("does not have four parts"));
  EXPECT_THAT(reason("10.0.0.256@tcp"), HasSubstr("'256' is not within 0 to 255"));
  EXPECT_THAT(reason("tcp65536"), HasSubstr("column 4: '65536' is not within 0 to 65535"));
  EXPECT_THAT(reason("10.0.0.1@tcp[3-1]"), HasSubstr("column 14: '3-1' is a reversed range"));
  EXPECT_THAT(reason("tcp[1-3/0]"), HasSubstr("'0' is not within"));
  EXPECT_THAT(reason("10.0.0.0/8@tcp"), HasSubstr("neither masks nor IPv6 addresses"));
  EXPECT_THAT(reason("fd00::1@tcp"), HasSubstr("neither masks nor IPv6 addresses"));
  EXPECT_THAT(reason("10.0.0.1@tcp 10.0.0.2@tcp"), HasSubstr("is not a number"));
  EXPECT_THAT(reason("lo1"), HasSubstr("takes no number"));
}

// ---------------------------------------------------------------- the list

std::string shown(const UdspList& list) {
  std::string text;
  for (const Udsp& udsp : list.list()) {
    text += udsp.src + ">" + udsp.dst + ">" + udsp.rte;
    if (udsp.priority) text += "=" + std::to_string(*udsp.priority);
    text += ' ';
  }
  return text;
}

TEST(List, KeepsItsOrder) {
  UdspList list;
  EXPECT_TRUE(list.add({.src = "tcp1"}, std::nullopt).is_ok());
  EXPECT_TRUE(list.add({.dst = "10.0.0.2@tcp", .priority = 5}, std::nullopt).is_ok());
  EXPECT_TRUE(list.add({.src = "tcp2", .priority = 1}, 1).is_ok());
  EXPECT_TRUE(list.add({.src = "10.0.0.1@tcp", .dst = "*@tcp"}, 0).is_ok());
  EXPECT_TRUE(list.add({.dst = "*@tcp", .rte = "10.0.0.9@tcp"}, 99).is_ok());
  EXPECT_EQ(shown(list),
            "10.0.0.1@tcp>*@tcp> tcp1>>=0 tcp2>>=1 >10.0.0.2@tcp>=5 >*@tcp>10.0.0.9@tcp ");
  EXPECT_TRUE(list.del(1).is_ok());
  EXPECT_EQ(shown(list), "10.0.0.1@tcp>*@tcp> tcp2>>=1 >10.0.0.2@tcp>=5 >*@tcp>10.0.0.9@tcp ");
  const Status unknown = list.del(4);
  EXPECT_EQ(unknown.code(), ENOENT);
  EXPECT_THAT(unknown.text(), HasSubstr("index 4"));
  list.clear();
  EXPECT_TRUE(list.empty());
}

TEST(List, TheSameDescriptorsAgainUpdateThePriorityOrAreRefused) {
  UdspList list;
  EXPECT_TRUE(list.add({.src = "tcp1", .priority = 2}, std::nullopt).is_ok());
  EXPECT_TRUE(list.add({.src = "tcp2", .priority = 2}, std::nullopt).is_ok());
  EXPECT_TRUE(list.add({.src = "tcp[1]", .priority = 7}, 1).is_ok());  // is tcp1
  EXPECT_EQ(shown(list), "tcp1>>=7 tcp2>>=2 ");
  EXPECT_EQ(list.add({.src = "tcp1", .priority = 7}, std::nullopt).code(), EALREADY);
  EXPECT_TRUE(list.add({.dst = "tcp1", .priority = 7}, std::nullopt).is_ok());  // another end
  EXPECT_TRUE(list.add({.src = "tcp1", .dst = "tcp1"}, std::nullopt).is_ok());
  const Status again = list.add({.src = "tcp1", .dst = "tcp1"}, 0);
  EXPECT_EQ(again.code(), EALREADY);
  EXPECT_THAT(again.text(), HasSubstr("index 3"));
  EXPECT_EQ(shown(list), "tcp1>>=7 tcp2>>=2 >tcp1>=7 tcp1>tcp1> ");
}

TEST(List, RefusesWhatMeansNothing) {
  UdspList list;
  const auto refused = [&list](const Udsp& udsp) {
    const Status status = list.add(udsp, std::nullopt);
    EXPECT_EQ(status.code(), EINVAL);
    return status.text();
  };
  EXPECT_THAT(refused({}), HasSubstr("neither src nor dst"));
  EXPECT_THAT(refused({.rte = "10.0.0.9@tcp"}), HasSubstr("rte needs a dst"));
  EXPECT_THAT(refused({.src = "tcp", .rte = "tcp"}), HasSubstr("src and rte"));
  EXPECT_THAT(refused({.src = "tcp", .dst = "tcp", .rte = "tcp"}), HasSubstr("src and rte"));
  EXPECT_THAT(refused({.src = "tcp", .dst = "tcp", .priority = 3}), HasSubstr("priority 3"));
  EXPECT_THAT(refused({.dst = "tcp", .rte = "tcp", .priority = 0}), HasSubstr("priority 0"));
  EXPECT_THAT(refused({.src = "10.0.0@tcp"}), HasSubstr("src '10.0.0@tcp': "));
  EXPECT_THAT(refused({.dst = "tpc"}), HasSubstr("dst 'tpc': "));
  EXPECT_THAT(refused({.dst = "tcp", .rte = "x"}), HasSubstr("rte 'x': "));
  EXPECT_TRUE(list.empty());
}

TEST(List, IsBounded) {
  UdspList list;
  for (size_t i = 0; i < core::kUdspsMax; ++i)
    ASSERT_TRUE(list.add({.src = "tcp" + std::to_string(i)}, std::nullopt).is_ok());
  EXPECT_EQ(list.add({.src = "o2ib"}, std::nullopt).code(), ENOSPC);
}

TEST(List, NamesPreferredRouters) {
  UdspList list;
  ASSERT_TRUE(list.add({.dst = "10.5.0.[1-4]@tcp5", .rte = "10.0.0.9@tcp"}, {}).is_ok());
  EXPECT_TRUE(list.prefers_router(test::nid("10.5.0.2@tcp5"), test::nid("10.0.0.9@tcp")));
  EXPECT_FALSE(list.prefers_router(test::nid("10.5.0.5@tcp5"), test::nid("10.0.0.9@tcp")));
  EXPECT_FALSE(list.prefers_router(test::nid("10.5.0.2@tcp5"), test::nid("10.0.0.8@tcp")));
}

// ---------------------------------------------------------------- what it does

class PolicyTest : public testing::Test {
 protected:
  PolicyTest()
      : node_(world_.add("a", {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1"}, {},
                         without_discovery())),
        core_(*node_.core) {
    add_peer({"10.0.0.2@tcp", "10.0.0.12@tcp", "10.1.0.2@tcp1"});
  }

  // Peers are what a test says.
  static GlobalSettings without_discovery() {
    GlobalSettings global;
    global.discovery = false;
    return global;
  }
  void add_peer(const std::vector<std::string>& nids) {
    PeerSettings peer;
    peer.primary_nid = test::nid(nids.front());
    for (const std::string& nid : nids) peer.nids.push_back(test::nid(nid));
    ASSERT_TRUE(core_.configure_peer(world_.now, peer).is_ok());
  }
  void add(const Udsp& udsp, std::optional<uint32_t> index = std::nullopt) {
    const Status status = core_.add_udsp(udsp, index);
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  }
  // Over which pairs eight messages go, each pair once.
  std::vector<std::string> paths(const std::string& dest = "10.0.0.2@tcp") {
    std::set<std::string> paths;
    for (int i = 0; i < 8; ++i) {
      MdSpec md;
      md.threshold = 1;
      PutArgs put;
      put.md = core_.bind(md).value();
      put.ack = AckRequest::kNoAck;
      put.target = {test::nid(dest), kPidLustre};
      EXPECT_TRUE(core_.put(world_.now, put).is_ok());
      world_.collect();
      const SendAction& send = node_.sends.back();
      paths.insert(send.header.source_nid.to_string() + " > " + send.next_hop.to_string());
      core_.handle_send_done(world_.now, send.id, {});
    }
    return {paths.begin(), paths.end()};
  }
  UdspInfo info_of(std::string_view nid) {
    for (const NetInfo& net : core_.nets()) {
      for (const NiInfo& ni : net.nis)
        if (ni.nid == test::nid(nid)) return ni.udsp;
    }
    for (const PeerInfo& peer : core_.peers()) {
      for (const PeerNiInfo& ni : peer.nis)
        if (ni.nid == test::nid(nid)) return ni.udsp;
    }
    ADD_FAILURE() << nid;
    return {};
  }

  CoreWorld world_;
  CoreWorld::Node& node_;
  core::Core& core_;
};

TEST_F(PolicyTest, ALocalNetIsPreferred) {
  add({.src = "tcp1"});
  EXPECT_THAT(paths(), ElementsAre("10.1.0.1@tcp1 > 10.1.0.2@tcp1"));
  EXPECT_EQ(info_of("10.1.0.1@tcp1").net_priority, 0U);
  EXPECT_EQ(info_of("10.1.0.1@tcp1").nid_priority, std::nullopt);
  EXPECT_EQ(info_of("10.1.0.2@tcp1").net_priority, std::nullopt);
}

TEST_F(PolicyTest, APeerNetIsPreferredToALocalNet) {
  add({.src = "tcp1"});
  add({.dst = "tcp", .priority = 9});
  for (const std::string& path : paths()) EXPECT_THAT(path, HasSubstr("@tcp > "));
  EXPECT_EQ(info_of("10.0.0.12@tcp").net_priority, 9U);
}

TEST_F(PolicyTest, NisAndPeerNisArePreferred) {
  add({.src = "tcp"});
  add({.src = "10.0.0.[10-19]@tcp", .priority = 4});
  EXPECT_THAT(paths(), UnorderedElementsAre("10.0.0.11@tcp > 10.0.0.12@tcp",
                                            "10.0.0.11@tcp > 10.0.0.2@tcp"));
  add({.dst = "10.0.0.12@tcp"});
  EXPECT_THAT(paths(), ElementsAre("10.0.0.11@tcp > 10.0.0.12@tcp"));
  EXPECT_EQ(info_of("10.0.0.11@tcp").nid_priority, 4U);
  EXPECT_EQ(info_of("10.0.0.12@tcp").nid_priority, 0U);
}

TEST_F(PolicyTest, PreferredSourcesChooseThePeerNi) {
  add({.src = "tcp"});
  add({.src = "10.0.0.1@tcp", .dst = "10.0.0.2@tcp"});
  add({.src = "10.0.0.11@tcp", .dst = "10.0.0.12@tcp"});
  EXPECT_THAT(paths(),
              UnorderedElementsAre("10.0.0.1@tcp > 10.0.0.2@tcp", "10.0.0.11@tcp > 10.0.0.12@tcp"));
  EXPECT_THAT(info_of("10.0.0.12@tcp").preferred_sources, ElementsAre(test::nid("10.0.0.11@tcp")));
}

TEST_F(PolicyTest, OfContradictoryPrioritiesTheLowestIndexWins) {
  add({.src = "tcp*", .priority = 5});
  add({.src = "tcp1", .priority = 1});
  EXPECT_EQ(info_of("10.1.0.1@tcp1").net_priority, 5U);
  add({.src = "tcp[0-1]", .priority = 3}, 0);
  EXPECT_EQ(info_of("10.1.0.1@tcp1").net_priority, 3U);
}

TEST_F(PolicyTest, DeletingOneLeavesWhatTheOthersSay) {
  add({.src = "tcp*", .priority = 5});
  add({.src = "tcp1", .priority = 1});
  add({.src = "10.0.0.1@tcp", .dst = "10.0.0.2@tcp"});
  ASSERT_TRUE(core_.del_udsp(0).is_ok());
  EXPECT_EQ(info_of("10.1.0.1@tcp1").net_priority, 1U);
  EXPECT_EQ(info_of("10.0.0.1@tcp").net_priority, std::nullopt);
  EXPECT_EQ(info_of("10.0.0.2@tcp").preferred_sources.size(), 1U);
  core_.del_udsps();
  EXPECT_EQ(info_of("10.1.0.1@tcp1").net_priority, std::nullopt);
  EXPECT_THAT(info_of("10.0.0.2@tcp").preferred_sources, testing::IsEmpty());
  EXPECT_EQ(paths().size(), 3U);
}

TEST_F(PolicyTest, WhatComesLaterIsTold) {
  add({.src = "10.2.0.1@tcp2", .priority = 3});
  add({.src = "tcp2", .priority = 4});
  add({.dst = "tcp2", .priority = 5});
  add({.dst = "10.2.0.3@tcp2", .priority = 6});
  add({.src = "tcp2", .dst = "*@tcp2"});
  add_peer({"10.2.0.2@tcp2", "10.2.0.3@tcp2"});
  EXPECT_EQ(info_of("10.2.0.3@tcp2").net_priority, 5U);
  EXPECT_EQ(info_of("10.2.0.3@tcp2").nid_priority, 6U);
  EXPECT_THAT(info_of("10.2.0.3@tcp2").preferred_sources, testing::IsEmpty());
  NiSettings settings;
  settings.net = {NetType::kTcp, 2};
  ASSERT_TRUE(
      core_.add_ni(world_.now, core_.reserve_ni(), settings, {.nid = test::nid("10.2.0.1@tcp2")})
          .is_ok());
  EXPECT_EQ(info_of("10.2.0.1@tcp2").net_priority, 4U);
  EXPECT_EQ(info_of("10.2.0.1@tcp2").nid_priority, 3U);
  EXPECT_THAT(info_of("10.2.0.3@tcp2").preferred_sources, ElementsAre(test::nid("10.2.0.1@tcp2")));
}

TEST_F(PolicyTest, APreferenceOnlyRanks) {
  add({.src = "10.0.0.11@tcp"});
  add({.src = "tcp"});
  core_.handle_ni_fatal(world_.now, 2, true);
  for (const std::string& path : paths()) EXPECT_THAT(path, HasSubstr("10.0.0.1@tcp > "));
}

}  // namespace
}  // namespace ulnet
