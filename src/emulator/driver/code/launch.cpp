// Checks and runs kernel launches; see launch.h.
#include "emulator/driver/code/launch.h"

#include "emulator/device/device_heap.h"
#include "emulator/device/undefined_bytes.h"
#include "emulator/driver/code/module.h"
#include "emulator/driver/device_limits.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cugrt::emulator::api {

CUresult resolve_function(Driver &driver, CUfunction handle, CUkernel kernel,
                          const Ref<Context> &context, Ref<Function> *out) {
  *out = driver.functions.find(handle);
  if (*out)
    return CUDA_SUCCESS;
  // "func - Function CUfunction or Kernel CUkernel to launch"
  Ref<Kernel> found = driver.kernels.find(handle ? reinterpret_cast<CUkernel>(handle) : kernel);
  return found ? load_kernel(driver, *found, context, out) : CUDA_ERROR_INVALID_HANDLE;
}

namespace {

using Extent = std::array<uint32_t, 3>;

Extent extent_of(const CUlaunchAttributeValue &value) {
  return {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
}

CUresult check_shape(Driver &driver, const KernelWork &work, bool of_node) {
  const Function &function = *work.function;
  const KernelInfo &info = *function.info;
  constexpr uint32_t kMaxGrid[] = {2147483647, 65535, 65535}, kMaxBlock[] = {1024, 1024, 64};
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    // "grid dimensions": a node may have 0 until it is launched.
    if ((!work.grid[i] && !of_node) || work.grid[i] > kMaxGrid[i] || !work.block[i] ||
        work.block[i] > kMaxBlock[i])
      return CUDA_ERROR_INVALID_VALUE;
    threads *= work.block[i];
  }
  if (threads > kMaxThreadsPerBlock)
    return CUDA_ERROR_INVALID_VALUE;
  if (threads > info.max_threads_per_block) // more than .maxntid
    return CUDA_ERROR_INVALID_VALUE;
  if (info.required_block[0] && info.required_block != work.block)
    return CUDA_ERROR_INVALID_VALUE;
  if (!has_registers(driver, *function.module, info, uint32_t(threads)))
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  // More than the function's CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES fails the launch.
  if (work.dynamic_shared_bytes > uint32_t(function.max_dynamic_shared_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult check_cooperative(Driver &driver, const KernelWork &work) {
  const DeviceProfile &profile = *driver.config.profile;
  uint64_t blocks = uint64_t(work.grid[0]) * work.grid[1] * work.grid[2];
  int threads = int(work.block[0] * work.block[1] * work.block[2]);
  int resident = max_active_blocks(profile, *work.function, threads, work.dynamic_shared_bytes);
  // "The total number of blocks launched cannot exceed the maximum number of blocks per
  // multiprocessor
  // [...] times the number of multiprocessors"
  return blocks > uint64_t(resident) * multiprocessors(driver, work.green.get())
             ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
             : CUDA_SUCCESS;
}

CUresult check_cluster(Driver &driver, const KernelWork &work) {
  const KernelInfo &info = *work.function->info;
  const Extent cluster = cluster_of(work);
  auto stated = work.attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  // A kernel compiled for a cluster cannot be launched with another one.
  if (stated != work.attributes.end() && info.required_cluster[0] &&
      cluster != extent_of(stated->second))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (!cluster[0] && !cluster[1] && !cluster[2])
    return info.explicit_cluster || stated != work.attributes.end()
               ? CUDA_ERROR_INVALID_CLUSTER_SIZE
               : CUDA_SUCCESS;
  uint64_t blocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (!cluster[i] || work.grid[i] % cluster[i]) // "Must be a divisor of the grid X dimension."
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    blocks *= cluster[i];
  }
  // "The default maximum of 8 is portable"; more take the function's attribute.
  if (blocks > max_cluster_blocks(*work.function) ||
      (info.max_cluster_rank && blocks > info.max_cluster_rank))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (blocks > 1 && driver.config.profile->capability() < kClusterCapability) {
    driver.report(Check::refused, "thread block clusters need a device of sm_90 or later");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

} // namespace

std::array<uint32_t, 3> cluster_of(const KernelWork &work) {
  const Function &function = *work.function;
  if (function.info->required_cluster[0])
    return function.info->required_cluster;
  auto stated = work.attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  if (stated != work.attributes.end())
    return extent_of(stated->second);
  const auto &set = function.cluster;
  return {uint32_t(set[0]), uint32_t(set[1]), uint32_t(set[2])};
}

uint32_t max_cluster_blocks(const Function &function) {
  constexpr uint32_t kMaxCluster = 16;
  return function.non_portable_cluster ? kMaxCluster : kPortableClusterBlocks;
}

CUresult check_known(Driver &driver, CUlaunchAttributeID id) {
  switch (id) {
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_IGNORE: // this and the others are hints: they change no result here
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
  case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
  case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    return driver.refuse("launch attribute " + std::to_string(id) + " is");
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult check_attributes(Driver &driver, const KernelWork &work) {
  for (const auto &[id, value] : work.attributes) {
    CUGRT_EMU_TRY(check_known(driver, CUlaunchAttributeID(id)));
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && value.cooperative)
      CUGRT_EMU_TRY(check_cooperative(driver, work));
  }
  return check_cluster(driver, work);
}

// A list of name and value, ended by CU_LAUNCH_PARAM_END.
static CUresult copy_extra(const KernelInfo &info, void **extra, std::vector<std::byte> *out) {
  const std::byte *buffer = nullptr;
  const size_t *bytes = nullptr;
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<const std::byte *>(extra[i + 1]);
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = static_cast<const size_t *>(extra[i + 1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  // "The error CUDA_ERROR_INVALID_VALUE will be returned if either of them is not specified with a
  // non-zero size."
  if (info.param_bytes == 0 && !bytes)
    return CUDA_SUCCESS;
  if (!bytes || (*bytes && !buffer) || *bytes < info.param_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (*bytes > info.param_bytes)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (info.param_bytes)
    std::memcpy(out->data(), buffer, info.param_bytes);
  return CUDA_SUCCESS;
}

CUresult copy_params(const KernelInfo &info, void **params, void **extra,
                     std::vector<std::byte> *out) {
  out->assign(info.param_bytes, std::byte{0});
  // "Specifying kernel parameters via both kernelParams and extra will cause
  // cuLaunchKernel to return CUDA_ERROR_INVALID_VALUE"
  if (params && extra)
    return CUDA_ERROR_INVALID_VALUE;
  if (extra)
    return copy_extra(info, extra, out);
  if (!params && !info.params.empty())
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < info.params.size(); ++i) {
    const KernelParam &param = info.params[i];
    if (!params[i] || uint64_t(param.offset) + param.bytes > info.param_bytes)
      return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(out->data() + param.offset, params[i], param.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult prepare_launch(Driver &driver, const LaunchRequest &request, const Ref<Context> &context,
                        KernelWork *out) {
  CUGRT_EMU_TRY(
      resolve_function(driver, request.function, request.kernel, context, &out->function));
  if (const std::string &missing = out->function->info->missing; !missing.empty()) {
    driver.report(Check::refused, missing);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (driver.kernels.find(reinterpret_cast<CUkernel>(request.function)))
    out->kernel = reinterpret_cast<CUkernel>(request.function);
  else if (!request.function)
    out->kernel = request.kernel;
  out->grid = request.grid;
  out->block = request.block;
  out->dynamic_shared_bytes = request.dynamic_shared_bytes;
  out->green = request.green;
  CUGRT_EMU_TRY(check_shape(driver, *out, request.of_node));
  CUGRT_EMU_TRY(check_attributes(driver, *out));
  return copy_params(*out->function->info, request.params, request.extra, &out->params);
}

static CUresult fault_code(FaultKind kind) {
  switch (kind) {
  case FaultKind::illegal_address:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case FaultKind::misaligned_address:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case FaultKind::illegal_instruction:
    return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case FaultKind::deadlock:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case FaultKind::assertion:
    return CUDA_ERROR_ASSERT;
  case FaultKind::stack_overflow: // "This can be due to [...] exceeding the stack size limit."
    return CUDA_ERROR_HARDWARE_STACK_ERROR;
  default:
    return CUDA_ERROR_LAUNCH_FAILED;
  }
}

bool is_cooperative(const KernelWork &work) {
  auto it = work.attributes.find(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  return it != work.attributes.end() && it->second.cooperative;
}

namespace {

/// The workspace of a cooperative launch, for as long as it runs.
class GridWorkspace {
public:
  explicit GridWorkspace(AddressSpace &memory) : memory_(memory) {}
  ~GridWorkspace() {
    if (address_)
      memory_.free(address_);
  }
  /// 0 where the device has no room.
  uint64_t make() {
    constexpr uint64_t kBytes = 8;
    auto made = memory_.allocate(kBytes);
    if (!made.ok())
      return 0;
    address_ = std::move(made).value();
    std::memset(memory_.host(address_), 0, kBytes);
    if (UndefinedBytes *undefined = memory_.undefined())
      undefined->mark_defined(address_, kBytes);
    return address_;
  }

private:
  AddressSpace &memory_;
  uint64_t address_ = 0;
};

} // namespace

CUresult run_kernel(Driver &driver, const KernelWork &work, const KernelHooks &hooks) {
  LaunchConfig config;
  GridWorkspace workspace(*driver.memory);
  if (is_cooperative(work) && !(config.grid_workspace = workspace.make()))
    return CUDA_ERROR_OUT_OF_MEMORY;
  config.grid = work.grid;
  config.block = work.block;
  if (const auto cluster = cluster_of(work); cluster[0]) {
    config.cluster = cluster;
    config.has_cluster = true;
  }
  config.dynamic_shared_bytes = work.dynamic_shared_bytes;
  config.params = work.params;
  if (work.green)
    config.multiprocessors = work.green->multiprocessors.numbers;
  Context &context = *work.function->context;
  config.stack_bytes = context.stack_bytes;
  config.heap = &context.heap;
  if (work.function->info->uses_heap)
    context.used_heap = true;
  // "Handles can only be set from the context with which they are associated."
  std::function<bool(uint64_t, uint32_t)> set_conditional = [&](uint64_t handle, uint32_t value) {
    Ref<Conditional> conditional = driver.conditionals.find(handle);
    if (!conditional || conditional->context != work.function->context)
      return false;
    conditional->value = value;
    conditional->assigned = true;
    return true;
  };
  config.set_conditional = &set_conditional;
  config.wait_for_predecessors = hooks.wait_for_predecessors;
  LaunchAccesses own; // where nobody but the count wants them
  config.accesses = hooks.accesses ? hooks.accesses : driver.loads.counts() ? &own : nullptr;
  if (config.accesses)
    config.accesses->counts = driver.loads.counts();
  driver.counters.kernels.fetch_add(1, std::memory_order_relaxed);
  // Reports the first race of a launch only: the others mostly have the same cause.
  std::atomic<bool> told{false};
  RaceReport report_race = [&](const std::string &text) {
    if (!told.exchange(true))
      driver.findings.report(Check::race, text);
  };
  config.report_race = driver.findings.enabled(Check::race) ? &report_race : nullptr;
  const BoundsReport report_bounds = [&](const std::string &text) {
    driver.findings.report_at(Check::bounds, work.function->info->name, text);
  };
  if (driver.findings.enabled(Check::bounds))
    config.report_bounds = &report_bounds;
  const PollingReport report_polling = [&](const std::string &text) {
    driver.findings.report_at(Check::polling, work.function->info->name, text);
  };
  if (driver.findings.enabled(Check::polling) && !is_cooperative(work))
    config.report_polling = &report_polling;
  const UninitializedReport report_uninitialized = [&](const std::string &site,
                                                       const std::string &text) {
    driver.findings.report_at(Check::uninitialized, site, text);
  };
  if (driver.findings.enabled(Check::uninitialized))
    config.report_uninitialized = &report_uninitialized;
  const std::function<void()> let_others_run = [&] { driver.scheduler->run_another(); };
  LaunchOrder order;
  if (driver.scheduler->draws_order()) {
    order = {driver.scheduler->draw(), &let_others_run};
    config.order = &order;
  }
  std::optional<Fault> fault = work.function->module->program->launch(*work.function->info, config);
  // Kernels that nothing orders may have had one block after the other.
  if (const AddressRange heap = context.heap.range(); heap.bytes && hooks.accesses)
    for (AccessSet *set : {&hooks.accesses->before_wait, &hooks.accesses->after_wait})
      set->remove(heap.begin, heap.end());
  if (config.accesses && config.accesses->counts)
    driver.loads.add(*config.accesses);
  if (!fault)
    return CUDA_SUCCESS;
  driver.report(Check::fault, fault->message);
  return fault_code(fault->kind);
}

uint64_t multiprocessors(const Driver &driver, const GreenContext *green) {
  return green ? green->multiprocessors.numbers.size()
               : uint64_t(driver.config.profile->multiprocessors);
}

// The limits of the occupancy calculator: threads, blocks, registers and shared memory, each
// rounded to the unit in which a multiprocessor gives it out.
int max_active_blocks(const DeviceProfile &profile, const Function &function, int block_threads,
                      size_t dynamic_shared_bytes) {
  if (block_threads <= 0 || uint32_t(block_threads) > function.info->max_threads_per_block ||
      dynamic_shared_bytes > size_t(function.max_dynamic_shared_bytes))
    return 0;
  int warps = (block_threads + 31) / 32;
  int blocks = std::min(profile.max_threads_per_multiprocessor / 32 / warps,
                        max_blocks_per_multiprocessor(profile));
  uint64_t registers =
      (uint64_t(function.info->registers) * 32 + 255) / 256 * 256 * uint64_t(warps);
  // These are of PTX: a block has as many as it needs (driver/code/register_count.cpp).
  if (registers)
    blocks = int(std::min<uint64_t>(uint64_t(blocks), std::max<uint64_t>(65536 / registers, 1)));
  uint64_t reserved = profile.major >= 8 ? 1024 : 0, unit = profile.major >= 8 ? 128 : 256;
  uint64_t shared = function.info->static_shared_bytes + dynamic_shared_bytes + reserved;
  shared = (shared + unit - 1) / unit * unit;
  if (shared)
    blocks = int(std::min<uint64_t>(
        uint64_t(blocks), uint64_t(profile.max_shared_bytes_per_multiprocessor) / shared));
  return blocks;
}

} // namespace cugrt::emulator::api
