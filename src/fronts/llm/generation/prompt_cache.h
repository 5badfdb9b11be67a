// The caches of tokens that sequences begin with, outside of the device: kept in memory, or written
// to a file and read again. A value; one that is shared is immutable.
//
// The file: "cugrtkvc", version (u32), the caches' dtype (u32), the model's digest (32 bytes), how
// many tokens (u64), the tokens (i32), how many bytes of caches (u64), these, and the SHA-256 of
// all that.
#pragma once

#include "base/digest.h"
#include "base/status.h"
#include "base/type/dtype.h"

#include <string>
#include <vector>

namespace cugrt::llm {

struct PromptCache {
  Digest model{};
  ir::DType dtype = ir::DType::f32;
  std::vector<int32_t> tokens;
  std::string bytes; // cache by cache, position by position

  /// Leaves the old file at `path` if the new one cannot be written whole.
  Status write(const std::string &path) const;
  /// Code::parse_error of anything but what `write` wrote.
  static Result<PromptCache> read(const std::string &path);
};

} // namespace cugrt::llm
