// JoinProducts: products of one tensor whose columns are the queries, keys and values of attention
// become one product, of weights that stand beside each other:
//
//   %q = matmul(%x, %wq)                   %w = concat(%wq, %wk, %wv) {axis = 1}
//   %a = add(%q, %bq)                      %y = matmul(%x, %w, %b)        %b likewise
//   %q4 = reshape(%a) ..                   %q = slice(%y) {axes = [2], ..}
//   .. likewise k and v                    %q4 = reshape(%q) ..
//   %o = attention(%q4, %k4, %v4)          %o = attention(%q4, %k4, %v4)
//
// Weights and biases are fixed, so LiftTransformParams joins them once. Attention reads the slices
// where they lie (row_views.h). Keys and values are always of one product, queries where they are
// made of the same tensor.
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/mixed_precision.h"
#include "compiler/passes/value_uses.h"
#include "ir/module/function_cloner.h"
#include "ir/module/names.h"
#include "ops/table/ops.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

namespace {

using ir::Attribute;
using Integers = std::vector<int64_t>;

/// Operand of attention: reshape(add(matmul(x, w), bias)), of which each is read by the next alone.
struct Projection {
  const Binding *reshape = nullptr, *add = nullptr, *product = nullptr;
  ValueId x, w, bias; // bias may be none
  int64_t columns = 0;
};
struct Joined {
  std::vector<Projection> parts; // queries, if they are here, keys, values
};

/// Constants that stand for biases, by their type.
struct Zeros {
  explicit Zeros(const ir::Module &module) {
    for (const ir::Constant &constant : module.constants)
      names.try_emplace(constant.name, 1);
  }
  std::unordered_map<std::string, uint32_t> names;
  std::unordered_map<uint32_t, uint32_t> numbers; // by type
};

class ProductJoiner : public ir::FunctionCloner {
public:
  ProductJoiner(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
                Zeros &zeros)
      : FunctionCloner(source, target), uses_(source),
        written_(find_written_values(source_module, source)), is_fixed_(source.values.size()),
        zeros_(zeros) {
    for (size_t p = 0; p < source.params.size(); ++p)
      is_fixed_[source.params[p].value.index] = source.is_weight(p);
    for (const Binding &binding : source.body().bindings) {
      if (binding.kind == BindingKind::constant)
        is_fixed_[binding.first_result] = true;
      if (is_op(&binding, Op::transpose) || is_op(&binding, Op::reshape))
        is_fixed_[binding.first_result] =
            is_fixed(source.operands_of(binding)[0]) && source.operands_of(binding).size() == 1;
      if (is_op(&binding, Op::attention))
        look_at(binding);
    }
  }

  size_t count() const { return joined_.size(); }

protected:
  Status visit(const Binding &binding) override {
    if (gone_.contains(&binding))
      return {};
    if (const auto at = joined_.find(&binding); at != joined_.end())
      CUGRT_TRY(emit(at->second, binding));
    return copy(binding);
  }

private:
  bool is_fixed(const Operand &operand) const {
    return operand.kind == Operand::Kind::value && is_fixed_[operand.index];
  }
  bool is_plain(ValueId value) const { return type_of(value).is_plain() && !written_[value.index]; }
  std::optional<int64_t> known(ExprId dim) const { return module().exprs.as_constant(dim); }

  std::optional<Projection> projection(const Binding &attention, size_t number) const {
    Projection p;
    ValueId value = source().operands_of(attention)[number].value();
    auto maker = [&](Op op) {
      const Binding *made = uses_.only_reader(value) ? uses_.maker(value) : nullptr;
      return is_op(made, op) && is_plain(value) ? made : nullptr;
    };
    p.reshape = maker(Op::reshape);
    if (!p.reshape || source().operands_of(*p.reshape).size() > 2)
      return {};
    value = source().operands_of(*p.reshape)[0].value();
    if ((p.add = maker(Op::add))) {
      const auto terms = source().operands_of(*p.add);
      const size_t fixed = is_fixed(terms[1]) ? 1 : 0;
      if (!is_fixed(terms[fixed]))
        return {};
      p.bias = terms[fixed].value(), value = terms[1 - fixed].value();
    }
    p.product = maker(Op::matmul);
    if (!p.product)
      return {};
    const auto operands = source().operands_of(*p.product);
    if (operands[0].kind != Operand::Kind::value || !is_fixed(operands[1]))
      return {};
    p.x = operands[0].value(), p.w = operands[1].value();
    if (operands.size() > 2 && operands[2].kind == Operand::Kind::value) {
      if (p.bias.valid() || !is_fixed(operands[2]))
        return {};
      p.bias = operands[2].value();
    }
    const auto &dims = type_of(p.w).dims;
    const std::optional<int64_t> columns =
        dims.size() == 2 ? known(dims[is_transposed(p) ? 0 : 1]) : std::nullopt;
    if (!columns || !is_plain(p.w) || !is_plain(p.x) || type_of(p.x).dims.size() < 2 ||
        (p.bias.valid() &&
         (type_of(p.bias).dims != std::vector<ExprId>{dims[is_transposed(p) ? 0 : 1]} ||
          !is_plain(p.bias))))
      return {};
    p.columns = *columns;
    return p;
  }
  bool is_transposed(const Projection &p) const {
    return ir::op_bool(Op::matmul, source().attributes_of(*p.product), "transpose_b");
  }
  bool are_alike(const Projection &a, const Projection &b) const {
    const size_t depth = is_transposed(a) ? 1 : 0;
    return a.x == b.x && is_transposed(a) == is_transposed(b) &&
           type_of(a.w).dims[depth] == type_of(b.w).dims[depth] &&
           type_of(a.w).dtype == type_of(b.w).dtype;
  }

