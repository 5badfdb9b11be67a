// The format of a cache entry's file. Internal to the cache.
//
//   offset bytes
//        0     8  magic "cugrtjit"
//        8     4  format version
//       12     4  kind of output
//       16     4  NVRTC's major version
//       20     4  NVRTC's minor version
//       24    16  architecture, zero-padded
//       40    32  digest of NVRTC's headers
//       72    32  key
//      104     8  payload size
//      112    32  SHA-256 of bytes 0 to 112 and of the payload
//      144        payload, to the end of the file
//
// Numbers are little-endian. Anything else is no entry.
#pragma once

#include "jit/code_cache.h"

namespace cugrt::jit {

inline constexpr uint64_t kMaxEntryBytes = uint64_t(256) << 20;

struct CacheEntry {
  CacheKey key{};
  CompilerIdentity compiler;
  OutputKind kind = OutputKind::cubin;
  std::string architecture;
  std::string payload;
};

std::string write_entry(const CacheKey &key, const CompilerIdentity &compiler, OutputKind kind,
                        std::string_view architecture, std::string_view payload);
/// Empty for anything that write_entry did not write.
std::optional<CacheEntry> read_entry(std::string_view file);

} // namespace cugrt::jit
