// Loads and stores of integers in a named byte order, on memory of any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ulnet {

static_assert(std::endian::native == std::endian::little,
              "ulnet runs on little-endian hosts; peers may be either");

template <typename T>
T load_native(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void store_native(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

constexpr uint16_t byte_swap(uint16_t v) {
  return __builtin_bswap16(v);
}
constexpr uint32_t byte_swap(uint32_t v) {
  return __builtin_bswap32(v);
}
constexpr uint64_t byte_swap(uint64_t v) {
  return __builtin_bswap64(v);
}

inline uint16_t load_le16(const void* p) {
  return load_native<uint16_t>(p);
}
inline uint32_t load_le32(const void* p) {
  return load_native<uint32_t>(p);
}
inline uint64_t load_le64(const void* p) {
  return load_native<uint64_t>(p);
}
inline void store_le16(void* p, uint16_t v) {
  store_native(p, v);
}
inline void store_le32(void* p, uint32_t v) {
  store_native(p, v);
}
inline void store_le64(void* p, uint64_t v) {
  store_native(p, v);
}

inline uint16_t load_be16(const void* p) {
  return byte_swap(load_native<uint16_t>(p));
}
inline uint32_t load_be32(const void* p) {
  return byte_swap(load_native<uint32_t>(p));
}
inline uint64_t load_be64(const void* p) {
  return byte_swap(load_native<uint64_t>(p));
}
inline void store_be16(void* p, uint16_t v) {
  store_native(p, byte_swap(v));
}
inline void store_be32(void* p, uint32_t v) {
  store_native(p, byte_swap(v));
}
inline void store_be64(void* p, uint64_t v) {
  store_native(p, byte_swap(v));
}

// Bytes with integers in the order of the machine that wrote them.
// REQUIRES, for each read: the integer lies within `bytes`.
struct SenderOrderBytes {
  std::span<const uint8_t> bytes;
  bool flipped = false;  // the writer is big-endian

  uint32_t u32(size_t offset) const {
    const uint32_t value = load_le32(bytes.data() + offset);
    return flipped ? byte_swap(value) : value;
  }
  uint64_t u64(size_t offset) const {
    const uint64_t value = load_le64(bytes.data() + offset);
    return flipped ? byte_swap(value) : value;
  }
};

}  // namespace ulnet
