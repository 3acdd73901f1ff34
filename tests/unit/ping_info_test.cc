#include "lnet/wire/ping_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lnet/base/bytes.h"
#include "tests/support/hex.h"
#include "tests/support/nid.h"

namespace ulnet {
namespace {

using test::hex;

constexpr uint32_t kLimit = 200;
constexpr uint32_t kClient = kPingNiStatus | kPingRoutingDisabled | kPingMultiRail | kPingDiscovery;

using test::nid;

PingInfo info_of(uint32_t features, uint32_t sequence, std::vector<PingNi> nis) {
  return {.features = features, .pid = kPidLustre, .sequence = sequence, .nis = std::move(nis)};
}

PingInfo decoded(std::span<const uint8_t> bytes, uint32_t limit = kLimit) {
  const auto info = decode_ping_info(bytes, limit);
  EXPECT_TRUE(info) << to_string(info.error().error);
  return info.value_or(PingInfo{});
}

PingInfoFailure failure(std::span<const uint8_t> bytes, uint32_t limit = kLimit) {
  const auto info = decode_ping_info(bytes, limit);
  EXPECT_FALSE(info);
  return info ? PingInfoFailure{} : info.error();
}

// ---------------------------------------------------------------- spec lnet-core 13, tcp-lnd 9.5

struct Golden {
  const char* name;
  const char* bytes;
  PingInfo info;
  const char* primary;
};
void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.name;
}

class GoldenPingInfo : public testing::TestWithParam<Golden> {};

TEST_P(GoldenPingInfo, Decodes) {
  const PingInfo info = decoded(hex(GetParam().bytes));
  EXPECT_EQ(info, GetParam().info);
  EXPECT_EQ(info.primary_nid().to_string(), GetParam().primary);
}

TEST_P(GoldenPingInfo, Encodes) {
  EXPECT_EQ(encode_ping_info(GetParam().info), hex(GetParam().bytes));
}

INSTANTIATE_TEST_SUITE_P(
    Spec, GoldenPingInfo,
    testing::Values(
        Golden{"core 13.2 REPLY",
               "67 6e 69 70 1e 00 00 00 39 30 00 00 03 00 00 00"
               "00 00 00 00 00 00 09 00 01 00 00 00 00 00 00 00"
               "02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00"
               "03 00 00 0a 00 00 02 00 ce fa ad de 00 00 00 00",
               info_of(kClient, 1,
                       {{nid("10.0.0.2@tcp"), kNiStatusUp}, {nid("10.0.0.3@tcp"), kNiStatusDown}}),
               "10.0.0.2@tcp"},
        Golden{"core 13.3 PUSH",
               "67 6e 69 70 1e 00 00 00 39 30 00 00 03 00 00 00"
               "00 00 00 00 00 00 09 00 07 00 00 00 00 00 00 00"
               "01 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00"
               "04 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00",
               info_of(kClient, 7,
                       {{nid("10.0.0.1@tcp"), kNiStatusUp}, {nid("10.0.0.4@tcp"), kNiStatusUp}}),
               "10.0.0.1@tcp"},
        Golden{"tcp 9.5 REPLY",
               "67 6e 69 70 1e 00 00 00 39 30 00 00 02 00 00 00"
               "00 00 00 00 00 00 09 00 01 00 00 00 00 00 00 00"
               "02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00",
               info_of(kClient, 1, {{nid("10.0.0.2@tcp"), kNiStatusUp}}), "10.0.0.2@tcp"},
        Golden{"core 13.6 both families",
               "67 6e 69 70 3e 00 00 00 39 30 00 00 02 00 00 00"
               "00 00 00 00 00 00 09 00 01 00 00 00 48 00 00 00"
               "02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00"
               "de c0 aa 15"
               "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02",
               info_of(kClient | kPingLargeAddress, 1,
                       {{nid("10.0.0.2@tcp"), kNiStatusUp}, {nid("2001:db8::2@tcp"), kNiStatusUp}}),
               "10.0.0.2@tcp"},
        Golden{"core 13.6 IPv6 only",
               "67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00"
               "00 00 00 00 00 00 09 00 01 00 00 00 38 00 00 00"
               "de c0 aa 15"
               "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02",
               info_of(kClient | kPingLargeAddress | kPingPrimaryLarge, 1,
                       {{nid("2001:db8::2@tcp"), kNiStatusUp}}),
               "2001:db8::2@tcp"},
        Golden{"IPv6 primary beside IPv4",
               "67 6e 69 70 7e 00 00 00 39 30 00 00 02 00 00 00"
               "00 00 00 00 00 00 09 00 02 00 00 00 60 00 00 00"
               "02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00"
               "de c0 aa 15 0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02"
               "ce fa ad de 0c 02 00 01 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 03",
               info_of(kClient | kPingLargeAddress | kPingPrimaryLarge, 2,
                       {{nid("2001:db8::2@tcp"), kNiStatusUp},
                        {nid("10.0.0.2@tcp"), kNiStatusUp},
                        {nid("2001:db8::3@tcp1"), kNiStatusDown}}),
               "2001:db8::2@tcp"}));

TEST(PingInfoEncode, SetsTheLargeBitsFromTheEntries) {
  PingInfo info = info_of(kClient | kPingLargeAddress | kPingPrimaryLarge, 1,
                          {{nid("10.0.0.2@tcp"), kNiStatusUp}});
  EXPECT_EQ(load_le32(&encode_ping_info(info)[4]), kClient);
  info.features = kClient;
  info.nis.push_back({nid("fd77::2@tcp"), kNiStatusUp});
  EXPECT_EQ(load_le32(&encode_ping_info(info)[4]), kClient | kPingLargeAddress);
  std::swap(info.nis[0], info.nis[1]);
  EXPECT_EQ(load_le32(&encode_ping_info(info)[4]), kClient | kPingLargeAddress | kPingPrimaryLarge);
}

TEST(PingInfoEncode, ANodeWithoutNisListsLoopbackOnly) {
  const auto bytes = encode_ping_info(info_of(kClient, 1, {}));
  EXPECT_EQ(bytes.size(), 32u);
  EXPECT_TRUE(decoded(bytes).primary_nid().is_any());
}

// ---------------------------------------------------------------- byte order (4.4)

// What a big-endian node sends: every integer reversed, large NIDs as they are.
std::vector<uint8_t> flipped(std::vector<uint8_t> bytes, size_t small_entries) {
  const auto reverse = [&bytes](size_t at, size_t count) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
                 bytes.begin() + static_cast<ptrdiff_t>(at + count));
  };
  for (const size_t at : {0, 4, 8, 12}) reverse(at, 4);
  for (size_t i = 0; i < small_entries; ++i) {
    reverse(16 + 16 * i, 8);
    reverse(24 + 16 * i, 4);
  }
  reverse(28, 4);
  for (size_t at = 16 + 16 * small_entries; at < bytes.size(); at += 24) reverse(at, 4);
  return bytes;
}

