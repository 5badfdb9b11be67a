// What can be seen of whether rows that a bucket adds change the others: asked by PadToBuckets
// before it pads.
//
// A symbol's padding is followed through ops, calls and matches. Where a binding makes one element
// of many along a padded dimension, or moves elements across it, what was added would count among
// what the caller brought, and that is refused:
//
//   zeros count for nothing   sums, contractions, windows of convolutions: legal where all that was
//                             added is known to be zero (a parameter's rows, relu of them, ...)
//   it depends what they are  softmax, extremes, argmax, pooling, positions that attention sees:
//                             legal where the author chose added elements by `where`
//   number or place counts    means, norms, what stands behind padding in a concat, counting from
//                             the end, a reshape that tears rows apart
//
// What a kernel, a branch or a loop wrote may be anything: nothing is seen there. Dimensions in
// which a padded symbol does not stand alone are not followed through a reshape.
#pragma once

#include "ir/module/module.h"
#include "base/status.h"

namespace cugrt::passes {

/// The first binding that padding of `padded` (by symbol) would break, as an error at its place.
Status check_padding_effects(const ir::Module &module, const ir::Function &function,
                             const std::vector<bool> &padded);

} // namespace cugrt::passes
