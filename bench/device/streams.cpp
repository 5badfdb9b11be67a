// Loads alone: what rings of cp.async read of memory, by slots, warps and blocks of a
// multiprocessor. A slot has what 16 columns of weights in q4_k have in 256 of k.
#include "bench/device/device_bench.h"
#include "bench/device/device_sources.h"

namespace cugrt::bench {
namespace {

constexpr uint32_t kUnitBytes = 2304, kReservedBytes = 1 << 10; // the driver's, of a block

/// So many blocks of a multiprocessor, of so many warps, each with so many slots.
template <uint32_t kSlots, uint32_t kWarps, uint32_t kBlocks>
Result<DeviceWork> stream(DeviceBench &bench) {
  constexpr uint32_t kShared = kSlots * kWarps * kUnitBytes;
  CUGRT_ASSIGN(const int has,
               bench.context().attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  if (kBlocks * (kShared + kReservedBytes) > uint32_t(has))
    return Status::error(Code::unsupported,
                         "a multiprocessor has " + std::to_string(has) + " bytes of shared memory");
  constexpr char kEntry[] = {'s', 't', 'r', 'e', 'a', 'm', '_', char('0' + kSlots), 0};
  CUGRT_ASSIGN(const driver::Kernel kernel, bench.kernel(kStreamSource, kEntry));
  CUGRT_TRY(kernel.allow_dynamic_shared(kShared));
  CUGRT_ASSIGN(const driver::DeviceBuffer *words, bench.words());
  CUGRT_ASSIGN(const SharedBuffer sum, bench.zeros(4));
  const uint64_t units = bench.word_count() * 4 / kUnitBytes;
  const uint32_t grid = bench.blocks() * kBlocks;
  DeviceWork work;
  work.bytes = double(units * kUnitBytes);
  work.enqueue = [&bench, kernel, words, sum, units, grid] {
    Packed arguments(words->address(), sum->address(), units);
    return bench.launch(kernel, grid, kWarps * 32, arguments.pointers.data(), {}, kShared);
  };
  work.check = [&bench, sum, units]() -> Result<std::string> {
    CUGRT_ASSIGN(const std::vector<uint32_t> got, bench.read(*sum, 1));
    const uint32_t expected = sum_of_words(0, units * kUnitBytes / 4);
    return got[0] == expected ? std::string() : "the sum of what was read is wrong";
  };
  return work;
}

constexpr DeviceCase kStreams[] = {
    {2, "stream_2_slots_8x1", stream<2, 8, 1>},   {2, "stream_3_slots_8x1", stream<3, 8, 1>},
    {2, "stream_4_slots_8x1", stream<4, 8, 1>},   {2, "stream_2_slots_16x1", stream<2, 16, 1>},
    {2, "stream_3_slots_16x1", stream<3, 16, 1>}, {2, "stream_4_slots_16x1", stream<4, 16, 1>},
    {2, "stream_2_slots_8x2", stream<2, 8, 2>},   {2, "stream_3_slots_8x2", stream<3, 8, 2>},
    {2, "stream_4_slots_8x2", stream<4, 8, 2>},   {2, "stream_2_slots_16x2", stream<2, 16, 2>},
    {2, "stream_3_slots_16x2", stream<3, 16, 2>}, {2, "stream_4_slots_16x2", stream<4, 16, 2>},
};

} // namespace

std::span<const DeviceCase> stream_cases() { return kStreams; }

} // namespace cugrt::bench
