// Which binding of a function makes each value, and which ones read it.
#pragma once

#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <map>
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
  /// Readers of a value, once for each operand.
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

  /// Whether an op whose kernel may go on with its result makes the value, for one reader: a cast
  /// that this is stands in that kernel.
  bool is_stored_by_maker(ir::ValueId value) const {
    const ir::Binding *op = maker(value);
    return only_reader(value) && op && op->kind == ir::BindingKind::op &&
           ir::op_info(ir::op_of(*op)).pattern != ir::OpPattern::opaque;
  }

private:
  std::vector<const ir::Binding *> made_by_;
  std::vector<std::vector<const ir::Binding *>> read_by_;
  std::vector<bool> is_yielded_;
};

/// Runs of a block's bindings: each writes nothing, but for writes of caches that end it.
class BlockRuns {
public:
  explicit BlockRuns(const ir::Block &block) {
    uint32_t run = 0;
    bool is_ending = false; // by writes of caches, which may stand side by side
    for (const ir::Binding &binding : block.bindings) {
      const bool is_append = is_op(binding, ir::Op::cache_write);
      if (is_ending && !is_append && !is_op(binding, ir::Op::reshape) &&
          binding.kind != ir::BindingKind::shape) {
        ++run;
        is_ending = false;
      }
      positions_[&binding] = uint32_t(runs_.size());
      runs_.push_back(run);
      is_ending = is_ending || is_append;
      is_ending_.push_back(is_ending);
      if (!is_append && !writes_nothing(binding))
        ++run;
    }
  }

  bool contains(const ir::Binding *binding) const { return positions_.contains(binding); }
  uint32_t position(const ir::Binding *binding) const { return positions_.at(binding); }
  uint32_t run_at(uint32_t position) const { return runs_[position]; }
  /// Whether it is behind the first of the writes that end its run.
  bool is_ending(const ir::Binding *binding) const { return is_ending_[position(binding)]; }

private:
  /// Whether a binding writes nothing and ends nothing.
  static bool writes_nothing(const ir::Binding &binding) {
    using enum ir::BindingKind;
    const ir::BindingKind kind = binding.kind;
    return (kind == op && !ir::writes_operand(binding)) || kind == constant || kind == shape ||
           kind == literal || kind == view || kind == alias || kind == alloc;
  }

  std::map<const ir::Binding *, uint32_t> positions_;
  std::vector<uint32_t> runs_; // by position, as the one below
  std::vector<bool> is_ending_;
};

} // namespace cugrt::passes
