// POSIX file access.
#include "base/file.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cugrt {

namespace {

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

Status file_error(const char *verb, const std::string &path, int error) {
  return Status::error(error == ENOENT ? Code::not_found : Code::io_error,
                       std::string("cannot ") + verb + " '" + path + "': " + std::strerror(error));
}

/// What is to be replaced by the written file: renaming would put it in the place of anything.
Result<std::string> rename_target(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return path; // not there, or not to be looked at: writing says which
  if (S_ISREG(info.st_mode))
    return path;
  char target[PATH_MAX];
  if (!S_ISLNK(info.st_mode) || (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)))
    return Status::error(Code::io_error, "cannot write '" + path + "': not a regular file");
  if (!::realpath(path.c_str(), target))
    return file_error("follow the symbolic link", path, errno);
  return std::string(target);
}

} // namespace

Result<std::string> read_file(const std::string &path, uint64_t limit_bytes) {
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return file_error("open", path, errno);
  struct stat info;
  if (::fstat(file.fd, &info) != 0)
    return file_error("read", path, errno);
  if (!S_ISREG(info.st_mode))
    return Status::error(Code::io_error, "cannot read '" + path + "': not a regular file");
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > limit_bytes)
    return Status::error(Code::out_of_range, "cannot read '" + path + "': " + std::to_string(size) +
                                                 " bytes, the limit is " +
                                                 std::to_string(limit_bytes));
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    ssize_t n = ::read(file.fd, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return file_error("read", path, errno);
    if (n == 0)
      break; // the file shrank while it was read
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

Status write_file(const std::string &path, std::string_view bytes) {
  CUGRT_ASSIGN(std::string target, rename_target(path));
  std::string temporary = target + ".XXXXXX";
  FileDescriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.fd < 0)
    return file_error("write", path, errno);
  Status status;
  size_t done = 0;
  while (done < bytes.size() && status.ok()) {
    ssize_t n = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      status = file_error("write", path, errno);
    else
      done += static_cast<size_t>(n);
  }
  // mkostemp makes the file private; results are for everyone to read. Some file systems tell of a
  // full disk when a file is closed.
  if (status.ok() && (::fchmod(file.fd, 0644) != 0 || ::close(std::exchange(file.fd, -1)) != 0 ||
                      ::rename(temporary.c_str(), target.c_str()) != 0))
    status = file_error("write", path, errno);
  if (!status.ok())
    ::unlink(temporary.c_str());
  return status;
}

std::string own_folder() {
  Dl_info info;
  static const char anchor = 0;
  if (!::dladdr(&anchor, &info) || !info.dli_fname)
    return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

} // namespace cugrt
