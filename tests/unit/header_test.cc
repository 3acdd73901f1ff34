#include "lnet/wire/header.h"

#include <gtest/gtest.h>

#include <vector>

#include "lnet/base/bytes.h"
#include "tests/support/hex.h"
#include "tests/support/nid.h"

namespace ulnet {
namespace {

using test::hex;

// Interface cookie of A in the examples of spec lnet-core 13.
constexpr uint64_t kInterfaceA = 0x17F3A9C4D25B8E01;

using test::nid;

std::vector<uint8_t> encoded(HeaderForm form, const Header& header) {
  std::vector<uint8_t> bytes(header_bytes(form), 0xEE);
  encode_header(form, header, bytes);
  return bytes;
}

struct Golden {
  const char* name;
  HeaderForm form;
  const char* bytes;
  Header header;
};

void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.name;
}

Header between(std::string_view source, std::string_view dest) {
  Header header;
  header.source_nid = nid(source);
  header.dest_nid = nid(dest);
  header.source_pid = kPidLustre;
  header.dest_pid = kPidLustre;
  return header;
}

Header ping_get(std::string_view source, std::string_view dest) {
  Header header = between(source, dest);
  header.part = GetPart{.return_md = {kInterfaceA, 0x105},
                        .match_bits = kPingMatchBits,
                        .portal = 0,
                        .source_offset = 0,
                        .sink_length = 272};
  return header;
}

Header ping_reply() {
  Header header = between("10.0.0.2@tcp", "10.0.0.1@tcp");
  header.payload_bytes = 64;
  header.part = ReplyPart{{kInterfaceA, 0x105}};
  return header;
}

Header push() {
  Header header = between("10.0.0.1@tcp", "10.0.0.2@tcp");
  header.payload_bytes = 64;
  header.part = PutPart{.ack_md = {kInterfaceA, 0x0D}, .match_bits = kPingMatchBits};
  return header;
}

Header push_ack() {
  Header header = between("10.0.0.2@tcp", "10.0.0.1@tcp");
  header.part = AckPart{{kInterfaceA, 0x0D}, kPingMatchBits, 64};
  return header;
}

// Every field of a PUT different, so that none can be taken for another.
Header odd_put() {
  Header header;
  header.dest_nid = nid("1.2.3.4@tcp258");
  header.source_nid = nid("4294967295@gni");
  header.dest_pid = 0x01020304;
  header.source_pid = 0x05060708;
  header.payload_bytes = 0x00100000;
  header.part = PutPart{.ack_md = WireHandle::none(),
                        .match_bits = 0x1112131415161718,
                        .hdr_data = 0x2122232425262728,
                        .portal = 0x31323334,
                        .offset = 0x41424344};
  return header;
}

Header odd_get() {
  Header header = between("10.0.0.1@tcp", "10.0.0.2@tcp");
  header.part = GetPart{.return_md = {0x0102030405060708, 0x1112131415161718},
                        .match_bits = 0x2122232425262728,
                        .portal = 0x31323334,
                        .source_offset = 0x41424344,
                        .sink_length = 0x51525354};
  return header;
}

class GoldenHeader : public testing::TestWithParam<Golden> {};

TEST_P(GoldenHeader, Decodes) {
  const auto decoded = decode_header(GetParam().form, hex(GetParam().bytes));
  ASSERT_TRUE(decoded) << to_string(decoded.error());
  EXPECT_EQ(*decoded, GetParam().header);
}

TEST_P(GoldenHeader, Encodes) {
  EXPECT_EQ(encoded(GetParam().form, GetParam().header), hex(GetParam().bytes));
}

TEST_P(GoldenHeader, OneByteLessIsShort) {
  auto bytes = hex(GetParam().bytes);
  bytes.pop_back();
  EXPECT_EQ(decode_header(GetParam().form, bytes).error(), HeaderError::kShort);
  EXPECT_EQ(decode_header(GetParam().form, {}).error(), HeaderError::kShort);
}

// Spec lnet-core 13, and tcp-lnd 9 behind the frame header.
INSTANTIATE_TEST_SUITE_P(
    Spec, GoldenHeader,
    testing::Values(
        Golden{"core 13.1 GET", HeaderForm::kNid4,
               "02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00"
               "39 30 00 00  39 30 00 00  02 00 00 00  00 00 00 00"
               "01 8e 5b d2 c4 a9 f3 17  05 01 00 00 00 00 00 00"
               "00 00 00 00 00 00 00 80  00 00 00 00  00 00 00 00  10 01 00 00  00 00 00 00",
               ping_get("10.0.0.1@tcp", "10.0.0.2@tcp")},
        Golden{"core 13.2 REPLY", HeaderForm::kNid4,
               "01 00 00 0a 00 00 02 00  02 00 00 0a 00 00 02 00"
               "39 30 00 00 39 30 00 00  03 00 00 00  40 00 00 00"
               "01 8e 5b d2 c4 a9 f3 17  05 01 00 00 00 00 00 00"
               "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",
               ping_reply()},
        Golden{"core 13.3 PUSH", HeaderForm::kNid4,
               "02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00"
               "39 30 00 00 39 30 00 00  01 00 00 00  40 00 00 00"
               "01 8e 5b d2 c4 a9 f3 17  0d 00 00 00 00 00 00 00"
               "00 00 00 00 00 00 00 80  00 00 00 00 00 00 00 00  00 00 00 00  00 00 00 00",
               push()},
        Golden{"core 13.4 ACK", HeaderForm::kNid4,
               "01 00 00 0a 00 00 02 00  02 00 00 0a 00 00 02 00"
               "39 30 00 00 39 30 00 00  00 00 00 00  00 00 00 00"
               "01 8e 5b d2 c4 a9 f3 17  0d 00 00 00 00 00 00 00"
               "00 00 00 00 00 00 00 80  40 00 00 00  00 00 00 00 00 00 00 00 00 00 00 00",
               push_ack()},
        Golden{"core 13.5 GET in NID16 form", HeaderForm::kNid16,
               "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02"
               "0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01"
               "39 30 00 00  39 30 00 00  02 00 00 00  00 00 00 00"
               "01 8e 5b d2 c4 a9 f3 17  05 01 00 00 00 00 00 00"
               "00 00 00 00 00 00 00 80  00 00 00 00  00 00 00 00  10 01 00 00  00 00 00 00",
               ping_get("2001:db8::1@tcp", "2001:db8::2@tcp")},
        Golden{"every GET field different", HeaderForm::kNid4,
               "02 00 00 0a 00 00 02 00  01 00 00 0a 00 00 02 00"
               "39 30 00 00  39 30 00 00  02 00 00 00  00 00 00 00"
               "08 07 06 05 04 03 02 01  18 17 16 15 14 13 12 11"
               "28 27 26 25 24 23 22 21  34 33 32 31  44 43 42 41  54 53 52 51  00 00 00 00",
               odd_get()},
        Golden{"every PUT field different", HeaderForm::kNid4,
               "04 03 02 01 02 01 02 00  ff ff ff ff 00 00 0d 00"
               "04 03 02 01  08 07 06 05  01 00 00 00  00 00 10 00"
               "ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff"
               "18 17 16 15 14 13 12 11  28 27 26 25 24 23 22 21  34 33 32 31  44 43 42 41",
               odd_put()},
        Golden{"every PUT field different, NID16 form with small NIDs", HeaderForm::kNid16,
               "00 02 01 02 01 02 03 04 00 00 00 00 00 00 00 00 00 00 00 00"
               "00 0d 00 00 ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00"
               "04 03 02 01  08 07 06 05  01 00 00 00  00 00 10 00"
               "ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff"
               "18 17 16 15 14 13 12 11  28 27 26 25 24 23 22 21  34 33 32 31  44 43 42 41",
               odd_put()}));

TEST(Header, NoHandleNeedsBothHalves) {
  EXPECT_TRUE(WireHandle::none().is_none());
  EXPECT_FALSE((WireHandle{~uint64_t{0}, 0}).is_none());
  EXPECT_FALSE((WireHandle{0, ~uint64_t{0}}).is_none());
}

TEST(Header, EncodingLeavesWhatLiesBehindAlone) {
  std::vector<uint8_t> bytes(kHeaderNid4Bytes + 8, 0xEE);
  encode_header(HeaderForm::kNid4, push(), bytes);
  EXPECT_EQ(std::vector<uint8_t>(bytes.end() - 8, bytes.end()), std::vector<uint8_t>(8, 0xEE));
}

TEST(Header, SurplusBytesAreLeftAlone) {
  auto bytes = encoded(HeaderForm::kNid4, push());
  bytes.resize(bytes.size() + 64, 0xFF);
  EXPECT_EQ(decode_header(HeaderForm::kNid4, bytes).value(), push());
}

// ---------------------------------------------------------------- spec lnet-core 14.1

constexpr size_t kTypeAt = 24;
constexpr size_t kPayloadAt = 28;

tl::expected<Header, HeaderError> decode_with(Header header, uint32_t type, uint32_t payload) {
  auto bytes = encoded(HeaderForm::kNid4, header);
  store_le32(&bytes[kTypeAt], type);
  store_le32(&bytes[kPayloadAt], payload);
  return decode_header(HeaderForm::kNid4, bytes);
}

TEST(HeaderCheck, Row1AckOrGetWithPayload) {
  for (const MessageType type : {MessageType::kAck, MessageType::kGet}) {
    const auto number = static_cast<uint32_t>(type);
    EXPECT_TRUE(decode_with(push(), number, 0));
    for (const uint32_t payload : {1u, kPayloadBytesMax, 0xFFFFFFFFu}) {
      EXPECT_EQ(decode_with(push(), number, payload).error(), HeaderError::kPayloadOnAckOrGet);
    }
  }
}

TEST(HeaderCheck, Row2PutOrReplyAboveOneMebibyte) {
  for (const MessageType type : {MessageType::kPut, MessageType::kReply}) {
    const auto number = static_cast<uint32_t>(type);
    EXPECT_EQ(decode_with(push(), number, 1048576).value().payload_bytes, 1048576u);
    EXPECT_EQ(decode_with(push(), number, 1048577).error(), HeaderError::kPayloadTooLong);
    EXPECT_EQ(decode_with(push(), number, 0xFFFFFFFF).error(), HeaderError::kPayloadTooLong);
  }
}

TEST(HeaderCheck, Row3HelloOrUnknownType) {
  for (const uint32_t type : {4u, 5u, 9u, 0x100u, 0x01000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(decode_with(push(), type, 0).error(), HeaderError::kUnknownType) << type;
  }
}

tl::expected<Header, HeaderError> decode_with_byte(size_t at, uint8_t value,
                                                   std::string_view source = "10.0.0.1@tcp",
                                                   std::string_view dest = "10.0.0.2@tcp") {
  auto bytes = encoded(HeaderForm::kNid16, ping_get(source, dest));
  bytes[at] = value;
  return decode_header(HeaderForm::kNid16, bytes);
}

TEST(HeaderCheck, Nid16SizeNeither0Nor12) {
  for (const size_t nid_at : {size_t{0}, size_t{20}}) {
    for (const unsigned size : {1u, 4u, 8u, 11u, 13u, 16u, 255u}) {
      EXPECT_EQ(decode_with_byte(nid_at, static_cast<uint8_t>(size)).error(), HeaderError::kBadNid);
    }
  }
}

TEST(HeaderCheck, Nid16NonZeroPadding) {
  for (const size_t nid_at : {size_t{0}, size_t{20}}) {
    for (size_t byte = 8; byte < 20; ++byte) {
      EXPECT_EQ(decode_with_byte(nid_at + byte, 1).error(), HeaderError::kBadNid) << byte;
      EXPECT_TRUE(decode_with_byte(nid_at + byte, 1, "fd77::1@tcp", "fd77::2@tcp")) << byte;
    }
  }
}

TEST(HeaderCheck, Nid16WildcardDestination) {
  EXPECT_EQ(decode_with_byte(1, 0xFF).error(), HeaderError::kBadNid);
}

TEST(HeaderCheck, Nid16WildcardSourceIsLeftToTheCore) {
  const auto decoded = decode_with_byte(21, 0xFF);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->source_nid.is_any());
}

TEST(HeaderCheck, LoopbackSourceIsLeftToTheCore) {
  EXPECT_TRUE(
      decode_header(HeaderForm::kNid4, encoded(HeaderForm::kNid4, between("0@lo", "1.2.3.4@tcp")))
          .value()
          .source_nid.is_lo());
}

TEST(HeaderCheck, Nid4WithHighBits) {
  for (const size_t high_byte : {size_t{7}, size_t{15}}) {
    for (const unsigned value : {0x01u, 0x0Cu, 0x80u, 0xFFu}) {
      auto bytes = encoded(HeaderForm::kNid4, push());
      bytes[high_byte] = static_cast<uint8_t>(value);
      EXPECT_EQ(decode_header(HeaderForm::kNid4, bytes).error(), HeaderError::kBadNid);
    }
  }
}

TEST(HeaderCheck, Nid4AllOnesIsTheWildcard) {
  Header header = push();
  header.source_nid = Nid::any();
  const auto bytes = encoded(HeaderForm::kNid4, header);
  EXPECT_EQ(load_le64(&bytes[8]), ~uint64_t{0});
  EXPECT_TRUE(decode_header(HeaderForm::kNid4, bytes).value().source_nid.is_any());
}

TEST(HeaderCheck, ForeignDestPidIsAccepted) {
  Header header = push();
  header.dest_pid = 99;
  EXPECT_EQ(decode_header(HeaderForm::kNid4, encoded(HeaderForm::kNid4, header)).value().dest_pid,
            99u);
}

TEST(HeaderCheck, UnusedTailBytesAreIgnored) {
  const struct {
    Header header;
    size_t used;
  } cases[] = {
      {push_ack(), 28}, {ping_get("10.0.0.1@tcp", "10.0.0.2@tcp"), 36}, {ping_reply(), 16}};
  for (const auto& c : cases) {
    auto bytes = encoded(HeaderForm::kNid4, c.header);
    for (size_t at = 32 + c.used; at < bytes.size(); ++at) bytes[at] = 0xA5;
    EXPECT_EQ(decode_header(HeaderForm::kNid4, bytes).value(), c.header);
  }
}

TEST(HeaderText, Names) {
  EXPECT_EQ(to_string(MessageType::kAck), "ACK");
  EXPECT_EQ(to_string(MessageType::kPut), "PUT");
  EXPECT_EQ(to_string(MessageType::kGet), "GET");
  EXPECT_EQ(to_string(MessageType::kReply), "REPLY");
  EXPECT_EQ(to_string(MessageType::kHello), "HELLO");
  EXPECT_EQ(to_string(HeaderError::kPayloadTooLong), "payload longer than 1 MiB");
}

}  // namespace
}  // namespace ulnet
