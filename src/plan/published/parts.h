// The parts of the seed analysis (private to it).
//
// seed_outputs.cpp: storages that hold results · seed_regions.cpp: the walk that finds regions ·
// seed_merge.cpp: slots of the shared allocation · seed_lifted.cpp: names and equality ·
// seed_undefined.cpp: what the published flaws leave undefined.
#pragma once

#include "ir/module/module.h"
#include "plan/published/analysis.h"

namespace cugrt::plan {

/// What a function's results are, by result: the parameter that it names (or is part of), or kNone.
using ResultParameters = std::vector<uint32_t>;

/// By value: the storage holds a result, so it may not be lifted. Also fills in `parameters`;
/// `callees` has those of the functions that this one calls.
std::vector<bool> find_result_storages(const ir::Module &module, const ir::Function &function,
                                       std::span<const ResultParameters> callees,
                                       const PublishedFlaws &flaws, ResultParameters &parameters);

SeedFunction find_seed_regions(const ir::Module &module, const ir::Function &function,
                               const std::vector<bool> &result_storages,
                               const PublishedFlaws &flaws);

/// Slots, and the slot of every storage that is lifted and used.
void merge_seed_storages(const ir::Module &module, const PublishedFlaws &flaws,
                         SeedAnalysis &analysis);

/// Capture indices, names, and which regions are one function.
void name_seed_functions(const ir::Module &module, const PublishedFlaws &flaws,
                         SeedAnalysis &analysis);

/// What a rewrite by these regions would use without a definition.
std::vector<ir::ValueId> find_undefined(const ir::Function &function, const SeedFunction &seed);

} // namespace cugrt::plan
