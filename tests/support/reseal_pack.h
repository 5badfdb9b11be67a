// Writes the digests of a changed pack anew, as far as its table can be followed: for tests of what
// lies behind them.
#pragma once

#include "device/pack/pack.h"

#include <algorithm>
#include <cstring>

namespace cugrt::test {

inline void reseal_pack(std::string &file) {
  constexpr size_t kHeader = 64, kRow = 64, kDigest = 32; // bytes; where both have their digest
  if (file.size() < kHeader)
    return;
  auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, file.data() + at, bytes);
    return value;
  };
  auto set = [&](size_t at, const Digest &digest) {
    std::memcpy(file.data() + at, digest.data(), digest.size());
  };
  const size_t count = std::min<size_t>(number(12, 4), (file.size() - kHeader) / kRow);
  const std::string_view view = file;
  for (size_t i = 0; i < count; ++i) {
    const size_t row = kHeader + i * kRow;
    const uint64_t offset = number(row + 8, 8), size = number(row + 16, 8);
    if (offset <= file.size() && size <= file.size() - offset)
      set(row + kDigest, runtime::pack_digest(view.substr(offset, size)));
  }
  const std::string_view table = view.substr(kHeader, count * kRow);
  set(kDigest, Digester().field(view.substr(0, kDigest)).field(table).finish());
}

} // namespace cugrt::test
