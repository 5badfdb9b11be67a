// Reads one file's bytes into a File; see gguf.h.
#pragma once

#include "fronts/gguf/gguf.h"

namespace cugrt::gguf {

inline constexpr int64_t kMaxRank = 4;          // the format's
inline constexpr uint64_t kMaxKeyBytes = 65535; // the format's
inline constexpr uint64_t kMaxNameBytes = 256;  // of tensors; the IR's
inline constexpr uint64_t kDefaultAlignment = 32;

class Reader {
public:
  Reader(std::string_view bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  /// Adds the tensors and, of the first part, the keys; of others they are put into `keys`.
  Status read(File &file, bool is_first, File &keys);

private:
  Status error(const std::string &what) const;
  Status truncated(const char *where) const;
  template <class Number> Status number(Number &value, const char *where);
  Status text(std::string_view &value, uint64_t limit, const char *where);
  Status value(std::string_view key, Value &value);
  Status elements(std::string_view key, Value &value);
  Status keys(File &file, uint64_t count);
  Status tensor(File &file, uint64_t alignment);
  Status place(Tensor &tensor, uint64_t offset) const;

  std::string_view bytes_;
  std::string_view name_;
  size_t at_ = 0;
  std::vector<uint64_t> offsets_; // of the tensors, from the data's beginning
};

} // namespace cugrt::gguf
