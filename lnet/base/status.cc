#include "ulnet/status.h"

#include <fmt/format.h>

#include <cstring>

namespace ulnet {

std::string errno_name(int code) {
  const char* name = strerrorname_np(code < 0 ? -code : code);
  return name != nullptr ? name : fmt::format("errno {}", code < 0 ? -code : code);
}

std::string errno_text(int code) {
  const char* text = strerrordesc_np(code < 0 ? -code : code);
  return text != nullptr ? text : "unknown error";
}

std::string Status::to_string() const {
  if (is_ok()) return "ok";
  return fmt::format("{} ({}: {})", text_, errno_name(code_), errno_text(code_));
}

}  // namespace ulnet
