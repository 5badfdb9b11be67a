// Copies a function binding by binding; passes override what they change.
//
// The target module starts as a copy of the source's pools, kernels, constants, literals and names,
// so expressions, types and symbols keep their ids; only values get new ones. Bindings of nested
// blocks are visited in place, between those before and after them.
#pragma once

#include "ir/builder.h"

namespace cugrt::passes {

/// Everything of `module` but its functions.
ir::Module without_functions(const ir::Module &module);

class FunctionCloner {
public:
  /// `source` belongs to a module whose pools `target` was copied from.
  FunctionCloner(const ir::Function &source, ir::Module &target);
  virtual ~FunctionCloner() = default;

  Result<ir::Function> run();

protected:
  /// Called for each binding, in order. Must map every result that later bindings use.
  virtual Status visit(const ir::Binding &binding) { return copy(binding); }
  /// Called before and after a block's bindings; its parameters are mapped already.
  virtual Status enter_block(uint32_t block) { return {}; }
  virtual Status leave_block(uint32_t block) { return {}; }
  /// Called with the operands of a binding that has blocks, after these are copied: values of the
  /// target that the copies use beyond the source's captures are appended here.
  virtual void add_captures(std::vector<ir::Operand> &operands) {}

  /// Appends the same binding, with operands mapped; results keep names and types.
  Status copy(const ir::Binding &binding);
  /// Appends a binding of no operands or one, that has one result and a place in the text.
  ir::ValueId bind_value(ir::BindingKind kind, std::string_view hint, ir::ValueId operand,
                         std::span<const ir::ExprId> exprs, ir::TypeId type,
                         SourceLocation location);

  void map(ir::ValueId from, ir::ValueId to) { values_[from.index] = to; }
  ir::ValueId mapped(ir::ValueId value) const;
  ir::Operand mapped(ir::Operand operand) const;
  std::vector<ir::Operand> mapped(std::span<const ir::Operand> operands) const;

  const ir::Function &source() const { return source_; }
  ir::Module &module() const { return module_; }
  ir::FunctionBuilder &builder() { return builder_; }
  const ir::Type &type_of(ir::ValueId source_value) const {
    return module_.types[source_.value(source_value).type];
  }

private:
  Status copy_blocks(const ir::Binding &binding, ir::Binding &target);
  Status copy_body(uint32_t block);

  const ir::Function &source_;
  ir::Module &module_;
  ir::FunctionBuilder builder_;
  std::vector<ir::ValueId> values_; // by source value
};

} // namespace cugrt::passes
