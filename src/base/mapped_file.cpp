// Mapping of files; see mapped_file.h.
#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cugrt {

namespace {

Status failure(const std::string &path, int error) {
  return Status::error(error == ENOENT ? Code::not_found : Code::io_error,
                       "cannot read '" + path + "': " + std::strerror(error));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

} // namespace

Result<MappedFile> MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK a pipe without a writer would hold the caller.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0)
    return failure(path, errno);
  struct stat info;
  if (::fstat(file.number, &info) != 0)
    return failure(path, errno);
  if (!S_ISREG(info.st_mode))
    return Status::error(Code::io_error, "cannot read '" + path + "': it is no regular file");
  const auto size_bytes = static_cast<size_t>(info.st_size);
  if (size_bytes == 0)
    return MappedFile(std::string_view());
  void *const address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED)
    return failure(path, errno);
  return MappedFile(std::string_view(static_cast<const char *>(address), size_bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<char *>(bytes_.data()), bytes_.size());
}

} // namespace cugrt
