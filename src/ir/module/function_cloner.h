// Copies a function binding by binding; passes override what they change.
//
// The target module starts as a copy of the source's pools, kernels, constants, literals and names,
// so expressions, types and symbols keep their ids; only values get new ones. Bindings of nested
// blocks are visited in place, between those before and after them.
#pragma once

#include "ir/module/builder.h"
#include "ir/module/op.h"

namespace cugrt::ir {

/// Everything of `module` but its functions.
Module without_functions(const Module &module);

/// Removes private functions that no public one calls or runs, itself or through others. Gives the
/// numbers that functions have now, UINT32_MAX for those that are gone.
std::vector<uint32_t> remove_dead_functions(Module &module);

class FunctionCloner {
public:
  /// `source` belongs to a module whose pools `target` was copied from.
  FunctionCloner(const Function &source, Module &target);
  virtual ~FunctionCloner() = default;

  Result<Function> run();
  /// Appends what run() gives to the target.
  Status add_function() {
    CUGRT_ASSIGN(Function made, run());
    module_.functions.push_back(std::move(made));
    return {};
  }

protected:
  /// Called for each binding, in order. Must map every result that later bindings use.
  virtual Status visit(const Binding &binding) { return copy(binding); }
  /// Everything before the body: symbols, in the source's order, and parameters, which it maps.
  virtual void copy_signature();
  /// The end of it: the parameters.
  virtual void copy_params();
  /// Called before and after a block's bindings. Its parameters are mapped before, its results
  /// after.
  virtual Status enter_block(uint32_t block) { return {}; }
  virtual Status leave_block(uint32_t block) { return {}; }
  /// Called with the operands of a binding that has blocks, after these are copied: values of the
  /// target that the copies use beyond the source's captures are appended here.
  virtual void add_captures(std::vector<Operand> &operands) {}

  /// Appends the same binding, with operands mapped; results keep names and types.
  Status copy(const Binding &binding);
  /// The same of a binding without blocks, with these operands of the target instead.
  void copy_with(const Binding &binding, std::span<const Operand> operands) {
    append(binding, binding, operands);
  }
  /// The type of result `i` of a binding whose operands are mapped; by default that of the source.
  virtual TypeId result_type(const Binding &binding, std::span<const Operand> operands,
                             uint32_t i) {
    return source_.value(binding.result(i)).type;
  }

  /// Appends a binding of no operands or one, that has one result and a place in the text.
  ValueId bind_value(BindingKind kind, std::string_view hint, ValueId operand,
                     std::span<const ExprId> exprs, TypeId type, SourceLocation location);

  /// Appends an op of operands of the target, some of which may be absent, and of the one result
  /// that it infers. Errors are those of infer_op.
  Result<ValueId> bind_op(Op op, std::span<const Operand> operands,
                          std::span<const Attribute> attributes, std::string_view hint,
                          SourceLocation location);

  void map(ValueId from, ValueId to) { values_[from.index] = to; }
  ValueId mapped(ValueId value) const;
  Operand mapped(Operand operand) const;
  std::vector<Operand> mapped(std::span<const Operand> operands) const;

  const Function &source() const { return source_; }
  Module &module() const { return module_; }
  FunctionBuilder &builder() { return builder_; }
  const Type &type_of(ValueId source_value) const {
    return module_.types[source_.value(source_value).type];
  }
  const Type &made_type(ValueId value) { return builder_.type_of(value); }

private:
  Status copy_blocks(const Binding &binding, Binding &target);
  void append(const Binding &target, const Binding &binding, std::span<const Operand> operands);
  Status copy_body(uint32_t block);

  const Function &source_;
  Module &module_;
  FunctionBuilder builder_;
  std::vector<ValueId> values_;   // by source value
  std::vector<Operand> operands_; // of the binding that is copied, as the two below
  std::vector<std::string> names_;
  std::vector<TypeId> types_;
};

} // namespace cugrt::ir
