// The name of a request in the code cache: a digest of everything that decides the result of a
// compilation, with the files that the source includes.
//
// A name is looked for where NVRTC looks (version 12 and 13): in the folder of the including file,
// then in those of -I in their order, then in NVRTC's own; -include begins in the working folder.
// Every file there that has the name counts, not the first alone. The compiler's own headers count
// by name: their content is part of its identity. A file that is nowhere counts by its name too,
// until there is one.
#pragma once

#include "jit/compiler.h"
#include "jit/include_scan.h"

#include <map>

namespace cugrt::jit {

/// Files as they are first seen, for the keys of many requests. Not thread-safe.
class IncludedFiles {
public:
  /// `compiler_folder` holds the compiler's own headers; empty: none is known.
  explicit IncludedFiles(const std::string &compiler_folder);
  IncludedFiles(const IncludedFiles &) = delete; // its parts refer to each other

private:
  friend class IncludeWalk;
  struct File {
    std::string path; // by its folder's real path
    bool readable = false;
    bool place_matters = false; // its text says where it stands
    uint64_t size_bytes = 0;
    Digest digest{};
    IncludeScan includes;
  };
  /// Null where there is none, and for the compiler's own.
  const File *at(const std::string &folder, const std::string &name);
  const File *find(const std::string &path);

  std::string compiler_folder_;
  std::map<std::string, const File *> asked_; // by the path that was asked for
  std::map<std::string, File> files_;
};

struct RequestKey {
  CacheKey key{}, ptx{}; // `ptx`: of the PTX that a cubin comes with, which is an entry like others
  std::string
      uncached; // why no cache may answer: it cannot be told what is included; empty: it may
  friend bool operator==(const RequestKey &, const RequestKey &) = default;
};

RequestKey request_key(const CompileRequest &request, IncludedFiles &files);

inline constexpr size_t kMaxIncludedFiles = 4096;
inline constexpr uint64_t kMaxIncludedBytes = uint64_t(64) << 20;

} // namespace cugrt::jit
