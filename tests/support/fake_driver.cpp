// The emulated driver's table with what its calls become on the way, recording and failures.
#include "support/fake_driver.h"

#include "emulator/driver/cuda_emulator.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace cugrt::test {

struct FakeMapping {
  CUdeviceptr address;
  size_t bytes;
  CUmemGenericAllocationHandle handle;
};

struct FakeState {
  FakeDriver::Options options;
  driver::DriverApi below; // the emulated driver's, with what is done otherwise
  std::map<std::string, std::string> code;

  mutable std::mutex mutex; // what follows
  std::vector<FakeCall> calls;
  uint64_t call_count = 0, fail_at = 0; // absolute; 0: never
  CUresult fail_code = CUDA_SUCCESS;
  std::string fail_entry;
  uint64_t fail_entry_countdown = 0;
  CUresult fail_entry_code = CUDA_SUCCESS;
  CUresult broken = CUDA_SUCCESS;
  bool held = false, skips_launches = false;
  size_t kernel_edges = 0;
  std::set<CUgraph> bodies;
  std::set<CUgraphNode> body_nodes;

  std::map<CUdeviceptr, size_t> reservations;
  std::vector<FakeMapping> mappings; // all that were made, as the next two
  std::vector<CUgraph> graphs;
  std::vector<CUgraphExec> execs;
  std::vector<CUcontext> contexts; // beside the primary one
  std::thread capturing;           // elsewhere
  std::atomic<bool> captured = false, stop = false;

  CUresult planted(std::string_view entry);
};

namespace {

FakeState *state = nullptr;

void must_succeed(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    throw std::logic_error(std::string(what) + ": CUDA error " + std::to_string(result));
}

bool ends_something(std::string_view entry) {
  for (const char *word : {"Destroy", "Free", "Unload", "Release", "Unmap"})
    if (entry.find(word) != std::string_view::npos)
      return true;
  return false;
}

/// Runs a call unless a failure was planted in its place; then what ends something ends it.
template <class Body> CUresult enter(const char *entry, Body body) {
  // Neither counted nor failed: what tells of failures, and a mode that exists.
  if (std::strstr(entry, "GetError") || std::strstr(entry, "CaptureMode"))
    return body();
  std::unique_lock lock(state->mutex);
  CUresult result = state->planted(entry);
  const bool skipped = state->skips_launches && std::strstr(entry, "Launch");
  lock.unlock();
  if (result == CUDA_SUCCESS && !skipped)
    result = body();
  else if (ends_something(entry))
    (void)body();
  lock.lock();
  if (state->options.record)
    state->calls.push_back({entry, result});
  return result;
}

bool in_body(CUgraphNode node) {
  std::lock_guard lock(state->mutex);
  return !state->options.body_setters && state->body_nodes.count(node);
}

/// The emulated driver's entry points, and what tests need of them otherwise.
driver::DriverApi emulated() {
  static driver::DriverApi real;
  real = {};
#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  (void)cuGetProcAddress("cu" #entry, reinterpret_cast<void **>(&real.field), version,             \
                         CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
  driver::DriverApi api = real;
  api.MemAlloc = [](CUdeviceptr *address, size_t bytes) {
    return cuMemAllocManaged(address, bytes, CU_MEM_ATTACH_GLOBAL);
  };
  api.MemAddressReserve = [](CUdeviceptr *address, size_t bytes, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags) {
    if (bytes > state->options.reservable_bytes)
      return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = real.MemAddressReserve(address, bytes, alignment, wanted, flags);
    std::lock_guard lock(state->mutex);
    if (result == CUDA_SUCCESS)
      state->reservations[*address] = bytes;
    return result;
  };
  api.MemMap = [](CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
    std::lock_guard lock(state->mutex);
    state->mappings.push_back({address, bytes, handle});
    return real.MemMap(address, bytes, offset, handle, flags);
  };
  api.MemAddressFree = [](CUdeviceptr address, size_t bytes) {
    const CUresult result = real.MemAddressFree(address, bytes);
    std::lock_guard lock(state->mutex);
    if (result == CUDA_SUCCESS)
      state->reservations.erase(address);
    return result;
  };
  api.ModuleLoadDataEx = [](CUmodule *module, const void *image, unsigned count, CUjit_option *keys,
                            void **values) {
    std::string ptx = ".version 7.8\n.target sm_75\n.address_size 64\n.extern .func "
                      "cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n";
    for (const auto &[name, text] : state->code)
      ptx += text;
    if (std::strncmp(static_cast<const char *>(image), ".version", 8) != 0)
      image = ptx.c_str();
    return real.ModuleLoadDataEx(module, image, count, keys, values);
  };
  api.GraphCreate = [](CUgraph *graph, unsigned flags) {
    const CUresult result = real.GraphCreate(graph, flags);
    std::lock_guard lock(state->mutex);
    state->graphs.push_back(*graph);
    return result;
  };
  api.GraphInstantiateWithParams = [](CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    const CUresult result = real.GraphInstantiateWithParams(exec, graph, params);
    std::lock_guard lock(state->mutex);
    state->execs.push_back(*exec);
    return result;
  };
  if (real.GraphAddNode_v2)
    api.GraphAddNode_v2 = [](CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                             const CUgraphEdgeData *edges, size_t count,
                             CUgraphNodeParams *params) {
      const CUresult result = real.GraphAddNode_v2(node, graph, after, edges, count, params);
      if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        std::lock_guard lock(state->mutex);
        const auto &made = params->conditional;
        state->bodies.insert(made.phGraph_out, made.phGraph_out + made.size);
      }
      return result;
    };
  api.GraphAddKernelNode = [](CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    const CUresult result = real.GraphAddKernelNode(node, graph, after, count, params);
    std::lock_guard lock(state->mutex);
    state->kernel_edges += result == CUDA_SUCCESS ? count : 0;
    if (result == CUDA_SUCCESS && state->bodies.count(graph))
      state->body_nodes.insert(*node);
    return result;
  };
  api.GraphExecKernelNodeSetParams = [](CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS *params) {
    return in_body(node) ? CUDA_ERROR_INVALID_VALUE
                         : real.GraphExecKernelNodeSetParams(exec, node, params);
  };
  api.GraphNodeSetEnabled = [](CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    return in_body(node) ? CUDA_ERROR_INVALID_VALUE : real.GraphNodeSetEnabled(exec, node, enabled);
  };
  return api;
}