TEST(PingInfoDecode, BigEndianSender) {
  const PingInfo info =
      info_of(kClient | kPingLargeAddress, 0x01020304,
              {{nid("10.0.0.2@tcp258"), kNiStatusUp}, {nid("fd77::2@tcp"), kNiStatusDown}});
  EXPECT_EQ(decoded(flipped(encode_ping_info(info), 2)), info);
}

// ---------------------------------------------------------------- spec lnet-core 14.3

// Two small entries and one large one behind 0@lo: 16 + 3 * 16 + 24 = 88 bytes.
PingInfo sample() {
  return info_of(kClient | kPingLargeAddress, 3,
                 {{nid("10.0.0.1@tcp"), kNiStatusUp},
                  {nid("10.0.0.2@tcp1"), kNiStatusUp},
                  {nid("fd77::1@tcp"), kNiStatusUp}});
}
constexpr size_t kSizeAt = 28;
constexpr size_t kLargeAt = 64;

std::vector<uint8_t> sample_bytes() {
  return encode_ping_info(sample());
}

std::vector<uint8_t> sample_with(size_t at, uint32_t value) {
  auto bytes = sample_bytes();
  store_le32(&bytes[at], value);
  return bytes;
}

std::vector<std::string> nids_of(const PingInfo& info) {
  std::vector<std::string> texts;
  for (const PingNi& ni : info.nis) texts.push_back(ni.nid.to_string());
  return texts;
}
using Texts = std::vector<std::string>;

