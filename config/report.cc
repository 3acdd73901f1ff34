#include "config/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace ulnet::config {

std::string Report::where(Place place) const {
  return place.line > 0 ? fmt::format("{}:{}", file_, place.line) : file_;
}

std::vector<std::string> Report::lines(std::vector<Message> messages) const {
  std::stable_sort(messages.begin(), messages.end(),
                   [](const Message& a, const Message& b) { return a.first < b.first; });
  std::vector<std::string> result;
  result.reserve(messages.size());
  for (const auto& [place, text] : messages) {
    result.push_back(place.line > 0
                         ? fmt::format("{}:{}:{}: {}", file_, place.line, place.column, text)
                         : fmt::format("{}: {}", file_, text));
  }
  return result;
}

}  // namespace ulnet::config
