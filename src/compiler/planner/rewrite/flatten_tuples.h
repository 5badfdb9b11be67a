// Calls that hand over no tuples: what is planned has tensors and numbers as parameters.
//
//   private func @f(%t: tuple<A, B>)   becomes   private func @f(%t.0: A, %t.1: B)
//   %y = call @f(%p)                             %p.0 = get %p, 0
//                                                %p.1 = get %p, 1
//                                                %y = call @f(%p.0, %p.1)
//
// and @f begins with `%t = tuple(%t.0, %t.1)`. A tuple within a tuple is taken apart in turn, down
// to tensors and numbers.
#pragma once

#include "ir/module/module.h"

#include <optional>

namespace cugrt::plan {

/// None when no private function of the verified module takes a tuple. Functions keep their
/// numbers. Those that a cuda_graph builtin runs stay as they are, and those that would have more
/// than kMaxOperands parameters.
std::optional<ir::Module> flatten_tuples(const ir::Module &module);

} // namespace cugrt::plan