TEST(PingInfoCheck, Row1ShorterThan32Bytes) {
  const auto bytes = sample_bytes();
  for (size_t length = 0; length < 32; ++length) {
    EXPECT_EQ(failure(std::span(bytes).first(length)).error, PingInfoError::kShort) << length;
  }
  EXPECT_EQ(failure(std::span(bytes).first(32)).error, PingInfoError::kTruncated);
}

TEST(PingInfoCheck, Row2Magic) {
  for (const uint32_t magic : {0u, 0x70696E66u, 0x69706E67u, 0xFFFFFFFFu}) {
    EXPECT_EQ(failure(sample_with(0, magic)).error, PingInfoError::kBadMagic);
  }
}

TEST(PingInfoCheck, Row3NiStatusIsRequired) {
  EXPECT_EQ(failure(sample_with(4, 0xFFFFFFFF & ~kPingNiStatus)).error, PingInfoError::kNoNiStatus);
}

TEST(PingInfoCheck, Row4Count) {
  EXPECT_EQ(failure(sample_with(12, 0)).error, PingInfoError::kBadCount);
  EXPECT_EQ(failure(sample_with(12, 0xFFFFFFFF)).error, PingInfoError::kBadCount);
}

std::vector<uint8_t> info_with_entries(uint32_t count) {
  PingInfo info = info_of(kClient, 1, {});
  for (uint32_t i = 1; i < count; ++i) {
    info.nis.push_back({Nid::from_ipv4({NetType::kTcp, 0}, i), kNiStatusUp});
  }
  return encode_ping_info(info);
}

TEST(PingInfoCheck, Row4LimitIsAtLeast200) {
  EXPECT_EQ(decoded(info_with_entries(200), 16).nis.size(), 199u);
  EXPECT_EQ(failure(info_with_entries(201), 16).error, PingInfoError::kBadCount);
  EXPECT_EQ(decoded(info_with_entries(4096), 4096).nis.size(), 4095u);
  EXPECT_EQ(failure(info_with_entries(4097), 4096).error, PingInfoError::kBadCount);
}

TEST(PingInfoCheck, Row5FirstEntryIsLoopback) {
  EXPECT_EQ(failure(sample_with(16, 1)).error, PingInfoError::kNoLoopback);
  EXPECT_EQ(failure(sample_with(20, 0x000A0000)).error, PingInfoError::kNoLoopback);
  EXPECT_EQ(failure(sample_with(20, 0x01090000)).error, PingInfoError::kNoLoopback);
}

TEST(PingInfoCheck, Row6MoreEntriesThanBytes) {
  const auto bytes = encode_ping_info(info_of(
      kClient, 1, {{nid("10.0.0.1@tcp"), kNiStatusUp}, {nid("10.0.0.2@tcp"), kNiStatusUp}}));
  ASSERT_EQ(bytes.size(), 64u);
  const auto cut = failure(std::span(bytes).first(63));
  EXPECT_EQ(cut.error, PingInfoError::kTruncated);
  EXPECT_EQ(cut.needed_bytes, 64u);
}

TEST(PingInfoCheck, Row7SizeIsRoundedDown) {
  for (const uint32_t low_bits : {1u, 2u, 3u}) {
    EXPECT_EQ(decoded(sample_with(kSizeAt, 88 + low_bits)), sample());
  }
}

