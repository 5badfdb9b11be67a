// Graphs built node by node, and their instances.
//
// Graph objects are not thread-safe, not even for calls that look read-only (CUDA driver API, graph
// object thread safety): one thread at a time for a Graph, its bodies and what was instantiated
// from it. Setters of a GraphExec name nodes of the Graph that it was instantiated from, so the two
// are kept together. Node parameters, kernel arguments too, are copied when a node is added or set.
#pragma once

#include "device/driver/kernel_module.h"
#include "device/driver/stream.h"

namespace cugrt::driver {

/// A reference to a node; valid while its graph lives.
using GraphNode = CUgraphNode;

enum class MemoryKind { device, host };

/// A linear copy. The kinds and the size are fixed for the life of an instance: the driver refuses
/// setters that change them.
struct CopyParams {
  uint64_t destination = 0, source = 0, size_bytes = 0;
  MemoryKind destination_kind = MemoryKind::device, source_kind = MemoryKind::device;
};

/// `count` elements of `element_bytes` (1, 2 or 4).
struct FillParams {
  uint64_t destination = 0, count = 0;
  uint32_t value = 0, element_bytes = 1;
};

/// Nodes that a new node waits for.
using Dependencies = std::span<const GraphNode>;

class GraphRef;

struct ConditionalNode {
  GraphNode node = nullptr;
  std::vector<GraphRef> bodies; // owned by the node
};

/// A graph that a Graph owns, or a conditional node, for its bodies. The `name` parameters below
/// are for messages only.
class GraphRef {
public:
  GraphRef() = default;
  /// `priority` applies to all kernels that are added, in bodies too, as the driver counts; 0: the
  /// priority of the stream that an instance is launched on.
  GraphRef(const DriverApi *api, CUcontext context, CUgraph graph, int priority = 0)
      : api_(api), context_(context), graph_(graph), priority_(priority) {}
  CUgraph get() const { return graph_; }
  const DriverApi &api() const { return *api_; }
  CUcontext context() const { return context_; }
  int priority() const { return priority_; }

  Result<GraphNode> add_kernel(const LaunchParams &params, Dependencies after,
                               std::string_view name) const;
  Result<GraphNode> add_memcpy(const CopyParams &params, Dependencies after,
                               std::string_view name) const;
  Result<GraphNode> add_memset(const FillParams &params, Dependencies after,
                               std::string_view name) const;
  Result<GraphNode> add_empty(Dependencies after, std::string_view name) const;

  /// Records the event when the predecessors have ended; not for bodies.
  Result<GraphNode> add_event_record(const Event &event, Dependencies after,
                                     std::string_view name) const;

  /// A condition that device code sets; `initial` is assigned at every launch.
  Result<CUgraphConditionalHandle> create_condition(uint32_t initial) const;
  /// CU_GRAPH_COND_TYPE_IF with 1 or 2 bodies, WHILE with 1, SWITCH with any number above 0.
  Result<ConditionalNode> add_conditional(CUgraphConditionalHandle condition,
                                          CUgraphConditionalNodeType type, uint32_t bodies,
                                          Dependencies after, std::string_view name) const;

  /// Edges on which the dependent may start at its predecessor's trigger: between kernels, sm_90,
  /// Capabilities::edge_data. Never add them with other edges in one call: drivers take the kind of
  /// a call's first edge for all of them.
  Status add_programmatic_edges(std::span<const GraphNode> from, GraphNode to) const;

private:
  const DriverApi *api_ = nullptr;
  CUcontext context_ = nullptr;
  CUgraph graph_ = nullptr;
  int priority_ = 0;
};

class Graph {
public:
  using Handle = UniqueHandle<CUgraph, &DriverApi::GraphDestroy, kAnywhere>;

  Graph() = default;
  static Result<Graph> create(const Context &context, int priority = 0);

