// Facts about the compiler and the code cache, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::jit {

/// State of the code cache, for `cugrt doctor` and the runtime's statistics.
struct CacheReport {
  std::string folder, read_only_folder;
  bool readable = false, writable = false;
  std::string problem; // why the folder is not used or not written; empty when all is well
  uint64_t memory_hits = 0, disk_hits = 0, read_only_hits = 0, misses = 0;
  uint64_t rejected = 0; // files that were broken, foreign or of another compiler
  uint64_t stored = 0, store_failures = 0, evicted = 0;
};

/// State of the compiler, for `cugrt doctor`.
struct CompilerReport {
  bool found = false;
  std::string problem; // why there is no compiler
  std::string library, include_folder, found_by;
  std::string worker;             // compiles in parallel; empty: all is compiled in this process
  int major = 0, minor = 0;       // 0.0 while unknown: neither remembered nor opened
  int named_major = 0;            // as the library's name says; 0: it does not
  std::vector<int> architectures; // 75, 80, ..., ascending; empty while unknown
  bool opened = false;
  CacheReport cache;
};

} // namespace cugrt::jit
