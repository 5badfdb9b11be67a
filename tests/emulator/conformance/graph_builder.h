// Graphs of the kernel that multiplies and adds, for scripts.
#pragma once

#include "script.h"

namespace cugrt::conformance {

/// Owns one graph of nodes that each do *cell = *cell * factor + term.
class GraphBuilder {
public:
  explicit GraphBuilder(Script &script) : s_(script) { s_.need(s_.api.cuGraphCreate(&graph, 0)); }
  ~GraphBuilder() {
    if (graph)
      s_.api.cuGraphDestroy(graph);
  }
  GraphBuilder(const GraphBuilder &) = delete;
  GraphBuilder &operator=(const GraphBuilder &) = delete;

  CUgraph graph = nullptr;

  using Nodes = std::vector<CUgraphNode>;

  /// Parameters of the kernel; the values live as long as this.
  struct Affine {
    CUdeviceptr cell;
    uint32_t factor, term;
    void *params[3];
    CUDA_KERNEL_NODE_PARAMS node{};
    Affine(Script &s, CUdeviceptr address, uint32_t times, uint32_t plus)
        : cell(address), factor(times), term(plus), params{&cell, &factor, &term} {
      node.func = s.kernel("affine");
      node.gridDimX = node.gridDimY = node.gridDimZ = 1;
      node.blockDimX = node.blockDimY = node.blockDimZ = 1;
      node.kernelParams = params;
    }
    Affine(const Affine &) = delete;
    Affine &operator=(const Affine &) = delete;
  };

  CUgraphNode affine(CUdeviceptr cell, uint32_t factor, uint32_t term, const Nodes &before = {}) {
    Affine p(s_, cell, factor, term);
    CUgraphNode node = nullptr;
    s_.need(s_.api.cuGraphAddKernelNode(&node, graph, before.data(), before.size(), &p.node));
    return node;
  }
  CUgraphNode empty(const Nodes &before = {}) {
    CUgraphNode node = nullptr;
    s_.need(s_.api.cuGraphAddEmptyNode(&node, graph, before.data(), before.size()));
    return node;
  }
  static CUDA_MEMSET_NODE_PARAMS fill_params(CUdeviceptr cell, uint32_t value, size_t words = 1) {
    CUDA_MEMSET_NODE_PARAMS p{};
    p.dst = cell;
    p.value = value;
    p.elementSize = 4;
    p.width = words;
    p.height = 1;
    return p;
  }
  CUgraphNode fill(CUdeviceptr cell, uint32_t value, const Nodes &before = {}) {
    CUDA_MEMSET_NODE_PARAMS p = fill_params(cell, value);
    CUgraphNode node = nullptr;
    s_.need(
        s_.api.cuGraphAddMemsetNode(&node, graph, before.data(), before.size(), &p, s_.context));
    return node;
  }
  CUgraphNode copy(CUdeviceptr to, CUdeviceptr from, const Nodes &before = {}) {
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = from;
    p.dstDevice = to;
    p.WidthInBytes = 4;
    p.Height = p.Depth = 1;
    CUgraphNode node = nullptr;
    s_.need(
        s_.api.cuGraphAddMemcpyNode(&node, graph, before.data(), before.size(), &p, s_.context));
    return node;
  }
  CUgraphExec instantiate() { return s_.instantiate(graph); }
  CUresult depend(CUgraphNode from, CUgraphNode to) {
    return s_.api.cuGraphAddDependencies(graph, &from, &to, nullptr, 1);
  }

private:
  Script &s_;
};

/// Launches in the default stream, waits and reads the cell.
inline uint64_t launched(Script &s, CUgraphExec exec, CUdeviceptr cell) {
  s.need(s.api.cuGraphLaunch(exec, nullptr));
  s.need(s.api.cuStreamSynchronize(nullptr));
  return s.word(cell);
}

} // namespace cugrt::conformance
