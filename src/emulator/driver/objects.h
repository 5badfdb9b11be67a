// Objects behind handles. All mutable fields are guarded by Driver::mutex unless said otherwise;
// objects refer to one another by shared pointers (a function keeps its module, a stream its
// context). Destroying a context empties its lists, which breaks the circles.
#pragma once

#include "emulator/decode/program.h"
#include "emulator/device/device_heap.h"
#include "emulator/driver/code/jit_options.h"
#include "emulator/driver/schedule/scheduler.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::emulator::api {

/// A lower number is a greater priority.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

/// "The default heap size is 8MB."
constexpr uint64_t kDefaultHeapBytes = uint64_t(8) << 20;

struct Context;
struct Graph;
struct GraphNode;
struct GreenContext;

/// A capture in progress; shared by the streams that take part in it.
struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;    // that began it
  CUstream origin = nullptr; // the only stream that may end it
  std::shared_ptr<Graph> graph;
  bool invalidated = false;
  bool to_graph = false; // cuStreamBeginCaptureToGraph: the graph is the caller's
  /// Nodes that no captured work depends on and that the origin stream has not joined show unjoined
  /// work.
  std::vector<CUstream> streams;
  std::vector<CUgraphNode> left_behind; // where streams stood that were destroyed meanwhile
};

class NodeRun;

/// The last work of a stream, when that is a kernel: another may be launched to begin with it.
struct StreamKernel {
  TaskPtr task;
  std::shared_ptr<NodeRun> run;
  std::vector<TaskPtr> start_after;
  uint32_t early = 0; // how many kernels in a row may begin with the one before
};

struct Stream {
  CUstream handle = nullptr;
  std::shared_ptr<Context> context;
  std::shared_ptr<GreenContext> green; // whose multiprocessors its work has; nullptr: all
  unsigned flags = CU_STREAM_DEFAULT;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false, per_thread = false;
  TaskPtr tail;                              // the last task; nullptr when there never was one
  uint64_t kernels = 0;                      // launched so far
  std::shared_ptr<StreamKernel> last_kernel; // nullptr when the last work is no launch of a kernel
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> capture_dependencies;
  std::vector<CUgraphEdgeData> capture_edges; // what was handed out beside them: all ordinary
  std::map<int, CUlaunchAttributeValue> attributes;

  bool blocking() const { return !legacy && !(flags & CU_STREAM_NON_BLOCKING); }
};

struct Event {
  CUevent handle = nullptr;
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  TaskPtr task;                     // of the last record; nullptr before it
  std::shared_ptr<Capture> capture; // when the last record was captured
  std::vector<CUgraphNode> captured_nodes;
};

struct Module {
  CUmodule handle = nullptr;
  std::shared_ptr<Context> context;
  std::unique_ptr<Program> program;
  std::map<std::string, CUfunction, std::less<>> functions; // made on request
  bool of_library = false;                                  // cuModuleUnload refuses it
  /// Each kernel's registers, as an assembler counts them; set by the first launch that needs them.
  std::optional<std::map<std::string, uint32_t, std::less<>>> register_counts;
};

/// Settings of cuFuncSetBlockShape, cuParamSetv and their like for the next cuLaunch.
struct LaunchState {
  std::array<uint32_t, 3> block{}; // zeros: not set, or not since cuLaunchKernel
  uint32_t dynamic_shared_bytes = 0, param_bytes = 0;
  std::vector<std::byte> params; // as far as they were set
};

struct Function {
  CUfunction handle = nullptr;
  std::shared_ptr<Module> module;
  const KernelInfo *info = nullptr;
  std::shared_ptr<Context> context;
  int max_dynamic_shared_bytes = 0;
  int carveout = -1;
  std::array<int, 3> cluster{};
  int non_portable_cluster = 0, cluster_policy = 0;
  LaunchState launch_state;
};

struct Kernel;

/// Code that is loaded into a context when it is first used there.
struct Library {
  CUlibrary handle = nullptr;
  std::string ptx;
  uint32_t max_registers = 0; // of a thread; 0: not stated
  std::map<Context *, std::shared_ptr<Module>> modules;
  std::map<std::string, CUkernel, std::less<>> kernels; // all of them
};

struct Kernel {
  CUkernel handle = nullptr;
  Library *library = nullptr;
  std::string name;
};

/// Inputs that wait to be linked, or their result.
struct LinkState {
  CUlinkState handle = nullptr;
  JitOptions options; // its logs are the caller's, for as long as the state lives
  std::string log;    // what has gone wrong so far
  std::vector<std::string> texts, names;
  std::string image; // what cuLinkComplete gave out
  bool completed = false;
};

struct Context {
  explicit Context(AddressSpace &memory) : heap(memory) {}
  CUcontext handle = nullptr;
  uint64_t id = 0;
  unsigned flags = 0;
  bool primary = false;
  uint32_t attached = 0; // cuCtxAttach without its cuCtxDetach
  std::shared_ptr<Stream> legacy_stream;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_streams;
  std::vector<std::shared_ptr<Stream>> streams; // created ones
  std::vector<std::shared_ptr<Event>> events;
  std::vector<std::shared_ptr<Module>> modules;
  std::vector<TaskPtr> orphans;                          // tails of destroyed streams
  std::map<int, size_t> limits;                          // but for the stack's
  std::atomic<uint64_t> stack_bytes{kDefaultStackBytes}; // CU_LIMIT_STACK_SIZE; kernels read it
  uint64_t heap_bytes = kDefaultHeapBytes;               // CU_LIMIT_MALLOC_HEAP_SIZE
  DeviceHeap heap;                    // open as soon as code is loaded that uses it
  std::atomic<bool> used_heap{false}; // by a kernel: its size stays
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
};

/// Memory without an address (cuMemCreate): a file of its own, so that it can be mapped twice.
struct Physical {
  Physical *handle = nullptr; // never followed: see HandleTable
  int file = -1;
  uint64_t bytes = 0;
  CUmemAllocationProp properties{};
  bool was_mapped = false; // accessible at some time
  ~Physical();
};

struct UserObject {
  CUuserObject handle = nullptr;
  void *pointer = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0;       // the program's and the graphs'; the destructor is queued at none
  std::vector<TaskPtr> launches; // under way when their instance gave up references
  uint64_t of_program = 0; // those of them that the program may give back or move into a graph
};

} // namespace cugrt::emulator::api
