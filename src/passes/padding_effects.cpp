// The walk over a function's ops, and the rule of each; see padding_effects.h.
#include "passes/padding_effects.h"

#include "ir/located.h"
#include "ir/ops.h"

#include <algorithm>
#include <map>

namespace cugrt::passes {

namespace {

using ir::ExprId;
using ir::Op;
using ir::ValueId;

/// A bit for each of the padded symbols; those from number 64 on are not followed.
using Symbols = uint64_t;

/// Of one value: along which symbols' padding its elements are zero, and along which nobody can say
/// what they are.
struct Padding {
  Symbols zero = 0, unknown = 0;
  auto operator<=>(const Padding &) const = default;
};

/// What added elements do to the others along one dimension.
enum class Harm {
  unless_zero,   // nothing where they are zero
  by_their_size, // more or less, with what they are; -inf in a softmax does nothing
  always,        // their number or their place is the harm
};

/// f(0) = 0.
bool keeps_zero(Op op, std::span<const ir::Attribute> attributes) {
  switch (op) {
  case Op::relu:
  case Op::neg:
  case Op::abs:
  case Op::sqrt:
  case Op::tanh:
  case Op::silu:
  case Op::gelu:
  case Op::erf:
  case Op::sin:
  case Op::tan:
  case Op::asin:
  case Op::atan:
  case Op::sinh:
  case Op::asinh:
  case Op::atanh:
  case Op::log1p:
  case Op::floor:
  case Op::ceil:
  case Op::round:
  case Op::softsign:
  case Op::hard_swish:
  case Op::leaky_relu:
  case Op::elu:
  case Op::sign:
  case Op::cast:
  case Op::transpose:
  case Op::reshape:
  case Op::slice:
  case Op::split:
  case Op::broadcast_to:
  case Op::cumsum:
  case Op::reduce_sum:
  case Op::reduce_mean:
  case Op::reduce_max:
  case Op::reduce_min:
  case Op::reduce_prod:
  case Op::max_pool2d:
  case Op::avg_pool2d:
    return true;
  case Op::clip:
    return ir::op_float(op, attributes, "min") <= 0 && ir::op_float(op, attributes, "max") >= 0;
  default:
    return false;
  }
}

class Follower {
public:
  using Results = std::vector<Padding>;

  explicit Follower(const ir::Module &module) : module_(module) {}

  /// `symbols` by symbol of the function, `params` by parameter.
  Result<Results> follow(const ir::Function &function, std::vector<Symbols> symbols,
                         const std::vector<Padding> &params);

  std::vector<std::string> names; // of the symbols, by bit

private:
  friend class FunctionFollower;
  const ir::Module &module_;
  /// Callees by what they were given.
  std::map<std::tuple<const ir::Function *, std::vector<Symbols>, std::vector<Padding>>, Results>
      known_;
};

class FunctionFollower {
public:
  FunctionFollower(Follower &all, const ir::Function &function, std::vector<Symbols> symbols)
      : all_(all), module_(all.module_), function_(function), symbols_(std::move(symbols)),
        values_(function.values.size(), Padding{0, ~Symbols(0)}) {}

  Result<Follower::Results> run(const std::vector<Padding> &params) {
    for (size_t p = 0; p < params.size(); ++p)
      values_[function_.params[p].value.index] = params[p];
    CUGRT_TRY(block(0));
    Follower::Results results;
    for (const ir::Operand &result : function_.results_of(function_.body()))
      results.push_back(padding(result));
    return results;
  }

private:
  Symbols of(ExprId expr) const {
    std::vector<ir::SymbolId> used;
    module_.exprs.collect_symbols(expr, used);
    Symbols all = 0;
    for (ir::SymbolId symbol : used)
      all |= symbols_[symbol.index];
    return all;
  }
  Symbols of(std::span<const ExprId> dims) const {
    Symbols all = 0;
    for (ExprId dim : dims)
      all |= of(dim);
    return all;
  }
  const ir::Type &type(ValueId value) const { return module_.types[function_.value(value).type]; }
  /// Of operand i of the op at hand; none: no dimensions.
  std::span<const ExprId> dims(size_t i) const {
    if (i >= operands_.size() || operands_[i].kind != ir::Operand::Kind::value)
      return {};
    return type(operands_[i].value()).dims;
  }
  bool has(size_t i) const {
    return i < operands_.size() && operands_[i].kind == ir::Operand::Kind::value;
  }
  Padding padding(const ir::Operand &operand) const {
    return operand.kind == ir::Operand::Kind::value ? values_[operand.value().index] : Padding();
  }

