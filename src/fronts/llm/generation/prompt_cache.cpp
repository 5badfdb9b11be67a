// Prompt caches as files; see prompt_cache.h.
#include "fronts/llm/generation/prompt_cache.h"

#include "base/file.h"

#include <cstring>

namespace cugrt::llm {

constexpr std::string_view kMagic = "cugrtkvc";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kLimitBytes = uint64_t(1) << 40;

template <class Number> static void put(std::string &to, Number value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}

static std::string_view as_text(const Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

/// Takes from the beginning of `left`; false where it has less.
static bool take(std::string_view &left, void *to, size_t size) {
  if (left.size() < size)
    return false;
  if (size > 0)
    std::memcpy(to, left.data(), size);
  left.remove_prefix(size);
  return true;
}

Status PromptCache::write(const std::string &path) const {
  std::string file(kMagic);
  put(file, kVersion);
  put(file, static_cast<uint32_t>(dtype));
  file += as_text(model);
  put(file, uint64_t(tokens.size()));
  file.append(reinterpret_cast<const char *>(tokens.data()), tokens.size() * sizeof tokens[0]);
  put(file, uint64_t(bytes.size()));
  file += bytes;
  file += as_text(Sha256().add(file).finish());
  return write_file(path, file);
}

Result<PromptCache> PromptCache::read(const std::string &path) {
  CUGRT_ASSIGN(const std::string file, read_file(path, kLimitBytes));
  const auto wrong = [&](const char *what) {
    return Status::error(Code::parse_error, "'" + path + "' is no prompt cache: " + what);
  };
  std::string_view left = file;
  Digest digest{};
  if (!left.starts_with(kMagic))
    return wrong("it does not begin with cugrtkvc");
  if (left.size() < kMagic.size() + digest.size())
    return wrong("it is cut short");
  left.remove_suffix(digest.size());
  std::memcpy(digest.data(), left.data() + left.size(), digest.size());
  if (Sha256().add(left).finish() != digest)
    return wrong("its bytes are not those that were written");
  left.remove_prefix(kMagic.size());
  PromptCache cache;
  uint32_t version = 0, dtype = 0;
  uint64_t count = 0, size_bytes = 0;
  if (!take(left, &version, sizeof version) || version != kVersion)
    return wrong("it is of another version");
  if (!take(left, &dtype, sizeof dtype) || !take(left, cache.model.data(), cache.model.size()) ||
      !take(left, &count, sizeof count) || count > left.size() / sizeof(int32_t))
    return wrong("it is cut short");
  cache.dtype = static_cast<ir::DType>(dtype);
  cache.tokens.resize(count);
  if (!take(left, cache.tokens.data(), count * sizeof(int32_t)) ||
      !take(left, &size_bytes, sizeof size_bytes) || size_bytes != left.size())
    return wrong("its parts have other sizes");
  cache.bytes = left;
  return cache;
}

} // namespace cugrt::llm
