// What the device can do at most: reads of memory and of L2, and products on tensor cores.
#include "bench/device/device_bench.h"
#include "bench/device/device_sources.h"

namespace cugrt::bench {
namespace {

constexpr uint64_t kPieceBytes = 16;
constexpr uint32_t kPartPieces = 6 * kThreads; // as the kernels have them

std::string differs(const char *what, uint32_t got, uint32_t expected) {
  return got == expected ? ""
                         : std::string(what) + " is " + std::to_string(got) + ", not " +
                               std::to_string(expected);
}

/// Reads of shared words whose sum is known.
Result<DeviceWork> reading(DeviceBench &bench, const char *entry, uint32_t grid, uint64_t last,
                           uint64_t bytes, uint32_t expected) {
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kCeilingSource, entry));
  CUGRT_ASSIGN(const driver::DeviceBuffer *words, bench.words());
  CUGRT_ASSIGN(const SharedBuffer sum, bench.zeros(4));
  DeviceWork work;
  work.bytes = double(bytes);
  work.enqueue = [&bench, kernel, words, sum, grid, last] {
    Packed arguments(words->address(), sum->address(), last);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data());
  };
  work.check = [&bench, sum, expected]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*sum, 1));
    return differs("the sum of what was read", got[0], expected);
  };
  return work;
}

Result<DeviceWork> read(DeviceBench &bench) {
  const uint64_t words = bench.word_count();
  return reading(bench, "read_all", bench.size(4096u, 4u), words / 4, words * 4,
                 sum_of_words(0, words));
}

/// Of 24 MiB, which the L2 of an H100 holds twice over.
Result<DeviceWork> l2(DeviceBench &bench, const char *entry, bool adds_all) {
  const uint32_t grid = bench.size(1024u, 4u), passes = bench.size(64u, 3u);
  const uint64_t bytes = uint64_t(grid) * kPartPieces * kPieceBytes;
  const uint32_t once = sum_of_words(0, bytes / 4);
  return reading(bench, entry, grid, passes, bytes * passes, adds_all ? once * passes : once);
}
Result<DeviceWork> l2_loads(DeviceBench &bench) { return l2(bench, "l2_loads", true); }
Result<DeviceWork> l2_copies(DeviceBench &bench) { return l2(bench, "l2_copies", false); }

Result<DeviceWork> products(DeviceBench &bench, const char *entry, uint32_t k) {
  constexpr uint32_t kInFlight = 8, kColumns = 8;
  const uint32_t grid = bench.blocks() * bench.size(8u, 1u), steps = bench.size(4096u, 3u);
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kCeilingSource, entry));
  CUGRT_ASSIGN(const SharedBuffer sums, bench.zeros(8));
  DeviceWork work;
  work.operations = 2.0 * 16 * kColumns * k * kInFlight * (kThreads / 32) * grid * steps;
  work.enqueue = [&bench, kernel, sums, grid, steps] {
    Packed arguments(sums->address(), steps);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data());
  };
  work.check = [&bench, sums, steps]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*sums, 2));
    return differs("the sum of the products", got[0], got[1] * kInFlight * kColumns * steps);
  };
  return work;
}
Result<DeviceWork> mma_f16(DeviceBench &bench) { return products(bench, "mma_f16", 16); }
Result<DeviceWork> mma_s8(DeviceBench &bench) { return products(bench, "mma_s8", 32); }

Result<DeviceWork> wgmma_f16(DeviceBench &bench) {
  if (bench.emulated())
    return Status::error(Code::unsupported, "the emulated driver has no wgmma");
  if (bench.context().capability() != 90)
    return Status::error(Code::unsupported, bench.context().architecture() + " has no wgmma");
  constexpr uint32_t kSteps = 4096, kGroups = kThreads / 128, kEach = 4;
  const uint32_t grid = bench.blocks();
  CUGRT_ASSIGN(const driver::Kernel kernel,
               bench.kernel(warp_group_source(), "wgmma_f16", "sm_90a"));
  CUGRT_ASSIGN(const SharedBuffer wrong, bench.zeros(4));
  DeviceWork work;
  work.operations = 2.0 * 64 * 256 * 16 * kEach * kGroups * grid * kSteps;
  work.enqueue = [&bench, kernel, wrong, grid] {
    Packed arguments(wrong->address(), kSteps);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data());
  };
  work.check = [&bench, wrong]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*wrong, 1));
    return differs("the number of threads with wrong sums", got[0], 0);
  };
  return work;
}

constexpr DeviceCase kCeilings[] = {
    {0, "read", read},       {0, "l2_loads", l2_loads}, {0, "l2_copies", l2_copies},
    {0, "mma_f16", mma_f16}, {0, "mma_s8", mma_s8},     {0, "wgmma_f16", wgmma_f16},
};

} // namespace

std::span<const DeviceCase> ceiling_cases() { return kCeilings; }

} // namespace cugrt::bench
