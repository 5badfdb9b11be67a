// The verifier of one function (private to the IR layer).
//
// verifier.cpp: the module, kernels, constants, recursion · verify_function.cpp: names, types,
// scopes, blocks · verify_symbols.cpp: symbols, buckets, constraints · verify_binding.cpp: the
// rules of each kind of binding · verify_call.cpp: launches and calls · verify_graph.cpp: builtins
// of lifted regions.
//
// Bindings are visited in order, and three facts are kept: which block each value is visible in,
// which symbols are defined, and which tensors and storages have been killed.
#pragma once

#include "ir/text/text.h"

namespace cugrt::ir {

class FunctionVerifier {
public:
  /// `pools` holds copies of the module's pools and literals: types and expressions that the rules
  /// need are added there.
  /// `good_types` marks, by number, types without symbols that have been checked, in whatever
  /// function.
  FunctionVerifier(const Module &module, Module &pools, std::vector<uint8_t> &good_types,
                   const Function &function, Diagnostics &diagnostics)
      : module_(module), m_(pools), good_types_(good_types), f_(function),
        diagnostics_(diagnostics) {}
  void verify();

private:
  // --- verify_function.cpp ---
  bool fail(SourceLocation location, std::string message);
  bool fail(const Binding &b, std::string message);
  void names();
  void parameters();
  void parameter(size_t number);
  void block(uint32_t number, const Binding *owner, std::span<const Operand> captures,
             uint32_t nesting);
  void binding(const Binding &b, uint32_t nesting);
  void nested(const Binding &b, uint32_t nesting);
  void if_blocks(const Binding &b, uint32_t nesting);
  void while_blocks(const Binding &b, uint32_t nesting);
  bool yields(const Binding &b, uint32_t block, std::span<const TypeId> types);
  void results();
  bool counted_dims(std::span<const TypeId> types);
  void define(ValueId value) { visible_in_[value.index] = current_block_; }
  bool use(ValueId value, SourceLocation location, const Binding *b);
  bool use_operand(const Operand &operand, SourceLocation location, const Binding *b);
  bool check_expr(ExprId e, SourceLocation location, const char *where, bool any_symbol = false);
  /// Checks what check_expr() does, and that an expression of constants has a value.
  bool check_size(ExprId e, SourceLocation location, const char *where);
  bool check_type(TypeId type, SourceLocation location);

  // --- Memory of values, with the memory that it is a part of ---
  struct Node {
    uint32_t first_child = UINT32_MAX, next_sibling = UINT32_MAX;
    bool dead = false, writable = true, killable = false;
    uint32_t loop_depth = 0; // loops around the definition
    Range fields{};          // of a tuple made here: Function::operands
    bool is_tuple = false;
  };
  uint32_t add_node(bool writable, bool killable);
  uint32_t add_child(uint32_t parent);
  void kill_node(uint32_t node);
  uint32_t node(ValueId v) const { return node_of_[v.index]; }
  void nodes_of_results(const Binding &b);

  // --- verify_symbols.cpp ---
  void define_symbol(SymbolId symbol);
  void symbol_sources();
  void buckets(const Symbol &symbol);
  bool constraint(const Constraint &constraint);
  void constraint_matches(const Constraint &constraint);
  void corners();

  // --- verify_binding.cpp ---
  bool counts(const Binding &b);
  bool rules(const Binding &b);
  // A kind's rule; of launches and calls in verify_call.cpp, of host calls in verify_graph.cpp.
#define CUGRT_BINDING(name, ...) bool name(const Binding &b);
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
  bool control_flow(const Binding &b);
  bool condition(const Binding &b, const Operand &operand, SourceLocation location);
  bool within(const Binding &b, ExprId begin, ExprId bytes, ExprId whole, const char *what,
              std::span<const ExprId> dims = {});
  bool offset(const Binding &b, ExprId offset, DType dtype);
  void define_by_match(SymbolId symbol, ExprId dim);
  bool never_equal(ExprId a, ExprId b) const;
  bool agree(const Binding &b, const Type &type, const Type &with);
  bool attributes(const Binding &b);

  // --- verify_call.cpp ---
  bool launch_operand(const Binding &b, const Kernel &k, size_t i);
  bool tensor_operand(const Binding &b, const KernelParam &p, const Operand &o);
  bool scalar_operand(const Binding &b, const KernelParam &p, const Operand &o);
  bool device_symbol_operand(const Binding &b, const KernelParam &p, const Operand &o);
  bool call_operand(const Binding &b, const Function &callee, size_t i,
                    std::span<const ExprId> symbols);
  bool argument_fits(TypeId given, TypeId parameter, std::span<const ExprId> symbols);
  bool may_be_kept(const Binding &b, const Function &callee, const Constraint &constraint,
                   std::span<const ExprId> symbols);
  bool may_be_within(const Binding &b, const Function &callee, size_t symbol, ExprId given);
  bool callee_results(const Binding &b, const Function &callee, std::span<const ExprId> symbols);
  bool host_or_extern(const Binding &b);

  // --- verify_graph.cpp ---
  bool no_functions(const Binding &b, size_t from);
  bool graph_operands(const Binding &b, size_t index);
  bool graph_key(const Binding &b, const Function &callee, std::span<const TypeId> arguments);
  bool get_cached_alloc(const Binding &b);
  bool run_or_capture(const Binding &b);

  bool writable(const Binding &b, const Operand &o, const std::string &who);
  /// Whether a value of type `from` may be used for type `to`. With `at_run`, the runtime compares
  /// dimensions that cannot be compared now.
  bool assignable(TypeId from, TypeId to, bool at_run) const;

  const Type &type(TypeId id) const { return m_.types[id]; }
  const Type &type(ValueId v) const { return m_.types[f_.value(v).type]; }
  const Type *value_type(const Operand &o) const {
    return o.kind == Operand::Kind::value ? &type(o.value()) : nullptr;
  }
  std::string text(TypeId id) const { return print_type(m_, &f_, id); }
  std::string text(ExprId e) const { return "'" + m_.exprs.to_string(e, f_.symbol_names()) + "'"; }
  std::string name(ValueId v) const { return "%" + f_.value(v).name; }

  enum class SymbolState : uint8_t { undefined, defined, out_of_scope };

  const Module &module_;
  Module &m_;
  std::vector<uint8_t> &good_types_;
  const Function &f_;
  Diagnostics &diagnostics_;
  SymbolDomain bounds_;
  std::vector<std::vector<int64_t>> corners_; // of the bounds, within the constraints
  std::vector<uint32_t> visible_in_;          // by value: the block; none: not defined yet
  std::vector<bool> defined_;
  std::vector<SymbolState> symbol_state_;
  std::vector<uint32_t> match_of_; // by symbol: the number of the match that defines it; 0: none
  uint32_t match_count_ = 0;
  std::vector<SymbolId> scoped_symbols_; // defined in open nested blocks, innermost last
  std::vector<DType> read_dtype_;        // of device symbols
  std::vector<uint32_t> node_of_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> dead_log_; // nodes in the order of dying
  std::vector<SymbolId> scratch_;
  uint32_t current_block_ = UINT32_MAX;
  uint32_t loop_depth_ = 0;
};

/// Names that function attributes with a meaning have.
bool is_meaningful_attribute(std::string_view name);

} // namespace cugrt::ir
