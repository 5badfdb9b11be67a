// libFuzzer target: any sequence of driver calls, on live, freed and made-up handles, is answered
// with a documented code. No crash, no broken invariant (CUDA_ERROR_UNKNOWN), and nothing is left
// alive once all that was made is destroyed.
//
// An input is read as a program: a byte chooses the call, the next ones its arguments. What calls
// give out goes to a pool by kind, from which later arguments are drawn, dead ones too. Host memory
// that calls write is a buffer of its own, and no address is passed as host memory that is none: a
// real driver could not survive that either.
#include "emulator/driver/cuda_api.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <utility>
#include <vector>

namespace {

void *library() {
  static void *handle = [] {
    setenv("CUGRT_EMU_MEMORY", "64M", 1);
    setenv("CUGRT_EMU_THREADS", "1", 1);
    setenv("CUGRT_EMU_CHECK", "all", 1);
    return dlopen(EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  }();
  return handle;
}

// Deprecated functions are called too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CU(name) (reinterpret_cast<decltype(&::name)>(dlsym(library(), #name)))

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 answer = 42;
.extern .func (.param .b32 result) outside(.param .b32 x);
.visible .entry nothing() { ret; }
.visible .entry bump(.param .u64 cell)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [cell];
  ld.global.u32 %r1, [%rd1];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";
constexpr char kFunction[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) outside(.param .b32 x)
{
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [x];
  st.param.b32 [result], %r1;
  ret;
}
)";

enum Kind {
  context,
  stream,
  event,
  module,
  function,
  library_kind,
  kernel,
  link,
  graph,
  node,
  exec,
  pool,
  user_object,
  memory,
  pinned,
  kinds
};

struct Machine {
  const uint8_t *next, *end;
  std::array<std::vector<uint64_t>, kinds> made;
  std::vector<CUdeviceptr> words; // each one's own wait and write alone use it
  std::array<std::byte, 4096> host{};

