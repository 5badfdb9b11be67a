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
  /// What a node costs the device at every launch once its launch dimensions were patched, in an
  /// instance of more than kFreeNodes nodes: measured by others on H200 with driver 595.
  uint64_t patched_dims_ns = 100;
  static constexpr uint64_t kFreeNodes = 128;
  /// Given constants may be anything: what does not fit in 64 bits is as large as can be.
  uint64_t bytes(uint64_t nodes) const { return line(instance_bytes, nodes, node_bytes); }
  uint64_t build_ns_of(uint64_t nodes) const { return line(build_ns, nodes, build_node_ns); }
  uint64_t patch_ns_of(uint64_t nodes) const { return line(0, nodes, patch_node_ns); }
  /// `nodes`: those of an instance of `of` nodes that get other launch dimensions.
  uint64_t patched_dims_ns_of(uint64_t nodes, uint64_t of) const {
    return of > kFreeNodes ? line(0, nodes, patched_dims_ns) : 0;
  }

private:
  static uint64_t line(uint64_t constant, uint64_t nodes, uint64_t slope) {
    uint64_t product, sum;
    bool wraps = __builtin_mul_overflow(nodes, slope, &product) ||
                 __builtin_add_overflow(constant, product, &sum);
    return wraps ? UINT64_MAX : sum;
  }
};

} // namespace cugrt::runtime
