// Words between the blocks of a grid and of a cluster, and between the device and the host.
#include "bench/device/device_bench.h"
#include "bench/device/device_sources.h"

namespace cugrt::bench {
namespace {

Result<std::string> all_are(const DeviceBench &bench, const SharedBuffer &cells, uint32_t count,
                            uint32_t expected) {
  CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*cells, count));
  for (const uint32_t value : got)
    if (value != expected)
      return "a block ended with " + std::to_string(value) + ", not " + std::to_string(expected);
  return std::string();
}

/// Each block publishes a word with its step and polls those of all others.
Result<DeviceWork> grid_words(DeviceBench &bench) {
  const uint32_t steps = bench.size(1000u, 5u), grid = bench.blocks();
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kExchangeSource, "words_with_steps"));
  CUGRT_ASSIGN(const SharedBuffer cells, bench.zeros(4ull * grid));
  CUGRT_ASSIGN(const SharedBuffer slots, bench.zeros(16ull * grid));
  CUGRT_ASSIGN(const SharedBuffer state, bench.zeros(8));
  DeviceWork work;
  work.count = steps;
  work.enqueue = [&bench, kernel, cells, slots, state, steps, grid] {
    const CUlaunchAttribute attribute = cooperative_launch();
    Packed arguments(cells->address(), slots->address(), state->address(), state->address() + 4,
                     steps);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data(), {&attribute, 1});
  };
  work.check = [&bench, cells, steps, grid] { return all_are(bench, cells, grid, steps); };
  return work;
}

/// Blocks of a cluster write into one another's shared memory.
Result<DeviceWork> cluster(DeviceBench &bench, uint32_t size) {
  CUGRT_TRY(bench.require(90, "clusters"));
  const uint32_t steps = bench.size(1000u, 5u);
  const uint32_t grid = std::max(1u, bench.blocks() / size) * size;
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kClusterSource, "cluster_steps"));
  if (size > driver::Kernel::kPortableClusterBlocks)
    CUGRT_TRY(kernel.allow_large_clusters());
  CUGRT_ASSIGN(const SharedBuffer cells, bench.zeros(4ull * grid));
  DeviceWork work;
  work.count = steps;
  work.enqueue = [&bench, kernel, cells, steps, grid, size] {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {size, 1, 1};
    Packed arguments(cells->address(), steps);
    return bench.launch(kernel, grid, kThreads, arguments.pointers.data(), {&attribute, 1});
  };
  work.check = [&bench, cells, steps, grid] { return all_are(bench, cells, grid, steps); };
  return work;
}
Result<DeviceWork> cluster_8(DeviceBench &bench) { return cluster(bench, 8); }
Result<DeviceWork> cluster_16(DeviceBench &bench) { return cluster(bench, 16); }

/// Pinned words of the host and a word of the device.
struct HostWords {
  driver::PinnedBuffer host;
  SharedBuffer device;
};
Result<std::shared_ptr<HostWords>> host_words(DeviceBench &bench, uint32_t count) {
  auto words = std::make_shared<HostWords>();
  CUGRT_ASSIGN(words->host, driver::PinnedBuffer::allocate(bench.context(), 4ull * count));
  CUGRT_ASSIGN(words->device, bench.zeros(4));
  return words;
}

Result<DeviceWork> pinned_reads(DeviceBench &bench) {
  constexpr uint32_t kStride = 32; // words: a line each
  const uint32_t count = bench.size(256u, 4u);
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kExchangeSource, "pinned_reads"));
  CUGRT_ASSIGN(const std::shared_ptr<HostWords> words, host_words(bench, (count + 1) * kStride));
  CUGRT_ASSIGN(const uint64_t address, words->host.device_address(bench.context()));
  for (uint32_t i = 0; i <= count; ++i)
    static_cast<uint32_t *>(words->host.data())[i * kStride] = (i + 1) * kStride;
  DeviceWork work;
  work.count = count;
  work.enqueue = [&bench, kernel, words, address, count] {
    Packed arguments(address, words->device->address(), count);
    return bench.launch(kernel, 1, 1, arguments.pointers.data());
  };
  work.check = [&bench, words, count] { return all_are(bench, words->device, 1, count * kStride); };
  return work;
}

enum class PinnedWrite : uint32_t { fence_of_one, fence_of_all, release }; // as the kernel counts

template <PinnedWrite kHow> Result<DeviceWork> pinned_writes(DeviceBench &bench) {
  const uint32_t count = bench.size(256u, 4u);
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kExchangeSource, "pinned_writes"));
  CUGRT_ASSIGN(const std::shared_ptr<HostWords> words, host_words(bench, 1));
  CUGRT_ASSIGN(const uint64_t address, words->host.device_address(bench.context()));
  *static_cast<uint32_t *>(words->host.data()) = 0;
  DeviceWork work;
  work.count = count;
  work.enqueue = [&bench, kernel, words, address, count] {
    Packed arguments(address, words->device->address(), count, uint32_t(kHow));
    return bench.launch(kernel, 1, kThreads, arguments.pointers.data());
  };
  work.check = [words, count]() -> Result<std::string> {
    const uint32_t got = *static_cast<const volatile uint32_t *>(words->host.data());
    return got == count ? std::string() : "the host sees " + std::to_string(got);
  };
  return work;
}

constexpr DeviceCase kExchanges[] = {
    {1, "grid_words", grid_words},
    {1, "cluster_8", cluster_8},
    {1, "cluster_16", cluster_16},
    {1, "pinned_reads", pinned_reads},
    {1, "pinned_write_fence_of_one", pinned_writes<PinnedWrite::fence_of_one>},
    {1, "pinned_write_fence_of_all", pinned_writes<PinnedWrite::fence_of_all>},
    {1, "pinned_write_release", pinned_writes<PinnedWrite::release>},
};

} // namespace

std::span<const DeviceCase> exchange_cases() { return kExchanges; }

} // namespace cugrt::bench
