// What a global setting may be, alone and beside the others, without a node.
// Source: spec lnet-core 8; decisions D5; case HL-8.
#include "lnet/core/global_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "lnet/base/integer_text.h"
#include "tests/support/nid.h"

namespace ulnet {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using test::nid;

TEST(IntegerText, OnlyWholeNumbers) {
  int64_t value = 0;
  for (const auto& [word, expected] : std::vector<std::pair<std::string, int64_t>>{
           {"0", 0}, {"1000", 1000}, {"-1", -1}, {"+7", 7}, {"0x10", 16}}) {
    EXPECT_TRUE(parse_integer(word, &value)) << word;
    EXPECT_EQ(value, expected);
  }
  for (const char* word :
       {"", "-", "abc", "1e3", "1.0", "010", " 1", "1 ", "0x", "--1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(word, &value)) << word;
  }
}

// HL-8, for every setting: the limits themselves are taken, one more or less is not, and names the
// range.
TEST(GlobalRules, RangesAreExactAndNamed) {
  GlobalSettings roomy;
  roomy.transaction_timeout_s = 86400;
  for (const GlobalField& field : kGlobalFields) {
    SCOPED_TRACE(field.name);
    for (const int64_t good : {field.low, field.high}) {
      const bool coupled = field.name == "transaction_timeout" && good == field.low;
      if (coupled) roomy.retry_count = 0;
      const auto changed = core::change_global(roomy, field.name, good, {});
      ASSERT_TRUE(changed) << changed.error().text();
      EXPECT_EQ(field.get(*changed), good);
    }
    for (const int64_t bad : {field.low - 1, field.high + 1}) {
      const auto changed = core::change_global(roomy, field.name, bad, {});
      ASSERT_FALSE(changed) << bad;
      EXPECT_EQ(changed.error().code(), EINVAL);
      EXPECT_THAT(changed.error().text(), AllOf(HasSubstr(std::string(field.name)),
                                                HasSubstr(range_text(field.low, field.high)),
                                                HasSubstr("not " + std::to_string(bad))));
    }
  }
  EXPECT_EQ(core::change_global({}, "no_such", 1, {}).error().code(), ENOENT);
}

TEST(GlobalRules, TransactionTimeoutIsAboveRetryCountExactly) {
  GlobalSettings global;
  global.retry_count = 3;
  EXPECT_TRUE(core::change_global(global, "transaction_timeout", 4, {}));
  EXPECT_EQ(core::change_global(global, "transaction_timeout", 3, {}).error().text(),
            "transaction_timeout 3 must be above retry_count 3");
  global.transaction_timeout_s = 4;
  EXPECT_TRUE(core::change_global(global, "retry_count", 3, {}));
  EXPECT_EQ(core::change_global(global, "retry_count", 4, {}).error().text(),
            "retry_count 4 must be below transaction_timeout 4");
}

// Decisions D5, with the numbers of seed 000.
TEST(GlobalRules, AskedForLndTimeoutsMustFit) {
  GlobalSettings fast;
  fast.transaction_timeout_s = 31;
  const std::vector<core::AskedTimeout> asked = {{nid("10.0.0.1@tcp"), 4},
                                                 {nid("10.0.0.2@tcp"), 10}};
  EXPECT_TRUE(core::change_global(fast, "transaction_timeout", 31, asked));
  EXPECT_TRUE(core::change_global(fast, "retry_count", 1, asked));
  EXPECT_EQ(core::change_global(fast, "transaction_timeout", 30, asked).error().text(),
            "transaction_timeout 30: 3 attempts at the LND timeout 10 of 10.0.0.2@tcp take 31 s; "
            "at least 31 would do");
  EXPECT_EQ(core::change_global(fast, "retry_count", 3, asked).error().text(),
            "retry_count 3: 4 attempts at the LND timeout 10 of 10.0.0.2@tcp take 41 s, "
            "transaction_timeout is 31; at most 2 would do");
  // Broken by a file: what is there already may be said again, and all else can be changed.
  GlobalSettings stock;
  const std::vector<core::AskedTimeout> fifty = {{nid("10.0.0.1@tcp"), 50}};
  EXPECT_TRUE(core::change_global(stock, "transaction_timeout", 150, fifty));
  EXPECT_TRUE(core::change_global(stock, "health_sensitivity", 7, fifty));
  EXPECT_TRUE(core::change_global(stock, "transaction_timeout", 151, fifty));
  EXPECT_FALSE(core::change_global(stock, "transaction_timeout", 149, fifty));

  EXPECT_TRUE(core::check_lnd_timeout(fast, 0).is_ok());
  EXPECT_TRUE(core::check_lnd_timeout(fast, 10).is_ok());
  EXPECT_EQ(core::check_lnd_timeout(fast, 11).text(),
            "an LND timeout of 11: 3 attempts take 34 s, transaction_timeout is 31; at most 10 "
            "would do");
  fast.transaction_timeout_s = 3;
  EXPECT_THAT(core::check_lnd_timeout(fast, 1).text(), HasSubstr("only 0, derived, would do"));
}

}  // namespace
}  // namespace ulnet
