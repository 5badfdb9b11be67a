// Kinds of the program's memory: whether it may be read and written, and the file whose pages it
// maps, so that they can be mapped a second time.
#pragma once

#include <cstdint>
#include <optional>

namespace cugrt::emulator {

struct HostFile {
  int descriptor = -1; // the caller closes it
  uint64_t offset = 0; // of the first page asked for
  bool writable = false;
};

/// The file of whole pages in one mapping. Empty for memory without a file (heap, stack), for
/// pages that the program may have changed for itself alone, and for files that are gone from
/// their path.
std::optional<HostFile> host_file(uint64_t begin, uint64_t end);

enum class HostAccess { none, read, write };

/// The access that the program has to all of [begin, end), in however many mappings.
HostAccess host_access(uint64_t begin, uint64_t end);

} // namespace cugrt::emulator
