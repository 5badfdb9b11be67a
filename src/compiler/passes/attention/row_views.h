// Operands of attention that are parts of the rows of one tensor (private to LegalizeOps):
//
//   %s = slice(%qkv, [0, 0, 1, 0, 0], [b, n, 1, 8, 64])    %k = view %qkv, 1024
//   %k = reshape(%s, [b, n, 8, 64])                             : strides [1536 * n, 1536, 64, 1]
//   %y = attention(%q, %k, %v)
//
// Its kernels take rows that lie apart, so that nothing is copied, though others may read a slice.
// Queries go by themselves, keys and values where their rows lie equally far apart.
#pragma once

#include "ir/module/module.h"

#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

class RowViews {
public:
  /// Views in `function` of `source_module`; adds types and expressions to `module`, which has its
  /// pools.
  RowViews(const ir::Module &source_module, ir::Module &module, const ir::Function &function);

  struct View {
    ir::ValueId source; // contiguous
    ir::ExprId offset_bytes;
    ir::TypeId type; // with strides
  };
  /// The view that an operand of attention is, or null.
  const View *find(ir::ValueId operand) const {
    const auto at = views_.find(operand.index);
    return at == views_.end() ? nullptr : &at->second;
  }
  /// Whether the op makes such an operand, and nothing else.
  bool is_gone(const ir::Binding &op) const { return gone_.contains(op.first_result); }

private:
  std::unordered_map<uint32_t, View> views_;
  std::unordered_set<uint32_t> gone_;
};

} // namespace cugrt::passes
