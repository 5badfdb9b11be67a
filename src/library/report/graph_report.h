// Reports of graphs: nodes and edges of the instances alive.
#pragma once

#include "cugrt/cugrt.h"
#include "device/graph/graph_cache.h"

namespace cugrt::runtime {

/// Text, JSON or DOT. Names, keys and launch dimensions only, no addresses: the same on every run.
Result<std::string> graph_report(const plan::Plan &plan,
                                 const std::vector<GraphCache::View> &instances,
                                 cugrt_report_format format);

} // namespace cugrt::runtime
