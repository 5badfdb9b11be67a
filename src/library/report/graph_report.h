// Reports of graphs: nodes and edges of the instances alive.
#pragma once

#include "cugrt/cugrt.h"
#include "device/graph/graph_cache.h"

namespace cugrt::runtime {

/// Text, JSON or DOT. Names, keys and launch dimensions, no addresses: the same on every run. JSON
/// has the line of the module, too, and where there are such, the driver's ids of nodes and the
/// times of the last launch of instances that are timed.
Result<std::string> graph_report(const plan::Plan &plan,
                                 const std::vector<GraphCache::View> &instances,
                                 cugrt_report_format format);

} // namespace cugrt::runtime
