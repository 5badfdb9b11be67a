// FunctionBuilder: the only way functions come to be, from the parser and from passes alike.
//
// Bindings are appended in order; nested blocks are opened and closed like brackets. The builder
// does not check the rules of the IR (the verifier does), only that ids exist.
#pragma once

#include "ir/module/module.h"

#include <string_view>
#include <unordered_map>

namespace cugrt::ir {

class FunctionBuilder {
public:
  FunctionBuilder(Module &module, std::string name);
  /// Reserves memory for a function of about that size.
  void reserve(size_t values, size_t operands, size_t bindings);

  /// Value names are made from hints: kept when still free, else with a suffix; "" gives v0, v1,
  /// ... Characters that the text form does not allow in names become '_'. The same holds for
  /// symbols.
  ValueId param(std::string name, TypeId type, Access access = Access::in,
                uint32_t alignment_bytes = 0, SourceLocation location = {});
  SymbolId symbol(Symbol symbol);
  ValueId value(std::string_view hint, TypeId type, SourceLocation location = {});
  /// A literal operand; an integer becomes a constant expression.
  Operand literal(AttributeValue value);
  /// Number of a host builtin's or extern's name, for Binding::callee.
  uint32_t callee_name(std::string_view name);

  ValueId alloc_storage(std::string_view hint, std::string_view scope, ExprId bytes);
  ValueId alloc_tensor(std::string_view hint, ValueId storage, ExprId offset_bytes, TypeId type);
  ValueId alloc(std::string_view hint, TypeId type);
  void kill(ValueId value);
  void launch(uint32_t kernel, std::span<const Operand> arguments, SourceLocation location = {});
  ValueId view(std::string_view hint, ValueId source, ExprId offset_bytes, TypeId type);
  /// Any binding, in general form; results get consecutive values named after `hints`. Ranges of
  /// `binding` are filled in from the spans. Returns the first result (invalid when there is none).
  ValueId bind(Binding binding, std::span<const Operand> operands, std::span<const ExprId> exprs,
               std::span<const Attribute> attributes, std::span<const std::string> hints,
               std::span<const TypeId> result_types);

  /// Bindings that come from no call yet come from this one (Function::call_sites).
  void set_call_site(uint32_t call_site) { call_site_ = call_site; }

  /// Opens a nested block; bindings go there until end_block. Returns its number within the
  /// function, for Binding::blocks of the binding that is appended after its blocks are closed; the
  /// two blocks of one binding must be opened one after the other and get consecutive numbers.
  uint32_t begin_block(std::span<const TypeId> param_types = {},
                       std::span<const std::string> names = {});
  ValueId block_param(uint32_t block, uint32_t i) const;
  void end_block(std::span<const Operand> results, SourceLocation location = {});
  /// Whether a nested block is open.
  bool in_nested_block() const { return open_blocks_.size() > 1; }

  Module &module() { return module_; }
  const Type &type_of(ValueId value) const { return module_.types[function_.value(value).type]; }
  Function &function() { return function_; } // attributes, result types, locations
  /// Ends the body and hands the function over; the builder may not be used afterwards.
  Function finish(std::span<const Operand> results, SourceLocation location = {});

private:
  struct OpenBlock {
    uint32_t block;
    uint32_t pair = UINT32_MAX; // first of the pair of nested blocks that is being built
    uint32_t opened = 0;        // how many of the pair have been opened
  };
  struct NamedValue {                      // a place of the table of names
    uint32_t hash = 0, value = UINT32_MAX; // free
  };
  std::string unique_name(std::string_view hint);
  /// Gives the next value the name, unless it is taken.
  bool take_name(std::string_view name);
  NamedValue &place_of(std::string_view name, uint32_t hash);
  ValueId append(Binding binding);
  Range add_operands(std::span<const Operand> operands);

  Module &module_;
  Function function_;
  std::vector<OpenBlock> open_blocks_;
  uint32_t call_site_ = UINT32_MAX;
  std::vector<NamedValue> named_; // by hash, or behind; a power of two of places, half of them free
  std::unordered_map<std::string, uint32_t> next_suffix_; // by name that was asked for again
  std::unordered_map<std::string, uint32_t> symbol_names_, callee_names_;
};

} // namespace cugrt::ir
