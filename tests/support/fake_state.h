// The fake driver's state: one member function for each row of driver_api.def, called with the lock
// held. Internal to tests/support.
#pragma once

#include "support/fake_driver.h"

#include <map>
#include <mutex>
#include <set>

namespace cugrt::test {

struct FakeKernel {
  std::string name;
  std::vector<size_t> param_bytes;
  FakeDriver::KernelBody body;
  int static_shared = 0;
};

struct FakeContext {
  int device = 0;
  int references = 0;
};

struct FakeModule;

struct FakeFunction {
  const FakeKernel *kernel = nullptr;
  FakeModule *module = nullptr;
  int max_dynamic_shared = 48 << 10;
  bool large_clusters = false; // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
};

struct FakeModule {
  std::map<std::string, std::unique_ptr<FakeFunction>> functions;
  std::map<std::string, CUdeviceptr> globals;
};

struct FakeStream {
  CUcontext context = nullptr;
  int priority = 0;
};

/// From pageable memory: staged, and on its way to the device.
struct FakeUpload {
  CUdeviceptr to = 0;
  std::vector<std::byte> bytes;
};

struct FakePool {
  uint64_t threshold = 0, kept = 0;
};

struct FakeEvent {
  bool timing = false, recorded = false;
};

struct FakeGraph;

/// What a node does; copied into an instance.
struct FakeWork {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  FakeFunction *function = nullptr; // kernel
  FakeLaunch launch;
  CUDA_MEMCPY3D_v2 copy{};
  CUDA_MEMSET_NODE_PARAMS_v1 fill{};
  CUgraphConditionalHandle condition = 0;
  CUgraphConditionalNodeType conditional_type = CU_GRAPH_COND_TYPE_IF;
  std::vector<CUgraph> bodies;
  bool enabled = true;
};

struct FakeNode {
  FakeGraph *graph = nullptr;
  FakeWork work;
  std::vector<FakeNode *> after;
  std::vector<CUgraphEdgeData> edge_data; // parallel to `after`
  std::vector<void *> read_back;          // what GraphKernelNodeGetParams gave last
};

struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
  std::vector<std::unique_ptr<FakeGraph>> bodies;
  std::map<CUgraphConditionalHandle, uint32_t> conditions; // with their defaults
  bool owned_by_node = false, instantiated = false;
};

struct FakeExec {
  FakeGraph *source = nullptr;
  std::vector<FakeNode *> order; // topological
  std::map<FakeNode *, FakeWork> work;
  std::vector<std::unique_ptr<FakeExec>> bodies;
  std::map<CUgraph, FakeExec *> body_of;
};

struct FakeState {
  explicit FakeState(const FakeDriver::Options &options);
  ~FakeState();

  FakeDriver::Options options;
  mutable std::recursive_mutex mutex; // kernel bodies may call the FakeDriver
  bool initialised = false;

  std::vector<FakeCall> calls;
  std::vector<FakeLaunch> launches;
  uint64_t call_count = 0;
  uint64_t fail_at = 0; // absolute; 0: never
  CUresult fail_code = CUDA_SUCCESS;
  std::string fail_entry;
  uint64_t fail_entry_countdown = 0;
  CUresult fail_entry_code = CUDA_SUCCESS;
  CUresult broken = CUDA_SUCCESS;
  bool held = false, captured_elsewhere = false;
  std::set<CUstream> capturing;

  std::map<std::string, FakeKernel> kernels;
  std::map<std::string, uint64_t> globals;

