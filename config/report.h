// What a loader has to say about a file: errors and warnings, each with its place.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/yaml.h"

namespace ulnet::config {

class Report {
 public:
  explicit Report(std::string file) : file_(std::move(file)) {}

  // `text` names key and value, and what would be right.
  void error(Place place, std::string text) { errors_.emplace_back(place, std::move(text)); }
  void warn(Place place, std::string text) { warnings_.emplace_back(place, std::move(text)); }

  bool failed() const { return !errors_.empty(); }
  // "FILE:LINE", for messages that come later, at start.
  std::string where(Place place) const;

  // "FILE:LINE:COLUMN: TEXT" each, in file order.
  std::vector<std::string> errors() const { return lines(errors_); }
  std::vector<std::string> warnings() const { return lines(warnings_); }

 private:
  using Message = std::pair<Place, std::string>;
  std::vector<std::string> lines(std::vector<Message> messages) const;

  std::string file_;
  std::vector<Message> errors_;
  std::vector<Message> warnings_;
};

}  // namespace ulnet::config
