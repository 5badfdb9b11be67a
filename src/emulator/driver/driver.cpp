// The driver object: initialisation, the entry of every call, and the calls beyond CUDA's.
#include "emulator/driver/driver.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

Driver::Driver() : config(Config::from_environment()) {
  inject_fault(config.fail_call, CUresult(config.fail_code));
  findings.configure(config.checks, config.report);
}

Driver &Driver::instance() {
  static Driver *driver = new Driver;
  return *driver;
}

CUresult Driver::enter(bool needs_init) {
  counters.calls.fetch_add(1, std::memory_order_relaxed);
  if (fault_countdown_.load(std::memory_order_relaxed) > 0 &&
      fault_countdown_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    return CUresult(fault_code_.load());
  // "The host function must not make any CUDA API calls. Attempting to use a CUDA API may result in
  // CUDA_ERROR_NOT_PERMITTED" (cuLaunchHostFunc).
  if (in_host_callback())
    return CUDA_ERROR_NOT_PERMITTED;
  return needs_init && !initialized ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

CUresult Driver::initialize() {
  std::lock_guard lock(mutex);
  if (initialized)
    return CUDA_SUCCESS;
  if (!config.problem.empty()) {
    report(Check::refused, config.problem);
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Address space beyond the device's memory is for pinned host memory and for reservations.
  constexpr uint64_t kRoom = 4;
  auto space = AddressSpace::create(config.memory_bytes * kRoom);
  if (!space.ok()) {
    set_message(space.status().message());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory = std::move(space).value();
  if (findings.enabled(Check::uninitialized) && !memory->track_undefined()) {
    set_message("no address range is left for the check of uninitialized reads");
    memory = nullptr;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  allocations = std::make_unique<MemoryTable>(config.memory_bytes);
  scheduler = std::make_unique<Scheduler>(config.workers, stream_order, config.order);
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult Driver::reinitialize() {
  std::unique_ptr<Scheduler> old; // joined without the lock
  std::lock_guard lock(mutex);
  if (contexts.size() || graphs.size() || execs.size() || libraries.size() || physical.size() ||
      !reservations.empty())
    return CUDA_ERROR_ILLEGAL_STATE;
  old = std::move(scheduler);
  for (const Ref<MemoryPool> &pool : pools.all())
    pools.erase(pool->handle);
  for (const Ref<LinkState> &state : links.all())
    links.erase(state->handle);
  for (const Ref<ResourceDescriptor> &descriptor : descriptors.all())
    descriptors.erase(descriptor->handle);
  default_pool = nullptr;
  memory = nullptr;
  allocations = nullptr;
  initialized = false;
  primary_flags = 0;
  config = Config::from_environment();
  counters.calls = counters.kernels = counters.copies = counters.memsets = 0;
  counters.graph_launches = 0;
  inject_fault(config.fail_call, CUresult(config.fail_code));
  findings.configure(config.checks, config.report);
  stream_order.clear();
  activities.clear();
  set_message({});
  return CUDA_SUCCESS;
}

void Driver::inject_fault(uint64_t nth_call, CUresult code) {
  fault_code_ = int(code);
  fault_countdown_ = int64_t(std::min<uint64_t>(nth_call, INT64_MAX));
}

CUresult Driver::refuse(const std::string &what) {
  report(Check::refused, what + " not emulated: see docs/emulator.md");
  return CUDA_ERROR_NOT_SUPPORTED;
}

void Driver::set_message(std::string message) {
  std::lock_guard lock(message_mutex_);
  message_ = std::move(message);
}

void Driver::report(Check check, const std::string &message) {
  findings.report(check, message);
  set_message(message);
}

std::string Driver::message() {
  std::lock_guard lock(message_mutex_);
  return message_;
}

static CUemuStatistics statistics_now(Driver &driver) {
  CUemuStatistics s{};
  const auto usage = driver.allocations ? driver.allocations->count() : MemoryTable::Usage();
  ExecutionCounters executed = execution_counters();
  s.calls = driver.counters.calls;
  s.contexts = driver.contexts.size();
  s.allocations = usage.device;
  s.allocated_bytes = usage.device_bytes;
  s.host_allocations = usage.host;
  s.modules = driver.modules.size();
  s.libraries = driver.libraries.size();
  s.streams = driver.streams.size();
  s.events = driver.events.size();
  s.graphs = driver.graphs.size();
  s.graph_nodes = driver.nodes.size();
  s.graph_execs = driver.execs.size();
  s.user_objects = driver.user_objects.size();
  s.kernels_launched = driver.counters.kernels;
  s.copies = driver.counters.copies;
  s.memsets = driver.counters.memsets;
  s.graph_launches = driver.counters.graph_launches;
  s.warp_instructions = executed.warp_instructions;
  s.lane_operations = executed.lane_operations;
  s.findings = driver.findings.count();
  s.pinned_bytes = usage.host_bytes;
  s.used_bytes = driver.allocations ? driver.allocations->used_bytes() : 0;
  s.most_used_bytes = driver.allocations ? driver.allocations->most_used_bytes() : 0;
  return s;
}

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

CUresult CUDAAPI cuEmuGetStatistics(CUemuStatistics *statistics) {
  if (!statistics || statistics->struct_size < sizeof(size_t))
    return CUDA_ERROR_INVALID_VALUE;
  try {
    Driver &driver = Driver::instance();
    Lock lock(driver.mutex);
    CUemuStatistics now = statistics_now(driver);
    size_t bytes = std::min(statistics->struct_size, sizeof now);
    now.struct_size = statistics->struct_size;
    std::memcpy(statistics, &now, bytes);
    return CUDA_SUCCESS;
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult CUDAAPI cuEmuResetMostUsed(void) {
  Driver &driver = Driver::instance();
  Lock lock(driver.mutex);
  if (driver.allocations)
    driver.allocations->reset_most_used();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEmuSetFaultInjection(unsigned long long nth_call, CUresult code) {
  Driver::instance().inject_fault(nth_call, code);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEmuCountLoads(int counts) {
  Driver::instance().loads.count(counts != 0);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEmuGetLoads(unsigned long long *loaded, unsigned long long *constant_loaded,
                               unsigned long long *constant) {
  if (!loaded || !constant_loaded || !constant)
    return CUDA_ERROR_INVALID_VALUE;
  const LoadCount::Totals totals = Driver::instance().loads.totals();
  *loaded = totals.loaded;
  *constant_loaded = totals.constant_loaded;
  *constant = totals.constant;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEmuGetLastMessage(char *buffer, size_t bytes) {
  if (!buffer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  std::string message = Driver::instance().message();
  size_t length = std::min(message.size(), bytes - 1);
  std::memcpy(buffer, message.data(), length);
  buffer[length] = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEmuGetFindings(char *buffer, size_t *bytes) {
  if (!bytes || (*bytes && !buffer))
    return CUDA_ERROR_INVALID_VALUE;
  try {
    std::string text = Driver::instance().findings.text();
    if (*bytes) {
      size_t length = std::min(text.size(), *bytes - 1);
      std::memcpy(buffer, text.data(), length);
      buffer[length] = 0;
    }
    *bytes = text.size() + 1;
    return CUDA_SUCCESS;
  } catch (...) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult CUDAAPI cuEmuReinitialize(void) { return Driver::instance().reinitialize(); }

ENTRY(cuInit, flags) {
  return call(
      [&](Driver &driver) -> CUresult {
        if (flags) // "Currently, the Flags parameter must be 0."
          return CUDA_ERROR_INVALID_VALUE;
        return driver.initialize();
      },
      false);
}

ENTRY(cuDriverGetVersion, version) {
  return call([&](Driver &driver) { return give(version, driver.config.driver_version); }, false);
}
