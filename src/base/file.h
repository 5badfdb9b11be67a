// Reads whole files up to a bound; writes files without ever leaving half of one.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cugrt {

/// Owns a file descriptor and closes it.
struct FileDescriptor {
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~FileDescriptor();
  int fd;
};

/// A regular file that is open for reading.
struct RegularFile {
  std::string path;
  FileDescriptor file;
  uint64_t size_bytes;

  /// Reads the bytes after the last ones. Fewer than `bytes` only at the file's end.
  Result<size_t> read(char *to, size_t bytes);
  /// The error that errno names.
  Status failed() const;
};
/// Opens a regular file. A file that cannot be opened or is not regular (a folder, a device, a
/// pipe) is an error that names the path. A pipe that nobody writes into does not block the caller.
Result<RegularFile> open_regular(const std::string &path);

/// Reads a regular file. One of more than `limit_bytes` is an error, too.
Result<std::string> read_file(const std::string &path, uint64_t limit_bytes);

/// Writes the parts, one behind the other, beside `path` under a name of its own, then renames:
/// readers see the old file or the new one, never a part, and of several writers one wins. The
/// folder must exist. On failure nothing is left behind. A new file has the mode that the process's
/// umask leaves of 0666; one that is replaced keeps its mode. A symbolic link to a file is
/// followed; a path that is no regular file (a folder, a device, a pipe) stays, and is an
/// error.
Status write_file(const std::string &path, std::span<const std::string_view> parts);
inline Status write_file(const std::string &path, std::initializer_list<std::string_view> parts) {
  return write_file(path, std::span(parts.begin(), parts.size()));
}
inline Status write_file(const std::string &path, std::string_view bytes) {
  return write_file(path, {bytes});
}

/// The folder of the library or program that this code was linked into, with a slash; empty when
/// unknown.
std::string own_folder();

} // namespace cugrt