TEST(PingInfoCheck, Row8SizeBelowTheSmallEntries) {
  EXPECT_EQ(failure(sample_with(kSizeAt, 63)).error, PingInfoError::kBadSize);
  EXPECT_EQ(failure(sample_with(kSizeAt, 0)).error, PingInfoError::kBadSize);
  EXPECT_EQ(nids_of(decoded(sample_with(kSizeAt, 64))), (Texts{"10.0.0.1@tcp", "10.0.0.2@tcp1"}));
}

TEST(PingInfoCheck, Row9SizeAboveWhatCame) {
  for (const uint32_t size : {92u, 4096u, 0xFFFFFFFFu}) {
    const auto cut = failure(sample_with(kSizeAt, size));
    EXPECT_EQ(cut.error, PingInfoError::kTruncated);
    EXPECT_EQ(cut.needed_bytes, size & ~3u);
  }
}

TEST(PingInfoCheck, Row9SizeIsIgnoredWithoutLargeAddress) {
  auto bytes = sample_with(kSizeAt, 0xFFFFFFFF);
  store_le32(&bytes[4], kClient);
  EXPECT_EQ(nids_of(decoded(bytes)), (Texts{"10.0.0.1@tcp", "10.0.0.2@tcp1"}));
}

// sample() with another large entry behind, whose nid_size is `size`, and then a good one.
std::vector<uint8_t> with_large_entry(uint8_t size, std::string_view bad_entry) {
  auto bytes = sample_bytes();
  auto entry = hex(bad_entry);
  entry[4] = size;
  bytes.insert(bytes.end(), entry.begin(), entry.end());
  const auto good = hex("de c0 aa 15 0c 02 00 00 fd 77 00 00 00 00 00 00 00 00 00 00 00 00 00 09");
  bytes.insert(bytes.end(), good.begin(), good.end());
  store_le32(&bytes[kSizeAt], static_cast<uint32_t>(bytes.size()));
  return bytes;
}

TEST(PingInfoCheck, Row10LargeEntryWithMoreThan20Bytes) {
  for (const unsigned size : {13u, 16u, 255u}) {
    const auto bytes =
        with_large_entry(static_cast<uint8_t>(size),
                         "de c0 aa 15 00 02 00 00 fd 77 00 00 00 00 00 00 00 00 00 00 00 00 00 08");
    EXPECT_EQ(decoded(bytes), sample()) << size;
  }
}

TEST(PingInfoCheck, Row11LargeEntryOfSize0IsSteppedOverAs16Bytes) {
  const auto bytes = with_large_entry(0, "ce fa ad de 00 02 00 00 0a 00 00 07 00 00 00 00");
  EXPECT_EQ(nids_of(decoded(bytes)),
            (Texts{"10.0.0.1@tcp", "10.0.0.2@tcp1", "fd77::1@tcp", "10.0.0.7@tcp", "fd77::9@tcp"}));
  EXPECT_EQ(decoded(bytes).nis[3].status, kNiStatusDown);
}

TEST(PingInfoCheck, Row11OtherSizesEndTheList) {
  for (const unsigned size : {1u, 4u, 8u, 11u}) {
    const auto bytes = with_large_entry(static_cast<uint8_t>(size),
                                        "de c0 aa 15 00 02 00 00 0a 00 00 07 00 00 00 00");
    EXPECT_EQ(decoded(bytes), sample()) << size;
  }
}

TEST(PingInfoCheck, Row12LargeEntryBeyondTheSizeEndsTheList) {
  for (const uint32_t size : {68u, 80u, 84u}) {
    EXPECT_EQ(nids_of(decoded(sample_with(kSizeAt, size))),
              (Texts{"10.0.0.1@tcp", "10.0.0.2@tcp1"}));
  }
}

