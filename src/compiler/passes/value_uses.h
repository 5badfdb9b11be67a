// Which binding of a function makes each value, and which ones read it.
#pragma once

#include "ir/module/module.h"

#include <vector>

namespace cugrt::passes {

class ValueUses {
public:
  explicit ValueUses(const ir::Function &function)
      : made_by_(function.values.size()), read_by_(function.values.size()),
        is_yielded_(function.values.size()) {
    for (const ir::Block &block : function.blocks) {
      for (const ir::Binding &binding : block.bindings) {
        for (uint32_t i = 0; i < binding.result_count; ++i)
          made_by_[binding.first_result + i] = &binding;
        for (const ir::Operand &operand : function.operands_of(binding))
          if (operand.kind == ir::Operand::Kind::value)
            read_by_[operand.index].push_back(&binding);
      }
      for (const ir::Operand &operand : function.results_of(block))
        if (operand.kind == ir::Operand::Kind::value)
          is_yielded_[operand.index] = true;
    }
  }

  /// Null: a parameter.
  const ir::Binding *maker(ir::ValueId value) const { return made_by_[value.index]; }
  /// Once for each operand.
  const std::vector<const ir::Binding *> &readers(ir::ValueId value) const {
    return read_by_[value.index];
  }
  /// Whether it leaves its block.
  bool is_yielded(ir::ValueId value) const { return is_yielded_[value.index]; }
  /// Null where there are several, or it leaves its block.
  const ir::Binding *only_reader(ir::ValueId value) const {
    const auto &readers = read_by_[value.index];
    return readers.size() == 1 && !is_yielded(value) ? readers.front() : nullptr;
  }

private:
  std::vector<const ir::Binding *> made_by_;
  std::vector<std::vector<const ir::Binding *>> read_by_;
  std::vector<bool> is_yielded_;
};

} // namespace cugrt::passes
