// A file's bytes, mapped read-only: pages are read when they are touched.
#pragma once

#include "support/status.h"

#include <string>
#include <string_view>
#include <utility>

namespace cugrt {

class MappedFile {
public:
  /// A regular file. The bytes stay as long as the object lives; a file that others cut short
  /// meanwhile ends the process that reads it, as with every mapping.
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  std::string_view bytes() const { return bytes_; }

private:
  explicit MappedFile(std::string_view bytes) : bytes_(bytes) {}
  std::string_view bytes_;
};

} // namespace cugrt
