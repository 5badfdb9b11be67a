// Plans as text, for golden files and messages of tests.
#pragma once

#include "plan/format/plan.h"

#include <string>

namespace cugrt::plan {

/// Arenas, functions, items, regions with nodes and edges.
std::string describe(const Plan &plan);

} // namespace cugrt::plan
