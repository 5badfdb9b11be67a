// The walk over a function's bindings; see padding_effects.h. The rule of each op is in
// the op's file in src/ops.
#include "compiler/passes/padding_effects.h"

#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/passes/mixed_precision.h"
#include "ir/module/module.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cugrt::passes {

using padding::Dim;
using padding::ExprId;
using padding::Facts;
using padding::Fill;
using padding::Op;
using padding::OpPadding;
using padding::PaddedSymbols;
using padding::PaddingOperand;

namespace {

// --- A whole walk --------------------------------------------------------------------------------

/// Facts about a whole walk, from the function with buckets through all its callees.
/// Expressions use that function's symbols; those that other functions define have numbers
/// behind them.
class ModulePadding : public PaddedSymbols {
public:
  using Results = std::vector<Facts>;

  ModulePadding(const ir::Module &of, const ir::Function &root, const std::vector<bool> &padded)
      : PaddedSymbols(of.exprs, root, padded), module(of), root_(root) {
    auto next = static_cast<uint32_t>(root.symbols.size());
    for (const ir::Function &function : module.functions) {
      first_symbol_.push_back(&function == &root ? 0 : next);
      if (&function != &root)
        next += static_cast<uint32_t>(function.symbols.size());
    }
  }

  /// `symbols`: the caller's expressions for the callee's symbols; invalid ones are its own.
  Result<Results> effects_of(const ir::Function &function, std::vector<ExprId> symbols,
                             const std::vector<Facts> &params);
  ExprId own_symbol(const ir::Function &function, size_t symbol) {
    const auto number = static_cast<size_t>(&function - module.functions.data());
    return exprs.symbol({first_symbol_[number] + static_cast<uint32_t>(symbol)});
  }

  const ir::Module &module;

private:
  const ir::Function &root_;
  std::vector<uint32_t> first_symbol_; // by function
  /// Callees by their arguments.
  std::map<std::tuple<const ir::Function *, std::vector<ExprId>, std::vector<Facts>>, Results>
      known_;
};

/// The fill of a constant's elements. By custom, numbers of 10,000 and more hide others.
Fill fill_of(const ir::Module &module, const ir::Constant &constant) {
  constexpr double kHides = 1e4;
  const ir::Type &type = module.types[constant.type];
  const ir::DTypeInfo &row = ir::info(type.dtype);
  if (row.elements_per_block != 1 || row.kind == ir::DTypeKind::block)
    return Fill::finite;
  const size_t size = row.bytes_per_block;
  bool finite = true, alike = true;
  double first = 0;
  for (size_t at = 0; at + size <= constant.bytes.size(); at += size) {
    const char *bytes = constant.bytes.data() + at;
    const double value = row.kind == ir::DTypeKind::floating
                             ? ir::float_at(type.dtype, bytes)
                             : static_cast<double>(ir::integer_at(type.dtype, bytes));
    first = at == 0 ? value : first;
    finite = finite && std::isfinite(value);
    alike = alike && value == first;
  }
  if (alike && (first == 0 || first == 1))
    return first == 0 ? Fill::zero : Fill::one;
  if (alike && std::abs(first) >= kHides)
    return first < 0 ? Fill::lowest : Fill::highest;
  return finite ? Fill::finite : Fill::any;
}

// --- One function --------------------------------------------------------------------------------

class FunctionPadding {
public:
  FunctionPadding(ModulePadding &all, const ir::Function &function, bool is_root,
                  std::vector<ExprId> symbols)
      : all_(all), module_(all.module), function_(function), is_root_(is_root),
        symbols_(std::move(symbols)), written_(find_written_values(all.module, function)),
        values_(function.values.size()) {
    for (size_t s = 0; s < symbols_.size(); ++s) {
      is_defined_.push_back(function_.symbols[s].source != ir::SymbolSource::match);
      if (!symbols_[s].valid())
        symbols_[s] = all_.own_symbol(function_, s);
    }
  }

