// The fake driver's table, recording and failures.
#include "support/fake_driver.h"

#include "support/fake_state.h"

#include <stdexcept>

namespace cugrt::test {

namespace {

FakeState *current_state = nullptr;

/// Counts and records a call, and runs it unless an injected failure takes its place.
template <class Body> CUresult enter(const char *entry, Body body) {
  FakeState &state = *current_state;
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  CUresult result = state.before(entry);
  if (result == CUDA_SUCCESS)
    result = body(state);
  if (state.options.record)
    state.calls.push_back({entry, result});
  return result;
}

/// T, which depends on the others, so that a template may ask for members that it lacks.
template <class T, class...> struct Late { using type = T; };

bool works_when_broken(std::string_view entry) {
  return entry.find("Destroy") != std::string_view::npos ||
         entry.find("Free") != std::string_view::npos || entry == "cuModuleUnload" ||
         entry == "cuDevicePrimaryCtxRelease" || entry == "cuCtxPopCurrent" ||
         entry == "cuCtxPushCurrent" || entry == "cuCtxGetCurrent" || entry == "cuMemUnmap" ||
         entry == "cuMemRelease";
}

} // namespace

CUresult FakeState::before(const char *entry) {
  std::string_view name = entry;
  if (name == "cuGetErrorName" || name == "cuGetErrorString")
    return CUDA_SUCCESS; // neither counted nor failed: it tells of failures
  if (name == "cuThreadExchangeStreamCaptureMode")
    return CUDA_SUCCESS; // likewise: of a mode that exists it has no cause to fail
  if (++call_count == fail_at)
    return fail_code;
  if (fail_entry_countdown && name == fail_entry && --fail_entry_countdown == 0)
    return fail_entry_code;
  if (broken != CUDA_SUCCESS && !works_when_broken(name))
    return broken;
  if (!initialised && name != "cuInit" && name != "cuDriverGetVersion")
    return CUDA_ERROR_NOT_INITIALIZED;
  return refused_by_capture(name) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

FakeDriver::FakeDriver() : FakeDriver(Options()) {}

FakeDriver::FakeDriver(const Options &options) : state_(std::make_unique<FakeState>(options)) {
  if (current_state)
    throw std::logic_error("one FakeDriver at a time");
  current_state = state_.get();
}

FakeDriver::~FakeDriver() { current_state = nullptr; }

driver::DriverApi FakeDriver::api() const {
  driver::DriverApi api;
#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  api.field = [](auto... args) -> CUresult {                                                       \
    using State = typename Late<FakeState, decltype(args)...>::type;                               \
    if constexpr (requires(State & state) { state.field(args...); })                               \
      return enter("cu" #entry, [&](State &state) { return state.field(args...); });               \
    else                                                                                           \
      return enter("cu" #entry, [](State &) { return CUDA_ERROR_NOT_SUPPORTED; });                 \
  };
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
  return api;
}

void FakeDriver::define_kernel(std::string name, std::vector<size_t> param_bytes, KernelBody body) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->kernels[name] = {name, std::move(param_bytes), std::move(body)};
}

void FakeDriver::set_static_shared(const std::string &kernel, int bytes) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->kernels.at(kernel).static_shared = bytes;
}

void FakeDriver::define_global(std::string name, uint64_t size_bytes) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->globals[std::move(name)] = size_bytes;
}

const std::vector<FakeCall> &FakeDriver::calls() const { return state_->calls; }
uint64_t FakeDriver::call_count() const { return state_->call_count; }
const std::vector<FakeLaunch> &FakeDriver::launches() const { return state_->launches; }

size_t FakeDriver::count(std::string_view entry) const {
  size_t n = 0;
  for (const FakeCall &call : state_->calls)
    n += call.entry == entry;
  return n;
}

void FakeDriver::forget() {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->calls.clear();
  state_->launches.clear();
  state_->call_count = state_->fail_at = 0;
}

FakeLive FakeDriver::live() const {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  FakeLive live;
  for (const FakeContext &context : state_->primary)
    live.contexts += static_cast<size_t>(context.references);
  live.allocations = state_->allocations.size();
  live.host_allocations = state_->host_allocations.size();
  live.modules = state_->modules.size();
  live.streams = state_->streams.size();
  live.events = state_->events.size();
  live.graphs = state_->graphs.size();
  for (const auto &[handle, graph] : state_->graphs)
    for (const auto &node : graph->nodes)
      live.edges += node->after.size();
  live.execs = state_->execs.size();
  live.reservations = state_->reservations.size();
  live.physical = state_->physical.size();
  live.device_bytes = state_->used_bytes;
  return live;
}

void FakeDriver::fail_nth(uint64_t nth, CUresult code) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->fail_at = nth ? state_->call_count + nth : 0;
  state_->fail_code = code;
}

void FakeDriver::fail_nth_of(std::string entry, uint64_t nth, CUresult code) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->fail_entry = std::move(entry);
  state_->fail_entry_countdown = nth;
  state_->fail_entry_code = code;
}

void FakeDriver::fail_from_now(CUresult code) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->broken = code;
}

void FakeDriver::hold(bool held) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->held = held;
}

void FakeDriver::set_capturing(CUstream stream, bool capturing) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  if (capturing)
    state_->capturing.insert(stream);
  else
    state_->capturing.erase(stream);
}

void FakeDriver::capture_elsewhere(bool captured) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->captured_elsewhere = captured;
}

void FakeDriver::add_edge(CUgraphNode from, CUgraphNode to) {
  node_of(to)->after.push_back(node_of(from));
  node_of(to)->edge_data.emplace_back();
}

void FakeDriver::set_condition(CUgraphConditionalHandle handle, uint32_t value) {
  std::lock_guard<std::recursive_mutex> lock(state_->mutex);
  state_->conditions[handle] = value;
}

} // namespace cugrt::test
