// The code cache: compiled kernels in memory and on disk, so that a process that has seen a kernel
// before neither compiles nor opens a compiler.
//
// An entry's name is the SHA-256 of source, options, kind of output and architecture (CacheKey).
// The file repeats the key and carries the compiler's version, the digest of its headers and a
// checksum; anything that does not fit is a miss, never an error. Files are written aside and
// renamed, so any number of processes may share a folder without locks. All functions are
// thread-safe.
#pragma once

#include "base/compiler_report.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::jit {

enum class OutputKind { ptx = 0, cubin = 1 };

using CacheKey = Digest;

/// The compiler that an entry came from or must match.
struct CompilerIdentity {
  int major = 0, minor = 0;
  Digest headers{}; // of cuda_fp16.h and its like; zeros when there are none
  friend bool operator==(const CompilerIdentity &, const CompilerIdentity &) = default;
};

struct CacheConfig {
  bool disk = true;
  std::string folder;           // written and read; empty: memory only
  std::string read_only_folder; // read when `folder` has no answer; may be empty
  uint64_t disk_limit_bytes = uint64_t(512) << 20;
  uint64_t memory_limit_bytes = uint64_t(64) << 20;
  std::string problem; // of the environment, for the log; empty: none

  /// CUGRT_CACHE (a folder, or "off"), else $XDG_CACHE_HOME/cugrt, else ~/.cache/cugrt;
  /// CUGRT_CACHE_READONLY; CUGRT_CACHE_LIMIT in bytes, with an optional suffix K, M or G. A limit
  /// in another form keeps the default and is named in `problem`.
  static CacheConfig from_environment();
};

struct CacheEntryInfo {
  std::string path;
  uint64_t size_bytes = 0;
  int64_t last_read_ns = 0; // since the epoch
  bool valid = false;       // a file whose header and checksum hold
  OutputKind kind = OutputKind::cubin;
  std::string architecture;
  CompilerIdentity compiler; // of a valid entry
};

class CodeCache {
public:
  /// An unusable folder is no error; report() names it. A folder that cannot be written is reported
  /// to `log` once there is something to write.
  explicit CodeCache(CacheConfig config, Logger log = {});
  ~CodeCache();
  CodeCache(const CodeCache &) = delete;
  CodeCache &operator=(const CodeCache &) = delete;

  /// The payload for `key`. With `compiler`, an entry of another compiler is a miss.
  std::optional<std::string> find(const CacheKey &key,
                                  const std::optional<CompilerIdentity> &compiler);
  /// Remembers a payload, in memory and on disk. Failures to write are counted, not reported.
  void store(const CacheKey &key, const CompilerIdentity &compiler, OutputKind kind,
             std::string_view architecture, std::string_view payload);

  /// Small text files beside the entries (the remembered compiler). Names are plain file names.
  /// There may be one of a name in each folder: the writable one's first.
  std::vector<std::string> read_notes(const std::string &name) const;
  void write_note(const std::string &name, std::string_view text);

  CacheReport report() const;
  /// Every entry of the writable folder, oldest read first, each one verified.
  std::vector<CacheEntryInfo> list() const;
  /// Removes the oldest-read entries until at most `limit_bytes` remain; returns how many went.
  uint64_t prune(uint64_t limit_bytes);
  /// Removes what list() finds invalid, of folders the empty ones; returns how many went. The error
  /// names what could not be removed, after all else was.
  Result<uint64_t> remove_invalid();
  /// Copies every valid entry and the notes to `folder`, which is made if need be: what becomes
  /// the read-only folder of other machines. Returns the number of entries.
  Result<uint64_t> export_to(const std::string &folder) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cugrt::jit
