// Mapping of files; see mapped_file.h.
#include "base/mapped_file.h"

#include "base/file.h"

#include <sys/mman.h>

namespace cugrt {

Result<MappedFile> MappedFile::open(const std::string &path) {
  CUGRT_ASSIGN(const RegularFile file, open_regular(path));
  const auto size_bytes = static_cast<size_t>(file.size_bytes);
  if (size_bytes == 0)
    return MappedFile(std::string_view());
  void *const address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.file.fd, 0);
  if (address == MAP_FAILED)
    return file.failed();
  return MappedFile(std::string_view(static_cast<const char *>(address), size_bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<char *>(bytes_.data()), bytes_.size());
}

} // namespace cugrt
