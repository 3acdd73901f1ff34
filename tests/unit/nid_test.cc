#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <unordered_set>

#include "lnet/base/bytes.h"
#include "lnet/wire/nid.h"
#include "tests/support/hex.h"

namespace ulnet {
namespace {

using test::hex;

Nid nid(std::string_view text) {
  const auto parsed = Nid::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return parsed.value_or(Nid::any());
}

std::vector<uint8_t> large_bytes(const Nid& value) {
  std::vector<uint8_t> bytes(kLargeNidBytes, 0xEE);
  encode_large_nid(value, std::span(bytes).first<kLargeNidBytes>());
  return bytes;
}

Result<Nid> decode_large(std::string_view text) {
  const auto bytes = hex(text);
  return decode_large_nid(std::span(bytes).first<kLargeNidBytes>());
}

// ---------------------------------------------------------------- text

class NidText : public testing::TestWithParam<const char*> {};

TEST_P(NidText, PrintsAsItWasWritten) {
  EXPECT_EQ(nid(GetParam()).to_string(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Canonical, NidText,
                         testing::Values("10.0.0.1@tcp", "10.0.0.1@tcp7", "0@lo", "27@kfi",
                                         "2001:db8::1@tcp", "fd77::1@o2ib3", "::@tcp",
                                         "1.2.3.4@gip", "4294967295@gni", "5@ptlf1", "6@bxi3f",
                                         "1.2.3.4@efa2", "fe80::1@efa", "255.255.255.255@tcp65535",
                                         "<?>"));

TEST(Nid, WithoutNetIsTcp) {
  EXPECT_EQ(nid("10.0.0.1"), nid("10.0.0.1@tcp"));
  EXPECT_EQ(nid("fd77::1"), nid("fd77::1@tcp"));
}

TEST(Nid, OtherSpellingsOfTheSame) {
  EXPECT_EQ(nid("0x1b@kfi"), nid("27@kfi"));
  EXPECT_EQ(nid("0X1B@kfi"), nid("27@kfi"));
  EXPECT_EQ(nid("2001:0DB8:0:0::1@tcp0"), nid("2001:db8::1@tcp"));
  EXPECT_EQ(nid("anything@lo"), Nid::lo());
}

class BadNid : public testing::TestWithParam<const char*> {};

TEST_P(BadNid, IsRefusedWithTheTextQuoted) {
  const auto parsed = Nid::parse(GetParam());
  ASSERT_FALSE(parsed) << parsed->to_string();
  EXPECT_EQ(parsed.error().code(), EINVAL);
  EXPECT_NE(parsed.error().text().find(GetParam()), std::string::npos) << parsed.error().text();
}

INSTANTIATE_TEST_SUITE_P(Texts, BadNid,
                         testing::Values("", "@tcp", "@", "10.0.0.1@", "10.0.0.1@foo",
                                         "10.0.0.256@tcp", "10.0.0@tcp", "10.0.0.1.2@tcp",
                                         "10.0.0.1x@tcp", "10.0.0.1 @tcp", " 10.0.0.1@tcp",
                                         "10.0.0.1@tcp ", "10.0.0.1@tcp65536", "10.0.0.1@tcp@tcp",
                                         "0@lo1", "host@tcp", "27@tcp", "1.2.3.4@kfi",
                                         "4294967296@kfi", "-1@kfi", "0x@kfi", "0x100000000@kfi",
                                         "1g@gni", "fd77::1@gip", "fd77::1@kfi", "fd77::1::2@tcp",
                                         "[fd77::1]@tcp", "fd77::1%eth0@tcp", "fd77::10000@tcp",
                                         "*", "*@tcp", "<?>@tcp"));

TEST(Nid, TextWithATerminatorInsideIsRefused) {
  EXPECT_FALSE(Nid::parse(std::string_view("10.0.0.1\0@tcp", 13)));
  EXPECT_FALSE(Nid::parse(std::string_view("10.0.0.1@tcp\0", 13)));
}

TEST(Nid, VeryLongTextIsRefused) {
  EXPECT_FALSE(Nid::parse(std::string(100'000, '1') + "@tcp"));
  EXPECT_FALSE(Nid::parse("1.2.3.4@tcp" + std::string(100'000, '1')));
}

TEST(Nid, UnknownTypesPrintInHexadecimal) {
  EXPECT_EQ(Nid::from_nid4(0x0011'0003'0A00'0001).to_string(), "a000001@<17:3>");
  EXPECT_EQ(
      decode_large("0c 11 00 03 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02")->to_string(),
      "20010db8:0:0:2@<17:3>");
}

TEST(Nid, LargeAddressOnANumericNetPrintsAsOfUnknownType) {
  EXPECT_EQ(
      decode_large("0c 10 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 02")->to_string(),
      "1:0:0:2@<16:0>");
}

TEST(Nid, LongestTextFitsTheSpecifiedBuffer) {
  const auto longest = nid("1111:2222:3333:4444:5555:6666:7777:8888@o2ib65535").to_string();
  EXPECT_LT(longest.size(), kNidTextBytesMax);
  const auto unknown = decode_large("0c fe ff ff 11 11 11 11 22 22 22 22 33 33 33 33 44 44 44 44");
  EXPECT_LT(unknown->to_string().size(), kNidTextBytesMax);
}

// ---------------------------------------------------------------- NID4

TEST(Nid, Nid4OfTheSpecification) {
  EXPECT_EQ(nid("10.0.0.1@tcp").to_nid4(), 0x000200000A000001u);
  EXPECT_EQ(Nid::lo().to_nid4(), 0x0009000000000000u);
  EXPECT_EQ(Nid::any().to_nid4(), 0xFFFFFFFFFFFFFFFFu);
  EXPECT_EQ(nid("27@kfi").to_nid4(), 0x001000000000001Bu);
  EXPECT_EQ(nid("1.2.3.4@o2ib258").to_nid4(), 0x0005010201020304u);
  EXPECT_EQ(Nid::from_nid4(0x000200000A000001), nid("10.0.0.1@tcp"));
  EXPECT_TRUE(Nid::from_nid4(~uint64_t{0}).is_any());
  EXPECT_TRUE(Nid::from_nid4(0x0009000000000000).is_lo());
}

// ---------------------------------------------------------------- large form

TEST(LargeNid, BytesOfTheSpecification) {
  EXPECT_EQ(large_bytes(nid("2001:db8::1@tcp")),
            hex("0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01"));
  EXPECT_EQ(large_bytes(nid("10.0.0.1@tcp258")),
            hex("00 02 01 02 0a 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_EQ(large_bytes(Nid::any()), std::vector<uint8_t>(20, 0xFF));
}

TEST(LargeNid, FirstEightBytesOfASmallOneAreItsBigEndianNid4) {
  const Nid value = nid("10.1.2.3@o2ib7");
  EXPECT_EQ(load_be64(large_bytes(value).data()), value.to_nid4());
}

TEST(LargeNid, WildcardIsTheTypeWhateverTheRest) {
  const auto decoded = decode_large("63 ff 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12");
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->is_any());
  EXPECT_EQ(*decoded, Nid::any());
  EXPECT_EQ(std::hash<Nid>()(*decoded), std::hash<Nid>()(Nid::any()));
}

TEST(LargeNid, OtherSizesAreRefused) {
  for (const unsigned size : {1u, 4u, 11u, 13u, 255u}) {
    auto bytes = large_bytes(nid("10.0.0.1@tcp"));
    bytes[0] = static_cast<uint8_t>(size);
    const auto decoded = decode_large_nid(std::span(bytes).first<kLargeNidBytes>());
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().code(), EPROTO);
    EXPECT_NE(decoded.error().text().find(std::to_string(size)), std::string::npos);
  }
}

TEST(LargeNid, DirtyPaddingIsRefused) {
  for (size_t at = 8; at < kLargeNidBytes; ++at) {
    auto bytes = large_bytes(nid("10.0.0.1@tcp"));
    bytes[at] = 1;
    const auto decoded = decode_large_nid(std::span(bytes).first<kLargeNidBytes>());
    ASSERT_FALSE(decoded) << at;
    EXPECT_EQ(decoded.error().code(), EPROTO);
  }
}

// ---------------------------------------------------------------- order, hash

TEST(Nid, OrderIsThatOfTheLargeBytes) {
  const std::vector<Nid> nids = {nid("10.0.0.1@tcp"),   nid("10.0.0.2@tcp"), nid("9.255.0.9@tcp"),
                                 nid("1.1.1.1@tcp256"), nid("0@lo"),         nid("fd77::1@tcp"),
                                 nid("1.0.0.0@o2ib")};
  for (const Nid& a : nids) {
    for (const Nid& b : nids) {
      EXPECT_EQ(a < b, large_bytes(a) < large_bytes(b)) << a.to_string() << " " << b.to_string();
    }
  }
}

TEST(Nid, HashSpreadsNeighbours) {
  // In a table of 2^16 buckets, 2^16 neighbours of a subnet use about 1 - 1/e of them; 60 % is far
  // from a clump.
  std::unordered_set<size_t> low_bits;
  std::unordered_set<size_t> high_bits;
  for (uint32_t host = 0; host < 65536; ++host) {
    const size_t hash = std::hash<Nid>()(Nid::from_ipv4({NetType::kTcp, 0}, 0x0A000000 | host));
    low_bits.insert(hash & 0xFFFF);
    high_bits.insert(hash >> 48);
  }
  EXPECT_GT(low_bits.size(), 65536u * 60 / 100);
  EXPECT_GT(high_bits.size(), 65536u * 60 / 100);
}

TEST(Nid, HashSeesEveryByte) {
  const auto base = large_bytes(nid("fd77::1@tcp"));
  const size_t hash = std::hash<Nid>()(nid("fd77::1@tcp"));
  for (size_t at = 2; at < kLargeNidBytes; ++at) {
    auto bytes = base;
    bytes[at] ^= 0x80;
    const auto other = decode_large_nid(std::span(bytes).first<kLargeNidBytes>());
    ASSERT_TRUE(other);
    EXPECT_NE(std::hash<Nid>()(*other), hash) << at;
  }
}

// ---------------------------------------------------------------- process ids, events

TEST(ProcessId, Text) {
  EXPECT_EQ((ProcessId{nid("10.0.0.1@tcp"), 12345}).to_string(), "12345-10.0.0.1@tcp");
  EXPECT_EQ((ProcessId{nid("10.0.0.1@tcp"), kPidUserFlag | 40000}).to_string(),
            "U40000-10.0.0.1@tcp");
  EXPECT_EQ(ProcessId::any().to_string(), "LNET_PID_ANY-<?>");
}

TEST(EventKind, Text) {
  EXPECT_EQ(to_string(EventKind::kGet), "GET");
  EXPECT_EQ(to_string(EventKind::kPut), "PUT");
  EXPECT_EQ(to_string(EventKind::kReply), "REPLY");
  EXPECT_EQ(to_string(EventKind::kAck), "ACK");
  EXPECT_EQ(to_string(EventKind::kSend), "SEND");
  EXPECT_EQ(to_string(EventKind::kUnlink), "UNLINK");
}

}  // namespace
}  // namespace ulnet