  Result<ModulePadding::Results> run(const std::vector<Facts> &params) {
    for (size_t p = 0; p < params.size(); ++p)
      set(function_.params[p].value, params[p]);
    CUGRT_TRY(block(0));
    ModulePadding::Results results;
    for (const ir::Operand &result : function_.results_of(function_.body())) {
      CUGRT_TRY(leaves(result, function_.body().end_location, "a result"));
      results.push_back(facts(result));
    }
    return results;
  }

private:
  const ir::Type &type(ValueId value) const { return module_.types[function_.value(value).type]; }
  ExprId meaning(ExprId expr) { return all_.exprs.substitute(expr, symbols_); }
  std::vector<ExprId> dims(const ir::Type &of) {
    std::vector<ExprId> list;
    for (ExprId dim : of.dims)
      list.push_back(meaning(dim));
    return list;
  }
  /// Every expression of a type.
  void collect(const ir::Type &of, std::vector<ExprId> &list) {
    for (const std::vector<ExprId> *some : {&of.dims, &of.strides})
      for (ExprId expr : *some)
        list.push_back(meaning(expr));
    for (ir::TypeId field : of.fields)
      collect(module_.types[field], list);
  }
  static bool is_value(const ir::Operand &operand) {
    return operand.kind == ir::Operand::Kind::value;
  }
  const Facts &facts(const ir::Operand &operand) const {
    static const Facts none;
    return is_value(operand) ? values_[operand.index] : none;
  }
  /// Facts must hold wherever the bytes are read. Of facts about written bytes only zeros stay:
  /// every writer leaves zeros behind.
  void set(ValueId value, Facts to) {
    if (written_[value.index])
      for (Dim &dim : to.dims)
        dim.fill = dim.fill == Fill::zero ? Fill::zero : Fill::any;
    if (written_[value.index])
      to.all = Fill::finite;
    values_[value.index] = std::move(to);
  }
  /// Tensors of which nothing more is said.
  void unknown(ValueId value) {
    if (type(value).kind == ir::TypeKind::tensor && type(value).known_shape)
      set(value, all_.plain(dims(type(value))));
  }

  Status refuse(SourceLocation at, const std::string &what) const {
    return ir::located(Code::unsupported, function_, at, what);
  }
  std::string names(const ir::Operand &operand);
  std::string names(const ir::Binding &b);
  Status leaves(const ir::Operand &operand, SourceLocation at, const char *as);
  Status block(uint32_t number);
  Status binding(const ir::Binding &b);
  Status control(const ir::Binding &b);
  Status launch(const ir::Binding &b);
  Status call(const ir::Binding &b);
  Status match(const ir::Binding &b);
  Status op(const ir::Binding &b);

