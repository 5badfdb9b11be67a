// Numbers as bytes, the least significant first, whatever the host's order is; and digests.
#pragma once

#include "base/digest.h"

#include <algorithm>
#include <concepts>
#include <cstddef>

namespace cugrt::little_endian {

template <std::integral T> void put(std::string &bytes, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}
inline void put(std::string &bytes, const Digest &digest) {
  bytes.append(reinterpret_cast<const char *>(digest.data()), digest.size());
}

/// Reads a number from `at` on; the bytes must be there.
template <std::integral T> T get(std::string_view bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= uint64_t(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return static_cast<T>(value);
}
inline Digest get_digest(std::string_view bytes, size_t at) {
  Digest digest;
  std::copy_n(bytes.data() + at, digest.size(), digest.begin());
  return digest;
}

} // namespace cugrt::little_endian
