// Reads of memory that nothing was ever written to; see uninitialized.h.
#include "emulator/driver/uninitialized.h"

#include "emulator/driver/access_text.h"

#include <algorithm>

namespace cugrt::emulator::api {

namespace {

template <class Visit> void for_each_access(const LaunchAccesses &accesses, Visit visit) {
  accesses.before_wait.for_each(visit);
  accesses.after_wait.for_each(visit);
}

} // namespace

bool wants_accesses(const Driver &driver) {
  return driver.findings.enabled(Check::uninitialized) && driver.allocations->has_untouched();
}

void check_initialized(Driver &driver, const std::string &name, const LaunchAccesses &accesses) {
  for_each_access(accesses, [&](AccessKind kind, const AccessSet::Range &range) {
    if (is_write(kind))
      driver.allocations->touch(range.begin, range.end);
  });
  std::map<uint64_t, std::pair<MemoryRange, AccessSet::Range>> found; // the first bytes of each
  for_each_access(accesses, [&](AccessKind kind, const AccessSet::Range &range) {
    if (is_write(kind))
      return;
    for (uint64_t at = range.begin; at < range.end;) {
      std::optional<MemoryRange> memory = driver.allocations->find_untouched(at, range.end);
      if (!memory)
        return;
      uint64_t end = memory->begin + memory->bytes;
      AccessSet::Range bytes{std::max(at, memory->begin), std::min(range.end, end)};
      auto it = found.emplace(memory->begin, std::pair(*memory, bytes)).first;
      if (bytes.begin < it->second.second.begin)
        it->second.second = bytes;
      at = end;
    }
  });
  for (const auto &[begin, what] : found)
    driver.findings.report(Check::uninitialized, name + " reads " + bytes_at(what.second) +
                                                     ", of an allocation of " +
                                                     std::to_string(what.first.bytes) +
                                                     " bytes to which nothing was ever written");
}

} // namespace cugrt::emulator::api
