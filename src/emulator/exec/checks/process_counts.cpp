// Flags of rows and sums by kernel, written out by static destructors.
#include "emulator/exec/checks/process_counts.h"

#include "emulator/exec/opcodes/opcode.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace cugrt::emulator {

namespace {

/// The file that a variable of the environment names; writes to it when the process ends.
struct Record {
  std::string file;

  explicit Record(const char *variable) {
    if (const char *name = std::getenv(variable))
      file = name;
  }
  template <class Write> void append(Write &&write) const {
    std::FILE *out = file.empty() ? nullptr : std::fopen(file.c_str(), "a");
    if (!out)
      return;
    write(out);
    std::fclose(out);
  }
};

struct RowRecord : Record {
  std::array<std::atomic<bool>, kOpCount> seen{};

  RowRecord() : Record("CUGRT_EMU_COVERAGE") {}
  ~RowRecord() {
    append([&](std::FILE *out) {
      for (size_t i = 0; i < kOpCount; ++i)
        std::fprintf(out, "%c %s\n", seen[i] ? '+' : '-',
                     std::string(op_info(OpId(i)).names).c_str());
    });
  }
};

struct Sums {
  uint64_t lane_operations = 0, warp_instructions = 0, launches = 0;
};

struct KernelRecord : Record {
  std::mutex mutex;
  std::map<std::string, Sums> kernels;

  KernelRecord() : Record("CUGRT_EMU_COUNTS") {}
  ~KernelRecord() {
    std::vector<std::pair<std::string, Sums>> sorted(kernels.begin(), kernels.end());
    std::ranges::stable_sort(sorted, std::greater(),
                             [](const auto &kernel) { return kernel.second.lane_operations; });
    if (!sorted.empty())
      append([&](std::FILE *out) {
        for (const auto &[name, sums] : sorted)
          std::fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", sums.lane_operations,
                       sums.warp_instructions, sums.launches, name.c_str());
      });
  }
};

template <class T> T &record() {
  static T instance;
  return instance;
}

} // namespace

bool coverage::enabled() { return !record<RowRecord>().file.empty(); }

void coverage::executed(OpId id) {
  record<RowRecord>().seen[size_t(id)].store(true, std::memory_order_relaxed);
}

bool kernel_counts::enabled() { return !record<KernelRecord>().file.empty(); }

void kernel_counts::launched(const std::string &kernel, uint64_t warp_instructions,
                             uint64_t lane_operations) {
  std::lock_guard lock(record<KernelRecord>().mutex);
  Sums &sums = record<KernelRecord>().kernels[kernel];
  sums.lane_operations += lane_operations;
  sums.warp_instructions += warp_instructions;
  ++sums.launches;
}

} // namespace cugrt::emulator
