// Functions that RewriteCudaGraph makes: regions as functions of what goes into them, and the
// allocation that all functions share.
//
//   private func @main_cuda_graph_capture(%a: tensor<[n], f32>, %s: storage<"global", 256>,
//       %shape_expr: shape<[n]>) -> (tensor<[n], f32>) { .. }
//   private func @cuda_graph_alloc() -> (storage<"global", 512>, storage<"ipc", 1024>) { .. }
#pragma once

#include "base/status.h"
#include "compiler/planner/published/analysis.h"
#include "ir/module/module.h"

namespace cugrt::passes {

/// The values that a lifted region returns: its outputs, where parts made by the region replace a
/// tuple that the region makes. The caller makes the tuple anew, since calls give no tuples.
class ReturnedValues {
public:
  ReturnedValues(const ir::Module &module, const ir::Function &function);

  /// The returned values in order, each once.
  std::vector<ir::ValueId> of(const plan::PublishedRegion &region) const;
  /// The binding of the region that makes a tuple, which the caller repeats; null for a returned
  /// value, or one from outside.
  const ir::Binding *remade(const plan::PublishedRegion &region, ir::ValueId value) const;

private:
  const ir::Module &module_;
  const ir::Function &function_;
  std::vector<const ir::Binding *> bindings_; // by number
  std::vector<uint32_t> defined_by_;          // by value: a number, or none
};

/// The lifted regions as functions of `target`, whose pools began as those of `source`, in the
/// order of PublishedAnalysis::lifted. Where several regions share one, a storage that it takes is
/// as large as the smallest that it is given. Error unsupported: a key of more symbols than a shape
/// has dimensions.
Result<std::vector<ir::Function>> build_lifted_functions(const ir::Module &source,
                                                         const plan::PublishedAnalysis &analysis,
                                                         ir::Module &target);

ir::Function build_allocation(const ir::Module &source, const plan::PublishedAnalysis &analysis,
                              ir::Module &target);

/// The type passed for a region's input that is a tensor with strides: all bytes from its first
/// element to its last, since parameters are contiguous. Invalid for an input that is passed as it
/// is.
ir::TypeId bytes_around(const ir::Type &input, ir::Module &target);

/// The type of a merged storage.
ir::TypeId merged_type(const plan::MergedStorage &merged, ir::Module &target);

} // namespace cugrt::passes
