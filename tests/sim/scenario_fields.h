// Typed access to a map of a scenario file. What is wrong is collected with its line, so that one
// reading finds everything.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "lnet/base/time.h"
#include "ulnet/fault.h"
#include "ulnet/types.h"

namespace ulnet::sim {

class Errors {
 public:
  explicit Errors(std::string file) : file_(std::move(file)) {}
  void add(int line, const std::string& text);
  // With its place in it already.
  void add(std::string text) { texts_.push_back(std::move(text)); }
  bool empty() const { return texts_.empty(); }
  // One line for each.
  std::string text() const;

 private:
  const std::string file_;
  std::vector<std::string> texts_;
};

// Without a fallback the key must be there. After an error the value is empty or the fallback.
class Fields {
 public:
  // A `node` that is no map is an error, and then everything is missing; nullptr is an empty map.
  // Both arguments must outlive this.
  Fields(const config::YamlNode* node, Errors& errors);

  int line() const { return line_; }
  bool has(const std::string& key) { return find(key) != nullptr; }
  std::string text(const std::string& key, std::optional<std::string> fallback = std::nullopt);
  int64_t number(const std::string& key, std::optional<int64_t> fallback = std::nullopt);
  // Written in seconds, "1.5".
  Duration seconds(const std::string& key, std::optional<Duration> fallback = std::nullopt);
  bool flag(const std::string& key, bool fallback);
  Nid nid(const std::string& key);
  std::vector<std::string> list(const std::string& key);
  const config::YamlNode* child(const std::string& key);
  // The fields of fault.h; 'rate' is 1 unless it or 'interval' is given.
  FaultRule fault_rule(FaultKind kind);

  // Every key that nobody asked for is an error.
  void finish();
  void error(const std::string& text) { errors_.add(line_, text); }

 private:
  const config::YamlNode* find(const std::string& key);
  // The scalar's text, or nothing, which is an error if `required`.
  std::optional<std::string> scalar(const std::string& key, bool required);

  const config::YamlNode* node_;
  Errors& errors_;
  int line_ = 0;
  std::set<std::string> asked_;
};

}  // namespace ulnet::sim
