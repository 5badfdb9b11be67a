// Sums over a few parts of channels, such as branches that attention weighs:
//
//   %v = reshape(%x) {shape = [n, 2, 64, h, w]}     %a = slice(%x) {axes = [1], ..}  %b = ..
//   %y = reduce_sum(%v) {axes = [1]}                %y = add(%a, %b)
//
// which narrow ops compute, of images with channels last as of others.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <optional>

namespace cugrt::passes {

/// The module with sums of slices in the place of sums of f32 over a second dimension of at most
/// four, behind what is of each part; what they read stays, and may be unread now. Nothing where
/// there are none.
Result<std::optional<ir::Module>> slice_sums(const ir::Module &module);

} // namespace cugrt::passes
