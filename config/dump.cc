#include "config/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace ulnet::config {
namespace {

constexpr int kIndentB = 4;
constexpr int kDashB = 2;  // "- "

// In double quotes, with everything escaped that would end them or the line.
std::string double_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\x{:02X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

// lnetctl's choice for the texts of failed pings. Single quotes know no escapes, so control
// characters need the others.
std::string single_quoted(std::string_view text) {
  if (has_control_character(text)) return double_quoted(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + '\'';
}

// Whether a YAML reader would take the bare word for a number, a boolean or nothing.
bool reads_as_other_type(std::string_view text) {
  static constexpr std::array<std::string_view, 10> kWords = {"true", "false", "yes", "no", "on",
                                                              "off",  "null",  "~",   "y",  "n"};
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
  const bool digits = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isdigit(c) != 0 || c == '.' || c == '-' || c == '+' || c == '_' || c == ':';
  });
  const bool address = std::count(text.begin(), text.end(), '.') > 1;  // no number has two points
  return (digits && !address) || text.starts_with("0x");
}

std::string plain_or_quoted(const std::string& text) {
  static constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@` ";
  const bool plain = !text.empty() && !has_control_character(text) &&
                     kIndicators.find(text.front()) == std::string::npos && text.back() != ' ' &&
                     text.back() != ':' && text.find(": ") == std::string::npos &&
                     text.find(" #") == std::string::npos && !reads_as_other_type(text);
  return plain ? text : double_quoted(text);
}

enum class Style { kA, kB };

class Dumper {
 public:
  Dumper(Style style, int indent) : style_(style), indent_(indent) {}

  // `column` is where the keys stand; the cursor is there for the first of them if `placed`.
  void map(const Json& map, int column, bool placed) {
    for (const auto& [key, value] : map.items()) {
      if (!placed) pad(column);
      placed = false;
      out_ += key;
      out_ += ':';
      if (value.is_object() && !value.empty()) {
        out_ += '\n';
        this->map(value, column + indent_, false);
      } else if (value.is_array() && !value.empty()) {
        out_ += '\n';
        list(value, style_ == Style::kA ? column : column + indent_);
      } else {
        out_ += scalar(value);
        out_ += '\n';
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void list(const Json& items, int column) {
    const int width = style_ == Style::kA ? indent_ : kDashB;  // of the dash with its blanks
    for (const Json& item : items) {
      pad(column);
      out_ += '-';
      if (item.is_object() && !item.empty()) {
        pad(width - 1);
        map(item, column + width, true);
      } else {
        out_ += scalar(item);
        out_ += '\n';
      }
    }
  }

  // With the blank before it; nothing for null.
  std::string scalar(const Json& value) const {
    if (value.is_null()) return {};
    if (value.is_boolean()) {
      if (style_ == Style::kA) return value.get<bool>() ? " true" : " false";
      return value.get<bool>() ? " True" : " False";
    }
    if (value.is_string()) return ' ' + plain_or_quoted(value.get_ref<const std::string&>());
    return ' ' + value.dump(-1, ' ', false, Json::error_handler_t::replace);  // numbers, {} and []
  }

  void pad(int columns) { out_.append(static_cast<size_t>(columns), ' '); }

  const Style style_;
  const int indent_;
  std::string out_;
};

}  // namespace

std::string dump_style_a(const Json& tree, int indent) {
  Dumper dumper(Style::kA, indent);
  dumper.map(tree, 0, false);
  return dumper.take();
}

std::string dump_style_b(const Json& tree) {
  Dumper dumper(Style::kB, kIndentB);
  dumper.map(tree, 0, false);
  return dumper.take();
}

std::string error_style_a(const ErrorBlock& error) {
  return fmt::format("---\n{}:\n-     {}:\n      errno: {}\n      descr: ! {}\n...\n", error.action,
                     error.entity, error.code, double_quoted(error.text));
}

std::string error_style_b(const ErrorBlock& error) {
  return fmt::format("{}:\n    - {}:\n          errno: {}\n          descr: {}\n", error.action,
                     error.entity, error.code, double_quoted(error.text));
}

std::string error_list(std::string_view entity, const std::vector<ErrorBlock>& errors) {
  std::string out = "manage:\n";
  for (const ErrorBlock& error : errors) {
    out += fmt::format("- {}:\n  errno: {}\n  descr: ! {}\n", entity, error.code,
                       single_quoted(error.text));
  }
  return out;
}

Json error_tree(const std::vector<ErrorBlock>& errors) {
  Json list = Json::array();
  for (const ErrorBlock& error : errors) {
    list.push_back({{error.entity, nullptr},
                    {"errno", error.code},
                    {"name", errno_name(error.code)},
                    {"descr", error.text}});
  }
  return {{errors.front().action, std::move(list)}};
}

}  // namespace ulnet::config
