#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "lnet/wire/nid.h"

namespace ulnet {
namespace {

NidList list(std::string_view text) {
  auto parsed = NidList::parse(text);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return parsed.value_or(NidList());
}

bool matches(std::string_view text, std::string_view nid) {
  return list(text).matches(*Nid::parse(nid));
}

// ---------------------------------------------------------------- matching

TEST(NidListMatch, ExamplesOfTheSpecification) {
  EXPECT_TRUE(matches("10.0.[1-4].*@tcp", "10.0.1.0@tcp"));
  EXPECT_TRUE(matches("10.0.[1-4].*@tcp", "10.0.4.255@tcp"));
  EXPECT_FALSE(matches("10.0.[1-4].*@tcp", "10.0.0.255@tcp"));
  EXPECT_FALSE(matches("10.0.[1-4].*@tcp", "10.0.5.0@tcp"));
  EXPECT_FALSE(matches("10.0.[1-4].*@tcp", "10.0.1.0@tcp1"));
  EXPECT_FALSE(matches("10.0.[1-4].*@tcp", "10.0.1.0@o2ib"));
  for (uint32_t number = 0; number <= 110; ++number) {
    const bool expected = number >= 1 && number <= 100 && number % 3 == 1;
    EXPECT_EQ(matches("[1-100/3]@kfi2", std::to_string(number) + "@kfi2"), expected) << number;
  }
}

TEST(NidListMatch, SeveralRangesAndItems) {
  const std::string text = "  1.2.3.[4,6-8]@tcp   10.*.*.[0-255/16]@tcp1 7@gni ";
  EXPECT_TRUE(matches(text, "1.2.3.4@tcp"));
  EXPECT_FALSE(matches(text, "1.2.3.5@tcp"));
  EXPECT_TRUE(matches(text, "1.2.3.8@tcp"));
  EXPECT_TRUE(matches(text, "10.9.8.240@tcp1"));
  EXPECT_FALSE(matches(text, "10.9.8.241@tcp1"));
  EXPECT_TRUE(matches(text, "7@gni"));
  EXPECT_FALSE(matches(text, "8@gni"));
}

TEST(NidListMatch, AllOfANetIncludesItsIpv6Addresses) {
  EXPECT_TRUE(matches("*@tcp", "1.2.3.4@tcp"));
  EXPECT_TRUE(matches("*@tcp", "fd77::1@tcp"));
  EXPECT_FALSE(matches("*@tcp", "fd77::1@tcp1"));
  EXPECT_TRUE(matches("*@kfi", "4294967295@kfi"));
}

TEST(NidListMatch, OctetsMatchFourByteAddressesOnly) {
  EXPECT_TRUE(matches("*.*.*.*@tcp", "1.2.3.4@tcp"));
  EXPECT_FALSE(matches("*.*.*.*@tcp", "102:304::@tcp"));
}

TEST(NidListMatch, Masks) {
  EXPECT_TRUE(matches("192.168.0.0/16@tcp", "192.168.255.1@tcp"));
  EXPECT_FALSE(matches("192.168.0.0/16@tcp", "192.169.0.0@tcp"));
  EXPECT_TRUE(matches("192.168.77.1/17@tcp", "192.168.127.9@tcp")) << "host bits do not count";
  EXPECT_FALSE(matches("192.168.77.1/17@tcp", "192.168.128.9@tcp"));
  EXPECT_TRUE(matches("2001:db8::/32@o2ib", "2001:db8:ffff::1@o2ib"));
  EXPECT_FALSE(matches("2001:db8::/32@o2ib", "2001:db9::1@o2ib"));
  EXPECT_TRUE(matches("2001:db8::1@tcp", "2001:db8::1@tcp")) << "an address is its own /128";
  EXPECT_FALSE(matches("2001:db8::1@tcp", "2001:db8::2@tcp"));
  EXPECT_TRUE(matches("10.0.0.1/32@tcp", "10.0.0.1@tcp"));
  EXPECT_FALSE(matches("10.0.0.1/32@tcp", "10.0.0.0@tcp"));
}

TEST(NidListMatch, MasksDoNotCrossFamilies) {
  EXPECT_FALSE(matches("32.0.0.0/8@tcp", "2001:db8::1@tcp"));
  EXPECT_FALSE(matches("2001:db8::/16@tcp", "32.1.0.0@tcp"));
}

TEST(NidListMatch, WildcardNidMatchesNothing) {
  EXPECT_FALSE(list("*@tcp").matches(Nid::any()));
}

// ---------------------------------------------------------------- text

struct TextCase {
  const char* text;
  const char* canonical;
};

class NidListText : public testing::TestWithParam<TextCase> {};

TEST_P(NidListText, PrintsCanonicallyAndParsesToTheSame) {
  const NidList parsed = list(GetParam().text);
  EXPECT_EQ(parsed.to_string(), GetParam().canonical);
  EXPECT_EQ(list(parsed.to_string()), parsed);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NidListText,
    testing::Values(
        TextCase{"1.2.3.4@tcp", "1.2.3.4@tcp"}, TextCase{"1.2.3.[4]@tcp0", "1.2.3.4@tcp"},
        TextCase{"1.2.3.[4-5/1]@tcp", "1.2.3.[4-5]@tcp"},
        TextCase{"[1,2-4,*].*.[0-255].[7-7/9]@o2ib9", "[1,2-4,*].*.*.7@o2ib9"},
        TextCase{"[ 1 , 2 - 8 / 2 ]@kfi", "[1,2-8/2]@kfi"},
        TextCase{"0x10.010.0.0@tcp0x10", "16.8.0.0@tcp16"}, TextCase{"*@tcp010", "*@tcp8"},
        TextCase{"[0-4294967295]@gni", "*@gni"}, TextCase{"[*]@gni", "*@gni"},
        TextCase{"*.*.*.*@tcp", "*.*.*.*@tcp"}, TextCase{"10.1.2.3/8@tcp", "10.0.0.0/8@tcp"},
        TextCase{"10.1.2.3/32@tcp", "10.1.2.3@tcp"}, TextCase{"FD77::1/128@tcp", "fd77::1@tcp"},
        TextCase{"fd77::1/64@o2ib", "fd77::/64@o2ib"},
        TextCase{"1.2.3.4@tcp\t \t5@gni  *@lo", "1.2.3.4@tcp 5@gni *@lo"},
        TextCase{"1.2.3.4@efa 1.2.3.4@gip", "1.2.3.4@efa 1.2.3.4@gip"}));

struct BadCase {
  const char* text;
  const char* place;  // part of the message: column and token
};

class BadNidList : public testing::TestWithParam<BadCase> {};

TEST_P(BadNidList, IsRefusedAtItsColumn) {
  const auto parsed = NidList::parse(GetParam().text);
  ASSERT_FALSE(parsed) << parsed->to_string();
  EXPECT_EQ(parsed.error().code(), EINVAL);
  EXPECT_NE(parsed.error().text().find(GetParam().place), std::string::npos)
      << parsed.error().text();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadNidList,
    testing::Values(
        BadCase{"", "empty"}, BadCase{"   ", "empty"}, BadCase{"1.2.3.4", "column 1: '1.2.3.4'"},
        BadCase{"1.2.3.4@tpc", "column 9: 'tpc'"},
        BadCase{"5@gni 1.2.3.4@tcp65536", "column 18: '65536'"},
        BadCase{"*@tcp1x", "column 6: '1x'"}, BadCase{"*@lo1", "column 3: 'lo1'"},
        BadCase{"1.2.3.256@tcp", "column 7: '256'"}, BadCase{"1.2.3.-1@tcp", "column 7: '-1'"},
        BadCase{"1.2.3.[9-4]@tcp", "column 8: '9-4'"},
        BadCase{"1.2.3.[1-9/0]@tcp", "column 12: '0'"}, BadCase{"1.2.3@tcp", "column 1: '1.2.3'"},
        BadCase{"1.2.3.4.5@tcp", "column 1: '1.2.3.4.5'"},
        BadCase{"1.2.3.4-5@tcp", "column 7: '4-5'"}, BadCase{"1.2.3.[4@tcp", "column 7: '[4'"},
        BadCase{"1.2.3.4]@tcp", "column 7: '4]'"}, BadCase{"1.2.3.[4]5@tcp", "column 7: '[4]5'"},
        BadCase{"1.2.3.[]@tcp", "column 8: ''"}, BadCase{"1.2.3.[1,]@tcp", "column 10: ''"},
        BadCase{"1.2.3.[1/2]@tcp", "column 8: '1/2'"}, BadCase{"1.2..4@tcp", "column 5: ''"},
        BadCase{"08.2.3.4@tcp", "column 1: '08'"}, BadCase{"0x.2.3.4@tcp", "column 1: '0x'"},
        BadCase{"4294967296@gni", "column 1: '4294967296'"},
        BadCase{"1.2.3.4@gni", "column 1: '1.2.3.4'"},
        BadCase{"99999999999999999999999@gni", "column 1: '9999"}, BadCase{"@tcp", "column 1: ''"},
        BadCase{"10.0.0.0/0@tcp", "column 10: '0'"}, BadCase{"10.0.0.0/33@tcp", "column 10: '33'"},
        BadCase{"10.0.0.0/@tcp", "column 10: ''"}, BadCase{"10.0.0/8@tcp", "column 1: '10.0.0'"},
        BadCase{"fd77::/129@tcp", "column 8: '129'"}, BadCase{"fd77::/0@tcp", "column 8: '0'"},
        BadCase{"fd77:::1@tcp", "column 1: 'fd77:::1'"},
        BadCase{"10.0.0.0/8/8@tcp", "column 10: '8/8'"},
        BadCase{"fd77::/64@kfi", "column 1: 'fd77::/64@kfi'"},
        BadCase{"1.2.3.4/8@efa", "column 1: '1.2.3.4/8@efa'"},
        BadCase{"1.2.3.4@tcp@tcp", "column 12: '@tcp'"}));

TEST(NidListText, TerminatorInsideAMaskIsRefused) {
  EXPECT_FALSE(NidList::parse(std::string_view("10.0.0.0\0/8@tcp", 15)));
}

// ---------------------------------------------------------------- expansion

std::vector<std::string> expanded(std::string_view text, size_t limit) {
  const auto nids = list(text).expand(limit);
  EXPECT_TRUE(nids) << nids.error().to_string();
  std::vector<std::string> texts;
  if (nids) {
    for (const Nid& nid : *nids) texts.push_back(nid.to_string());
  }
  return texts;
}

TEST(NidListExpand, InTheOrderWrittenEachOnce) {
  EXPECT_EQ(expanded("10.0.[2,1].[7-9/2]@tcp 10.0.1.9@tcp 3@gni fd77::1@tcp", 6),
            (std::vector<std::string>{"10.0.2.7@tcp", "10.0.2.9@tcp", "10.0.1.7@tcp",
                                      "10.0.1.9@tcp", "3@gni", "fd77::1@tcp"}));
  EXPECT_EQ(expanded("[4,1-4/3]@kfi", 2), (std::vector<std::string>{"4@kfi", "1@kfi"}));
}

TEST(NidListExpand, LimitIsExact) {
  EXPECT_EQ(expanded("10.0.0.*@tcp", 256).size(), 256u);
  EXPECT_EQ(list("10.0.0.*@tcp").expand(255).error().code(), E2BIG);
  EXPECT_EQ(list("1@gni 2@gni 3@gni").expand(2).error().code(), E2BIG);
  EXPECT_EQ(list("1@gni").expand(0).error().code(), E2BIG);
}

TEST(NidListExpand, HugeListsFailAtOnce) {
  EXPECT_EQ(list("*.*.*.*@tcp").expand(1000).error().code(), E2BIG);
  EXPECT_EQ(list("[1-4294967295]@gni").expand(1000).error().code(), E2BIG);
}

TEST(NidListExpand, OpenEndedRangesCannotBeListed) {
  EXPECT_EQ(list("*@tcp").expand(1000).error().code(), EINVAL);
  EXPECT_EQ(list("10.0.0.0/30@tcp").expand(1000).error().code(), EINVAL);
  EXPECT_EQ(list("fd77::/127@tcp").expand(1000).error().code(), EINVAL);
}

// ---------------------------------------------------------------- number sets

TEST(NumberSet, ParsesAndPrintsWithinBounds) {
  const auto set = parse_number_set("[10-20/5,30]", 10, 30);
  ASSERT_TRUE(set);
  EXPECT_EQ(*set, (NumberSet{{10, 20, 5}, {30, 30, 1}}));
  EXPECT_EQ(to_string(*set, 10, 30), "[10-20/5,30]");
  EXPECT_EQ(to_string(*parse_number_set("*", 10, 30), 10, 30), "*");
  EXPECT_EQ(to_string(*parse_number_set("[10-30]", 10, 30), 10, 30), "*");
}

TEST(NumberSet, MessagesCountColumnsFromTheCallers) {
  const auto set = parse_number_set("[10,31]", 10, 30, 5);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().text(), "column 9: '31' is not within 10 to 30");
  EXPECT_FALSE(parse_number_set("9", 10, 30));
}

TEST(NumberSet, StrideBeyondTheEndMatchesTheFirstOnly) {
  const NumberRange range{4294967290, 4294967295, 4294967295};
  EXPECT_TRUE(range.contains(4294967290));
  EXPECT_FALSE(range.contains(4294967295));
  EXPECT_FALSE(range.contains(4294967289));
}

}  // namespace
}  // namespace ulnet