/// The device's primary context, current meanwhile.
struct Current {
  Current() {
    CUcontext context = nullptr;
    must_succeed(cuInit(0), "cuInit");
    must_succeed(cuDevicePrimaryCtxRetain(&context, 0), "a context");
    must_succeed(cuCtxPushCurrent(context), "a current context");
  }
  ~Current() {
    (void)cuCtxPopCurrent(nullptr);
    (void)cuDevicePrimaryCtxRelease(0);
  }
};

CUemuStatistics statistics() {
  CUemuStatistics numbers{};
  numbers.struct_size = sizeof numbers;
  must_succeed(cuEmuGetStatistics(&numbers), "cuEmuGetStatistics");
  return numbers;
}

} // namespace

/// Counts the call; what it returns instead of being made.
CUresult FakeState::planted(std::string_view entry) {
  if (++call_count == fail_at)
    return fail_code;
  if (fail_entry_countdown && entry == fail_entry && --fail_entry_countdown == 0)
    return fail_entry_code;
  if (held && (entry == "cuEventQuery" || entry == "cuStreamQuery"))
    return CUDA_ERROR_NOT_READY;
  const bool works_when_broken = ends_something(entry) || entry == "cuCtxPopCurrent" ||
                                 entry == "cuCtxPushCurrent" || entry == "cuCtxGetCurrent";
  return works_when_broken ? CUDA_SUCCESS : broken;
}

FakeDriver::FakeDriver() : FakeDriver(Options()) {}

FakeDriver::FakeDriver(const Options &options) : state_(std::make_unique<FakeState>()) {
  if (state)
    throw std::logic_error("one FakeDriver at a time");
  auto set = [](const char *name, const std::string &value) { setenv(name, value.c_str(), 1); };
  set("CUGRT_EMU_DRIVER_VERSION", driver::version_text(options.version));
  set("CUGRT_EMU_DEVICE", "sm_" + std::to_string(options.capability));
  set("CUGRT_EMU_MEMORY", std::to_string(options.device_bytes));
  set("CUGRT_EMU_QUIRKS",
      options.version < 12080 ? "first_edge_data,empty_bodies_hang" : "first_edge_data");
  const char *order = std::getenv("CUGRT_EMU_ORDER");
  const std::string before = order ? order : "";
  if (options.order)
    set("CUGRT_EMU_ORDER", std::to_string(options.order));
  must_succeed(cuEmuReinitialize(), "cuEmuReinitialize");
  set("CUGRT_EMU_ORDER", before);
  state = state_.get();
  state->options = options;
  state->below = emulated();
}

FakeDriver::~FakeDriver() {
  state->stop = true;
  state->stop.notify_all();
  if (state->capturing.joinable())
    state->capturing.join();
  // What a failed call has kept from being destroyed; of what is gone the driver says so.
  for (CUgraphExec exec : state->execs)
    (void)cuGraphExecDestroy(exec);
  for (CUgraph graph : state->graphs)
    (void)cuGraphDestroy(graph);
  for (const auto &[address, bytes, handle] : state->mappings) {
    (void)cuMemUnmap(address, bytes);
    (void)cuMemRelease(handle);
  }
  for (const auto &[address, bytes] : state->reservations)
    (void)cuMemAddressFree(address, bytes);
  if (statistics().contexts)
    (void)cuDevicePrimaryCtxReset(0);
  for (CUcontext context : state->contexts)
    (void)cuCtxDestroy(context);
  // A pop that was made to fail leaves a context current, on top of those that earlier ones left.
  for (CUcontext current = nullptr; cuCtxSetCurrent(nullptr) == CUDA_SUCCESS &&
                                    cuCtxGetCurrent(&current) == CUDA_SUCCESS && current;) {
  }
  state = nullptr;
}

