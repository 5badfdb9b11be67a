// A split gives several results, and what is fused gives one: so FuseOps sees a split as slices,
// each of which joins what reads it. The slices that stay alone cost what the split did.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

namespace cugrt::passes {

/// The module with a slice a section in the place of each split of whole bytes and known shape.
Result<ir::Module> slice_splits(const ir::Module &module);

} // namespace cugrt::passes
