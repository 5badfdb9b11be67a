// Functions that RewriteCudaGraph makes: regions as functions of what goes into them, and the
// allocation that all functions share.
//
//   private func @main_cuda_graph_capture(%a: tensor<[n], f32>, %s: storage<"global", 256>,
//       %shape_expr: shape<[n]>) -> (tensor<[n], f32>) { .. }
//   private func @cuda_graph_alloc() -> (storage<"global", 512>, storage<"ipc", 1024>) { .. }
#pragma once

#include "ir/module.h"
#include "plan/seed_analysis.h"
#include "support/status.h"

namespace cugrt::passes {

/// The lifted regions as functions of `target`, whose pools began as those of `source`, in the
/// order of SeedAnalysis::lifted. Where several regions share one, a storage that it takes is as
/// large as the smallest that it is given. Error unsupported: a key of more symbols than a shape
/// has dimensions.
Result<std::vector<ir::Function>> build_lifted_functions(const ir::Module &source,
                                                         const plan::SeedAnalysis &analysis,
                                                         ir::Module &target);

ir::Function build_allocation(const ir::Module &source, const plan::SeedAnalysis &analysis,
                              ir::Module &target);

/// The type of a slot.
ir::TypeId slot_type(const plan::SeedSlot &slot, ir::Module &target);

} // namespace cugrt::passes