  Status block(uint32_t number);
  Status binding(const ir::Binding &b);
  Status call(const ir::Binding &b);
  void match(const ir::Binding &b);
  Status op(const ir::Binding &b);
  Status check(Op op);
  Status check_along(size_t operand, int64_t axis, Harm harm);
  Status check_axes(Op op, Harm harm);
  Status check_concat();
  Status check_slice();
  Status check_attention();
  Status check_reshape();
  Padding after(Op op, Symbols result) const;
  Status refuse(Symbols symbols, const char *how, Harm harm) const;

  Follower &all_;
  const ir::Module &module_;
  const ir::Function &function_;
  std::vector<Symbols> symbols_;
  std::vector<Padding> values_;
  const ir::Binding *at_ = nullptr; // the op at hand
  std::span<const ir::Operand> operands_;
  std::span<const ir::Attribute> attributes_;
};

Status FunctionFollower::block(uint32_t number) {
  for (const ir::Binding &b : function_.blocks[number].bindings)
    CUGRT_TRY(binding(b));
  return {};
}

/// Results of what is not looked at keep what values begin with: nobody can say.
Status FunctionFollower::binding(const ir::Binding &b) {
  for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
    CUGRT_TRY(block(i));
  operands_ = function_.operands_of(b);
  if (b.kind == ir::BindingKind::op)
    return op(b);
  if (b.kind == ir::BindingKind::call)
    return call(b);
  if (b.kind == ir::BindingKind::launch)
    for (size_t i = 0; i < operands_.size(); ++i)
      if (has(i) && ir::writes(module_.kernels[b.callee].params[i].access))
        values_[operands_[i].value().index] = {0, ~Symbols(0)};
  if (b.kind == ir::BindingKind::match_shape)
    match(b);
  if (b.kind == ir::BindingKind::alias || b.kind == ir::BindingKind::match_shape)
    for (uint32_t i = 0; i < b.result_count; ++i)
      values_[b.result(i).index] = padding(operands_[0]);
  return {};
}

/// Symbols that are defined here are as padded as the dimension that they name.
void FunctionFollower::match(const ir::Binding &b) {
  if (!has(0) || b.result_count != 1)
    return;
  std::span<const ExprId> from = dims(0), to = type(b.result()).dims;
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i)
    if (const ir::ExprNode &node = module_.exprs[to[i]]; node.kind == ir::ExprKind::symbol)
      symbols_[static_cast<size_t>(node.value)] |= of(from[i]);
}

Status FunctionFollower::call(const ir::Binding &b) {
  const ir::Function &callee = module_.functions[b.callee];
  std::vector<Symbols> symbols(callee.symbols.size());
  std::vector<Padding> params(callee.params.size());
  for (size_t p = 0; p < std::min(params.size(), operands_.size()); ++p) {
    params[p] = padding(operands_[p]);
    const std::vector<ExprId> &to = module_.types[callee.value(callee.params[p].value).type].dims;
    std::span<const ExprId> from = dims(p);
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i)
      if (const ir::ExprNode &node = module_.exprs[to[i]]; node.kind == ir::ExprKind::symbol)
        symbols[static_cast<size_t>(node.value)] |= of(from[i]);
  }
  CUGRT_ASSIGN(Follower::Results results, all_.follow(callee, std::move(symbols), params));
  for (size_t p = 0; p < params.size(); ++p)
    if (has(p) && ir::writes(callee.params[p].access))
      values_[operands_[p].value().index] = {0, ~Symbols(0)};
  for (uint32_t i = 0; i < std::min<size_t>(b.result_count, results.size()); ++i)
    values_[b.result(i).index] = results[i];
  return {};
}

Status FunctionFollower::op(const ir::Binding &b) {
  at_ = &b;
  attributes_ = function_.attributes_of(b);
  const Op op = ir::op_of(b);
  CUGRT_TRY(check(op));
  for (uint32_t i = 0; i < b.result_count; ++i)
    values_[b.result(i).index] = after(op, of(type(b.result(i)).dims));
  return {};
}

Status FunctionFollower::refuse(Symbols symbols, const char *how, Harm harm) const {
  std::string of_what;
  for (size_t i = 0; i < all_.names.size(); ++i)
    if (symbols >> i & 1)
      of_what += (of_what.empty() ? "" : ", ") + all_.names[i];
  const std::string op(ir::op_info(ir::op_of(*at_)).name);
  const char *choose = harm == Harm::always
                           ? ""
                           : "say what added elements are by where, with a condition that has this "
                             "dimension, or ";
  return ir::located(Code::unsupported, function_, at_->location,
                     op + " %" + function_.value(at_->result()).name + " " + how +
                         " what is added for the buckets of symbol " + of_what +
                         ", and its results would depend on the bucket; " + choose +
                         "take the buckets away, or this op out of the function");
}

