// What the global settings ask of each other and of the LND timeouts.
//
// With T = transaction_timeout, R = retry_count and L = an LND timeout that was asked for:
//   T > R                     always
//   T >= L x (R + 1) + 1      so that all attempts fit; a derived L fits by itself
// Source: spec lnet-core 8.3 and 8.6; decisions D5.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ulnet/global_fields.h"
#include "ulnet/result.h"
#include "ulnet/settings.h"

namespace ulnet::core {

// An LND timeout that somebody asked for.
struct AskedTimeout {
  Nid nid;
  int32_t timeout_s = 0;
};

// `global` with one of kGlobalFields changed. Setting what is there already is always allowed, so
// is what makes a broken rule hold again.
// Errors: ENOENT unknown name; EINVAL out of range, or a rule above, with the value that would do.
Result<GlobalSettings> change_global(const GlobalSettings& global, std::string_view name,
                                     int64_t value, std::span<const AskedTimeout> asked);

// An LND timeout that is asked for now. Errors: EINVAL, with the value that would do.
Status check_lnd_timeout(const GlobalSettings& global, int32_t timeout_s);

// 0..1000. Errors: EINVAL naming `name`.
Status check_health_value(std::string_view name, int32_t value);

}  // namespace ulnet::core
