// Mappings of this process, as Linux lists them; see host_file.h.
#include "emulator/device/host_file.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace cugrt::emulator {

namespace {

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0, inode = 0;
  char access[5] = {}; // "r--p"
  const char *path = "";

  /// False when `line` is none of the format.
  bool parse(char *line) {
    int path_at = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &begin,
                    &end, access, &offset, &inode, &path_at) < 5)
      return false;
    line[std::strcspn(line, "\n")] = '\0';
    path = line + path_at;
    return true;
  }
};

std::optional<HostFile> open_pages(const Mapping &mapping, uint64_t begin) {
  const bool writable = mapping.access[1] == 'w', is_shared = mapping.access[3] == 's';
  if (mapping.inode == 0 || mapping.access[0] != 'r' || (writable && !is_shared))
    return std::nullopt;
  HostFile file{open(mapping.path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC),
                mapping.offset + (begin - mapping.begin), writable};
  struct stat info;
  if (file.descriptor < 0)
    return std::nullopt;
  if (fstat(file.descriptor, &info) == 0 && info.st_ino == mapping.inode)
    return file;
  close(file.descriptor); // another file has taken the path
  return std::nullopt;
}

/// Calls `visit` with each mapping, in the order of addresses, until it answers false.
template <class Visit> void visit_mappings(Visit visit) {
  const std::unique_ptr<FILE, int (*)(FILE *)> list(std::fopen("/proc/self/maps", "re"),
                                                    std::fclose);
  char *line = nullptr;
  size_t line_bytes = 0;
  Mapping mapping;
  while (list && getline(&line, &line_bytes, list.get()) > 0)
    if (mapping.parse(line) && !visit(mapping))
      break;
  std::free(line);
}

} // namespace

std::optional<HostFile> host_file(uint64_t begin, uint64_t end) {
  std::optional<HostFile> found;
  visit_mappings([&](const Mapping &mapping) {
    if (begin >= mapping.end)
      return true;
    if (mapping.begin <= begin && end <= mapping.end)
      found = open_pages(mapping, begin);
    return false;
  });
  return found;
}

HostAccess host_access(uint64_t begin, uint64_t end) {
  HostAccess access = HostAccess::write;
  visit_mappings([&](const Mapping &mapping) {
    if (begin >= mapping.end)
      return true;
    if (begin < mapping.begin || mapping.access[0] != 'r')
      return false;
    if (mapping.access[1] != 'w')
      access = HostAccess::read;
    begin = mapping.end;
    return begin < end;
  });
  return begin < end ? HostAccess::none : access;
}

} // namespace cugrt::emulator
