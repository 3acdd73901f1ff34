#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <unordered_set>

#include "lnet/wire/nid.h"
#include "ulnet/types.h"

namespace ulnet {
namespace {

struct NetCase {
  const char* text;
  NetType type;
  uint16_t number;
  uint32_t value;
};

class NetText : public testing::TestWithParam<NetCase> {};

TEST_P(NetText, ParsesAndPrints) {
  const NetCase& c = GetParam();
  const auto net = NetId::parse(c.text);
  ASSERT_TRUE(net) << net.error().to_string();
  EXPECT_EQ(net->type, c.type);
  EXPECT_EQ(net->number, c.number);
  EXPECT_EQ(net->to_u32(), c.value);
  EXPECT_EQ(NetId::from_u32(c.value), *net);
  EXPECT_EQ(net->to_string(), c.text);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, NetText,
                         testing::Values(NetCase{"lo", NetType::kLo, 0, 0x00090000},
                                         NetCase{"tcp", NetType::kTcp, 0, 0x00020000},
                                         NetCase{"tcp7", NetType::kTcp, 7, 0x00020007},
                                         NetCase{"o2ib65535", NetType::kO2ib, 65535, 0x0005FFFF},
                                         NetCase{"gni1", NetType::kGni, 1, 0x000D0001},
                                         NetCase{"gip", NetType::kGip, 0, 0x000E0000},
                                         NetCase{"ptlf", NetType::kPtlf, 0, 0x000F0000},
                                         NetCase{"kfi2", NetType::kKfi, 2, 0x00100002},
                                         NetCase{"efa", NetType::kEfa, 0, 0x00120000},
                                         NetCase{"bxi3f3", NetType::kBxi3f, 3, 0x00130003}));

TEST(Net, TcpAndTcp0AreTheSameNet) {
  EXPECT_EQ(*NetId::parse("tcp0"), *NetId::parse("tcp"));
  EXPECT_EQ(NetId::parse("tcp0")->to_string(), "tcp");
  EXPECT_NE(*NetId::parse("tcp1"), *NetId::parse("tcp"));
}

class BadNet : public testing::TestWithParam<const char*> {};

TEST_P(BadNet, IsRefusedWithTheTextQuoted) {
  const auto net = NetId::parse(GetParam());
  ASSERT_FALSE(net) << net->to_string();
  EXPECT_EQ(net.error().code(), EINVAL);
  EXPECT_NE(net.error().text().find(GetParam()), std::string::npos) << net.error().text();
}

INSTANTIATE_TEST_SUITE_P(Texts, BadNet,
                         testing::Values("", "tc", "foo", "TCP", "tcp65536", "tcp99999999999",
                                         "tcp-1", "tcp+1", "tcp 1", "tcp1 ", "tcp1x", "tcp0x1",
                                         " tcp", "lo1", "lo0", "bxi", "tcp@", "<2:0>"));

TEST(Net, UnknownTypePrintsItsNumbers) {
  EXPECT_EQ(NetId::from_u32(0x0011'0003).to_string(), "<17:3>");
  EXPECT_EQ(NetId::any().to_string(), "<255:65535>");
  EXPECT_EQ(net_type_name(static_cast<NetType>(17)), "?type?");
  EXPECT_EQ(net_type_name(NetType::kBxi3f), "bxi3f");
}

TEST(Net, WildcardIsAllOnes) {
  EXPECT_TRUE(NetId::from_u32(0xFFFFFFFF).is_any());
  EXPECT_FALSE(NetId::parse("tcp")->is_any());
}

TEST(Net, HashesLikeItCompares) {
  std::unordered_set<NetId> nets;
  for (uint32_t number = 0; number <= 65535; ++number)
    nets.insert(NetId::from_u32(0x20000 | number));
  EXPECT_EQ(nets.size(), 65536u);
  EXPECT_TRUE(nets.contains(*NetId::parse("tcp123")));
  EXPECT_FALSE(nets.contains(*NetId::parse("o2ib123")));
}

}  // namespace
}  // namespace ulnet
