// The constants that the instance policy reckons with, measured in a context.
//
// Small graphs of a kernel that does nothing are built, instantiated, uploaded and patched, a few
// hundred nodes in all: some milliseconds, once for each Device and only when a session asks for
// it. Figures choose between pinning, patching and launching eagerly; results never depend on them.
#pragma once

#include "device/context/device.h"

namespace cugrt::runtime {

/// Two sizes of graph give each constant and what comes with each node. What cannot be told (a
/// driver whose free memory does not move) stays as assumed.
Result<InstanceCost> measure_costs(const Device &device);

/// The line through two points, neither of its coefficients negative.
struct Line {
  uint64_t constant = 0, slope = 0;
};
Line line_through(uint64_t x1, uint64_t y1, uint64_t x2, uint64_t y2);

} // namespace cugrt::runtime
