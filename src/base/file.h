// Whole-file reading with a bound, and writing that never leaves half a file.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace cugrt {

/// Reads a regular file of at most `limit_bytes`. A folder, a larger file or an unreadable one is
/// an error that names the path.
Result<std::string> read_file(const std::string &path, uint64_t limit_bytes);

/// Writes beside `path`, then renames: readers see the old file or the new one, never a part. The
/// folder must exist. On failure nothing is left behind. A symbolic link to a file is followed;
/// what is there and is no regular file (a folder, a device, a pipe) stays, and is an error.
Status write_file(const std::string &path, std::string_view bytes);

/// The folder of the library or program that this code was linked into, with a slash; empty when
/// unknown.
std::string own_folder();

} // namespace cugrt