  GraphRef ref() const { return {&handle_.api(), handle_.context(), handle_.get(), priority_}; }
  CUgraph get() const { return handle_.get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

private:
  Graph(Handle handle, int priority) : handle_(std::move(handle)), priority_(priority) {}
  Handle handle_;
  int priority_ = 0;
};

/// Failed node of an instantiation; the caller knows which step it belongs to.
struct InstantiateFailure {
  GraphNode node = nullptr; // null when the driver names none
  CUgraphInstantiateResult reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
};

/// A kernel node's parameters in the driver's form, for callers that set them often. Refers to the
/// array of argument pointers and copies none.
class KernelNodeParams {
public:
  KernelNodeParams() = default;
  explicit KernelNodeParams(const LaunchParams &launch);
  explicit operator bool() const { return params_.func || params_.kern; }
  void set_dims(Dim3 grid, Dim3 block, uint32_t dynamic_shared_bytes) {
    set_shape(params_, grid, block, dynamic_shared_bytes);
  }

private:
  friend class KernelSetter;
  CUDA_KERNEL_NODE_PARAMS_v2 params_{};
};

/// GraphExec::set_kernel for many nodes: holds what a call needs of the instance.
class KernelSetter {
public:
  CUresult operator()(GraphNode node, const KernelNodeParams &params) const {
    return set_(exec_, node, &params.params_);
  }

private:
  friend class GraphExec;
  using Set = decltype(DriverApi::GraphExecKernelNodeSetParams);
  KernelSetter(Set set, CUgraphExec exec) : set_(set), exec_(exec) {}
  Set set_;
  CUgraphExec exec_;
};

class GraphExec {
public:
  using Handle = UniqueHandle<CUgraphExec, &DriverApi::GraphExecDestroy, kAnywhere>;

  GraphExec() = default;
  /// `failure`, when not null, is filled in on error.
  static Result<GraphExec> instantiate(GraphRef graph, std::string_view name,
                                       InstantiateFailure *failure = nullptr);

  CUgraphExec get() const { return handle_.get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

  /// Moves the instance to the device, in stream order, so that the first launch does not pay.
  Status upload(StreamRef stream) const;
  Status launch(StreamRef stream, const std::string &name) const {
    CUresult result = handle_.api().GraphLaunch(handle_.get(), stream.get());
    return result == CUDA_SUCCESS ? Status() : failure(result, "cuGraphLaunch", name);
  }

  /// Setters affect later launches only.
  KernelSetter kernel_setter() const { return {set_, target_}; }
  /// From now on a kernel_setter() sets the template's node, too: an instance's node cannot be read
  /// back, but the template's can. Not thread-safe.
  Status mirror_setters();
  /// The error of a failed call of a kernel_setter().
  Status setter_failure(CUresult result, std::string_view name) const;
  Status set_kernel(GraphNode node, const LaunchParams &params, std::string_view name) const;
  /// Returns the driver's answer to set_enabled(), for enabled_failure() to explain.
  CUresult try_enabled(GraphNode node, bool enabled) const {
    return handle_.api().GraphNodeSetEnabled(handle_.get(), node, enabled ? 1u : 0u);
  }
  Status enabled_failure(CUresult result, std::string_view name) const;
  /// A disabled kernel, copy or fill node acts as an empty one.
  Status set_enabled(GraphNode node, bool enabled, std::string_view name) const;

private:
  explicit GraphExec(Handle handle)
      : handle_(std::move(handle)), set_(handle_.api().GraphExecKernelNodeSetParams),
        target_(handle_.get()) {}
  Status failure(CUresult result, std::string_view call, std::string_view name) const;
  Handle handle_;
  /// The function that a kernel_setter() calls, and its instance: the driver's, or a Mirror.
  KernelSetter::Set set_ = nullptr;
  CUgraphExec target_ = nullptr;
  struct Mirror {
    const DriverApi *api;
    CUgraphExec exec;
    static CUresult CUDAAPI set(CUgraphExec mirror, CUgraphNode node,
                                const CUDA_KERNEL_NODE_PARAMS_v2 *params);
  };
  std::unique_ptr<Mirror> mirror_;
};

} // namespace cugrt::driver
