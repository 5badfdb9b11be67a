// A file's bytes, mapped read-only: pages are read when they are touched; and bytes, of a file or
// not, that several keep.
#pragma once

#include "base/status.h"

#include <memory>
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

/// Copies share the bytes, which do not change.
struct SharedBytes {
  SharedBytes() = default;
  SharedBytes(std::shared_ptr<const std::string> text) : view(*text), owner(std::move(text)) {}
  SharedBytes(MappedFile file) : is_mapped(true) {
    auto kept = std::make_shared<const MappedFile>(std::move(file));
    view = kept->bytes();
    owner = std::move(kept);
  }

  std::string_view view;
  std::shared_ptr<const void> owner;
  bool is_mapped = false; // pages of a file, which nothing else lies in
};

} // namespace cugrt
