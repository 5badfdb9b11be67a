// Boxes, domains and matches of a function of the IR, as its plan will have them.
#pragma once

#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"

#include <functional>

namespace cugrt::plan {

std::vector<Bucket> buckets_of(const ir::Function &function);
BucketBoxes boxes_of(const ir::Module &module, const ir::Function &function);
/// Every value that a run may bring; see bucket_boxes.h.
ir::SymbolDomain symbol_domain(const ir::Module &module, const ir::Function &function);

/// Calls visit(symbol, dim) for each symbol of a function that a match defines, where the dimension
/// that it is matched to is known; those that this is made of come before it.
void for_each_matched(const ir::Module &module, const ir::Function &function,
                      const std::function<void(ir::SymbolId, ir::ExprId)> &visit);

} // namespace cugrt::plan
