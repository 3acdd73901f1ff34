// The net types by name, and what their addresses look like. Shared by the parsers of NIDs and of
// NID lists.
//
// Source: spec lnet-core 1.1.
#pragma once

#include <string_view>

#include "ulnet/types.h"

namespace ulnet {

enum class AddressForm : uint8_t {
  kZero,        // lo: always 0
  kNumber,      // decimal or 0x...
  kIpv4,        // dotted quad
  kIpv4OrIpv6,  // dotted quad or IPv6 literal
};

struct NetName {
  NetType type;
  std::string_view name;
  AddressForm form;

  bool is_dotted() const { return form == AddressForm::kIpv4 || form == AddressForm::kIpv4OrIpv6; }
};

// nullptr for a type without a name.
const NetName* find_net_name(NetType type);
// The net whose name `text` begins with ("tcp" for "tcp7"); nullptr when there is none. No name is
// a prefix of another.
const NetName* find_net_name_prefix(std::string_view text);

}  // namespace ulnet