Status FunctionFollower::check_along(size_t operand, int64_t axis, Harm harm) {
  std::span<const ExprId> of_operand = dims(operand);
  std::optional<size_t> a = ir::normalize_axis(axis, of_operand.size());
  if (!a)
    return {};
  const Padding padding = this->padding(operands_[operand]);
  Symbols bad = of(of_operand[*a]);
  if (harm != Harm::always)
    bad &= ~padding.unknown;
  if (harm == Harm::unless_zero)
    bad &= ~padding.zero;
  return bad ? refuse(bad, "runs along", harm) : Status();
}

/// Of reductions: no axes are all.
Status FunctionFollower::check_axes(Op op, Harm harm) {
  std::vector<int64_t> axes = ir::op_integers(op, attributes_, "axes");
  if (axes.empty())
    for (size_t i = 0; i < dims(0).size(); ++i)
      axes.push_back(static_cast<int64_t>(i));
  for (int64_t axis : axes)
    CUGRT_TRY(check_along(0, axis, harm));
  return {};
}

/// Padding of the last operand that has any stays behind what was brought.
Status FunctionFollower::check_concat() {
  const int64_t axis = ir::op_integer(Op::concat, attributes_, "axis");
  for (size_t i = 0; i + 1 < operands_.size(); ++i)
    CUGRT_TRY(check_along(i, axis, Harm::always));
  return {};
}

/// Positions that are counted from the end, or towards it, are others in a bucket.
Status FunctionFollower::check_slice() {
  if (operands_.size() > 1)
    return {};
  auto list = [&](const char *name) { return ir::op_integers(Op::slice, attributes_, name); };
  const std::vector<int64_t> starts = list("starts"), ends = list("ends"), steps = list("steps");
  std::vector<int64_t> axes = list("axes");
  for (size_t i = axes.size(); i < starts.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < std::min({axes.size(), starts.size(), ends.size()}); ++i)
    if (starts[i] < 0 || ends[i] < 0 || (i < steps.size() && steps[i] < 0))
      CUGRT_TRY(check_along(0, axes[i], Harm::always));
  return {};
}

/// Queries stand at the last positions, and see all positions but those that lengths, or their own
/// place, keep from them.
Status FunctionFollower::check_attention() {
  const bool causal = ir::op_bool(Op::attention, attributes_, "causal"), lengths = has(3);
  const ExprId queries = dims(0)[1], positions = dims(1)[1];
  Symbols bad = lengths ? 0 : of(positions);
  if (causal)
    bad = !lengths && queries == positions ? 0 : bad | of(queries);
  if (has(4))
    bad &= ~padding(operands_[4]).unknown;
  return bad ? refuse(bad, "sees", Harm::by_their_size) : Status();
}

/// A product of symbols' powers with a factor; none: something else.
struct Monomial {
  int64_t factor = 1;
  std::map<uint32_t, int> powers;

  static std::optional<Monomial> of(const ir::ExprPool &exprs, std::span<const ExprId> dims) {
    Monomial all;
    for (ExprId dim : dims) {
      std::vector<ExprId> open = {dim};
      while (!open.empty()) {
        const ir::ExprNode node = exprs[open.back()];
        open.pop_back();
        if (node.kind == ir::ExprKind::constant) {
          if (node.value <= 0 || __builtin_mul_overflow(all.factor, node.value, &all.factor))
            return std::nullopt;
        } else if (node.kind == ir::ExprKind::symbol) {
          ++all.powers[static_cast<uint32_t>(node.value)];
        } else if (node.kind == ir::ExprKind::mul) {
          open.push_back(node.a);
          open.push_back(node.b);
        } else {
          return std::nullopt;
        }
      }
    }
    return all;
  }
  bool divides(const Monomial &other) const {
    return other.factor % factor == 0 &&
           std::all_of(powers.begin(), powers.end(), [&](const auto &power) {
             auto found = other.powers.find(power.first);
             return found != other.powers.end() && found->second >= power.second;
           });
  }
};

/// A dimension that is a padded symbol must lie within one of the result's, with what is inside of
/// it: then what was added stays behind what was brought, and the rest in its places. Dimensions
/// that were joined earlier are not followed.
Status FunctionFollower::check_reshape() {
  std::span<const ExprId> from = dims(0), to = type(at_->result()).dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const Symbols bad = of(from[i]);
    if (!bad || module_.exprs[from[i]].kind != ir::ExprKind::symbol)
      continue;
    auto inner = Monomial::of(module_.exprs, from.subspan(i + 1)),
         outer = Monomial::of(module_.exprs, from.subspan(i));
    bool within = !inner || !outer;
    for (size_t j = 0; j < to.size() && !within; ++j) {
      auto stride = Monomial::of(module_.exprs, to.subspan(j + 1)),
           extent = Monomial::of(module_.exprs, to.subspan(j));
      within = !stride || !extent || (stride->divides(*inner) && outer->divides(*extent));
    }
    if (!within)
      return refuse(bad, "mixes", Harm::always);
  }
  return {};
}