  std::vector<FakeContext> primary;
  std::map<CUdeviceptr, uint64_t> allocations;      // address to bytes
  std::map<CUdeviceptr, uint64_t> host_allocations; // address to bytes
  std::map<CUdeviceptr, uint64_t> reservations;
  std::map<CUdeviceptr, uint64_t> mappings;
  std::map<CUmemGenericAllocationHandle, uint64_t> physical;
  std::map<CUstream, std::vector<FakeUpload>> uploads;
  std::map<CUmemoryPool, std::unique_ptr<FakePool>> pools;
  std::map<CUdeviceptr, CUmemoryPool> pooled; // those of `allocations` that came from a pool
  std::set<CUdeviceptr> mapped;               // those of `host_allocations` that the device may see
  uint64_t used_bytes = 0, next_handle = 1;
  std::map<CUmodule, std::unique_ptr<FakeModule>> modules;
  std::map<CUstream, std::unique_ptr<FakeStream>> streams;
  std::map<CUevent, std::unique_ptr<FakeEvent>> events;
  std::map<CUgraph, std::unique_ptr<FakeGraph>> graphs;
  std::map<CUgraphExec, std::unique_ptr<FakeExec>> execs;
  std::map<CUgraphConditionalHandle, uint32_t> conditions;

  /// What an injected failure turns this call into; CUDA_SUCCESS: nothing.
  CUresult before(const char *entry);
  bool refused_by_capture(std::string_view entry) const;
  bool has_current() const;
  bool valid_context(CUcontext context) const;
  bool valid_stream(CUstream stream) const;
  CUresult check_stream(CUstream stream) const;
  /// What the stream has to copy has been copied when what comes next begins.
  void land(CUstream stream);
  FakeFunction *find_function(CUfunction function) const;
  FakeGraph *find_graph(CUgraph graph) const;
  bool device_range_ok(CUdeviceptr address, size_t bytes) const;
  CUresult make_launch(FakeFunction *function, const std::array<uint32_t, 3> &grid,
                       const std::array<uint32_t, 3> &block, uint32_t shared, void **arguments,
                       FakeLaunch &launch) const;
  void run_kernel(const FakeFunction *function, FakeLaunch launch);
  CUresult run_copy(const CUDA_MEMCPY3D_v2 &copy) const;
  CUresult run_fill(CUdeviceptr address, uint32_t value, size_t element_bytes, size_t count) const;
  CUresult run_exec(FakeExec &exec);
  CUresult run_body(FakeExec &body);
  CUresult run_conditional(FakeExec &exec, const FakeWork &work);
  CUresult add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                    const CUgraphEdgeData *edges, size_t count, FakeWork work);
  template <class Params> CUresult kernel_work(const Params &params, FakeWork &work) const;
  CUresult conditional_work(FakeGraph &graph, CUDA_CONDITIONAL_NODE_PARAMS &params, FakeWork &work);
  CUresult instantiate(FakeGraph &graph, FakeExec &exec);

