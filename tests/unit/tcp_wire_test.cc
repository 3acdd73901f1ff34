#include "lnd_tcp/wire.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "lnet/base/bytes.h"
#include "lnet/wire/header.h"
#include "tests/support/hex.h"
#include "tests/support/nid.h"

namespace ulnet::tcp {
namespace {

using test::hex;

constexpr uint64_t kIncarnationA = 1'700'000'000'000'000'000;
constexpr uint64_t kIncarnationB = 1'700'000'100'000'000'000;

using test::nid;

// ---------------------------------------------------------------- spec tcp-lnd 9.1, 9.8: connect
// request

constexpr const char* kRequestV1 = "00 71 ce ac 01 00 00 00 02 00 00 0a 00 00 02 00";
constexpr const char* kRequestV2 =
    "00 71 ce ac 02 00 00 00 0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02";

WireError request_error(std::span<const uint8_t> bytes) {
  const auto decoded = decode_connect_request(bytes);
  EXPECT_FALSE(decoded);
  return decoded ? WireError::kNeedMore : decoded.error();
}

TEST(ConnectRequest, Version1OfTheSpecification) {
  const auto bytes = hex(kRequestV1);
  EXPECT_EQ(encode_connect_request({nid("10.0.0.2@tcp")}), bytes);
  const auto decoded = decode_connect_request(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->value.nid, nid("10.0.0.2@tcp"));
  EXPECT_EQ(decoded->bytes, kConnectRequestV1Bytes);
}

TEST(ConnectRequest, Version2OfTheSpecification) {
  const auto bytes = hex(kRequestV2);
  EXPECT_EQ(encode_connect_request({nid("2001:db8::2@tcp")}), bytes);
  const auto decoded = decode_connect_request(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->value.nid, nid("2001:db8::2@tcp"));
  EXPECT_EQ(decoded->bytes, kConnectRequestV2Bytes);
}

TEST(ConnectRequest, Version2WithASmallNid) {
  const auto decoded = decode_connect_request(
      hex("00 71 ce ac 02 00 00 00 00 02 00 00 0a 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->value.nid, nid("10.0.0.2@tcp"));
}

TEST(ConnectRequest, BigEndianVersion1SwapsTheNid) {
  const auto decoded =
      decode_connect_request(hex("ac ce 71 00 00 00 00 01 00 02 00 00 0a 00 00 02"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->value.nid, nid("10.0.0.2@tcp"));
}

TEST(ConnectRequest, EveryPrefixNeedsMore) {
  for (const char* text : {kRequestV1, kRequestV2}) {
    const auto bytes = hex(text);
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_EQ(request_error(std::span(bytes).first(length)), WireError::kNeedMore) << length;
    }
  }
}

TEST(ConnectRequest, RefusalOfTheSpecification) {
  const auto refusal = encode_acceptor_refusal();
  EXPECT_EQ(std::vector<uint8_t>(refusal.begin(), refusal.end()),
            hex("00 71 ce ac 01 00 00 00 00 00 00 00 00 00 00 00"));
}

// ---------------------------------------------------------------- spec tcp-lnd 10.1

TEST(AcceptorInput, FirstWordIsHelloMagic) {
  EXPECT_EQ(request_error(hex("63 69 72 45")), WireError::kHelloInsteadOfConnect);
  EXPECT_EQ(request_error(hex("45 72 69 63 00 00 00 03")), WireError::kHelloInsteadOfConnect);
}

TEST(AcceptorInput, FirstWordIsV1HelloMagicOrUnknown) {
  for (const char* magic :
       {"ed 0d bc ee", "ee bc 0d ed", "47 45 54 20", "00 00 00 00", "00 71 ce ad"}) {
    EXPECT_EQ(request_error(hex(magic)), WireError::kBadMagic) << magic;
  }
}

TEST(AcceptorInput, VersionNot1Or2) {
  for (const char* version :
       {"00 00 00 00", "03 00 00 00", "09 00 00 00", "00 00 00 01", "ff ff ff ff"}) {
    auto bytes = hex("00 71 ce ac");
    const auto tail = hex(version);
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    EXPECT_EQ(request_error(bytes), WireError::kBadVersion) << version;
  }
}

TEST(AcceptorInput, WildcardNid) {
  EXPECT_EQ(request_error(hex("00 71 ce ac 01 00 00 00 ff ff ff ff ff ff ff ff")),
            WireError::kBadNid);
  auto bytes = hex(kRequestV2);
  bytes[9] = 0xFF;
  EXPECT_EQ(request_error(bytes), WireError::kBadNid);
}

TEST(AcceptorInput, LoopbackNidIsLeftToTheAcceptor) {
  EXPECT_TRUE(decode_connect_request(encode_connect_request({Nid::lo()}))->value.nid.is_lo());
}

TEST(AcceptorInput, Nid4WithHighBits) {
  EXPECT_EQ(request_error(hex("00 71 ce ac 01 00 00 00 02 00 00 0a 00 00 02 0c")),
            WireError::kBadNid);
}

TEST(AcceptorInput, Version2NidSizeNeither0Nor12) {
  for (const unsigned size : {1u, 4u, 11u, 13u, 255u}) {
    auto bytes = hex(kRequestV2);
    bytes[8] = static_cast<uint8_t>(size);
    EXPECT_EQ(request_error(bytes), WireError::kBadNid) << size;
  }
}

TEST(AcceptorInput, Version2DirtyPadding) {
  auto bytes = hex(kRequestV2);
  bytes[8] = 0;  // now a 4-byte address with 02 in its padding
  EXPECT_EQ(request_error(bytes), WireError::kBadNid);
}

TEST(AcceptorInput, Version2SwappedMagicLeavesTheNid) {
  const auto decoded = decode_connect_request(
      hex("ac ce 71 00 00 00 00 02 0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->value.nid, nid("2001:db8::2@tcp"));
}

TEST(AcceptorInput, ExtraBytesAreLeftForHello) {
  auto bytes = hex(kRequestV1);
  bytes.push_back(0x63);
  EXPECT_EQ(decode_connect_request(bytes)->bytes, kConnectRequestV1Bytes);
}

// ---------------------------------------------------------------- spec tcp-lnd 9.2, 9.3, 9.8:
// HELLO

struct GoldenHello {
  const char* name;
  const char* bytes;
  Hello hello;
};
void PrintTo(const GoldenHello& golden, std::ostream* out) {
  *out << golden.name;
}

Hello hello_of(uint32_t version, std::string_view source, std::string_view dest,
               uint64_t incarnation, ConnType type) {
  return {.version = version,
          .source_nid = nid(source),
          .dest_nid = nid(dest),
          .source_pid = kPidLustre,
          .source_incarnation = incarnation,
          .type = static_cast<uint32_t>(type)};
}

Hello odd_hello(uint32_t version) {
  return {.version = version,
          .source_nid = nid("1.2.3.4@tcp258"),
          .dest_nid = nid("5.6.7.8@tcp1"),
          .source_pid = 0x11121314,
          .dest_pid = 0x21222324,
          .source_incarnation = 0x3132333435363738,
          .dest_incarnation = 0x4142434445464748,
          .type = 0x51525354};
}

constexpr const char* kHelloAtoB =
    "63 69 72 45 03 00 00 00 01 00 00 0a 00 00 02 00"
    "02 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00"
    "00 00 2a 36 fe 9c 97 17 00 00 00 00 00 00 00 00"
    "01 00 00 00 00 00 00 00";
constexpr const char* kHelloCtoD =
    "63 69 72 45 04 00 00 00 0c 02 00 00 20 01 0d b8"
    "00 00 00 00 00 00 00 00 00 00 00 01 0c 02 00 00"
    "20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02"
    "39 30 00 00 00 00 00 00 00 00 2a 36 fe 9c 97 17"
    "00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00";

class GoldenHelloTest : public testing::TestWithParam<GoldenHello> {};

TEST_P(GoldenHelloTest, Decodes) {
  const auto bytes = hex(GetParam().bytes);
  const auto decoded = decode_hello(bytes);
  ASSERT_TRUE(decoded) << to_string(decoded.error());
  EXPECT_EQ(decoded->value, GetParam().hello);
  EXPECT_EQ(decoded->bytes, bytes.size());
}

TEST_P(GoldenHelloTest, Encodes) {
  EXPECT_EQ(encode_hello(GetParam().hello), hex(GetParam().bytes));
}

TEST_P(GoldenHelloTest, EveryPrefixNeedsMore) {
  const auto bytes = hex(GetParam().bytes);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto decoded = decode_hello(std::span(bytes).first(length));
    ASSERT_FALSE(decoded) << length;
    EXPECT_EQ(decoded.error(), WireError::kNeedMore) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spec, GoldenHelloTest,
    testing::Values(
        GoldenHello{"9.2 A to B", kHelloAtoB,
                    hello_of(3, "10.0.0.1@tcp", "10.0.0.2@tcp", kIncarnationA, ConnType::kControl)},
        GoldenHello{"9.3 answer",
                    "63 69 72 45 03 00 00 00 02 00 00 0a 00 00 02 00"
                    "01 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00"
                    "00 e8 a0 7e 15 9d 97 17 00 00 00 00 00 00 00 00"
                    "01 00 00 00 00 00 00 00",
                    hello_of(3, "10.0.0.2@tcp", "10.0.0.1@tcp", kIncarnationB, ConnType::kControl)},
        GoldenHello{"9.3 refusal",
                    "63 69 72 45 03 00 00 00 02 00 00 0a 00 00 02 00"
                    "01 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00"
                    "00 e8 a0 7e 15 9d 97 17 00 00 00 00 00 00 00 00"
                    "ff ff ff ff 00 00 00 00",
                    hello_of(3, "10.0.0.2@tcp", "10.0.0.1@tcp", kIncarnationB, ConnType::kNone)},
        GoldenHello{
            "9.8 C to D", kHelloCtoD,
            hello_of(4, "2001:db8::1@tcp", "2001:db8::2@tcp", kIncarnationA, ConnType::kControl)},
        GoldenHello{
            "9.8 answer",
            "63 69 72 45 04 00 00 00 0c 02 00 00 20 01 0d b8"
            "00 00 00 00 00 00 00 00 00 00 00 02 0c 02 00 00"
            "20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01"
            "39 30 00 00 00 00 00 00 00 e8 a0 7e 15 9d 97 17"
            "00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00",
            hello_of(4, "2001:db8::2@tcp", "2001:db8::1@tcp", kIncarnationB, ConnType::kControl)},
        GoldenHello{"every field different, version 2",
                    "63 69 72 45 02 00 00 00 04 03 02 01 02 01 02 00"
                    "08 07 06 05 01 00 02 00 14 13 12 11 24 23 22 21"
                    "38 37 36 35 34 33 32 31 48 47 46 45 44 43 42 41"
                    "54 53 52 51 00 00 00 00",
                    odd_hello(2)},
        GoldenHello{"every field different, version 4 with small NIDs",
                    "63 69 72 45 04 00 00 00 00 02 01 02 01 02 03 04"
                    "00 00 00 00 00 00 00 00 00 00 00 00 00 02 00 01"
                    "05 06 07 08 00 00 00 00 00 00 00 00 00 00 00 00"
                    "14 13 12 11 24 23 22 21 38 37 36 35 34 33 32 31"
                    "48 47 46 45 44 43 42 41 54 53 52 51 00 00 00 00",
                    odd_hello(4)}));

// ---------------------------------------------------------------- spec tcp-lnd 10.2

constexpr size_t kV3IpCountAt = 52;
constexpr size_t kV4IpCountAt = 76;
constexpr size_t kV3SourceAt = 8;
constexpr size_t kV4SourceAt = 8;
constexpr size_t kV4DestAt = 28;

WireError hello_error(std::span<const uint8_t> bytes) {
  const auto decoded = decode_hello(bytes);
  EXPECT_FALSE(decoded);
  return decoded ? WireError::kNeedMore : decoded.error();
}

TEST(HelloInput, UnknownMagic) {
  for (const char* magic : {"78 56 34 12", "ee bc 0d ed", "00 71 ce ac", "63 69 72 46"}) {
    EXPECT_EQ(hello_error(hex(magic)), WireError::kBadMagic) << magic;
  }
}

TEST(HelloInput, UnknownVersionIsDecidedOnEightBytes) {
  for (const char* prefix :
       {"63 69 72 45 00 00 00 00", "63 69 72 45 01 00 00 00", "63 69 72 45 05 00 00 00",
        "63 69 72 45 07 00 00 00", "63 69 72 45 00 00 00 03", "45 72 69 63 00 00 00 07",
        "45 72 69 63 03 00 00 00"}) {
    EXPECT_EQ(hello_error(hex(prefix)), WireError::kBadVersion) << prefix;
  }
}

TEST(HelloInput, Version1IsRecognisedAndRefused) {
  EXPECT_EQ(hello_error(hex("ed 0d bc ee")), WireError::kNeedMore);
  EXPECT_EQ(hello_error(hex("ed 0d bc ee 01 00 00 00")), WireError::kBadVersion);
  EXPECT_EQ(hello_error(hex("ed 0d bc ee 03 00 00 00")), WireError::kBadVersion);
}

TEST(HelloInput, Version2IsDecodedForTheConnectionToJudge) {
  auto bytes = hex(kHelloAtoB);
  bytes[4] = 2;
  EXPECT_EQ(decode_hello(bytes).value().value.version, 2u);
}

TEST(HelloInput, SwappedMagicSwapsTheNidsOfVersion3Too) {
  const auto decoded =
      decode_hello(hex("45 72 69 63 00 00 00 03 00 02 01 02 01 02 03 04"
                       "00 02 00 01 05 06 07 08 11 12 13 14 21 22 23 24"
                       "31 32 33 34 35 36 37 38 41 42 43 44 45 46 47 48"
                       "51 52 53 54 00 00 00 00"));
  ASSERT_TRUE(decoded);
  Hello expected = odd_hello(3);
  expected.flipped = true;
  EXPECT_EQ(decoded->value, expected);
}

TEST(HelloInput, SwappedMagicLeavesTheNidsOfVersion4) {
  const auto decoded =
      decode_hello(hex("45 72 69 63 00 00 00 04 00 02 01 02 01 02 03 04"
                       "00 00 00 00 00 00 00 00 00 00 00 00 00 02 00 01"
                       "05 06 07 08 00 00 00 00 00 00 00 00 00 00 00 00"
                       "11 12 13 14 21 22 23 24 31 32 33 34 35 36 37 38"
                       "41 42 43 44 45 46 47 48 51 52 53 54 00 00 00 00"));
  ASSERT_TRUE(decoded);
  Hello expected = odd_hello(4);
  expected.flipped = true;
  EXPECT_EQ(decoded->value, expected);
}

TEST(HelloInput, SourceNidWildcard) {
  auto v3 = hex(kHelloAtoB);
  store_le64(&v3[kV3SourceAt], ~uint64_t{0});
  EXPECT_EQ(hello_error(v3), WireError::kBadNid);
  auto v4 = hex(kHelloCtoD);
  v4[kV4SourceAt + 1] = 0xFF;
  EXPECT_EQ(hello_error(v4), WireError::kBadNid);
}

TEST(HelloInput, DestNidWildcardIsLeftToTheConnection) {
  auto v3 = hex(kHelloAtoB);
  store_le64(&v3[kV3SourceAt + 8], ~uint64_t{0});
  EXPECT_TRUE(decode_hello(v3).value().value.dest_nid.is_any());
}

TEST(HelloInput, Nid4WithHighBits) {
  for (const size_t at : {kV3SourceAt + 7, kV3SourceAt + 15}) {
    auto bytes = hex(kHelloAtoB);
    bytes[at] = 1;
    EXPECT_EQ(hello_error(bytes), WireError::kBadNid);
  }
}

TEST(HelloInput, NidSizeNeither0Nor12) {
  for (const size_t at : {kV4SourceAt, kV4DestAt}) {
    for (const unsigned size : {1u, 11u, 13u, 255u}) {
      auto bytes = hex(kHelloCtoD);
      bytes[at] = static_cast<uint8_t>(size);
      EXPECT_EQ(hello_error(bytes), WireError::kBadNid) << size;
    }
  }
}

TEST(HelloInput, DirtyPadding) {
  for (const size_t at : {kV4SourceAt, kV4DestAt}) {
    auto bytes = hex(kHelloCtoD);
    bytes[at] = 0;  // the rest of the IPv6 address is padding now
    EXPECT_EQ(hello_error(bytes), WireError::kBadNid);
  }
}

TEST(HelloInput, AnyConnectionTypeDecodes) {
  for (const uint32_t type : {0u, 1u, 2u, 3u, 9u, 0xFFFFFFFFu}) {
    auto bytes = hex(kHelloAtoB);
    store_le32(&bytes[48], type);
    EXPECT_EQ(decode_hello(bytes).value().value.type, type);
  }
}

std::vector<uint8_t> hello_with_ips(uint32_t count) {
  auto bytes = hex(kHelloAtoB);
  store_le32(&bytes[kV3IpCountAt], count);
  for (uint32_t i = 0; i < count && i < 20; ++i) {
    bytes.insert(bytes.end(), {static_cast<uint8_t>(i + 1), 0, 0, 10});
  }
  return bytes;
}

TEST(HelloInput, LegacyAddresses1To16AreReadAndIgnored) {
  for (const uint32_t count : {1u, 3u, 16u}) {
    auto bytes = hello_with_ips(count);
    EXPECT_EQ(hello_error(std::span(bytes).first(bytes.size() - 1)), WireError::kNeedMore);
    bytes.push_back(0xC1);
    const auto decoded = decode_hello(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->bytes, kHelloV3Bytes + 4 * count);
    EXPECT_EQ(decoded->value, decode_hello(hex(kHelloAtoB)).value().value);
  }
}

TEST(HelloInput, MoreThan16LegacyAddressesAreRefusedAtOnce) {
  for (const uint32_t count : {17u, 0x40000000u, 0xFFFFFFFFu}) {
    const auto bytes = hello_with_ips(count);
    EXPECT_EQ(hello_error(std::span(bytes).first(kHelloV3Bytes)), WireError::kBadIpList) << count;
  }
}

TEST(HelloInput, AZeroLegacyAddress) {
  auto bytes = hello_with_ips(3);
  store_le32(&bytes[kHelloV3Bytes + 8], 0);
  EXPECT_EQ(hello_error(bytes), WireError::kBadIpList);
}

TEST(HelloInput, Version4WithLegacyAddresses) {
  auto bytes = hex(kHelloCtoD);
  store_le32(&bytes[kV4IpCountAt], 1);
  bytes.insert(bytes.end(), {1, 0, 0, 10});
  EXPECT_EQ(hello_error(bytes), WireError::kBadIpList);
}

// ---------------------------------------------------------------- connection types

TEST(ConnType, MirrorsBulkOnly) {
  EXPECT_EQ(mirror(ConnType::kBulkIn), ConnType::kBulkOut);
  EXPECT_EQ(mirror(ConnType::kBulkOut), ConnType::kBulkIn);
  for (const ConnType type : {ConnType::kAny, ConnType::kControl, ConnType::kNone}) {
    EXPECT_EQ(mirror(type), type);
  }
}

TEST(ConnType, Text) {
  EXPECT_EQ(to_string(ConnType::kAny), "any");
  EXPECT_EQ(to_string(ConnType::kControl), "control");
  EXPECT_EQ(to_string(ConnType::kBulkIn), "bulk_in");
  EXPECT_EQ(to_string(ConnType::kBulkOut), "bulk_out");
  EXPECT_EQ(to_string(ConnType::kNone), "none");
  EXPECT_EQ(to_string(static_cast<ConnType>(9)), "?type?");
}

// ---------------------------------------------------------------- spec tcp-lnd 9.4 to 9.6: frames

constexpr const char* kPingGet =
    "c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00 02 00 00 0a 00 00 02 00"
    "01 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00"
    "02 00 00 00 00 00 00 00 23 01 2a 36 fe 9c 97 17"
    "11 00 00 00 00 00 00 00 00 00 00 00 00 00 00 80"
    "00 00 00 00 00 00 00 00 10 01 00 00 00 00 00 00";
constexpr const char* kPingReply =
    "c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00 01 00 00 0a 00 00 02 00"
    "02 00 00 0a 00 00 02 00 39 30 00 00 39 30 00 00"
    "03 00 00 00 30 00 00 00 23 01 2a 36 fe 9c 97 17"
    "11 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "67 6e 69 70 1e 00 00 00 39 30 00 00 02 00 00 00"
    "00 00 00 00 00 00 09 00 01 00 00 00 00 00 00 00"
    "02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00";
constexpr const char* kPingGetV6 =
    "c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00 0c 02 00 00 20 01 0d b8"
    "00 00 00 00 00 00 00 00 00 00 00 02 0c 02 00 00"
    "20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01"
    "39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00"
    "23 01 2a 36 fe 9c 97 17 11 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00"
    "10 01 00 00 00 00 00 00";
constexpr const char* kZeroCopyAck7 =
    "c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00";

std::vector<uint8_t> encoded(const FrameHeader& header) {
  std::vector<uint8_t> bytes(kFrameHeaderBytes, 0xEE);
  encode_frame_header(header, bytes);
  return bytes;
}

TEST(Frame, PingOfTheSpecification) {
  const auto bytes = hex(kPingGet);
  EXPECT_EQ(decode_frame_header(bytes, false), (FrameHeader{.type = kFrameLnet}));
  const auto header = decode_header(HeaderForm::kNid4, std::span(bytes).subspan(kFrameHeaderBytes));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source_nid, nid("10.0.0.1@tcp"));
  EXPECT_EQ(header->dest_nid, nid("10.0.0.2@tcp"));
  EXPECT_EQ(std::get<GetPart>(header->part),
            (GetPart{{0x17979cfe362a0123, 0x11}, kPingMatchBits, 0, 0, 272}));
}

TEST(Frame, PingOverIpv6OfTheSpecification) {
  const auto bytes = hex(kPingGetV6);
  ASSERT_EQ(bytes.size(), kFrameHeaderBytes + kHeaderNid16Bytes);
  const auto header =
      decode_header(HeaderForm::kNid16, std::span(bytes).subspan(kFrameHeaderBytes));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->source_nid, nid("2001:db8::1@tcp"));
  EXPECT_EQ(header->dest_nid, nid("2001:db8::2@tcp"));
  EXPECT_EQ(std::get<GetPart>(header->part),
            (GetPart{{0x17979cfe362a0123, 0x11}, kPingMatchBits, 0, 0, 272}));
}

struct GoldenFrame {
  const char* bytes;
  FrameHeader header;
};

TEST(Frame, NoopsOfTheSpecification) {
  const GoldenFrame frames[] = {
      {"c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00",
       {.type = kFrameNoop, .cookie1 = kKeepaliveCookie}},
      {kZeroCopyAck7, {.type = kFrameNoop, .cookie1 = 7}},
      {"c0 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00",
       {.type = kFrameNoop, .cookie0 = 5, .cookie1 = 9}}};
  for (const GoldenFrame& frame : frames) {
    EXPECT_EQ(decode_frame_header(hex(frame.bytes), false), frame.header);
    EXPECT_EQ(encoded(frame.header), hex(frame.bytes));
  }
}

TEST(Frame, FlippedSenderSwapsAllFourFields) {
  const auto bytes = hex("00 00 00 c1 01 02 03 04 11 12 13 14 15 16 17 18 21 22 23 24 25 26 27 28");
  EXPECT_EQ(decode_frame_header(bytes, true),
            (FrameHeader{0xC1, 0x01020304, 0x1112131415161718, 0x2122232425262728}));
}

// ---------------------------------------------------------------- spec tcp-lnd 9.7: checksum

uint32_t checksum_of(std::span<const uint8_t> bytes) {
  return checksum(kChecksumSeed, bytes);
}

TEST(Checksum, VectorsOfTheSpecification) {
  const std::string_view check = "123456789";
  EXPECT_EQ(checksum_of({reinterpret_cast<const uint8_t*>(check.data()), check.size()}),
            0x340bc6d9u);
  EXPECT_EQ(checksum_of(hex(kPingGet)), 0x89eaba64u);
  EXPECT_EQ(checksum_of(hex(kPingReply)), 0x08b1ffbdu);
  const auto reply = hex(kPingReply);
  const auto payload = std::span(reply).subspan(kFrameHeaderBytes + kHeaderNid4Bytes);
  EXPECT_EQ(checksum_of(payload), 0x9c4403deu);
  EXPECT_EQ(checksum_of(hex(kZeroCopyAck7)), 0x3d9e3319u);
}

TEST(Checksum, PiecesGiveTheSameAsTheWhole) {
  const auto bytes = hex(kPingReply);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t head = checksum(kChecksumSeed, std::span(bytes).first(cut));
    EXPECT_EQ(checksum(head, std::span(bytes).subspan(cut)), 0x08b1ffbdu) << cut;
  }
}

TEST(Checksum, NothingLeavesTheSeed) {
  EXPECT_EQ(checksum(kChecksumSeed, {}), kChecksumSeed);
  EXPECT_EQ(checksum(0x12345678, {}), 0x12345678u);
}

TEST(WireErrorText, NamesTheFault) {
  EXPECT_EQ(to_string(WireError::kBadVersion), "unknown version");
  EXPECT_EQ(to_string(WireError::kHelloInsteadOfConnect), "HELLO without a connect request");
}

}  // namespace
}  // namespace ulnet::tcp
