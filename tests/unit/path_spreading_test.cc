// Whom path selection gives the turns to: fair shares among whatever is usable, no arrears, and
// other ways that exist whenever a resend is told of one. Source: spec lnet-core 6.7; decisions D2,
// D6; seed 004; case SEL-1.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "lnet/base/rng.h"
#include "tests/support/rails.h"

namespace ulnet {
namespace {

using core::PathRequest;
using test::Rails;

constexpr int kMessages = 10000;
constexpr int kRailsMax = 8;

// What a rail is, and how one becomes unusable.
enum class Kind { kNi, kFatalNi, kPeerNi, kNet };

class Spread {
 public:
  Spread(Kind kind, int rails, uint32_t unusable)
      : kind_(kind), shares_(static_cast<size_t>(rails)) {
    std::vector<std::string> nids;
    for (int i = 0; i < rails; ++i) {
      const std::string net = kind == Kind::kNet ? fmt::format("tcp{}", i) : "tcp";
      if (kind != Kind::kPeerNi || i == 0) rails_.add_ni(fmt::format("10.0.{}.1@{}", i, net));
      if (kind == Kind::kPeerNi || kind == Kind::kNet || i == 0)
        nids.push_back(fmt::format("10.0.{}.2@{}", i, net));
    }
    rails_.add_peer({nids.begin(), nids.end()});
    request_.dest = Nid::parse(nids.front()).value();
    for (int i = 0; i < rails; ++i) {
      if ((unusable >> i & 1) != 0) make_unusable(i);
    }
  }

  const std::vector<int>& send(int messages) {
    for (int i = 0; i < messages; ++i) {
      const core::Path path = core::select_path(rails_.state(), request_).value();
      const Nid& nid =
          kind_ == Kind::kPeerNi ? path.final_dest : rails_.state().nets.ni(path.ni).nid;
      ++shares_[nid.address[2]];
    }
    return shares_;
  }

 private:
  void make_unusable(int i) {
    const std::string net = kind_ == Kind::kNet ? fmt::format("tcp{}", i) : "tcp";
    switch (kind_) {
      case Kind::kNi:
        rails_.ni(fmt::format("10.0.{}.1@tcp", i)).health = 900;
        break;
      case Kind::kFatalNi:
        rails_.ni(fmt::format("10.0.{}.1@tcp", i)).fatal = true;
        break;
      case Kind::kPeerNi:
      case Kind::kNet:
        rails_.peer_ni(fmt::format("10.0.{}.2@{}", i, net)).health = 900;
        break;
    }
  }

