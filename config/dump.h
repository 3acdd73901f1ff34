// Trees as YAML text, laid out byte for byte as lnetctl does it: scripts in the field read it by
// grep and awk.
//
//   style A   net, peer: indent 6; ping: indent 2. A list's dash stands in the column of its key.
//   style B   stats, global and the old error blocks: 4 blanks a level, a list's dash indented
//   under its key.
// Source: spec config 6 and 10.1, recorded lnetctl output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/show.h"

namespace ulnet::config {

inline constexpr int kIndentShow = 6;
inline constexpr int kIndentPing = 2;

// Strings are quoted only where YAML would read something else; nothing at all for an empty object.
std::string dump_style_a(const Json& tree, int indent);
std::string dump_style_b(const Json& tree);

// "add", "show", ... and "net", "peer", ..., errno as LNet has it (negative), and a sentence.
struct ErrorBlock {
  std::string action;
  std::string entity;
  int code = 0;
  std::string text;
};

// A document of its own, with marks.
std::string error_style_a(const ErrorBlock& error);
std::string error_style_b(const ErrorBlock& error);
// The list under `manage:` of NIDs that did not answer; each text is a whole sentence.
std::string error_list(std::string_view entity, const std::vector<ErrorBlock>& errors);
// The same for programs: {ACTION: [{ENTITY: null, "errno": -22, "name": "EINVAL", "descr": TEXT},
// ...]}. REQUIRES: at least one, all of one action.
Json error_tree(const std::vector<ErrorBlock>& errors);

}  // namespace ulnet::config
