// Measures the constants of the instance policy in a context.
//
// Small graphs of a kernel that does nothing are built, instantiated, uploaded and patched, a few
// hundred nodes in all: some milliseconds, once for each Device and only when a session asks for
// it. Figures choose between pinning, patching and launching eagerly; results never depend on them.
#pragma once

#include "device/context/device.h"

namespace cugrt::runtime {

/// Two sizes of graph give each constant and its part per node. A constant that cannot be measured
/// (a driver whose free memory does not change) keeps its default.
Result<InstanceCost> measure_costs(const Device &device);

/// The line through two points, neither of its coefficients negative.
struct Line {
  uint64_t constant = 0, slope = 0;
};
Line line_through(uint64_t x1, uint64_t y1, uint64_t x2, uint64_t y2);

} // namespace cugrt::runtime
