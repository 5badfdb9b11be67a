// What the device can be asked to do: the parameters of graph nodes, and equally of stream
// operations.
//
// A stream operation fills one of these in, and either becomes a task at once or, while its stream
// is being captured, a node. Graph nodes hold them; instantiation copies them. They own copies of
// kernel arguments and keep functions and events alive, so that later destruction cannot make them
// dangle.
#pragma once

#include "emulator/driver/objects.h"

#include <map>
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
};

struct CopyWork {
  CUDA_MEMCPY3D copy{};
  std::shared_ptr<Context> context;
  /// The bytes of a pageable source, taken when the copy was enqueued; empty: read when it runs.
  std::shared_ptr<std::vector<std::byte>> staged;
};

struct FillWork {
  CUDA_MEMSET_NODE_PARAMS fill{};
  std::shared_ptr<Context> context;
};

struct HostWork {
  CUhostFn function = nullptr;
  void *user = nullptr;
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

/// Conditional nodes will be another alternative, holding their bodies and handle.
using Work = std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, ChildWork,
                          EventRecordWork, EventWaitWork>;

CUgraphNodeType work_type(const Work &work);

} // namespace cugrt::emulator::api
