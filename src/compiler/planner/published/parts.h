// The parts of the published analysis (private to it).
//
// outputs.cpp: storages that hold results · regions.cpp: the walk that finds regions ·
// merge.cpp: storages of the shared allocation · lifted.cpp: names and equality.
#pragma once

#include "compiler/planner/published/analysis.h"
#include "ir/module/module.h"

namespace cugrt::plan {

/// For each result of a function: the parameter that it names (or is part of), or kNone.
using ResultParameters = std::vector<uint32_t>;

/// For each value: the storage holds a result, so it may not be lifted. Also fills in `parameters`;
/// `callees` has those of the functions that this one calls.
std::vector<bool> find_result_storages(const ir::Module &module, const ir::Function &function,
                                       std::span<const ResultParameters> callees,
                                       ResultParameters &parameters);

PublishedFunction find_published_regions(const ir::Module &module, const ir::Function &function,
                                         const std::vector<bool> &result_storages);

/// Merged storages, and that of every storage that is lifted and used.
void merge_published_storages(const ir::Module &module, PublishedAnalysis &analysis);

/// Capture indices, names, and which regions are one function.
void name_published_functions(const ir::Module &module, PublishedAnalysis &analysis);

} // namespace cugrt::plan
