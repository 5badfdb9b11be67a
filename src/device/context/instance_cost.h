// What graph instances cost: the constants of the instance policy.
#pragma once

#include <cstdint>

namespace cugrt::runtime {

/// Memory of an instance on device and host together, and the host's time to make and to patch it.
/// The defaults were measured by others; a context may measure its own (cost_model.h): CUDA's own
/// STF library uses 10 KB a node. Times of 0 are unknown.
struct InstanceCost {
  uint64_t node_bytes = 10 << 10;
  uint64_t instance_bytes = 16 << 10;
  uint64_t build_ns = 0, build_node_ns = 0; // to instantiate and upload; for each node
  uint64_t patch_node_ns = 0;               // one setter
  /// Device time that a node costs at every launch once its launch dimensions were patched, in an
  /// instance of more than kFreeNodes nodes: measured by others on H200 with driver 595.
  uint64_t patched_dims_ns = 100;
  static constexpr uint64_t kFreeNodes = 128;
  /// Callers may give any constants: a result beyond 64 bits becomes the largest number.
  uint64_t bytes(uint64_t nodes) const { return line(instance_bytes, nodes, node_bytes); }
  uint64_t build_ns_of(uint64_t nodes) const { return line(build_ns, nodes, build_node_ns); }
  uint64_t patch_ns_of(uint64_t nodes) const { return line(0, nodes, patch_node_ns); }
  /// `nodes` of an instance's `of` nodes get other launch dimensions.
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
