// Status: how an operation ended, as a value.
//
// Source: LNet reports negative Linux errno numbers (spec lnet-core 12.6); no errno value travels
// on the wire.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace ulnet {

// An errno with a sentence for a person. Zero means success, and then the text is empty.
// Units:  `code()` is a positive Linux errno (ETIMEDOUT), or 0. Events carry the negated form, as
// LNet does. Thread: a value; copies are independent.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // REQUIRES: code > 0. `text` names the object and the value at fault, and what would be right.
  Status(int code, std::string text) : code_(code), text_(std::move(text)) {}

  static Status ok() { return Status(); }

  bool is_ok() const { return code_ == 0; }
  int code() const { return code_; }
  const std::string& text() const { return text_; }

  // "text (ETIMEDOUT: Connection timed out)"; "ok" for success.
  std::string to_string() const;

  // Equal codes; the sentence is for people and does not take part.
  friend bool operator==(const Status& a, const Status& b) { return a.code_ == b.code_; }

 private:
  int code_ = 0;
  std::string text_;
};

// "ETIMEDOUT" for 110; "errno 4711" for a number without a name. Accepts either sign.
std::string errno_name(int code);
// "Connection timed out" for 110. Accepts either sign.
std::string errno_text(int code);

}  // namespace ulnet
