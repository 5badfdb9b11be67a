// A reduction, a softmax or a norm between casts is one of narrow elements: its kernel computes in
// f32 as before, so that the result is the same number, and no cast stands around it. A norm's
// scale and bias stay f32. And a cast behind a reshape stands before it, where what is reshaped can
// cast as it stores, and what reads the cast cannot as it reads. A cast that no kernel makes as it
// stores, and all that read it make as they read, is one for each of these, beside it.
//
//   %x_f32 = cast(%x) {dtype = f32}        %m = reduce_mean(%x) {axes = [1, 2]}
//   %m = reduce_mean(%x_f32) {..}          %r = reshape(%m) {shape = [1, 512]}
//   %r = reshape(%m) {..}                  %y = matmul(%r, %w)
//   %r_f16 = cast(%r) {dtype = f16}
//   %y = matmul(%r_f16, %w)
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

namespace cugrt::passes {

/// The module with such reductions of f16 and bf16, where nothing else reads what they
/// give.
Result<ir::Module> narrow_reductions(const ir::Module &module);

} // namespace cugrt::passes
