// A copy of a module behind what another one holds.
#pragma once

#include "ir/module/link.h"

namespace cugrt::ir {

/// Appends all of the part's module to `target`, names with the part's in front; functions become
/// private, without buckets and weights. Gives the number of the first function: the others follow
/// in the source's order.
uint32_t append_module(Module &target, const LinkPart &part);

} // namespace cugrt::ir
