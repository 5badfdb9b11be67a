// What graph instances cost: the constants of the instance policy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cugrt::runtime {

/// What an instance takes on device and host together, and what making and patching it costs the
/// host. Measured constants of others until a context measures its own (cost_model.h): 10 KB a node
/// is what CUDA's own STF library reckons with. Times that are not known are 0.
struct InstanceCost {
  uint64_t node_bytes = 10 << 10;
  uint64_t instance_bytes = 16 << 10;
  uint64_t build_ns = 0, build_node_ns = 0; // to instantiate and upload; for each node
  uint64_t patch_node_ns = 0;               // one setter
  uint64_t bytes(size_t nodes) const { return instance_bytes + nodes * node_bytes; }
  uint64_t build_ns_of(size_t nodes) const { return build_ns + nodes * build_node_ns; }
};

} // namespace cugrt::runtime
