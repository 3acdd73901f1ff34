#include "tests/sim/trace.h"

#include <fmt/format.h>

namespace ulnet::sim {

void Trace::note(Time now, std::string_view what, std::initializer_list<Field> fields) {
  if (entries_++ == 0) first_ = now;
  mix(static_cast<uint64_t>(now.time_since_epoch().count()));
  for (const char c : what) mix(static_cast<uint8_t>(c));
  for (const Field& field : fields) mix(field.value);
  if (out_ == nullptr) return;
  fmt::print(out_, "{:12.6f} {}", std::chrono::duration<double>(now - first_).count(), what);
  for (const Field& field : fields) fmt::print(out_, " {}={}", field.name, field.value);
  fmt::print(out_, "\n");
}

// FNV-1a over words, with a shift so that high bits reach low ones.
void Trace::mix(uint64_t word) {
  hash_ = (hash_ ^ word) * 0x100000001B3ULL;
  hash_ ^= hash_ >> 29;
}

}  // namespace ulnet::sim
