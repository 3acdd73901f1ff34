#include "tests/sim/scenario_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace ulnet::sim {

void Errors::add(int line, const std::string& text) {
  texts_.push_back(fmt::format("{}:{}: {}", file_, line, text));
}

std::string Errors::text() const {
  return fmt::format("{}", fmt::join(texts_, "\n"));
}

Fields::Fields(const config::YamlNode* node, Errors& errors) : node_(node), errors_(errors) {
  if (node == nullptr) return;
  line_ = node->place.line;
  if (node->is_map()) return;
  error("this must be a map, not " + config::describe(*node));
  node_ = nullptr;
}

const config::YamlNode* Fields::find(const std::string& key) {
  asked_.insert(key);
  if (node_ == nullptr) return nullptr;
  for (const config::YamlEntry& entry : node_->entries) {
    if (entry.key == key) return entry.value.get();
  }
  return nullptr;
}

std::optional<std::string> Fields::scalar(const std::string& key, bool required) {
  const config::YamlNode* value = find(key);
  if (value == nullptr) {
    if (required) error(fmt::format("'{}' is missing", key));
    return std::nullopt;
  }
  if (value->is_scalar()) return value->text;
  errors_.add(value->place.line,
              fmt::format("{}: one value is needed, not {}", key, config::describe(*value)));
  return std::nullopt;
}

std::string Fields::text(const std::string& key, std::optional<std::string> fallback) {
  const auto value = scalar(key, !fallback);
  return value ? *value : fallback.value_or("");
}

int64_t Fields::number(const std::string& key, std::optional<int64_t> fallback) {
  const auto value = scalar(key, !fallback);
  if (!value) return fallback.value_or(0);
  int64_t number = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, code] = std::from_chars(value->data(), end, number);
  if (code != std::errc{} || stop != end)
    error(fmt::format("{}: '{}' is no whole number", key, *value));
  return number;
}

Duration Fields::seconds(const std::string& key, std::optional<Duration> fallback) {
  const auto value = scalar(key, !fallback);
  if (!value) return fallback.value_or(Duration::zero());
  char* stop = nullptr;
  const double seconds = std::strtod(value->c_str(), &stop);
  if (value->empty() || *stop != 0 || !(seconds >= -1e6 && seconds <= 1e6))
    error(fmt::format("{}: '{}' is no time in seconds", key, *value));
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5)));
}

bool Fields::flag(const std::string& key, bool fallback) {
  const auto value = scalar(key, false);
  if (!value) return fallback;
  if (*value != "true" && *value != "false")
    error(fmt::format("{}: '{}' is neither true nor false", key, *value));
  return *value == "true";
}

Nid Fields::nid(const std::string& key) {
  const auto value = scalar(key, true);
  if (!value) return {};
  const Result<Nid> nid = Nid::parse(*value);
  if (!nid) error(fmt::format("{}: {}", key, nid.error().text()));
  return nid.value_or(Nid{});
}

std::vector<std::string> Fields::list(const std::string& key) {
  const config::YamlNode* value = find(key);
  if (value == nullptr || !value->is_list()) {
    error(fmt::format("'{}' must be a list", key));
    return {};
  }
  std::vector<std::string> texts;
  for (const config::YamlPtr& item : value->items) texts.push_back(item->text);
  return texts;
}

FaultRule Fields::fault_rule(FaultKind kind) {
  FaultRule rule;
  rule.kind = kind;
  for (const std::string_view field : fault_fields(kind)) {
    const config::YamlNode* value = find(std::string(field));
    if (value == nullptr) continue;
    std::vector<std::string> words;
    for (const config::YamlPtr& item : value->items) words.push_back(item->text);
    if (value->is_scalar()) words.push_back(value->text);
    for (const std::string& word : words) {
      if (const Status status = set_fault_field(rule, field, word); !status.is_ok())
        error(status.text());
    }
  }
  if (rule.rate == 0 && rule.interval_s == 0) rule.rate = 1;
  if (const Status status = validate_fault(rule); !status.is_ok()) error(status.text());
  return rule;
}

const config::YamlNode* Fields::child(const std::string& key) {
  return find(key);
}

void Fields::finish() {
  if (node_ == nullptr) return;
  for (const config::YamlEntry& entry : node_->entries) {
    if (!asked_.contains(entry.key))
      errors_.add(entry.place.line, fmt::format("'{}' has no meaning here", entry.key));
  }
}

}  // namespace ulnet::sim
