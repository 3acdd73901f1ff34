// YAML text as a tree of plain values, each with its place in the file.
//
// The only file that includes yaml-cpp, and so the only one that catches its exceptions, is
// yaml.cc. Source: YAML 1.2, and of 1.1 the merge key `<<`, which other tools write.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ulnet::config {

// Line and column, both from 1; 0 where there is none (the file as a whole).
struct Place {
  int line = 0;
  int column = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct YamlNode;
// Shared, because an alias (*name) is the node that its anchor names. Never null inside a tree.
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlEntry {
  std::string key;
  Place place;  // of the key
  YamlPtr value;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  Place place;
  std::string text;                // of a scalar, without quotes
  std::vector<YamlPtr> items;      // of a list
  std::vector<YamlEntry> entries;  // of a map, in file order; a key written twice is here twice
  size_t weight = 1;  // nodes in this subtree, aliases counted as often as they are used

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
};

struct YamlError {
  Place place;
  std::string text;
};

// A tree may not be heavier than this: aliases of aliases grow exponentially with the length of the
// text.
inline constexpr size_t kYamlNodesMax = 2'000'000;

// One document; an empty text gives a null node.
// Errors: syntax, a second document, a control character, a key that is a list or a map, an alias
// inside the node it
//         names, a tree above kYamlNodesMax.
tl::expected<YamlPtr, YamlError> parse_yaml(std::string_view text);

// "a list", "a map", "nothing", or "'text'" for messages.
std::string describe(const YamlNode& node);

}  // namespace ulnet::config