driver::DriverApi FakeDriver::api() const {
  driver::DriverApi api;
#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  if (state_->below.field)                                                                         \
    api.field = [](auto... args) -> CUresult {                                                     \
      return enter("cu" #entry, [&] { return state->below.field(args...); });                      \
    };
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
  return api;
}

void FakeDriver::define_kernel(const std::string &name, const std::vector<size_t> &param_bytes,
                               const std::string &body) {
  std::string text = ".visible .entry " + name + "(";
  for (size_t i = 0; i < param_bytes.size(); ++i)
    text += std::string(i ? ", " : "") + ".param .b" + std::to_string(8 * param_bytes[i]) + " p" +
            std::to_string(i);
  text += ")\n{\n.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;\n";
  state_->code[name] = text + body + "ret;\n}\n";
}

void FakeDriver::set_static_shared(const std::string &kernel, int bytes) {
  std::string &text = state_->code.at(kernel);
  text.insert(text.find('{') + 1, ".shared .align 4 .b8 own[" + std::to_string(bytes) + "];");
}

void FakeDriver::define_global(const std::string &name, uint64_t size_bytes) {
  state_->code[name] = ".global .align 8 .b8 " + name + "[" + std::to_string(size_bytes) + "];\n";
}

const std::vector<FakeCall> &FakeDriver::calls() const { return state_->calls; }
uint64_t FakeDriver::call_count() const { return state_->call_count; }

size_t FakeDriver::count(std::string_view entry) const {
  size_t n = 0;
  for (const FakeCall &call : state_->calls)
    n += call.entry == entry;
  return n;
}

size_t FakeDriver::kernel_edges() const { return state_->kernel_edges; }
uint64_t FakeDriver::kernels_run() const { return statistics().kernels_launched; }

void FakeDriver::forget() {
  std::lock_guard lock(state_->mutex);
  state_->calls.clear();
  state_->call_count = state_->fail_at = 0;
}

FakeLive FakeDriver::live() const {
  const CUemuStatistics now = statistics();
  std::lock_guard lock(state_->mutex);
  return {now.contexts,       now.allocations, now.host_allocations,
          now.modules,        now.streams,     now.events,
          now.graphs,         now.graph_execs, state_->reservations.size(),
          now.allocated_bytes};
}

void FakeDriver::fail_nth(uint64_t nth, CUresult code) {
  std::lock_guard lock(state_->mutex);
  state_->fail_at = nth ? state_->call_count + nth : 0;
  state_->fail_code = code;
}

void FakeDriver::fail_nth_of(std::string entry, uint64_t nth, CUresult code) {
  std::lock_guard lock(state_->mutex);
  state_->fail_entry = std::move(entry);
  state_->fail_entry_countdown = nth;
  state_->fail_entry_code = code;
}

void FakeDriver::fail_from_now(CUresult code) { state_->broken = code; }
void FakeDriver::skip_launches() { state_->skips_launches = true; }
void FakeDriver::hold(bool held) { state_->held = held; }

void FakeDriver::set_capturing(CUstream stream, bool capturing) {
  const Current current;
  if (capturing)
    return must_succeed(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "capture");
  CUgraph graph = nullptr;
  must_succeed(cuStreamEndCapture(stream, &graph), "end of capture");
  size_t nodes = 0;
  must_succeed(cuGraphGetNodes(graph, nullptr, &nodes), "nodes of the capture");
  must_succeed(cuGraphDestroy(graph), "end of what was captured");
  if (nodes)
    throw std::logic_error("calls were captured: " + std::to_string(nodes));
}

CUcontext FakeDriver::another_context() {
  void *create = nullptr;
  must_succeed(cuGetProcAddress("cuCtxCreate", &create, 3020, 0, nullptr), "cuCtxCreate");
  CUcontext context = nullptr;
  must_succeed(reinterpret_cast<PFN_cuCtxCreate_v3020>(create)(&context, 0, 0), "a context");
  must_succeed(cuCtxPopCurrent(nullptr), "cuCtxPopCurrent");
  state_->contexts.push_back(context);
  return context;
}

void FakeDriver::capture_elsewhere() {
  state_->capturing = std::thread([this] {
    const Current current;
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    must_succeed(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    must_succeed(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capture");
    state_->captured = true;
    state_->captured.notify_all();
    state_->stop.wait(false);
    must_succeed(cuStreamEndCapture(stream, &graph), "end of capture"); // nothing has ended it
    must_succeed(cuGraphDestroy(graph), "graph");
    must_succeed(cuStreamDestroy(stream), "end of the stream");
  });
  state_->captured.wait(false);
}

} // namespace cugrt::test
