// Sums by name, written out by a static destructor.
#include "emulator/exec/checks/kernel_counts.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace cugrt::emulator::kernel_counts {

namespace {

struct Sums {
  uint64_t lane_operations = 0, warp_instructions = 0, launches = 0;
};

struct Record {
  std::string file;
  std::mutex mutex;
  std::map<std::string, Sums> kernels;

  Record() {
    if (const char *name = std::getenv("CUGRT_EMU_COUNTS"))
      file = name;
  }
  ~Record() {
    std::FILE *out = kernels.empty() ? nullptr : std::fopen(file.c_str(), "a");
    if (!out)
      return;
    std::vector<std::pair<std::string, Sums>> sorted(kernels.begin(), kernels.end());
    std::ranges::stable_sort(sorted, std::greater(),
                             [](const auto &kernel) { return kernel.second.lane_operations; });
    for (const auto &[name, sums] : sorted)
      std::fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", sums.lane_operations,
                   sums.warp_instructions, sums.launches, name.c_str());
    std::fclose(out);
  }
};

Record &record() {
  static Record instance;
  return instance;
}

} // namespace

bool enabled() { return !record().file.empty(); }

void launched(const std::string &kernel, uint64_t warp_instructions, uint64_t lane_operations) {
  std::lock_guard lock(record().mutex);
  Sums &sums = record().kernels[kernel];
  sums.lane_operations += lane_operations;
  sums.warp_instructions += warp_instructions;
  ++sums.launches;
}

} // namespace cugrt::emulator::kernel_counts