  uint8_t byte() { return next < end ? *next++ : 0; }
  uint32_t number() {
    // Mostly small, at times anything.
    uint32_t small = byte();
    return small < 240 ? small : small << 24 | uint32_t(byte()) << 12 | byte();
  }
  size_t bytes() { return byte() * 16u; }
  /// Null, a made-up number, one of another kind, or one that was given out.
  template <class Handle> Handle pick(Kind kind) {
    uint8_t which = byte();
    const auto &all = which == 2 ? made[byte() % kinds] : made[kind];
    uint64_t value = 0;
    if (which == 1)
      value = uint64_t(byte()) << 48 | uint64_t(byte()) << 4;
    else if (which != 0 && !all.empty())
      value = all[which % all.size()];
    Handle handle{};
    std::memcpy(&handle, &value, sizeof handle);
    return handle;
  }
  CUdeviceptr address() { return pick<CUdeviceptr>(memory) + byte() % 8 * 4; }
  template <class Handle> void keep(Kind kind, Handle handle, CUresult result) {
    if (result != CUDA_SUCCESS)
      return;
    uint64_t value = 0;
    std::memcpy(&value, &handle, sizeof handle);
    made[kind].push_back(value);
  }
};

using Call = CUresult (*)(Machine &);

template <class Handle, class Make> CUresult make(Machine &m, Kind kind, Make &&call) {
  Handle handle{};
  CUresult result = call(&handle);
  m.keep(kind, handle, result);
  return result;
}

void CUDA_CB on_host(void *) {}

/// A graph that is added to itself again and again doubles each time, which is the program's own
/// doing.
bool too_many_nodes() {
  CUemuStatistics alive{};
  alive.struct_size = sizeof alive;
  return CU(cuEmuGetStatistics)(&alive) == CUDA_SUCCESS && alive.graph_nodes > 2000;
}

CUDA_KERNEL_NODE_PARAMS kernel_params(Machine &m, void **params) {
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = m.pick<CUfunction>(function);
  p.gridDimX = m.byte() % 4;
  p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
  p.blockDimX = m.byte() % 65;
  p.kernelParams = params;
  return p;
}

/// A write or barrier, valid or not. No wait: for any address it might never be over.
CUstreamBatchMemOpParams memory_op(Machine &m) {
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = CUstreamBatchMemOpType(m.byte() % 8);
  if (op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
      op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
    op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  if (op.operation == CU_STREAM_MEM_OP_BARRIER) {
    op.memoryBarrier.flags = m.byte() % 3;
    return op;
  }
  op.writeValue.address = m.address();
  op.writeValue.value64 = m.number();
  op.writeValue.flags = m.byte() % 16 ? 0 : m.number();
  return op;
}

/// A wait that ends, for a word that a write before it sets: at once behind the write of the same
/// stream, and otherwise when the stream of the write gets there, or fails. A write that is only
/// captured sets nothing. The word lives to the end, longer than any context.
CUresult wait_for_write(Machine &m) {
  CUstream writer = m.pick<CUstream>(stream), waiter = m.pick<CUstream>(stream);
  CUstreamCaptureStatus status{};
  CUresult result = CU(cuStreamIsCapturing)(writer, &status);
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
    return result;
  CUdeviceptr word = 0;
  if (result = CU(cuMemAllocAsync)(&word, 8, writer); result != CUDA_SUCCESS)
    return result;
  m.words.push_back(word);
  uint32_t value = m.number();
  result = CU(cuStreamWriteValue64_v2)(writer, word, value, 0);
  if (result != CUDA_SUCCESS)
    return result;
  unsigned how = m.byte();
  unsigned flags = how & 2 ? CU_STREAM_WAIT_VALUE_GEQ : CU_STREAM_WAIT_VALUE_EQ;
  return how & 1 ? CU(cuStreamWaitValue64_v2)(waiter, word, value, flags)
                 : CU(cuStreamWaitValue32_v2)(waiter, word, value, flags);
}

// Sinks for what nobody looks at.
struct Sinks {
  int number = 0;
  unsigned count = 0;
  size_t bytes = 0, other = 0;
  CUdeviceptr address = 0;
  unsigned long long id = 0;
  cuuint64_t wide = 0;
  const char *text = nullptr;
  void *pointer = nullptr;
  float ms = 0;
  CUcontext context = nullptr;
  CUgraphNodeType type{};
  CUstreamCaptureStatus status{};
  CUgraphExecUpdateResultInfo update{};
  CUDA_KERNEL_NODE_PARAMS kernel{};
} s;

const Call kCalls[] = {
    // Contexts.
    [](Machine &m) {
      return make<CUcontext>(m, context,
                             [&](auto *h) { return CU(cuCtxCreate_v2)(h, m.number(), 0); });
    },
    [](Machine &m) { return CU(cuCtxDestroy_v2)(m.pick<CUcontext>(context)); },
    [](Machine &m) { return CU(cuCtxSetCurrent)(m.pick<CUcontext>(context)); },
    [](Machine &m) { return CU(cuCtxPushCurrent_v2)(m.pick<CUcontext>(context)); },
    [](Machine &) { return CU(cuCtxPopCurrent_v2)(&s.context); },
    [](Machine &) { return CU(cuCtxSynchronize)(); },
    [](Machine &m) { return CU(cuCtxSetLimit)(CUlimit(m.byte() % 8), m.number()); },
    [](Machine &m) { return CU(cuCtxEnablePeerAccess)(m.pick<CUcontext>(context), m.byte() & 1); },
    [](Machine &) { return CU(cuDevicePrimaryCtxReset_v2)(0); },
    // Memory.
    [](Machine &m) {
      return make<CUdeviceptr>(m, memory, [&](auto *h) { return CU(cuMemAlloc_v2)(h, m.bytes()); });
    },
    [](Machine &m) {
      return make<CUdeviceptr>(
          m, memory, [&](auto *h) { return CU(cuMemAllocManaged)(h, m.bytes(), m.byte() % 5); });
    },
    [](Machine &m) {
      return make<CUdeviceptr>(m, memory, [&](auto *h) {
        return CU(cuMemAllocAsync)(h, m.bytes(), m.pick<CUstream>(stream));
      });
    },
    [](Machine &m) {
      return make<void *>(m, pinned,
                          [&](auto *h) { return CU(cuMemHostAlloc)(h, m.bytes(), m.byte()); });
    },
    [](Machine &m) { return CU(cuMemFree_v2)(m.address()); },
    [](Machine &m) { return CU(cuMemFreeAsync)(m.address(), m.pick<CUstream>(stream)); },
    [](Machine &m) { return CU(cuMemFreeHost)(m.pick<void *>(pinned)); },
    [](Machine &m) {
      return CU(cuMemcpyHtoDAsync_v2)(m.address(), m.host.data(), m.bytes(),
                                      m.pick<CUstream>(stream));
    },
    [](Machine &m) { return CU(cuMemcpyDtoH_v2)(m.host.data(), m.address(), m.bytes()); },
    [](Machine &m) {
      return CU(cuMemcpyDtoDAsync_v2)(m.address(), m.address(), m.bytes(),
                                      m.pick<CUstream>(stream));
    },
    [](Machine &m) {
      return CU(cuMemcpyPeer)(m.address(), m.pick<CUcontext>(context), m.address(),
                              m.pick<CUcontext>(context), m.bytes());
    },
    [](Machine &m) {
      return CU(cuMemsetD32Async)(m.address(), m.byte(), m.number(), m.pick<CUstream>(stream));
    },
    [](Machine &m) {
      return CU(cuMemsetD2D8Async)(m.address(), m.number(), 1, m.number(), m.byte(),
                                   m.pick<CUstream>(stream));
    },
    [](Machine &m) { return CU(cuMemGetAddressRange_v2)(&s.address, &s.bytes, m.address()); },
    [](Machine &m) {
      return CU(cuPointerGetAttribute)(m.host.data(), CUpointer_attribute(m.byte() % 24),
                                       m.address());
    },
    [](Machine &m) {
      return CU(cuMemHostGetDevicePointer_v2)(&s.address, m.pick<void *>(pinned), 0);
    },
    [](Machine &m) {
      CUmemLocation at{};
      at.type = CUmemLocationType(m.byte() % 5);
      at.id = m.byte() % 2;
      return CU(cuMemAdvise_v2)(m.address(), m.bytes(), CUmem_advise(m.byte() % 9), at);
    },
    [](Machine &m) {
      return CU(cuMemPrefetchAsync)(m.address(), m.bytes(), int(m.byte() % 3) - 1,
                                    m.pick<CUstream>(stream));
    },
    [](Machine &m) {
      return CU(cuStreamAttachMemAsync)(m.pick<CUstream>(stream), m.address(), m.bytes(),
                                        m.byte() % 6);
    },
    // Streams and events.
    [](Machine &m) {
      return make<CUstream>(m, stream,
                            [&](auto *h) { return CU(cuStreamCreate)(h, m.byte() % 3); });
    },
    [](Machine &m) { return CU(cuStreamDestroy_v2)(m.pick<CUstream>(stream)); },
    [](Machine &m) { return CU(cuStreamSynchronize)(m.pick<CUstream>(stream)); },
    [](Machine &m) { return CU(cuStreamQuery)(m.pick<CUstream>(stream)); },
    [](Machine &m) {
      return CU(cuStreamWaitEvent)(m.pick<CUstream>(stream), m.pick<CUevent>(event), m.byte() % 3);
    },
    [](Machine &m) { return CU(cuStreamIsCapturing)(m.pick<CUstream>(stream), &s.status); },
    [](Machine &m) {
      return CU(cuStreamBeginCapture_v2)(m.pick<CUstream>(stream),
                                         CUstreamCaptureMode(m.byte() % 4));
    },
    [](Machine &m) {
      return make<CUgraph>(
          m, graph, [&](auto *h) { return CU(cuStreamEndCapture)(m.pick<CUstream>(stream), h); });
    },
    [](Machine &m) { return CU(cuLaunchHostFunc)(m.pick<CUstream>(stream), on_host, nullptr); },
    [](Machine &m) {
      return make<CUevent>(m, event, [&](auto *h) { return CU(cuEventCreate)(h, m.byte() % 4); });
    },
    [](Machine &m) { return CU(cuEventRecord)(m.pick<CUevent>(event), m.pick<CUstream>(stream)); },
    [](Machine &m) { return CU(cuEventQuery)(m.pick<CUevent>(event)); },
    [](Machine &m) { return CU(cuEventSynchronize)(m.pick<CUevent>(event)); },
    [](Machine &m) {
      return CU(cuEventElapsedTime_v2)(&s.ms, m.pick<CUevent>(event), m.pick<CUevent>(event));
    },
    [](Machine &m) { return CU(cuEventDestroy_v2)(m.pick<CUevent>(event)); },
    // Code.
    [](Machine &m) {
      return make<CUmodule>(m, module, [&](auto *h) {
        return CU(cuModuleLoadData)(h, m.byte() & 1 ? kFunction : kKernels);
      });
    },
    [](Machine &m) { return CU(cuModuleUnload)(m.pick<CUmodule>(module)); },
    [](Machine &m) {
      return make<CUfunction>(m, function, [&](auto *h) {
        return CU(cuModuleGetFunction)(h, m.pick<CUmodule>(module),
                                       m.byte() & 1 ? "bump" : "nothing");
      });
    },
    [](Machine &m) {
      return make<CUdeviceptr>(m, memory, [&](auto *h) {
        return CU(cuModuleGetGlobal_v2)(h, &s.bytes, m.pick<CUmodule>(module), "answer");
      });
    },
    [](Machine &m) {
      return make<CUlibrary>(m, library_kind, [&](auto *h) {
        return CU(cuLibraryLoadData)(h, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
      });
    },
    [](Machine &m) { return CU(cuLibraryUnload)(m.pick<CUlibrary>(library_kind)); },
    [](Machine &m) {
      return make<CUkernel>(m, kernel, [&](auto *h) {
        return CU(cuLibraryGetKernel)(h, m.pick<CUlibrary>(library_kind), "bump");
      });
    },
    [](Machine &m) {
      return make<CUfunction>(m, function, [&](auto *h) {
        return CU(cuKernelGetFunction)(h, m.pick<CUkernel>(kernel));
      });
    },
    [](Machine &m) { return CU(cuKernelGetName)(&s.text, m.pick<CUkernel>(kernel)); },
    [](Machine &m) {
      return CU(cuFuncGetAttribute)(&s.number, CUfunction_attribute(m.byte() % 18),
                                    m.pick<CUfunction>(function));
    },
    [](Machine &m) {
      return CU(cuFuncSetAttribute)(m.pick<CUfunction>(function),
                                    CUfunction_attribute(m.byte() % 18), int(m.number()));
    },
    [](Machine &m) {
      return CU(cuFuncGetParamInfo)(m.pick<CUfunction>(function), m.byte(), &s.bytes, &s.other);
    },
    [](Machine &m) {
      return CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(
          &s.number, m.pick<CUfunction>(function), int(m.number()), m.number());
    },
    [](Machine &m) {
      CUdeviceptr cell = m.address();
      void *params[] = {&cell};
      return CU(cuLaunchKernel)(m.pick<CUfunction>(function), m.byte() % 4, 1, 1, m.byte() % 65, 1,
                                1, m.number(), m.pick<CUstream>(stream), params, nullptr);
    },
    [](Machine &m) {
      return CU(cuFuncSetBlockShape)(m.pick<CUfunction>(function), int(m.byte() % 65) - 1, 1, 1);
    },
    [](Machine &m) { return CU(cuParamSetSize)(m.pick<CUfunction>(function), m.number()); },
    [](Machine &m) {
      CUdeviceptr cell = m.address();
      return CU(cuParamSetv)(m.pick<CUfunction>(function), int(m.number()) % 64, &cell,
                             m.byte() % (sizeof cell + 1));
    },
    [](Machine &m) {
      return CU(cuLaunchGridAsync)(m.pick<CUfunction>(function), m.byte() % 4, 1,
                                   m.pick<CUstream>(stream));
    },
    [](Machine &m) {
      CUdeviceptr cell = m.address();
      void *params[] = {&cell};
      return CU(cuLaunchCooperativeKernel)(m.pick<CUfunction>(function), m.number(), 1, 1,
                                           m.byte() % 65, 1, 1, 0, m.pick<CUstream>(stream),
                                           params);
    },
    // Linking.
    [](Machine &m) {
      return make<CUlinkState>(
          m, link, [&](auto *h) { return CU(cuLinkCreate_v2)(0, nullptr, nullptr, h); });
    },
    [](Machine &m) {
      bool other = m.byte() & 1;
      return CU(cuLinkAddData_v2)(m.pick<CUlinkState>(link), CUjitInputType(m.byte() % 7),
                                  const_cast<char *>(other ? kFunction : kKernels),
                                  other ? sizeof kFunction : sizeof kKernels, nullptr, 0, nullptr,
                                  nullptr);
    },
    [](Machine &m) {
      CUresult result = CU(cuLinkComplete)(m.pick<CUlinkState>(link), &s.pointer, &s.bytes);
      if (result == CUDA_SUCCESS)
        return make<CUmodule>(m, module,
                              [&](auto *h) { return CU(cuModuleLoadData)(h, s.pointer); });
      return result == CUDA_ERROR_UNKNOWN ? CUDA_SUCCESS : result;
    }, // doubly defined
    [](Machine &m) { return CU(cuLinkDestroy)(m.pick<CUlinkState>(link)); },
    // Graphs.
    [](Machine &m) {
      return make<CUgraph>(m, graph,
                           [&](auto *h) { return CU(cuGraphCreate)(h, m.byte() % 5 == 4); });
    },
    [](Machine &m) { return CU(cuGraphDestroy)(m.pick<CUgraph>(graph)); },
    [](Machine &m) {
      if (too_many_nodes())
        return CUDA_SUCCESS;
      return make<CUgraph>(m, graph,
                           [&](auto *h) { return CU(cuGraphClone)(h, m.pick<CUgraph>(graph)); });
    },
    [](Machine &m) {
      CUgraphNode before[] = {m.pick<CUgraphNode>(node), m.pick<CUgraphNode>(node)};
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddEmptyNode)(h, m.pick<CUgraph>(graph), before, m.byte() % 3);
      });
    },
    [](Machine &m) {
      CUdeviceptr cell = m.address();
      void *params[] = {&cell};
      CUDA_KERNEL_NODE_PARAMS p = kernel_params(m, params);
      CUgraphNode before = m.pick<CUgraphNode>(node);
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddKernelNode_v2)(h, m.pick<CUgraph>(graph), &before, m.byte() % 2, &p);
      });
    },
    [](Machine &m) {
      CUDA_MEMSET_NODE_PARAMS p{};
      p.dst = m.address();
      p.elementSize = m.byte() % 5;
      p.width = m.number();
      p.height = m.byte() % 3;
      p.pitch = m.number();
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddMemsetNode)(h, m.pick<CUgraph>(graph), nullptr, 0, &p,
                                        m.pick<CUcontext>(context));
      });
    },
    [](Machine &m) {
      CUDA_HOST_NODE_PARAMS p{};
      p.fn = on_host;
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddHostNode)(h, m.pick<CUgraph>(graph), nullptr, 0, &p);
      });
    },
    [](Machine &m) {
      if (too_many_nodes())
        return CUDA_SUCCESS;
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddChildGraphNode)(h, m.pick<CUgraph>(graph), nullptr, 0,
                                            m.pick<CUgraph>(graph));
      });
    },
    [](Machine &m) {
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddEventRecordNode)(h, m.pick<CUgraph>(graph), nullptr, 0,
                                             m.pick<CUevent>(event));
      });
    },
    [](Machine &m) {
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddEventWaitNode)(h, m.pick<CUgraph>(graph), nullptr, 0,
                                           m.pick<CUevent>(event));
      });
    },
    [](Machine &m) {
      CUgraphNodeParams p{};
      p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
      CUgraph in = m.pick<CUgraph>(graph);
      CUresult result = CU(cuGraphConditionalHandleCreate)(
          &p.conditional.handle, in, m.pick<CUcontext>(context), m.byte(), m.byte() % 3);
      if (result != CUDA_SUCCESS)
        return result;
      p.conditional.type = CUgraphConditionalNodeType(m.byte() % 3);
      p.conditional.size = m.byte() % 4;
      p.conditional.ctx = m.pick<CUcontext>(context);
      return make<CUgraphNode>(
          m, node, [&](auto *h) { return CU(cuGraphAddNode_v2)(h, in, nullptr, nullptr, 0, &p); });
    },
    [](Machine &m) {
      CUgraphNode from = m.pick<CUgraphNode>(node), to = m.pick<CUgraphNode>(node);
      CUgraphEdgeData data{};
      data.type = m.byte() % 2;
      data.from_port = m.byte() % 4;
      return CU(cuGraphAddDependencies_v2)(m.pick<CUgraph>(graph), &from, &to, &data, 1);
    },
    [](Machine &m) {
      CUgraphNode from = m.pick<CUgraphNode>(node), to = m.pick<CUgraphNode>(node);
      return CU(cuGraphRemoveDependencies_v2)(m.pick<CUgraph>(graph), &from, &to, nullptr, 1);
    },
    [](Machine &m) { return CU(cuGraphDestroyNode)(m.pick<CUgraphNode>(node)); },
    [](Machine &m) { return CU(cuGraphNodeGetType)(m.pick<CUgraphNode>(node), &s.type); },
    [](Machine &m) {
      return CU(cuGraphKernelNodeGetParams_v2)(m.pick<CUgraphNode>(node), &s.kernel);
    },
    [](Machine &m) {
      return make<CUgraphExec>(m, exec, [&](auto *h) {
        return CU(cuGraphInstantiateWithFlags)(h, m.pick<CUgraph>(graph), m.byte() % 12);
      });
    },
    [](Machine &m) { return CU(cuGraphExecDestroy)(m.pick<CUgraphExec>(exec)); },
    [](Machine &m) {
      return CU(cuGraphExecUpdate_v2)(m.pick<CUgraphExec>(exec), m.pick<CUgraph>(graph), &s.update);
    },
    [](Machine &m) {
      CUdeviceptr cell = m.address();
      void *params[] = {&cell};
      CUDA_KERNEL_NODE_PARAMS p = kernel_params(m, params);
      return CU(cuGraphExecKernelNodeSetParams_v2)(m.pick<CUgraphExec>(exec),
                                                   m.pick<CUgraphNode>(node), &p);
    },
    [](Machine &m) {
      return CU(cuGraphNodeSetEnabled)(m.pick<CUgraphExec>(exec), m.pick<CUgraphNode>(node),
                                       m.byte() % 3);
    },
    [](Machine &m) {
      return CU(cuGraphLaunch)(m.pick<CUgraphExec>(exec), m.pick<CUstream>(stream));
    },
    [](Machine &m) {
      return CU(cuGraphUpload)(m.pick<CUgraphExec>(exec), m.pick<CUstream>(stream));
    },
    // Pools and user objects.
    [](Machine &m) {
      CUmemPoolProps p{};
      p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      p.location.type = CUmemLocationType(m.byte() % 3);
      p.maxSize = m.number();
      return make<CUmemoryPool>(m, pool, [&](auto *h) { return CU(cuMemPoolCreate)(h, &p); });
    },
    [](Machine &m) { return CU(cuMemPoolDestroy)(m.pick<CUmemoryPool>(pool)); },
    [](Machine &m) { return CU(cuDeviceSetMemPool)(0, m.pick<CUmemoryPool>(pool)); },
    [](Machine &m) {
      return make<CUdeviceptr>(m, memory, [&](auto *h) {
        return CU(cuMemAllocFromPoolAsync)(h, m.bytes(), m.pick<CUmemoryPool>(pool),
                                           m.pick<CUstream>(stream));
      });
    },
    [](Machine &m) {
      return make<CUuserObject>(m, user_object, [&](auto *h) {
        return CU(cuUserObjectCreate)(h, &m, on_host, m.byte() % 4, m.byte() % 2);
      });
    },
    [](Machine &m) {
      return CU(cuUserObjectRelease)(m.pick<CUuserObject>(user_object), m.byte() % 4);
    },
    [](Machine &m) {
      return CU(cuGraphRetainUserObject)(m.pick<CUgraph>(graph), m.pick<CUuserObject>(user_object),
                                         m.byte() % 4, m.byte() % 2);
    },
    // The nth call from here fails.
    [](Machine &m) { return CU(cuEmuSetFaultInjection)(m.byte(), CUDA_ERROR_OUT_OF_MEMORY); },
    // Words in memory. They stand last, so that the corpus means what it meant.
    [](Machine &m) { return wait_for_write(m); },
    [](Machine &m) {
      return CU(cuStreamWriteValue32_v2)(m.pick<CUstream>(stream), m.address(), m.number(), 0);
    },
    [](Machine &m) {
      CUstreamBatchMemOpParams ops[] = {memory_op(m), memory_op(m), memory_op(m)};
      return CU(cuStreamBatchMemOp_v2)(m.pick<CUstream>(stream), m.byte() % 4, ops, 0);
    },
    [](Machine &m) {
      CUstreamBatchMemOpParams ops[] = {memory_op(m), memory_op(m)};
      CUDA_BATCH_MEM_OP_NODE_PARAMS p{m.pick<CUcontext>(context), m.byte() % 3u, ops, 0};
      CUgraphNode before = m.pick<CUgraphNode>(node);
      return make<CUgraphNode>(m, node, [&](auto *h) {
        return CU(cuGraphAddBatchMemOpNode)(h, m.pick<CUgraph>(graph), &before, m.byte() % 2, &p);
      });
    },
    [](Machine &m) {
      CUstreamBatchMemOpParams ops[] = {memory_op(m), memory_op(m)};
      CUDA_BATCH_MEM_OP_NODE_PARAMS p{m.pick<CUcontext>(context), m.byte() % 3u, ops, 0};
      return CU(cuGraphExecBatchMemOpNodeSetParams)(m.pick<CUgraphExec>(exec),
                                                    m.pick<CUgraphNode>(node), &p);
    },
};