#define CUGRT_FAKE(name, ...) CUresult name(__VA_ARGS__)
  // init, errors, devices
  CUGRT_FAKE(Init, unsigned flags);
  CUGRT_FAKE(DriverGetVersion, int *version);
  CUGRT_FAKE(GetErrorName, CUresult error, const char **text);
  CUGRT_FAKE(GetErrorString, CUresult error, const char **text);
  CUGRT_FAKE(DeviceGet, CUdevice *device, int ordinal);
  CUGRT_FAKE(DeviceGetCount, int *count);
  CUGRT_FAKE(DeviceGetName, char *name, int bytes, CUdevice device);
  CUGRT_FAKE(DeviceGetUuid, CUuuid *uuid, CUdevice device);
  CUGRT_FAKE(DeviceTotalMem, size_t *bytes, CUdevice device);
  CUGRT_FAKE(DeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice device);
  // contexts
  CUGRT_FAKE(DevicePrimaryCtxRetain, CUcontext *context, CUdevice device);
  CUGRT_FAKE(DevicePrimaryCtxRelease, CUdevice device);
  CUGRT_FAKE(CtxPushCurrent, CUcontext context);
  CUGRT_FAKE(CtxPopCurrent, CUcontext *context);
  CUGRT_FAKE(CtxGetCurrent, CUcontext *context);
  CUGRT_FAKE(CtxSetCurrent, CUcontext context);
  CUGRT_FAKE(CtxGetDevice, CUdevice *device);
  // memory
  CUGRT_FAKE(MemGetInfo, size_t *free_bytes, size_t *total_bytes);
  CUGRT_FAKE(MemAlloc, CUdeviceptr *address, size_t bytes);
  CUGRT_FAKE(MemFree, CUdeviceptr address);
  CUGRT_FAKE(MemPoolCreate, CUmemoryPool *pool, const CUmemPoolProps *props);
  CUGRT_FAKE(MemPoolDestroy, CUmemoryPool pool);
  CUGRT_FAKE(MemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
  CUGRT_FAKE(MemPoolTrimTo, CUmemoryPool pool, size_t bytes);
  CUGRT_FAKE(MemAllocFromPoolAsync, CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
             CUstream stream);
  CUGRT_FAKE(MemFreeAsync, CUdeviceptr address, CUstream stream);
  CUGRT_FAKE(MemHostAlloc, void **data, size_t bytes, unsigned flags);
  CUGRT_FAKE(MemHostGetDevicePointer, CUdeviceptr *address, void *data, unsigned flags);
  CUGRT_FAKE(MemFreeHost, void *data);
  CUGRT_FAKE(MemcpyAsync, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUGRT_FAKE(MemcpyHtoDAsync, CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
  CUGRT_FAKE(MemcpyDtoHAsync, void *to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUGRT_FAKE(MemsetD8Async, CUdeviceptr at, unsigned char value, size_t count, CUstream stream);
  CUGRT_FAKE(MemsetD16Async, CUdeviceptr at, unsigned short value, size_t count, CUstream stream);
  CUGRT_FAKE(MemsetD32Async, CUdeviceptr at, unsigned value, size_t count, CUstream stream);
  // virtual memory
  CUGRT_FAKE(MemAddressReserve, CUdeviceptr *address, size_t bytes, size_t alignment,
             CUdeviceptr wanted, unsigned long long flags);
  CUGRT_FAKE(MemAddressFree, CUdeviceptr address, size_t bytes);
  CUGRT_FAKE(MemCreate, CUmemGenericAllocationHandle *handle, size_t bytes,
             const CUmemAllocationProp *prop, unsigned long long flags);
  CUGRT_FAKE(MemRelease, CUmemGenericAllocationHandle handle);
  CUGRT_FAKE(MemMap, CUdeviceptr address, size_t bytes, size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long flags);
  CUGRT_FAKE(MemUnmap, CUdeviceptr address, size_t bytes);
  CUGRT_FAKE(MemSetAccess, CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
             size_t count);
  CUGRT_FAKE(MemGetAllocationGranularity, size_t *bytes, const CUmemAllocationProp *prop,
             CUmemAllocationGranularity_flags flags);
  // code
  CUGRT_FAKE(ModuleLoadDataEx, CUmodule *module, const void *image, unsigned count,
             CUjit_option *keys, void **values);
  CUGRT_FAKE(ModuleUnload, CUmodule module);
  CUGRT_FAKE(ModuleGetFunction, CUfunction *function, CUmodule module, const char *name);
  CUGRT_FAKE(ModuleGetGlobal, CUdeviceptr *address, size_t *bytes, CUmodule module,
             const char *name);
  CUGRT_FAKE(FuncGetAttribute, int *value, CUfunction_attribute attribute, CUfunction function);
  CUGRT_FAKE(FuncSetAttribute, CUfunction function, CUfunction_attribute attribute, int value);
  CUGRT_FAKE(FuncGetParamInfo, CUfunction function, size_t index, size_t *offset, size_t *bytes);
  CUGRT_FAKE(LaunchKernelEx, const CUlaunchConfig *config, CUfunction function, void **arguments,
             void **extra);
  // streams and events
  CUGRT_FAKE(StreamCreate, CUstream *stream, unsigned flags);
  CUGRT_FAKE(StreamCreateWithPriority, CUstream *stream, unsigned flags, int priority);
  CUGRT_FAKE(StreamDestroy, CUstream stream);
  CUGRT_FAKE(StreamSynchronize, CUstream stream);
  CUGRT_FAKE(StreamQuery, CUstream stream);
  CUGRT_FAKE(StreamWaitEvent, CUstream stream, CUevent event, unsigned flags);
  CUGRT_FAKE(StreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status);
  CUGRT_FAKE(StreamGetCtx, CUstream stream, CUcontext *context);
  CUGRT_FAKE(ThreadExchangeStreamCaptureMode, CUstreamCaptureMode *mode);
  CUGRT_FAKE(EventCreate, CUevent *event, unsigned flags);
  CUGRT_FAKE(EventDestroy, CUevent event);
  CUGRT_FAKE(EventRecord, CUevent event, CUstream stream);
  CUGRT_FAKE(EventQuery, CUevent event);
  CUGRT_FAKE(EventSynchronize, CUevent event);
  CUGRT_FAKE(EventElapsedTime, float *milliseconds, CUevent start, CUevent end);
  // graphs
  CUGRT_FAKE(GraphCreate, CUgraph *graph, unsigned flags);
  CUGRT_FAKE(GraphDestroy, CUgraph graph);
  CUGRT_FAKE(GraphAddKernelNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
  CUGRT_FAKE(GraphAddMemcpyNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             size_t count, const CUDA_MEMCPY3D_v2 *params, CUcontext context);
  CUGRT_FAKE(GraphAddMemsetNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context);
  CUGRT_FAKE(GraphAddEmptyNode, CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             size_t count);
  CUGRT_FAKE(GraphAddNode_v2, CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params);
  CUGRT_FAKE(GraphAddDependencies_v2, CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
             const CUgraphEdgeData *edges, size_t count);
  CUGRT_FAKE(GraphGetEdges_v2, CUgraph graph, CUgraphNode *from, CUgraphNode *to,
             CUgraphEdgeData *edges, size_t *count);
  CUGRT_FAKE(GraphConditionalHandleCreate, CUgraphConditionalHandle *handle, CUgraph graph,
             CUcontext context, unsigned initial, unsigned flags);
  CUGRT_FAKE(GraphKernelNodeSetAttribute, CUgraphNode node, CUkernelNodeAttrID id,
             const CUkernelNodeAttrValue_v1 *value);
  CUGRT_FAKE(GraphInstantiateWithParams, CUgraphExec *exec, CUgraph graph,
             CUDA_GRAPH_INSTANTIATE_PARAMS *params);
  CUGRT_FAKE(GraphUpload, CUgraphExec exec, CUstream stream);
  CUGRT_FAKE(GraphLaunch, CUgraphExec exec, CUstream stream);
  CUGRT_FAKE(GraphKernelNodeGetParams, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params);
  CUGRT_FAKE(GraphKernelNodeSetParams, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
  CUGRT_FAKE(GraphMemcpyNodeGetParams, CUgraphNode node, CUDA_MEMCPY3D_v2 *params);
  CUGRT_FAKE(GraphMemsetNodeGetParams, CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1 *params);
  CUGRT_FAKE(GraphExecKernelNodeSetParams, CUgraphExec exec, CUgraphNode node,
             const CUDA_KERNEL_NODE_PARAMS_v2 *params);
  CUGRT_FAKE(GraphNodeSetEnabled, CUgraphExec exec, CUgraphNode node, unsigned enabled);
  CUGRT_FAKE(GraphExecDestroy, CUgraphExec exec);
#undef CUGRT_FAKE
};

inline CUcontext handle_of(FakeContext *context) { return reinterpret_cast<CUcontext>(context); }
inline FakeNode *node_of(CUgraphNode node) { return reinterpret_cast<FakeNode *>(node); }
inline CUgraphNode handle_of(FakeNode *node) { return reinterpret_cast<CUgraphNode>(node); }

} // namespace cugrt::test
