// Writing and reading of cache entries.
#include "jit/cache_entry.h"

#include "base/little_endian.h"

#include <algorithm>

namespace cugrt::jit {

using namespace little_endian;

constexpr std::string_view kMagic = "cugrtjit";
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kArchitectureBytes = 16;
constexpr size_t kChecksumOffset = 112, kPayloadOffset = 144;

std::string write_entry(const CacheKey &key, const CompilerIdentity &compiler, OutputKind kind,
                        std::string_view architecture, std::string_view payload) {
  std::string file(kMagic);
  file.reserve(kPayloadOffset + payload.size());
  put(file, kFormatVersion);
  put(file, static_cast<uint32_t>(kind));
  put(file, static_cast<uint32_t>(compiler.major));
  put(file, static_cast<uint32_t>(compiler.minor));
  std::string padded(architecture.substr(0, kArchitectureBytes));
  padded.resize(kArchitectureBytes, '\0');
  file += padded;
  put(file, compiler.headers);
  put(file, key);
  put(file, static_cast<uint64_t>(payload.size()));
  put(file, Digester().field(file).field(payload).finish());
  file += payload;
  return file;
}

std::optional<CacheEntry> read_entry(std::string_view file) {
  if (file.size() < kPayloadOffset || file.substr(0, kMagic.size()) != kMagic ||
      get<uint32_t>(file, 8) != kFormatVersion)
    return std::nullopt;
  uint32_t kind = get<uint32_t>(file, 12);
  if (kind > static_cast<uint32_t>(OutputKind::cubin))
    return std::nullopt;
  std::string_view payload = file.substr(kPayloadOffset);
  if (get<uint64_t>(file, 104) != payload.size())
    return std::nullopt;
  Digest checksum = Digester().field(file.substr(0, kChecksumOffset)).field(payload).finish();
  if (checksum != get_digest(file, kChecksumOffset))
    return std::nullopt;
  CacheEntry entry;
  entry.kind = static_cast<OutputKind>(kind);
  entry.compiler = {get<int32_t>(file, 16), get<int32_t>(file, 20), get_digest(file, 40)};
  // Only zeros may pad it: an entry has one file, and nothing can hide in it.
  std::string_view architecture = file.substr(24, kArchitectureBytes);
  size_t length = std::min(architecture.find('\0'), architecture.size());
  if (architecture.find_first_not_of('\0', length) != std::string_view::npos)
    return std::nullopt;
  entry.architecture = architecture.substr(0, length);
  entry.key = get_digest(file, 72);
  entry.payload = payload;
  return entry;
}

} // namespace cugrt::jit
