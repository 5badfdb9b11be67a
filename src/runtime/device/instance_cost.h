// What graph instances cost: the constants of the instance policy.
#pragma once

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
  /// Given constants may be anything: what does not fit in 64 bits is as large as can be.
  uint64_t bytes(uint64_t nodes) const { return line(instance_bytes, nodes, node_bytes); }
  uint64_t build_ns_of(uint64_t nodes) const { return line(build_ns, nodes, build_node_ns); }
  uint64_t patch_ns_of(uint64_t nodes) const { return line(0, nodes, patch_node_ns); }

private:
  static uint64_t line(uint64_t constant, uint64_t nodes, uint64_t slope) {
    uint64_t product, sum;
    bool wraps = __builtin_mul_overflow(nodes, slope, &product) ||
                 __builtin_add_overflow(constant, product, &sum);
    return wraps ? UINT64_MAX : sum;
  }
};

} // namespace cugrt::runtime