TEST(PingInfoCheck, Row13WildcardLoopbackAndDuplicateAreLeftOut) {
  const PingNi one{nid("10.0.0.1@tcp"), kNiStatusUp};
  const PingNi large{nid("fd77::1@tcp"), kNiStatusUp};
  const PingInfo info = info_of(kClient, 1,
                                {one,
                                 {Nid::any(), kNiStatusUp},
                                 {Nid::lo(), kNiStatusUp},
                                 large,
                                 {nid("10.0.0.1@tcp"), kNiStatusDown},
                                 {nid("10.0.0.1@tcp1"), kNiStatusUp},
                                 large});
  const PingInfo got = decoded(encode_ping_info(info));
  EXPECT_EQ(nids_of(got), (Texts{"10.0.0.1@tcp", "10.0.0.1@tcp1", "fd77::1@tcp"}));
  EXPECT_EQ(got.nis[0].status, kNiStatusUp) << "the first one counts";
}

TEST(PingInfoCheck, Row13LargeWildcardIsLeftOut) {
  auto bytes = sample_bytes();
  bytes[kLargeAt + 5] = 0xFF;
  EXPECT_EQ(nids_of(decoded(bytes)), (Texts{"10.0.0.1@tcp", "10.0.0.2@tcp1"}));
}

TEST(PingInfoCheck, SmallEntryThatIsNoNid4IsLeftOut) {
  auto bytes = sample_bytes();
  bytes[32 + 7] = 0x0C;
  EXPECT_EQ(nids_of(decoded(bytes)), (Texts{"10.0.0.2@tcp1", "fd77::1@tcp"}));
}

TEST(PingInfoCheck, Row15OtherStatusValuesAreKept) {
  EXPECT_EQ(decoded(sample_with(40, 0x12345678)).nis[0].status, 0x12345678u);
  EXPECT_EQ(decoded(sample_with(40, 0)).nis[0].status, kNiStatusInvalid);
  EXPECT_EQ(decoded(sample_with(kLargeAt, 0x12345678)).nis[2].status, 0x12345678u);
}

TEST(PingInfoCheck, Row16UnknownFeatureBitsAreIgnored) {
  const PingInfo info = decoded(sample_with(4, 0xFFFFFF00 | kClient | kPingLargeAddress));
  EXPECT_EQ(info.nis, sample().nis);
}

TEST(PingInfoCheck, Row17MetadataIsNeverRead) {
  auto bytes = sample_with(4, kClient | kPingLargeAddress | kPingMetadata);
  bytes.resize(bytes.size() + 4, 0xFF);
  EXPECT_EQ(decoded(bytes).nis, sample().nis);
}

TEST(PingInfoCheck, Row18LoopbackOnlyHasNoPrimary) {
  const PingInfo info = decoded(encode_ping_info(info_of(kClient, 1, {})));
  EXPECT_TRUE(info.nis.empty());
  EXPECT_TRUE(info.primary_nid().is_any());
}

TEST(PingInfoCheck, Row18LargeEntriesWithoutALargePrimaryGiveNone) {
  auto bytes = encode_ping_info(info_of(kClient, 1, {{nid("fd77::1@tcp"), kNiStatusUp}}));
  store_le32(&bytes[4], kClient | kPingLargeAddress);
  EXPECT_TRUE(decoded(bytes).primary_nid().is_any());
}

TEST(PingInfoCheck, Row19PrimaryLargeWithoutLargeAddress) {
  EXPECT_EQ(decoded(sample_with(4, kClient | kPingPrimaryLarge)).primary_nid(),
            nid("10.0.0.1@tcp"));
}

TEST(PingInfoCheck, Row19PrimaryLargeWithoutALargeEntry) {
  auto bytes = sample_with(4, kClient | kPingLargeAddress | kPingPrimaryLarge);
  store_le32(&bytes[kSizeAt], 64);
  EXPECT_EQ(decoded(bytes).primary_nid(), nid("10.0.0.1@tcp"));
}

TEST(PingInfoCheck, Row20SurplusIsIgnored) {
  auto bytes = sample_bytes();
  bytes.resize(bytes.size() + 163'844, 0xFF);
  EXPECT_EQ(decoded(bytes), sample());
}

}  // namespace
}  // namespace ulnet
