// A graph under test and short ways to add nodes to it.
#pragma once

#include "emulator/unit/driver/session.h"

#include <cstdio>
#include <fstream>
#include <sstream>

inline std::string read_text(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Parameters of a kernel node of one thread.
template <class Params = CUDA_KERNEL_NODE_PARAMS_v2>
Params one_thread(CUfunction function, void **params) {
  Params p{};
  p.func = function;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.kernelParams = params;
  return p;
}

struct Builder {
  using Nodes = std::vector<CUgraphNode>;

  Builder() { OK(CU(cuGraphCreate)(&graph, 0)); }
  ~Builder() { CHECK(CU(cuGraphDestroy)(graph) == CUDA_SUCCESS); }
  Builder(const Builder &) = delete;
  Builder &operator=(const Builder &) = delete;

  /// One thread of the kernel "affine" (out, factor, term).
  CUDA_KERNEL_NODE_PARAMS_v2 kernel_params(void **params) {
    if (!function)
      function = kernel(load_kernels(), "affine");
    return one_thread(function, params);
  }

  CUgraphNode affine(CUdeviceptr cell, uint32_t factor, uint32_t term, Nodes before = {}) {
    void *params[] = {&cell, &factor, &term};
    CUDA_KERNEL_NODE_PARAMS_v2 p = kernel_params(params);
    return MADE(cuGraphAddKernelNode_v2, graph, before.data(), before.size(), &p);
  }

  CUgraphNode fill(CUdeviceptr to, uint32_t value, Nodes before = {}, size_t width = 1) {
    CUDA_MEMSET_NODE_PARAMS p{to, 0, value, 4, width, 1};
    return MADE(cuGraphAddMemsetNode, graph, before.data(), before.size(), &p, nullptr);
  }

  static CUDA_MEMCPY3D copy_params(void *to, CUdeviceptr from, size_t bytes) {
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = from;
    p.dstMemoryType = CU_MEMORYTYPE_HOST;
    p.dstHost = to;
    p.WidthInBytes = bytes;
    p.Height = p.Depth = 1;
    return p;
  }

  CUgraphNode copy(uint32_t *to, CUdeviceptr from, Nodes before = {}) {
    CUDA_MEMCPY3D p = copy_params(to, from, 4);
    return MADE(cuGraphAddMemcpyNode, graph, before.data(), before.size(), &p, nullptr);
  }

  CUgraphNode empty(Nodes before = {}) {
    return MADE(cuGraphAddEmptyNode, graph, before.data(), before.size());
  }

  CUgraphExec instantiate(unsigned long long flags = 0) {
    return MADE(cuGraphInstantiateWithFlags, graph, flags);
  }

  CUgraph graph = nullptr;
  CUfunction function = nullptr;
};

inline void launch_graph(CUgraphExec exec, CUstream stream) {
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

inline uint32_t launch_and_read(CUgraphExec exec, CUdeviceptr cell) {
  launch_graph(exec, nullptr);
  return download<uint32_t>(cell, 1)[0];
}

/// The data of an edge from a kernel's programmatic event.
inline CUgraphEdgeData programmatic(unsigned char port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC) {
  CUgraphEdgeData data{};
  data.from_port = port;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return data;
}
