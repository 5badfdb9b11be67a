// A flag for each row, written out by a static destructor.
#include "emulator/exec/checks/coverage.h"

#include "emulator/exec/opcodes/opcode.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace cugrt::emulator::coverage {

namespace {

struct Record {
  std::string file;
  std::array<std::atomic<bool>, kOpCount> seen{};

  Record() {
    if (const char *name = std::getenv("CUGRT_EMU_COVERAGE"))
      file = name;
  }
  ~Record() {
    if (file.empty())
      return;
    std::FILE *out = std::fopen(file.c_str(), "a");
    if (!out)
      return;
    for (size_t i = 0; i < kOpCount; ++i)
      std::fprintf(out, "%c %s\n", seen[i] ? '+' : '-',
                   std::string(op_info(OpId(i)).names).c_str());
    std::fclose(out);
  }
};

Record &record() {
  static Record instance;
  return instance;
}

} // namespace

bool enabled() { return !record().file.empty(); }

void executed(OpId id) { record().seen[size_t(id)].store(true, std::memory_order_relaxed); }

} // namespace cugrt::emulator::coverage
