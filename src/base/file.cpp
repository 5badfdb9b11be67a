// POSIX file access.
#include "base/file.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace cugrt {

namespace {

Status file_error(const char *verb, const std::string &path, int error) {
  return Status::error(error == ENOENT ? Code::not_found : Code::io_error,
                       std::string("cannot ") + verb + " '" + path + "': " + std::strerror(error));
}

/// The regular file that the written one will replace: renaming would replace anything.
struct Target {
  std::string path;
  std::optional<mode_t> mode; // of the file that is there
};

Result<Target> rename_target(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return Target{path, {}}; // not there, or not to be looked at: writing says which
  if (S_ISREG(info.st_mode))
    return Target{path, info.st_mode & 0777};
  char target[PATH_MAX];
  const bool is_link = S_ISLNK(info.st_mode);
  if (!is_link || (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)))
    return Status::error(Code::io_error, "cannot write '" + path + "': not a regular file");
  if (!::realpath(path.c_str(), target))
    return file_error("follow the symbolic link", path, errno);
  return Target{target, info.st_mode & 0777};
}

/// Opens a new file beside `path` and sets `name`: the name of `path`, as far as there is room, and
/// a part that no other writer has chosen. -1 and errno on failure.
int open_beside(const std::string &path, std::string &name) {
  static std::atomic<uint32_t> last{0};
  constexpr size_t kDigits = 12;
  const size_t begin = path.rfind('/') + 1; // 0 without a slash
  const std::string start = path.substr(0, begin) + path.substr(begin, NAME_MAX - kDigits - 1);
  for (int attempt = 0; attempt < 100; ++attempt) {
    // Processes differ in their numbers, or begin at other times; those that do not find the name
    // taken.
    const auto now =
        static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    uint64_t number = (static_cast<uint64_t>(::getpid()) << 40) ^ (now << 8) ^ ++last;
    name = start + '.';
    for (size_t i = 0; i < kDigits; ++i, number >>= 4)
      name += "0123456789abcdef"[number & 15];
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

Status write_all(int fd, std::string_view bytes, const std::string &path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return file_error("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

} // namespace

FileDescriptor::~FileDescriptor() {
  if (fd >= 0)
    ::close(fd);
}

Status RegularFile::failed() const { return file_error("read", path, errno); }

Result<RegularFile> open_regular(const std::string &path) {
  if (path.find('\0') != path.npos) // as files name others: what stands behind it would be left out
    return file_error("read", path, ENOENT);
  // Without O_NONBLOCK a pipe without a writer would hold the caller.
  RegularFile opened{path, FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
                     0};
  struct stat info;
  if (opened.file.fd < 0 || ::fstat(opened.file.fd, &info) != 0)
    return opened.failed();
  if (!S_ISREG(info.st_mode))
    return Status::error(Code::io_error, "cannot read '" + path + "': not a regular file");
  opened.size_bytes = static_cast<uint64_t>(info.st_size);
  return opened;
}

Result<size_t> RegularFile::read(char *to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::read(file.fd, to + done, bytes - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed();
    if (n == 0)
      break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<std::string> read_file(const std::string &path, uint64_t limit_bytes) {
  CUGRT_ASSIGN(RegularFile file, open_regular(path));
  if (file.size_bytes > limit_bytes)
    return Status::error(Code::out_of_range,
                         "cannot read '" + path + "': " + std::to_string(file.size_bytes) +
                             " bytes, the limit is " + std::to_string(limit_bytes));
  std::string bytes(file.size_bytes, '\0');
  CUGRT_ASSIGN(const size_t done, file.read(bytes.data(), bytes.size()));
  bytes.resize(done); // the file may have become shorter
  return bytes;
}

Status write_file(const std::string &path, std::span<const std::string_view> parts) {
  CUGRT_ASSIGN(const Target target, rename_target(path));
  std::string temporary;
  FileDescriptor file(open_beside(target.path, temporary));
  if (file.fd < 0)
    return file_error("write", path, errno);
  Status status;
  for (const std::string_view part : parts)
    if (status.ok())
      status = write_all(file.fd, part, path);
  // Some file systems tell of a full disk when a file is closed.
  if (status.ok() && ((target.mode && ::fchmod(file.fd, *target.mode) != 0) ||
                      ::close(std::exchange(file.fd, -1)) != 0 ||
                      ::rename(temporary.c_str(), target.path.c_str()) != 0))
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
