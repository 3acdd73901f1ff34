#include <fmt/format.h>

#include <algorithm>

#include "config/blocks.h"

namespace ulnet::config {
namespace {

// One word, or a list of them.
void read_words(LoadContext& context, const YamlEntry& entry, FaultRule* rule, bool* bad) {
  const auto take = [&](const YamlNode& node) {
    Status status = node.is_scalar()
                        ? set_fault_field(*rule, entry.key, node.text)
                        : Status(EINVAL, fmt::format("'{}' is {}, not a word or a list of words",
                                                     entry.key, describe(node)));
    if (status.is_ok()) return;
    *bad = true;
    context.report.error(node.place, status.text());
  };
  const bool takes_several =
      entry.key == "portal" || entry.key == "message" || entry.key == "health_error";
  if (!entry.value->is_list() || !takes_several) return take(*entry.value);
  for (const YamlPtr& item : entry.value->items) take(*item);
}

void read_rule(LoadContext& context, FaultKind kind, const YamlNode& node) {
  const std::string what = fmt::format("'{}'", to_string(kind));
  if (!node.is_map()) {
    context.report.error(node.place, fmt::format("{} holds {} where a rule is wanted, a map that "
                                                 "begins with 'source'",
                                                 what, describe(node)));
    return;
  }
  FaultRule rule;
  rule.kind = kind;
  bool bad = false;
  std::vector<Field> fields;
  for (const std::string_view field : fault_fields(kind)) {
    fields.push_back({field, [&context, &rule, &bad](const YamlEntry& entry) {
                        read_words(context, entry, &rule, &bad);
                      }});
  }
  read_map(context.report, node, what, fields);
  for (const std::string_view needed : {"source", "dest"}) {
    if (std::any_of(node.entries.begin(), node.entries.end(),
                    [needed](const YamlEntry& entry) { return entry.key == needed; }))
      continue;
    bad = true;
    context.report.error(node.place,
                         fmt::format("a rule without '{}': a NID, a net, or '*' for any", needed));
  }
  if (bad) return;
  if (const Status status = validate_fault(rule); !status.is_ok()) {
    context.report.error(node.place, status.text());
    return;
  }
  context.settings.faults.push_back(rule);
}

void read_rules(LoadContext& context, FaultKind kind, const YamlNode& list) {
  if (list.is_null()) return;
  if (!list.is_list()) {
    context.report.error(list.place, fmt::format("'{}' is {}, not a list of '- source: ...'",
                                                 to_string(kind), describe(list)));
    return;
  }
  if (list.items.size() > kFaultRulesMax) {
    context.report.error(list.place,
                         fmt::format("'{}' holds {} rules; at most {} are allowed", to_string(kind),
                                     list.items.size(), kFaultRulesMax));
    return;
  }
  for (const YamlPtr& item : list.items) read_rule(context, kind, *item);
}

}  // namespace

void read_fault_block(LoadContext& context, const YamlNode& block) {
  std::vector<Field> fields;
  for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay}) {
    fields.push_back({to_string(kind), [&context, kind](const YamlEntry& entry) {
                        read_rules(context, kind, *entry.value);
                      }});
  }
  read_map(context.report, block, "'fault'", fields);
}

}  // namespace ulnet::config
