#include "config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace ulnet::config {
namespace {

// Longer words than any of ours; keeps the quadratic table small whatever is typed.
constexpr size_t kWordBytesMax = 64;

// Lower case, and without what people leave out or mix up: "peercredits" is "peer_credits".
std::string fold(std::string_view word) {
  std::string folded;
  for (const char c : word) {
    if (c == '-' || c == '_' || c == ' ') continue;
    folded.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return folded;
}

// Optimal string alignment distance.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) table[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) table[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  const std::string folded = fold(word);
  if (folded.empty() || folded.size() > kWordBytesMax) return {};
  std::string_view best;
  size_t best_edits = (folded.size() + 2) / 3 + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = edits(folded, fold(candidate));
    if (distance < best_edits) {
      best = candidate;
      best_edits = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view found = nearest(word, known);
  return found.empty() ? std::string() : fmt::format("; did you mean '{}'?", found);
}

}  // namespace ulnet::config