  ModulePadding &all_;
  const ir::Module &module_;
  const ir::Function &function_;
  const bool is_root_;
  std::vector<ExprId> symbols_;  // what each is, in terms of the root's
  std::vector<bool> is_defined_; // by symbol; those of matches come to be there
  std::vector<bool> written_;    // by value
  std::vector<Facts> values_;
};

/// Names of the padded symbols that an operand depends on; empty: none.
std::string FunctionPadding::names(const ir::Operand &operand) {
  std::vector<ExprId> list;
  if (is_value(operand))
    collect(type(operand.value()), list);
  else if (operand.kind == ir::Operand::Kind::expr)
    list.push_back(meaning(operand.expr()));
  return all_.names_of(list);
}

/// Names for all operands, results and expressions of a binding.
std::string FunctionPadding::names(const ir::Binding &b) {
  std::vector<ExprId> list;
  for (const ir::Operand &operand : function_.operands_of(b))
    if (is_value(operand))
      collect(type(operand.value()), list);
    else if (operand.kind == ir::Operand::Kind::expr)
      list.push_back(meaning(operand.expr()));
  for (ExprId expr : function_.exprs_of(b))
    list.push_back(meaning(expr));
  for (uint32_t i = 0; i < b.result_count; ++i)
    collect(type(b.result(i)), list);
  return all_.names_of(list);
}

/// Where facts are not followed, the callers' elements must be in front along each dimension, and a
/// host number must not depend on a padded symbol.
Status FunctionPadding::leaves(const ir::Operand &operand, SourceLocation at, const char *as) {
  const bool is_tensor = is_value(operand) && type(operand.value()).kind == ir::TypeKind::tensor;
  const bool is_shape = is_value(operand) && type(operand.value()).kind == ir::TypeKind::shape;
  if (is_shape)
    return {};
  if (const std::string symbols = names(operand); !is_tensor && !symbols.empty())
    return refuse(at, std::string(as) + " depends on symbol " + symbols +
                          ", which has buckets, and would be the bucket's; take the buckets away");
  for (const Dim &dim : facts(operand).dims)
    if (dim.parts.size() > 1)
      return refuse(at, "%" + function_.value(operand.value()).name + ", " + as +
                            ", has what is added for the buckets of symbol " +
                            all_.names_of(dim.parts) + " between its elements");
  return {};
}

Status FunctionPadding::block(uint32_t number) {
  for (const ir::Binding &b : function_.blocks[number].bindings)
    CUGRT_TRY(binding(b));
  return {};
}

Status FunctionPadding::binding(const ir::Binding &b) {
  const std::span<const ir::Operand> operands = function_.operands_of(b);
  for (uint32_t i = 0; i < b.result_count; ++i)
    unknown(b.result(i));
  switch (b.kind) {
  case ir::BindingKind::op:
    return op(b);
  case ir::BindingKind::call:
    return call(b);
  case ir::BindingKind::launch:
    return launch(b);
  case ir::BindingKind::match_shape:
    return match(b);
  case ir::BindingKind::alias:
    set(b.result(), facts(operands[0]));
    return {};
  case ir::BindingKind::constant:
    values_[b.result().index].all = fill_of(module_, module_.constants[b.callee]);
    return {};
  case ir::BindingKind::alloc: // whatever writes it whole leaves zeros behind
    for (Dim &dim : values_[b.result().index].dims)
      dim.fill = Fill::zero;
    return {};
  case ir::BindingKind::shape:
  case ir::BindingKind::literal:
  case ir::BindingKind::kill:
  case ir::BindingKind::alloc_storage:
    return {};
  case ir::BindingKind::if_:
  case ir::BindingKind::while_:
    return control(b);
  case ir::BindingKind::host_call:
  case ir::BindingKind::extern_call:
    if (const std::string symbols = names(b); !symbols.empty())
      return refuse(b.location, "host code would see padding here: what it is given depends on "
                                "symbol " +
                                    symbols +
                                    ", which has buckets; take the buckets away, or the host's "
                                    "part out of the function");
    return {};
  case ir::BindingKind::alloc_tensor:
  case ir::BindingKind::view:
  case ir::BindingKind::tuple:
  case ir::BindingKind::tuple_element:
  case ir::BindingKind::read_symbol:
    if (const std::string symbols = names(b); !symbols.empty())
      return refuse(b.location,
                    "padding cannot be followed here: bytes, tuples or positions depend on "
                    "symbol " +
                        symbols + ", which has buckets; take the buckets away");
    return {};
  }
  return {};
}

/// Blocks see outer values as they are. Carried values and those that a condition chooses keep the
/// callers' elements in front; nothing is known of added ones.
Status FunctionPadding::control(const ir::Binding &b) {
  const std::span<const ir::Operand> operands = function_.operands_of(b);
  const bool loops = b.kind == ir::BindingKind::while_;
  for (size_t i = 0; i < (loops ? b.carried_count : 1); ++i)
    CUGRT_TRY(leaves(operands[i], b.location, loops ? "what a loop carries" : "the condition"));
  for (uint32_t n = b.blocks.begin; n < b.blocks.end(); ++n) {
    const ir::Block &block = function_.blocks[n];
    for (uint32_t i = 0; i < block.param_count; ++i)
      unknown({block.first_param + i});
    CUGRT_TRY(this->block(n));
    const bool is_condition = loops && n == b.blocks.begin;
    for (const ir::Operand &result : function_.results_of(block))
      CUGRT_TRY(leaves(result, block.end_location,
                       is_condition ? "the condition" : "what a block yields"));
  }
  return {};
}

/// The kernel gets tensors of the callers' sizes (pad_to_buckets.cpp), so each padded dimension
/// must be a symbol that callers bring; its results get zeros behind.
Status FunctionPadding::launch(const ir::Binding &b) {
  const std::string symbols = names(b), kernel = "kernel @" + module_.kernels[b.callee].name;
  if (symbols.empty())
    return {};
  if (!is_root_)
    return refuse(b.location, kernel + " depends on symbol " + symbols +
                                  ", which has buckets, and stands in a function that is called; "
                                  "take the buckets away, or move it to the caller");
  for (const ir::Operand &operand : function_.operands_of(b)) {
    CUGRT_TRY(leaves(is_value(operand) ? operand : ir::Operand(), b.location,
                     ("what " + kernel + " is given").c_str()));
    if (!is_value(operand))
      continue;
    const ir::Type &of = type(operand.value());
    for (ExprId dim : of.dims)
      if (all_.is_padded(meaning(dim)) && (module_.exprs[dim].kind != ir::ExprKind::symbol ||
                                           meaning(dim) != dim || !of.strides.empty()))
        return refuse(b.location, kernel + " is given %" + function_.value(operand.value()).name +
                                      ", in which symbol " + symbols +
                                      ", which has buckets, does not stand alone in a dimension");
  }
  return {};
}

/// A symbol defined here equals the dimension that it matches. Other comparisons must hold alike
/// for all values of padded symbols.
Status FunctionPadding::match(const ir::Binding &b) {
  const ir::Operand &from = function_.operands_of(b)[0];
  const ir::Type &to = type(b.result());
  const std::vector<ExprId> before =
      is_value(from) ? dims(type(from.value())) : std::vector<ExprId>();
  const bool known = is_value(from) && type(from.value()).known_shape;
  for (size_t i = 0; i < to.dims.size(); ++i) {
    const ir::ExprNode node = module_.exprs[to.dims[i]];
    const auto symbol = static_cast<size_t>(node.value);
    if (node.kind == ir::ExprKind::symbol && !is_defined_[symbol]) {
      is_defined_[symbol] = true;
      if (known)
        symbols_[symbol] = before[i];
      continue;
    }
    const ExprId after = meaning(to.dims[i]);
    if (known && after != before[i] && (all_.is_padded(after) || all_.is_padded(before[i]))) {
      const ExprId both[] = {after, before[i]};
      return refuse(b.location, "match would compare the bucket of symbol " + all_.names_of(both) +
                                    " with another size; take the buckets away");
    }
  }
  if (to.kind == ir::TypeKind::tensor)
    set(b.result(), known ? facts(from) : all_.plain(dims(to)));
  return {};
}

Status FunctionPadding::call(const ir::Binding &b) {
  const ir::Function &callee = module_.functions[b.callee];
  const std::span<const ir::Operand> operands = function_.operands_of(b);
  std::vector<ExprId> symbols(callee.symbols.size());
  std::vector<Facts> params(callee.params.size());
  for (size_t p = 0; p < std::min(params.size(), operands.size()); ++p) {
    params[p] = facts(operands[p]);
    const ir::Type &to = module_.types[callee.value(callee.params[p].value).type];
    std::vector<ExprId> from;
    if (is_value(operands[p]))
      from = dims(type(operands[p].value()));
    else if (operands[p].kind == ir::Operand::Kind::expr)
      from = {meaning(operands[p].expr())};
    if (to.kind == ir::TypeKind::tuple)
      continue; // without padding: see above
    for (size_t i = 0; i < std::min(from.size(), to.dims.size()); ++i) {
      const ir::ExprNode &node = module_.exprs[to.dims[i]];
      if (node.kind == ir::ExprKind::symbol && !symbols[static_cast<size_t>(node.value)].valid())
        symbols[static_cast<size_t>(node.value)] = from[i];
    }
  }
  // Other comparisons when the call is made.
  std::vector<ExprId> all = symbols;
  for (size_t s = 0; s < all.size(); ++s)
    if (!all[s].valid())
      all[s] = all_.own_symbol(callee, s);
  for (size_t p = 0; p < std::min(params.size(), operands.size()); ++p) {
    if (!is_value(operands[p]))
      continue;
    const std::vector<ExprId> from = dims(type(operands[p].value()));
    const ir::Type &to = module_.types[callee.value(callee.params[p].value).type];
    for (size_t i = 0; i < std::min(from.size(), to.dims.size()); ++i) {
      const ExprId both[] = {from[i], all_.exprs.substitute(to.dims[i], all)};
      if (both[0] != both[1] && (all_.is_padded(both[0]) || all_.is_padded(both[1])))
        return refuse(b.location, "a call of @" + callee.name +
                                      " would compare the bucket of symbol " + all_.names_of(both) +
                                      " with another size; take the buckets away");
    }
  }
  CUGRT_ASSIGN(ModulePadding::Results results, all_.effects_of(callee, std::move(symbols), params));
  for (uint32_t i = 0; i < std::min<size_t>(b.result_count, results.size()); ++i)
    set(b.result(i), results[i]);
  return {};
}

Status FunctionPadding::op(const ir::Binding &b) {
  const Op which = ir::op_of(b);
  std::vector<PaddingOperand> operands;
  for (const ir::Operand &operand : function_.operands_of(b)) {
    PaddingOperand one;
    if (is_value(operand)) {
      one.present = true;
      one.name = function_.value(operand.value()).name;
      one.dims = dims(type(operand.value()));
      one.facts = facts(operand);
    }
    operands.push_back(std::move(one));
  }
  std::vector<std::vector<ExprId>> shapes;
  for (uint32_t i = 0; i < b.result_count; ++i)
    shapes.push_back(dims(type(b.result(i))));
  Result<std::vector<Facts>> results =
      OpPadding(all_, which, function_.attributes_of(b), std::move(operands), std::move(shapes))
          .run();
  if (!results.ok())
    return refuse(b.location, std::string(ir::op_info(which).name) + " %" +
                                  function_.value(b.result()).name + " " +
                                  results.status().message());
  for (uint32_t i = 0; i < b.result_count; ++i)
    set(b.result(i), std::move((*results)[i]));
  return {};
}

Result<ModulePadding::Results> ModulePadding::effects_of(const ir::Function &function,
                                                         std::vector<ExprId> symbols,
                                                         const std::vector<Facts> &params) {
  auto key = std::tuple(&function, symbols, params);
  if (auto found = known_.find(key); found != known_.end())
    return found->second;
  CUGRT_ASSIGN(
      Results results,
      FunctionPadding(*this, function, &function == &root_, std::move(symbols)).run(params));
  known_.emplace(std::move(key), results);
  return results;
}

} // namespace

Status check_padding_effects(const ir::Module &module, const ir::Function &function,
                             const std::vector<bool> &padded) {
  ModulePadding walk(module, function, padded);
  std::vector<Facts> params;
  for (const ir::Parameter &param : function.params) {
    const ir::Type &type = module.types[function.value(param.value).type];
    Facts facts;
    if (type.kind == ir::TypeKind::tensor && type.known_shape)
      facts = walk.plain(type.dims);
    for (Dim &dim : facts.dims)
      dim.fill = Fill::zero;
    params.push_back(std::move(facts));
  }
  return walk.effects_of(function, std::vector<ExprId>(function.symbols.size()), params)
      .take_status();
}

} // namespace cugrt::passes
