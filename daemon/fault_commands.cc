#include "daemon/fault_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>

namespace ulnet::daemon {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> kEnds = {"source", "dest"};

Status check_known(const Json& args, Names known) {
  for (const auto& [key, value] : args.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return {EINVAL,
              fmt::format("unknown argument '{}'; known are: {}", key,
                          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")))};
  }
  return Status::ok();
}

Status check_ends(const Json& args) {
  for (const std::string_view end : kEnds) {
    if (!args.contains(end))
      return {EINVAL, fmt::format("argument '{}' is missing: a NID, a net, or '*' for any", end)};
  }
  return Status::ok();
}

// A string as it is, a number or a boolean as JSON spells it; one of them, or a list.
Status set_fields(FaultRule& rule, const std::string& field, const Json& value) {
  if (value.is_array()) {
    for (const Json& item : value) {
      if (item.is_array()) return {EINVAL, fmt::format("argument '{}' is a list of lists", field)};
      if (Status status = set_fields(rule, field, item); !status.is_ok()) return status;
    }
    return Status::ok();
  }
  const std::string word = value.is_string()
                               ? value.get<std::string>()
                               : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Status status = set_fault_field(rule, field, word);
  return status.is_ok() ? status : Status(status.code(), "argument " + status.text());
}

Reply done(const Status& status) {
  if (!status.is_ok()) return Failure(status);
  return Json::object();
}

}  // namespace

Reply add_fault(NodeView& node, FaultKind kind, const Json& args) {
  if (Status status = check_known(args, fault_fields(kind)); !status.is_ok()) return done(status);
  if (Status status = check_ends(args); !status.is_ok()) return done(status);
  FaultRule rule;
  rule.kind = kind;
  for (const auto& [field, value] : args.items()) {
    if (Status status = set_fields(rule, field, value); !status.is_ok()) return done(status);
  }
  return done(node.add_fault(rule));
}

Reply del_faults(NodeView& node, FaultKind kind, const Json& args) {
  static constexpr std::array<std::string_view, 3> kKnown = {"source", "dest", "all"};
  if (Status status = check_known(args, kKnown); !status.is_ok()) return done(status);
  if (args.contains("all")) {
    if (args["all"] != true || args.size() > 1)
      return fail(EINVAL, "argument 'all' must be true, without a source and a dest");
    node.del_faults(kind, Nid::any(), Nid::any());
    return Json::object();
  }
  if (Status status = check_ends(args); !status.is_ok()) return done(status);
  FaultRule ends;
  for (const auto& [field, value] : args.items()) {
    if (Status status = set_fields(ends, field, value); !status.is_ok()) return done(status);
  }
  if (node.del_faults(kind, ends.source, ends.dest) > 0) return Json::object();
  return fail(ENOENT, fmt::format("no {} rule from {} to {}", to_string(kind),
                                  ends.source.to_string(), ends.dest.to_string()));
}

Reply reset_faults(NodeView& node, FaultKind kind, const Json& args) {
  if (Status status = check_known(args, {}); !status.is_ok()) return done(status);
  node.reset_faults(kind);
  return Json::object();
}

Reply show_faults(NodeView& node, FaultKind kind, const Json& args) {
  static constexpr std::array<std::string_view, 1> kKnown = {"level"};
  if (Status status = check_known(args, kKnown); !status.is_ok()) return done(status);
  const Json level = args.value("level", Json(0));
  if (!level.is_number_integer() || level < 0 || level > config::kShowLevelMax)
    return fail(EINVAL, fmt::format("argument 'level' must be a number from 0 to {}",
                                    config::kShowLevelMax));
  return config::show_faults(node.faults(kind), level == config::kShowLevelMax);
}

}  // namespace ulnet::daemon