  Kind kind_;
  Rails rails_;
  PathRequest request_;
  std::vector<int> shares_;
};

class SpreadingTest : public testing::TestWithParam<Kind> {};

// With k of n unusable the others share evenly, whichever they are: nobody inherits the turns of
// its neighbours. With all of them unusable, all share.
TEST_P(SpreadingTest, TheUsableShareEvenlyWhateverIsUnusable) {
  for (int rails = 1; rails <= kRailsMax; ++rails) {
    const uint32_t all = (1U << rails) - 1;
    for (uint32_t unusable = 0; unusable <= all; ++unusable) {
      const std::vector<int> shares = Spread(GetParam(), rails, unusable).send(kMessages);
      int least = kMessages;
      int most = 0;
      for (int i = 0; i < rails; ++i) {
        const int share = shares[static_cast<size_t>(i)];
        if (unusable != all && (unusable >> i & 1) != 0) {
          ASSERT_EQ(share, 0) << rails << " rails, unusable " << unusable;
          continue;
        }
        least = std::min(least, share);
        most = std::max(most, share);
      }
      ASSERT_LE(most, 1.05 * least) << rails << " rails, unusable " << unusable;
    }
  }
}

std::string name_of(const testing::TestParamInfo<Kind>& test) {
  constexpr const char* kNames[] = {"Ni", "FatalNi", "PeerNi", "Net"};
  return kNames[static_cast<size_t>(test.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, SpreadingTest,
                         testing::Values(Kind::kNi, Kind::kFatalNi, Kind::kPeerNi, Kind::kNet),
                         name_of);

// SEL-1: local NIs, peer NIs and nets at once.
TEST(Spreading, NisPeerNisAndNetsRotateTogether) {
  Rails rails;
  for (const char* nid : {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1", "10.1.0.11@tcp1"})
    rails.add_ni(nid);
  rails.add_peer({"10.0.0.2@tcp", "10.0.0.12@tcp", "10.0.0.22@tcp", "10.1.0.2@tcp1"});
  rails.add_peer({"10.0.0.3@tcp", "10.1.0.3@tcp1"});
  PathRequest request;
  std::map<std::string, int> shares;
  for (int i = 0; i < 6000; ++i) {
    request.dest = Nid::parse(i % 2 == 0 ? "10.0.0.2@tcp" : "10.1.0.3@tcp1").value();
    const core::Path path = core::select_path(rails.state(), request).value();
    ++shares[rails.state().nets.ni(path.ni).nid.to_string()];
    ++shares[path.final_dest.to_string()];
  }
  for (const char* nid : {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.1.0.1@tcp1", "10.1.0.11@tcp1",
                          "10.1.0.2@tcp1", "10.0.0.3@tcp", "10.1.0.3@tcp1"})
    EXPECT_NEAR(shares[nid], 1500, 75) << nid;
  for (const char* nid : {"10.0.0.2@tcp", "10.0.0.12@tcp", "10.0.0.22@tcp"})
    EXPECT_NEAR(shares[nid], 500, 25) << nid;
}

// SEL-1: what is new, or usable again, gets its share from now on and nothing for the past.
TEST(Spreading, NothingCatchesUp) {
  Rails rails;
  for (const char* nid : {"10.0.0.1@tcp", "10.0.0.11@tcp", "10.0.0.21@tcp"}) rails.add_ni(nid);
  rails.add_peer({"10.0.0.2@tcp", "10.0.0.12@tcp"});
  rails.ni("10.0.0.21@tcp").fatal = true;
  PathRequest request;
  request.dest = Nid::parse("10.0.0.2@tcp").value();
  const auto send = [&](int messages) {
    std::vector<std::pair<NiId, Nid>> paths;
    for (int i = 0; i < messages; ++i) {
      const core::Path path = core::select_path(rails.state(), request).value();
      paths.emplace_back(path.ni, path.final_dest);
    }
    return paths;
  };
  send(1000);
  const NiId back = rails.ni("10.0.0.21@tcp").id;
  rails.ni("10.0.0.21@tcp").fatal = false;
  const NiId added = rails.add_ni("10.0.0.31@tcp").id;
  rails.state().peers.add(rails.peer_ni("10.0.0.2@tcp").peer, Nid::parse("10.0.0.22@tcp").value(),
                          8);
  const auto paths = send(1200);
  for (size_t begin = 0; begin < paths.size(); begin += 12) {
    const auto first = paths.begin() + static_cast<ptrdiff_t>(begin);
    const auto count = [&](auto is) { return std::count_if(first, first + 12, is); };
    for (const NiId ni : {added, back})
      ASSERT_EQ(count([ni](const auto& path) { return path.first == ni; }), 3) << begin;
    ASSERT_EQ(count([](const auto& path) { return path.second.address[3] == 22; }), 4) << begin;
  }
}

// ---------------------------------------------------------------- other ways

// A node and a multi-rail peer on some nets, in both address families, some NIs ill or fatal.
class RandomRails {
 public:
  explicit RandomRails(Rng& rng) : rng_(rng) {
    const uint64_t nets = rng.between(1, 3);
    for (uint64_t net = 0; net < nets; ++net) {
      for (uint64_t i = 0, n = rng.between(0, 3); i < n; ++i) make_ill(rails_.add_ni(nid(net, i)));
    }
    std::vector<std::string> nids;
    for (uint64_t net = 0; net < nets; ++net) {
      for (uint64_t i = 0, n = rng.between(0, 3); i < n; ++i) nids.push_back(nid(net, 100 + i));
    }
    if (nids.empty()) nids.push_back(nid(0, 100));
    rails_.add_peer({nids.begin(), nids.end()});
    for (const std::string& text : nids) make_ill(rails_.peer_ni(text));
    dest_ = Nid::parse(nids[rng.below(nids.size())]).value();
  }

  // Every pair that a message to the peer may take: one net, one family.
  std::vector<std::pair<const core::Ni*, const core::PeerNi*>> pairs() {
    std::vector<std::pair<const core::Ni*, const core::PeerNi*>> pairs;
    core::State& state = rails_.state();
    for (NiId ni = 1; ni < state.nets.ni_count(); ++ni) {
      state.peers.nis().for_each([&](core::PeerNiId, core::PeerNi& peer_ni) {
        const core::Ni& local = state.nets.ni(ni);
        if (local.nid.net() == peer_ni.nid.net() && local.nid.is_ipv6() == peer_ni.nid.is_ipv6())
          pairs.emplace_back(&local, &peer_ni);
      });
    }
    return pairs;
  }

  core::State& state() { return rails_.state(); }
  const Nid& dest() const { return dest_; }

 private:
  std::string nid(uint64_t net, uint64_t i) {
    return rng_.chance(1, 3) ? fmt::format("fd00:{}::{}@tcp{}", net, i + 1, net)
                             : fmt::format("10.0.{}.{}@tcp{}", net, i + 1, net);
  }
  void make_ill(core::Ni& ni) {
    ni.fatal = rng_.chance(1, 4);
    ni.health = static_cast<int32_t>(rng_.below(3)) * 500;
  }
  void make_ill(core::PeerNi& ni) { ni.health = static_cast<int32_t>(rng_.below(3)) * 500; }

  Rng& rng_;
  Rails rails_;
  Nid dest_;
};

TEST(OtherWays, OneIsToldOfExactlyWhenItExistsAndThenTaken) {
  Rng rng(1);
  int told = 0;
  int not_told = 0;
  for (int round = 0; round < 20000; ++round) {
    RandomRails rails(rng);
    const auto pairs = rails.pairs();
    if (pairs.empty()) continue;
    const auto& failed = pairs[rng.below(pairs.size())];
    PathRequest request;
    request.dest = rails.dest();
    const uint64_t blame = rng.below(3);  // local, remote, both
    (blame != 1 ? request.avoid_ni : request.keep_ni) = failed.first;
    (blame != 0 ? request.avoid_peer_ni : request.keep_peer_ni) = failed.second;
    const auto avoids = [&](const core::Ni* ni, const core::PeerNi* peer_ni) {
      return (request.avoid_ni != nullptr && ni != request.avoid_ni) ||
             (request.avoid_peer_ni != nullptr && peer_ni != request.avoid_peer_ni);
    };
    const bool exists = std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return !pair.first->fatal && avoids(pair.first, pair.second);
    });
    ASSERT_EQ(core::has_other_way(rails.state(), request), exists) << "round " << round;
    const core::Path path = core::select_path(rails.state(), request).value();
    const core::Ni& ni = rails.state().nets.ni(path.ni);
    const core::PeerNi& peer_ni = rails.state().peers.ni(path.next_hop);
    ASSERT_TRUE(!exists || (!ni.fatal && avoids(&ni, &peer_ni))) << "round " << round;
    ++(exists ? told : not_told);
  }
  EXPECT_GT(told, 1000);
  EXPECT_GT(not_told, 1000);
}

}  // namespace
}  // namespace ulnet