  void look_at(const Binding &attention) {
    const auto q = projection(attention, 0), k = projection(attention, 1),
               v = projection(attention, 2);
    if (!k || !v || k->product == v->product || !are_alike(*k, *v))
      return;
    Joined joined{{*k, *v}};
    if (q && are_alike(*q, *k))
      joined.parts.insert(joined.parts.begin(), *q);
    for (const Projection &part : joined.parts)
      gone_.insert({part.reshape, part.add, part.product});
    joined_.emplace(&attention, std::move(joined));
  }

  /// Appends an op of the target's values.
  Result<ValueId> op(Op op, const std::vector<ValueId> &operands, std::vector<Attribute> attributes,
                     const std::string &name, SourceLocation location) {
    std::vector<Operand> given;
    for (ValueId value : operands)
      given.push_back(Operand::of(value));
    return bind_op(op, given, attributes, name, location);
  }

  Status emit(const Joined &joined, const Binding &attention) {
    const Projection &first = joined.parts.front();
    const std::string name = source().value(attention.result()).name + "_parts";
    const SourceLocation location = first.product->location;
    std::vector<ValueId> weights, biases;
    bool has_bias = false;
    for (const Projection &part : joined.parts)
      has_bias = has_bias || part.bias.valid();
    for (const Projection &part : joined.parts) {
      weights.push_back(mapped(part.w));
      if (part.bias.valid()) {
        biases.push_back(mapped(part.bias));
      } else if (has_bias) {
        biases.push_back(zeros(part, location));
      }
    }
    CUGRT_ASSIGN(const ValueId w,
                 op(Op::concat, weights, {{"axis", int64_t(is_transposed(first) ? 0 : 1)}},
                    name + "_weights", location));
    std::vector<ValueId> operands = {mapped(first.x), w};
    if (has_bias) {
      CUGRT_ASSIGN(const ValueId b, op(Op::concat, biases, {}, name + "_biases", location));
      operands.push_back(b);
    }
    CUGRT_ASSIGN(const ValueId y,
                 op(Op::matmul, operands, {{"transpose_b", is_transposed(first)}}, name, location));
    int64_t begin = 0;
    for (const Projection &part : joined.parts) {
      CUGRT_ASSIGN(const ValueId slice, op(Op::slice, {y},
                                           {{"starts", Integers{begin}},
                                            {"ends", Integers{begin + part.columns}},
                                            {"axes", Integers{-1}}},
                                           source().value(part.product->result()).name, location));
      begin += part.columns;
      std::vector<Operand> given = {Operand::of(slice)};
      for (const Operand &operand : source().operands_of(*part.reshape).subspan(1))
        given.push_back(mapped(operand));
      copy_with(*part.reshape, given);
    }
    return {};
  }

  /// The bias of a product without one.
  ValueId zeros(const Projection &part, SourceLocation location) {
    const DType dtype = type_of(part.w).dtype;
    const TypeId type = module().types.tensor(dtype, {module().exprs.constant(part.columns)});
    const auto [at, is_new] =
        zeros_.numbers.try_emplace(type.index, uint32_t(module().constants.size()));
    if (is_new)
      module().constants.push_back(
          {.name = ir::unique_name(zeros_.names, "no_bias", "_"),
           .type = type,
           .bytes = std::string(size_t(part.columns) * ir::info(dtype).bytes_per_block, 0),
           .location = location});
    Binding made{};
    made.kind = BindingKind::constant;
    made.callee = at->second;
    made.location = location;
    const std::string name = "no_bias";
    return builder().bind(made, {}, {}, {}, std::span(&name, 1), std::span(&type, 1));
  }

  const ValueUses uses_;
  const std::vector<bool> written_; // by value, as the next
  std::vector<bool> is_fixed_;      // weights, constants, and what is another form of these
  std::unordered_map<const Binding *, Joined> joined_; // by the attention
  std::unordered_set<const Binding *> gone_;
  Zeros &zeros_;
};

} // namespace

Result<ir::Module> join_products(const ir::Module &module, const PassContext &context) {
  if (!context.flag("fuse.patterns"))
    return module;
  ir::Module target = ir::without_functions(module);
  Zeros zeros(module);
  for (const ir::Function &function : module.functions) {
    ProductJoiner joiner(module, function, target, zeros);
    CUGRT_TRY(joiner.add_function());
    if (joiner.count() > 0)
      context.note("@" + function.name + ": " + std::to_string(joiner.count()) +
                   " times products that attention reads became one product");
  }
  return target;
}

} // namespace cugrt::passes
