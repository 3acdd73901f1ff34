// The word somebody probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ulnet::config {

// The one of `known` that `word` most likely is a slip of: equal but for case and for '-', '_' and
// blanks, or at few edits (insert, delete, replace, swap of neighbours: at most a third of its
// length, rounded up). Empty if none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean 'NEAREST'?", or nothing.
std::string suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace ulnet::config
