// Linking: symbols are made one where dimensions are joined, and a
// main function calls the parts.
#include "ir/module/link.h"

#include "ir/module/builder.h"
#include "ir/module/function_cloner.h"
#include "ir/module/infer.h"
#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::ir {

namespace {

class Linker {
public:
  Linker(std::span<const LinkPart> parts, std::span<const LinkJoin> joins)
      : parts_(parts), joins_(joins) {}

  Result<Linked> run() {
    CUGRT_TRY(copy_parts());
    CUGRT_TRY(order_parts());
    for (const LinkJoin &join : joins_)
      CUGRT_TRY(unify(join));
    CUGRT_TRY(make_main());
    remove_dead_functions(out_.module);
    return std::move(out_);
  }

private:
  static Status refuse(std::string message) {
    return Status::error(Code::invalid_argument, std::move(message));
  }
  const Function &main_of(uint32_t part) const { return *mains_[part]; }
  const Function &copy_of(uint32_t part) const { return out_.module.functions[copies_[part]]; }
  std::string input_name(uint32_t part, uint32_t input) const {
    const Function &f = main_of(part);
    return parts_[part].name + "." + f.value(f.params[input].value).name;
  }
  std::string result_name(uint32_t part, uint32_t result) const {
    return parts_[part].name + ".result" + std::to_string(result);
  }

