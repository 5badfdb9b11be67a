// Finds whether rows that a bucket adds could change others; PadToBuckets asks before it
// pads.
//
// Callers' elements must stand in front along each dimension of each value, and added ones behind.
// Both are followed through ops, calls, matches and blocks. Where a binding makes one element of
// many along a padded dimension, or moves elements across it, what was added would count among what
// the caller brought, and that is refused:
//
//   zeros count for nothing   sums, contractions, windows of convolutions: legal where all that was
//                             added is known to be zero (a parameter's rows, relu of them, ...)
//   it depends what they are  softmax, extremes, argmax, pooling, positions that attention sees:
//                             legal where the author chose added elements by `where`
//   number or place counts    means, norms, what stands behind padding in a concat, counting from
//                             the end, positions that are looked up, a reshape that tears rows
//                             apart
//
// Each op has a rule in its family's folder (src/ops); a dimension of which no rule speaks is
// refused. A kernel is given what its caller brought (pad_to_buckets.cpp); host code and conditions
// on a padded symbol are refused, and so is what cannot be followed: views, tuples, storage.
// Overflow is left out of account, and what is not padded counts as finite.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

namespace cugrt::passes {

/// The first binding that padding of `padded` (by symbol) would break, as an error at its place.
Status check_padding_effects(const ir::Module &module, const ir::Function &function,
                             const std::vector<bool> &padded);

} // namespace cugrt::passes
