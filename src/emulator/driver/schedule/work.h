// Work of the device: the parameters of graph nodes, and equally of stream
// operations.
//
// A stream operation fills one of these in, and either becomes a task at once or, while its stream
// is being captured, a node. Graph nodes hold them; instantiation copies them. They own copies of
// kernel arguments and keep functions and events alive, so that later destruction cannot make them
// dangle.
#pragma once

#include "emulator/driver/objects.h"

#include <map>
#include <span>
#include <variant>

namespace cugrt::emulator::api {

using Attributes = std::map<int, CUlaunchAttributeValue>; // by CUlaunchAttributeID

struct EmptyWork {};

struct KernelWork {
  std::shared_ptr<Function> function;
  CUkernel kernel = nullptr; // when it was given as one
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params; // laid out as the kernel wants them
  Attributes attributes;
  std::shared_ptr<GreenContext> green; // whose multiprocessors it has; nullptr: all
};

struct CopyWork {
  CUDA_MEMCPY3D copy{};
  std::shared_ptr<Context> context;
  std::shared_ptr<GreenContext> green; // in which it was asked for; it runs all the same
  /// The bytes of a pageable source, taken when the copy was enqueued; empty: read when it runs.
  std::shared_ptr<std::vector<std::byte>> staged;
};

struct FillWork {
  CUDA_MEMSET_NODE_PARAMS fill{};
  std::shared_ptr<Context> context;
  std::shared_ptr<GreenContext> green; // likewise
};

/// Copies in no order among themselves.
struct BatchCopyWork {
  std::vector<CUdeviceptr> destinations, sources;
  std::vector<size_t> sizes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<size_t> attribute_starts; // the first copy that each of them applies to
  std::shared_ptr<Context> context;
  std::shared_ptr<GreenContext> green; // as a copy's
};

struct HostWork {
  CUhostFn function = nullptr;
  void *user = nullptr;
  unsigned sync_mode = 0; // CUhostTaskSyncMode of CUDA 13.2; how the host waits is no matter here
};

struct ChildWork {
  std::shared_ptr<Graph> graph; // the node's own copy
};

struct EventRecordWork {
  std::shared_ptr<Event> event;
};

struct EventWaitWork {
  std::shared_ptr<Event> event;
};

/// Waits for words in memory and writes of words, one after the other.
struct MemoryOpsWork {
  std::shared_ptr<Context> context;
  std::vector<CUstreamBatchMemOpParams> ops;
};

struct Conditional;

struct ConditionalWork {
  std::shared_ptr<Conditional> conditional;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<Graph>> bodies; // the node's own; none in an instance
  /// "CUDA-owned array [...] Valid for the lifetime of the conditional node."
  std::shared_ptr<std::vector<CUgraph>> body_handles;
};

using Work =
    std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, ChildWork, EventRecordWork,
                 EventWaitWork, ConditionalWork, MemoryOpsWork, BatchCopyWork>;

CUgraphNodeType work_type(const Work &work);
/// The graphs that a node holds: a child graph, the bodies of a conditional.
std::span<const std::shared_ptr<Graph>> embedded_graphs(const Work &work);

} // namespace cugrt::emulator::api