Status FunctionFollower::check(Op op) {
  auto axis = [&] { return ir::op_integer(op, attributes_, "axis"); };
  switch (op) {
  case Op::softmax:
  case Op::log_softmax:
  case Op::argmax:
  case Op::argmin:
    return check_along(0, axis(), Harm::by_their_size);
  case Op::layer_norm:
  case Op::rms_norm:
    return check_along(0, -1, Harm::always);
  case Op::reduce_sum:
    return check_axes(op, Harm::unless_zero);
  case Op::reduce_mean:
    return check_axes(op, Harm::always);
  case Op::reduce_max:
  case Op::reduce_min:
  case Op::reduce_prod:
    return check_axes(op, Harm::by_their_size);
  case Op::cumsum: // forwards, what was added comes last
    return ir::op_bool(op, attributes_, "reverse") ? check_along(0, axis(), Harm::unless_zero)
                                                   : Status();
  case Op::matmul:
    CUGRT_TRY(check_along(0, -1, Harm::unless_zero));
    return check_along(1, dims(1).size() > 1 ? -2 : -1, Harm::unless_zero);
  case Op::conv1d:
  case Op::conv2d:
    CUGRT_TRY(check_along(0, 1, Harm::unless_zero));
    for (size_t i = 2; i < dims(0).size(); ++i)
      if (module_.exprs.as_constant(dims(1)[i]) != 1) // else each position stands for itself
        CUGRT_TRY(check_along(0, static_cast<int64_t>(i), Harm::unless_zero));
    return {};
  case Op::max_pool2d:
  case Op::avg_pool2d:
    for (size_t i = 0; i < 2; ++i)
      if (ir::op_integers(op, attributes_, "kernel")[i] != 1)
        CUGRT_TRY(check_along(0, static_cast<int64_t>(2 + i), Harm::by_their_size));
    return {};
  case Op::concat:
    return check_concat();
  case Op::slice:
    return check_slice();
  case Op::attention:
    return check_attention();
  case Op::reshape:
    return check_reshape();
  default:
    return {};
  }
}

/// What the op's results hold along the padding of `result`'s symbols.
Padding FunctionFollower::after(Op op, Symbols result) const {
  Padding any, all{~Symbols(0), 0}; // zero in some operand, in each
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!has(i) || ir::is_shape_operand(op, i))
      continue;
    Padding one = padding(operands_[i]);
    const Symbols seen = of(dims(i));
    any.unknown |= one.unknown & seen;
    any.zero |= one.zero & seen;
    all.zero &= one.zero & seen;
  }
  Padding out{0, any.unknown & result};
  switch (op) {
  case Op::mul:
  case Op::logical_and:
    out.zero = any.zero;
    break;
  case Op::matmul:
  case Op::conv1d:
  case Op::conv2d:
    out.zero = has(2) ? 0 : any.zero;
    break;
  case Op::rms_norm:
  case Op::layer_norm: // with a scale alone
    out.zero = has(2) ? 0 : padding(operands_[0]).zero;
    break;
  case Op::add:
  case Op::sub:
  case Op::maximum:
  case Op::minimum:
  case Op::logical_or:
  case Op::logical_xor:
  case Op::concat:
    out.zero = all.zero;
    break;
  case Op::where: // the author's choice
    out.unknown |= of(dims(0)) & result;
    break;
  default:
    out.zero = keeps_zero(op, attributes_) ? padding(operands_[0]).zero : 0;
    break;
  }
  out.zero &= result;
  out.unknown &= ~out.zero;
  return out;
}

Result<Follower::Results> Follower::follow(const ir::Function &function,
                                           std::vector<Symbols> symbols,
                                           const std::vector<Padding> &params) {
  auto key = std::tuple(&function, symbols, params);
  if (auto found = known_.find(key); found != known_.end())
    return found->second;
  CUGRT_ASSIGN(Results results, FunctionFollower(*this, function, std::move(symbols)).run(params));
  known_.emplace(std::move(key), results);
  return results;
}

} // namespace

Status check_padding_effects(const ir::Module &module, const ir::Function &function,
                             const std::vector<bool> &padded) {
  Follower follower(module);
  std::vector<Symbols> symbols(function.symbols.size());
  Symbols all = 0;
  for (size_t s = 0; s < padded.size() && follower.names.size() < 64; ++s)
    if (padded[s]) {
      symbols[s] = Symbols(1) << follower.names.size();
      all |= symbols[s];
      follower.names.push_back(function.symbols[s].name);
    }
  std::vector<Padding> params;
  for (const ir::Parameter &param : function.params)
    params.push_back(ir::reads(param.access) ? Padding{all, 0} : Padding{0, all});
  return follower.follow(function, std::move(symbols), params).take_status();
}

} // namespace cugrt::passes