  Status copy_parts() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const LinkPart &part = parts_[i];
      if (!is_bare_name(part.name) || part.name.find('.') != std::string::npos)
        return refuse("a part is named by letters, digits and '_', a letter first, not '" +
                      part.name + "'");
      for (size_t k = 0; k < i; ++k)
        if (parts_[k].name == part.name)
          return refuse("two parts are named '" + part.name + "'");
      const Function *main = part.module->find_function("main");
      if (!main)
        return refuse("part '" + part.name + "' has no function @main");
      mains_.push_back(main);
      copies_.push_back(append_module(out_.module, part) +
                        static_cast<uint32_t>(main - part.module->functions.data()));
      first_symbols_.push_back(static_cast<uint32_t>(symbols_.size()));
      for (Symbol symbol : main->symbols) {
        symbol.name = part.name + "." + symbol.name;
        symbols_.push_back(std::move(symbol));
      }
      taken_.emplace_back(main->result_types.size(), false);
      given_by_.emplace_back(main->params.size(), nullptr);
    }
    for (uint32_t i = 0; i < symbols_.size(); ++i)
      values_.push_back(out_.module.exprs.symbol({i}));
    return {};
  }

  /// Each part behind those whose results it takes, otherwise as they were given.
  Status order_parts() {
    for (const LinkJoin &join : joins_) {
      const LinkJoin *&given = given_by_[join.to][join.input];
      if (given)
        return refuse(input_name(join.to, join.input) + " is joined twice, to " +
                      result_name(given->from, given->result) + " and to " +
                      result_name(join.from, join.result));
      given = &join;
      taken_[join.from][join.result] = true;
    }
    std::vector<bool> placed(parts_.size());
    while (order_.size() < parts_.size()) {
      const size_t before = order_.size();
      for (uint32_t part = 0; part < parts_.size(); ++part)
        if (!placed[part] && std::all_of(joins_.begin(), joins_.end(), [&](const LinkJoin &join) {
              return join.to != part || placed[join.from];
            })) {
          placed[part] = true;
          order_.push_back(part);
        }
      if (order_.size() > before)
        continue;
      std::string names;
      for (uint32_t part = 0; part < parts_.size(); ++part)
        if (!placed[part])
          names += (names.empty() ? "'" : ", '") + parts_[part].name + "'";
      return refuse("parts wait for results of one another: " + names);
    }
    return {};
  }

  // --- Symbols -----------------------------------------------------------------------------------
  // All symbols of the parts' mains are numbered through. values_ has what each is, in symbols that
  // are themselves.

  std::vector<ExprId> values_of(uint32_t part) const {
    std::vector<ExprId> values;
    for (uint32_t s = 0; s < main_of(part).symbols.size(); ++s)
      values.push_back(main_of(part).symbols[s].source == SymbolSource::parameter
                           ? values_[first_symbols_[part] + s]
                           : ExprId());
    return values;
  }
  TypeId input_type(uint32_t part, uint32_t input) {
    const Function &f = copy_of(part);
    return substitute_type(out_.module, f.value(f.params[input].value).type, values_of(part));
  }
  /// Invalid where a run decides a dimension.
  TypeId result_type(uint32_t part, uint32_t result) {
    return substitute_type(out_.module, copy_of(part).result_types[result], values_of(part));
  }
  std::string text(ExprId id) const {
    std::vector<std::string> names;
    for (const Symbol &symbol : symbols_)
      names.push_back(symbol.name);
    return out_.module.exprs.to_string(id, names);
  }
  std::string text(const Type &type) const {
    std::string dims;
    for (ExprId dim : type.dims)
      dims += (dims.empty() ? "" : ", ") + text(dim);
    switch (type.kind) {
    case TypeKind::tensor:
      return std::string(info(type.dtype).name) + "[" + (type.known_shape ? dims : "?") + "]";
    case TypeKind::shape:
      return "shape [" + dims + "]";
    case TypeKind::scalar:
      return "a host scalar";
    case TypeKind::storage:
    case TypeKind::tuple:
    case TypeKind::string:
    case TypeKind::dtype:
    case TypeKind::object:
      break;
    }
    return "no tensor";
  }

  Status unify(const LinkJoin &join) {
    const std::string input = input_name(join.to, join.input),
                      result = result_name(join.from, join.result);
    if (main_of(join.to).params[join.input].access != Access::in)
      return refuse(input + " is written in place; it is the caller's and cannot be " + result);
    for (const CountedDim &counted : main_of(join.from).counted_dims)
      if (counted.result == join.result || counted.count == join.result)
        return refuse(result +
                      " has a size that the data decide, or counts it: such a result goes "
                      "to the caller alone, not to " +
                      input);
    const TypeId from = result_type(join.from, join.result);
    if (!from.valid())
      return refuse(result + " has a dimension that is known only while it runs; it cannot be " +
                    input);
    const Type given = out_.module.types[from],
               wanted = out_.module.types[input_type(join.to, join.input)];
    const auto mismatch = [&] {
      return refuse(input + " is " + text(wanted) + ", and " + result + " is " + text(given) +
                    ": they do not join");
    };
    const bool joinable = wanted.kind == TypeKind::tensor || wanted.kind == TypeKind::scalar ||
                          wanted.kind == TypeKind::shape;
    if (!joinable || given.kind != wanted.kind || given.dtype != wanted.dtype ||
        given.scalar != wanted.scalar || given.scope != wanted.scope ||
        given.known_shape != wanted.known_shape || given.dims.size() != wanted.dims.size() ||
        given.strides.size() != wanted.strides.size())
      return mismatch();
    for (size_t d = 0; d < wanted.dims.size(); ++d) {
      CUGRT_ASSIGN(const bool agree, make_equal(wanted.dims[d], given.dims[d]));
      if (!agree)
        return mismatch();
    }
    return {};
  }

  /// Makes the dimension of an input that of a result, where symbols can be chosen so.
  Result<bool> make_equal(ExprId input, ExprId result) {
    input = out_.module.exprs.substitute(input, values_);
    result = out_.module.exprs.substitute(result, values_);
    if (input == result)
      return true;
    const ExprNode to = out_.module.exprs[input], from = out_.module.exprs[result];
    if (to.kind == ExprKind::symbol) {
      std::vector<SymbolId> used;
      out_.module.exprs.collect_symbols(result, used);
      const SymbolId symbol{static_cast<uint32_t>(to.value)};
      if (std::find(used.begin(), used.end(), symbol) != used.end())
        return false;
      CUGRT_TRY(set(symbol, result));
      return true;
    }
    // A formula in the place of a producer's symbol would leave nothing to read that from.
    if (from.kind == ExprKind::symbol && to.kind == ExprKind::constant) {
      CUGRT_TRY(set({static_cast<uint32_t>(from.value)}, input));
      return true;
    }
    return false;
  }

  Status set(SymbolId id, ExprId value) {
    const Symbol &symbol = symbols_[id.index];
    const ExprNode node = out_.module.exprs[value];
    if (node.kind == ExprKind::constant &&
        (node.value < symbol.bounds.lower || node.value > symbol.bounds.upper))
      return refuse("symbol " + symbol.name + " of [" + std::to_string(symbol.bounds.lower) + ", " +
                    std::to_string(symbol.bounds.upper) + "] would be " +
                    std::to_string(node.value));
    if (node.kind == ExprKind::symbol) {
      Symbol &kept = symbols_[static_cast<size_t>(node.value)];
      const Interval both{std::max(kept.bounds.lower, symbol.bounds.lower),
                          std::min(kept.bounds.upper, symbol.bounds.upper)};
      if (both.lower > both.upper)
        return refuse("symbols " + kept.name + " and " + symbol.name +
                      " would be one, and no value is within the bounds of both");
      if (!kept.buckets.empty() && !symbol.buckets.empty() && kept.buckets != symbol.buckets)
        return refuse("symbols " + kept.name + " and " + symbol.name +
                      " would be one, and their buckets differ");
      kept.bounds = both;
      kept.capturable = kept.capturable || symbol.capturable;
      if (kept.buckets.empty())
        kept.buckets = symbol.buckets;
    } else if (node.kind != ExprKind::constant && !symbol.buckets.empty()) {
      return refuse("symbol " + symbol.name + " has buckets and would be " + text(value));
    }
    std::vector<ExprId> one;
    for (uint32_t i = 0; i < symbols_.size(); ++i)
      one.push_back(i == id.index ? value : out_.module.exprs.symbol({i}));
    for (ExprId &each : values_)
      each = out_.module.exprs.substitute(each, one);
    return {};
  }

  // --- The linked function -----------------------------------------------------------------------

  /// Symbols that are themselves and stand in an input become those of `builder`.
  void number_symbols(FunctionBuilder &builder) {
    std::vector<ExprId> numbers(symbols_.size());
    for (uint32_t i = 0; i < symbols_.size(); ++i) {
      numbers[i] = out_.module.exprs.symbol({i});
      if (values_[i] != numbers[i] || symbols_[i].source != SymbolSource::parameter)
        continue;
      const SymbolId id = builder.symbol(symbols_[i]);
      numbers[i] = out_.module.exprs.symbol(id);
    }
    for (ExprId &value : values_)
      value = out_.module.exprs.substitute(value, numbers);
  }

  Status make_main() {
    FunctionBuilder builder(out_.module, "main");
    number_symbols(builder);
    std::vector<std::vector<Operand>> operands;
    for (const Function *main : mains_)
      operands.emplace_back(main->params.size());
    add_params(builder, operands, false);
    builder.function().num_inputs = static_cast<uint32_t>(out_.inputs.size());
    add_params(builder, operands, true);
    if (out_.weights.empty())
      builder.function().num_inputs = UINT32_MAX;
    std::vector<std::vector<ValueId>> results(parts_.size());
    for (uint32_t part : order_) {
      CUGRT_TRY(call(builder, part, operands[part], results[part]));
      for (const LinkJoin &join : joins_)
        if (join.from == part)
          operands[join.to][join.input] = Operand::of(results[part][join.result]);
    }
    std::vector<Operand> returned;
    for (uint32_t part = 0; part < parts_.size(); ++part)
      add_results(builder.function(), part, results[part], returned);
    Function main = builder.finish(returned);
    out_.module.functions.push_back(std::move(main));
    return {};
  }

  void add_params(FunctionBuilder &builder, std::vector<std::vector<Operand>> &operands,
                  bool weights) {
    std::vector<std::pair<uint32_t, ValueId>> shared; // number of a weight's tensor, its parameter
    for (uint32_t part = 0; part < parts_.size(); ++part) {
      const Function &main = main_of(part);
      for (uint32_t i = 0; i < main.params.size(); ++i) {
        if (given_by_[part][i] || main.is_weight(i) != weights)
          continue;
        const TypeId type = input_type(part, i);
        const size_t weight = i - size_t(main.num_inputs);
        const uint32_t tensor = weights && weight < parts_[part].weights.size()
                                    ? parts_[part].weights[weight]
                                    : UINT32_MAX;
        const auto same = std::find_if(shared.begin(), shared.end(), [&](const auto &each) {
          return tensor != UINT32_MAX && each.first == tensor &&
                 builder.function().value(each.second).type == type;
        });
        if (same != shared.end()) {
          operands[part][i] = Operand::of(same->second);
          continue;
        }
        const Parameter &param = main.params[i];
        const ValueId value =
            builder.param(input_name(part, i), type, param.access, param.alignment_bytes);
        operands[part][i] = Operand::of(value);
        shared.emplace_back(tensor, value);
        (weights ? out_.weights : out_.inputs).push_back({part, i});
      }
    }
  }

  Status call(FunctionBuilder &builder, uint32_t part, std::span<const Operand> operands,
              std::vector<ValueId> &results) {
    Binding binding{};
    binding.kind = BindingKind::call;
    binding.callee = copies_[part];
    std::vector<std::string> names;
    std::vector<TypeId> types;
    for (uint32_t i = 0; i < main_of(part).result_types.size(); ++i) {
      names.push_back(result_name(part, i));
      types.push_back(result_type(part, i));
      if (!types.back().valid())
        return refuse(names.back() + " has a dimension that is known only while it runs; a part "
                                     "that gives it cannot be linked");
    }
    const ValueId first = builder.bind(std::move(binding), operands, {}, {}, names, types);
    for (uint32_t i = 0; i < types.size(); ++i)
      results.push_back({first.index + i});
    for (const Constraint &constraint : copy_of(part).constraints)
      builder.function().constraints.push_back(
          {out_.module.exprs.substitute(constraint.expr, values_of(part)), constraint.most});
    return {};
  }

  void add_results(Function &main, uint32_t part, std::span<const ValueId> results,
                   std::vector<Operand> &returned) {
    std::vector<uint32_t> numbers(results.size());
    for (uint32_t i = 0; i < results.size(); ++i) {
      if (taken_[part][i])
        continue;
      numbers[i] = static_cast<uint32_t>(returned.size());
      returned.push_back(Operand::of(results[i]));
      main.result_types.push_back(main.value(results[i]).type);
      out_.results.push_back({part, i});
    }
    for (const CountedDim &counted : main_of(part).counted_dims)
      main.counted_dims.push_back({numbers[counted.result], counted.dim, numbers[counted.count]});
  }

  std::span<const LinkPart> parts_;
  std::span<const LinkJoin> joins_;
  Linked out_;
  std::vector<const Function *> mains_;                 // of the parts
  std::vector<uint32_t> copies_, first_symbols_;        // by part
  std::vector<std::vector<bool>> taken_;                // by part and result
  std::vector<std::vector<const LinkJoin *>> given_by_; // by part and parameter
  std::vector<uint32_t> order_;
  std::vector<Symbol> symbols_;
  std::vector<ExprId> values_;
};

} // namespace

Result<Linked> link_modules(std::span<const LinkPart> parts, std::span<const LinkJoin> joins) {
  return Linker(parts, joins).run();
}

} // namespace cugrt::ir