[[noreturn]] void fail(const char *what, uint64_t value) {
  std::fprintf(stderr, "%s: %llu\n", what, (unsigned long long)value);
  std::abort();
}

void check(size_t call, CUresult result) {
  const char *name = nullptr;
  if (result == CUDA_ERROR_UNKNOWN || CU(cuGetErrorName)(result, &name) != CUDA_SUCCESS) {
    std::fprintf(stderr, "answered %d by ", int(result));
    fail("call", call);
  }
}

template <class Handle, class Destroy> void destroy_all(Machine &m, Kind kind, Destroy destroy) {
  for (uint64_t value : m.made[kind]) {
    Handle handle{};
    std::memcpy(&handle, &value, sizeof handle);
    while (destroy(handle) == CUDA_SUCCESS && kind == user_object) {
    }
  }
}

/// All that was made goes, and then nothing is alive.
void clean_up(Machine &m, CUcontext primary) {
  CU(cuEmuSetFaultInjection)(0, CUDA_SUCCESS);
  destroy_all<CUcontext>(m, context,
                         CU(cuCtxDestroy_v2)); // waits for work that uses what is freed below
  CU(cuDevicePrimaryCtxReset_v2)(0);           // after a fault nothing could be freed
  CU(cuCtxSetCurrent)(primary);
  destroy_all<CUgraphExec>(m, exec, CU(cuGraphExecDestroy));
  destroy_all<CUgraph>(m, graph, CU(cuGraphDestroy));
  destroy_all<CUlinkState>(m, link, CU(cuLinkDestroy));
  destroy_all<CUlibrary>(m, library_kind, CU(cuLibraryUnload));
  destroy_all<CUuserObject>(m, user_object,
                            [](CUuserObject h) { return CU(cuUserObjectRelease)(h, 1); });
  destroy_all<CUdeviceptr>(m, memory, CU(cuMemFree_v2));
  for (CUdeviceptr word : m.words)
    CU(cuMemFree_v2)(word);
  destroy_all<CUmemoryPool>(m, pool, CU(cuMemPoolDestroy));
  CUcontext left = nullptr;
  while (CU(cuCtxPopCurrent_v2)(&left) == CUDA_SUCCESS) {
  }
  CU(cuDevicePrimaryCtxRelease_v2)(0);
  CUemuStatistics alive{};
  alive.struct_size = sizeof alive;
  CU(cuEmuGetStatistics)(&alive);
  for (auto [kind, count] : {std::pair("contexts", alive.contexts),
                             {"allocations", alive.allocations},
                             {"pinned allocations", alive.host_allocations},
                             {"modules", alive.modules},
                             {"streams", alive.streams},
                             {"events", alive.events},
                             {"graphs", alive.graphs},
                             {"nodes", alive.graph_nodes},
                             {"instances", alive.graph_execs}})
    if (count)
      fail(kind, count);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!library() || CU(cuEmuReinitialize)() != CUDA_SUCCESS || CU(cuInit)(0) != CUDA_SUCCESS)
    fail("the driver does not start; bytes of input", size);
  CUcontext primary = nullptr;
  if (CU(cuDevicePrimaryCtxRetain)(&primary, 0) != CUDA_SUCCESS)
    fail("no primary context; bytes of input", size);
  CU(cuCtxSetCurrent)(primary);
  Machine m{data, data + size, {}, {}, {}};
  m.keep(context, primary, CUDA_SUCCESS);
  constexpr int kMaxCalls = 200;
  for (int i = 0; i < kMaxCalls && m.next < m.end; ++i) {
    size_t call = m.byte() % std::size(kCalls);
    check(call, kCalls[call](m));
  }
  m.made[context].erase(m.made[context].begin()); // the primary one is released, not destroyed
  clean_up(m, primary);
  return 0;
}
