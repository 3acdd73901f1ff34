// What happened, in order: always as a hash, on request also as text. Two runs of one seed are the
// same exactly when their hashes are.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string_view>

#include "lnet/base/time.h"

namespace ulnet::sim {

class Trace {
 public:
  struct Field {
    std::string_view name;
    uint64_t value;
  };

  // One line for each entry goes to `out`, with the seconds since the first; nullptr: none.
  explicit Trace(std::FILE* out = nullptr) : out_(out) {}

  void note(Time now, std::string_view what, std::initializer_list<Field> fields);
  uint64_t hash() const { return hash_; }
  uint64_t entries() const { return entries_; }

 private:
  void mix(uint64_t word);

  std::FILE* const out_;
  uint64_t hash_ = 0xCBF29CE484222325ULL;
  uint64_t entries_ = 0;
  Time first_ = Time::min();
};

}  // namespace ulnet::sim
