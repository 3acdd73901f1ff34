#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace ulnet::config {
namespace {

Place place_of(const YAML::Mark& mark) {
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

// Builds the tree from yaml-cpp's events. After the first error it ignores what follows.
class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    leaf(mark, anchor, YamlNode::Kind::kNull, {});
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    leaf(mark, anchor, YamlNode::Kind::kScalar, value);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      return fail(place_of(mark), "this alias is inside the node that it names");
    add(found->second, place_of(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  const std::optional<YamlError>& error() const { return error_; }
  YamlPtr root() const { return root_ != nullptr ? root_ : std::make_shared<YamlNode>(); }

 private:
  // A list or map whose end has not come yet.
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
    YamlEntry entry;              // of a map: the key that waits for its value
    std::vector<YamlPtr> merged;  // of a map: what its `<<` named
  };

  void fail(Place place, std::string text) {
    if (!error_) error_ = YamlError{place, std::move(text)};
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind,
            const std::string& text) {
    if (error_) return;
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->place = place_of(mark);
    // The mark of a missing value is that of whatever comes next, perhaps many lines below.
    if (kind == YamlNode::Kind::kNull && !open_.empty() && open_.back().has_key)
      node->place = open_.back().entry.place;
    node->text = text;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    const Place place = node->place;
    add(std::move(node), place);
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (error_) return;
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->place = place_of(mark);
    open_.push_back(Open{.node = std::move(node), .anchor = anchor, .entry = {}, .merged = {}});
  }

  void close() {
    if (error_) return;
    Open done = std::move(open_.back());
    open_.pop_back();
    merge(done);
    if (done.anchor != YAML::NullAnchor) anchors_[done.anchor] = done.node;
    const Place place = done.node->place;
    add(std::move(done.node), place);
  }

  // `<<: *other`: keys of `other` count where the map has none of its own.
  void merge(Open& map) {
    if (map.merged.empty()) return;
    std::set<std::string, std::less<>> own;
    for (const YamlEntry& entry : map.node->entries) own.insert(entry.key);
    for (const YamlPtr& other : map.merged) {
      for (const YamlEntry& entry : other->entries) {
        if (!own.insert(entry.key).second) continue;
        weigh(*map.node, *entry.value);
        if (error_) return;
        map.node->entries.push_back(entry);
      }
    }
  }

  void weigh(YamlNode& parent, const YamlNode& child) {
    parent.weight += child.weight;
    if (parent.weight > kYamlNodesMax) {
      fail(child.place,
           fmt::format("the file grows to more than {} values by its aliases", kYamlNodesMax));
    }
  }

  void add(YamlPtr node, Place place) {
    if (error_) return;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node->is_list()) {
      weigh(*parent.node, *node);
      parent.node->items.push_back(std::move(node));
    } else if (!parent.has_key) {
      if (!node->is_scalar())
        return fail(place, fmt::format("a key must be a word, not {}", describe(*node)));
      parent.entry = YamlEntry{node->text, place, nullptr};
      parent.has_key = true;
    } else {
      add_value(parent, std::move(node));
    }
  }

  void add_value(Open& parent, YamlPtr node) {
    parent.has_key = false;
    if (parent.entry.key == "<<" && node->is_map()) {
      parent.merged.push_back(std::move(node));
      return;
    }
    if (parent.entry.key == "<<" && node->is_list()) {
      for (const YamlPtr& item : node->items) {
        if (!item->is_map()) return fail(item->place, "'<<' merges maps only");
        parent.merged.push_back(item);
      }
      return;
    }
    weigh(*parent.node, *node);
    parent.entry.value = std::move(node);
    parent.node->entries.push_back(std::move(parent.entry));
  }

  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlPtr> anchors_;
  YamlPtr root_;
  std::optional<YamlError> error_;
};

// yaml-cpp takes byte 0x04 for the end of the text and would silently cut the file there; YAML
// allows none of these.
std::optional<YamlError> find_control_character(std::string_view text) {
  Place place{1, 1};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      return YamlError{place,
                       fmt::format("control character 0x{:02x}: is this a text file?", byte)};
    }
    if (c == '\n') {
      place = Place{place.line + 1, 1};
    } else if ((byte & 0xC0) != 0x80) {  // UTF-8 continuation bytes are no columns of their own
      ++place.column;
    }
  }
  return std::nullopt;
}

}  // namespace

tl::expected<YamlPtr, YamlError> parse_yaml(std::string_view text) {
  if (auto error = find_control_character(text)) return tl::unexpected(*std::move(error));
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    parser.HandleNextDocument(builder);
    if (builder.error()) return tl::unexpected(*builder.error());
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return tl::unexpected(YamlError{second.root()->place, "a second document; a file holds one"});
    }
    return builder.root();
  } catch (const YAML::DeepRecursion& exception) {
    return tl::unexpected(
        YamlError{place_of(exception.mark),
                  fmt::format("lists and maps are nested more than {} deep", exception.depth())});
  } catch (const YAML::Exception& exception) {
    return tl::unexpected(
        YamlError{place_of(exception.mark), fmt::format("not valid YAML: {}", exception.msg)});
  }
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return fmt::format("'{}'", node.text);
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      break;
  }
  return "a map";
}

}  // namespace ulnet::config
