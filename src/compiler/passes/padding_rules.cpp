// What each op does with padding: the rules of padding_effects.h.
#include "compiler/passes/padding_walk.h"

#include "ir/module/located.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

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

} // namespace

Status FunctionPadding::refuse(Symbols symbols, const char *how, Harm harm) const {
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

Status FunctionPadding::check_along(size_t operand, int64_t axis, Harm harm) {
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

/// Along the dimensions of operand 1 from number `first` on; with `unless` only where that operand
/// has another one.
Status FunctionPadding::check_from(size_t first, Harm harm, size_t unless) {
  for (size_t i = first; i < dims(0).size(); ++i)
    if (unless == 0 || dims(0)[i] != dims(unless)[i])
      CUGRT_TRY(check_along(0, static_cast<int64_t>(i), harm));
  return {};
}

/// Of reductions: no axes are all.
Status FunctionPadding::check_axes(Op op, Harm harm) {
  std::vector<int64_t> axes = ir::op_integers(op, attributes_, "axes");
  if (axes.empty())
    for (size_t i = 0; i < dims(0).size(); ++i)
      axes.push_back(static_cast<int64_t>(i));
  for (int64_t axis : axes)
    CUGRT_TRY(check_along(0, axis, harm));
  return {};
}

/// Padding of the last operand that has any stays behind what was brought.
Status FunctionPadding::check_concat() {
  const int64_t axis = ir::op_integer(Op::concat, attributes_, "axis");
  for (size_t i = 0; i + 1 < operands_.size(); ++i)
    CUGRT_TRY(check_along(i, axis, Harm::always));
  return {};
}

/// Positions that are counted from the end, or towards it, are others in a bucket.
Status FunctionPadding::check_slice() {
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
Status FunctionPadding::check_attention() {
  const bool causal = ir::op_bool(Op::attention, attributes_, "causal"), lengths = has(3);
  const ExprId queries = dims(0)[1], positions = dims(1)[1];
  Symbols bad = lengths ? 0 : of(positions);
  if (causal)
    bad = !lengths && queries == positions ? 0 : bad | of(queries);
  if (has(4))
    bad &= ~padding(operands_[4]).unknown;
  return bad ? refuse(bad, "sees", Harm::by_their_size) : Status();
}

/// A dimension that is a padded symbol must lie within one of the result's, with what is inside of
/// it: then what was added stays behind what was brought, and the rest in its places. Dimensions
/// that were joined earlier are not followed.
Status FunctionPadding::check_reshape() {
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

Status FunctionPadding::check(Op op) {
  auto axis = [&] { return ir::op_integer(op, attributes_, "axis"); };
  switch (op) {
  case Op::softmax:
  case Op::log_softmax:
  case Op::argmax:
  case Op::argmin:
  case Op::top_k:
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
    return check_along(1,
                       dims(1).size() > 1 && !ir::op_bool(op, attributes_, "transpose_b") ? -2 : -1,
                       Harm::unless_zero);
  case Op::matmul_integer: // with zero points, zeros are no zeros
    return check_along(0, -1, has(2) || has(3) ? Harm::always : Harm::unless_zero);
  case Op::conv_transpose:
    CUGRT_TRY(check_along(0, 1, Harm::unless_zero));
    return check_from(2, Harm::unless_zero);
  case Op::conv_integer:
    return check_from(1, Harm::always);
  case Op::resize:
    return check_from(0, Harm::always, 1);
  case Op::grid_sample:
    return check_from(2, Harm::always);
  case Op::scatter_elements:
  case Op::scatter_nd: // what is added to the updates goes to places too
    for (size_t i = 0; i < dims(1).size(); ++i)
      CUGRT_TRY(check_along(1, static_cast<int64_t>(i), Harm::always));
    return {};
  case Op::lstm:
  case Op::lstm_integer:
  case Op::gru:
  case Op::rnn:
    return check_along(0, 0, Harm::always);
  case Op::conv1d:
  case Op::conv2d:
  case Op::conv3d:
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
  case Op::cache_write: // what is added would be written too
    for (size_t i = 0; i < 4; ++i)
      for (size_t operand : {0, 1})
        CUGRT_TRY(check_along(operand, static_cast<int64_t>(i), Harm::always));
    return {};
  case Op::reshape:
    return check_reshape();
  default:
    return {};
  }
}

/// What the op's results hold along the padding of `result`'s symbols.
Padding FunctionPadding::after(Op op, Symbols result) const {
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
  case Op::conv3d:
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

} // namespace cugrt::passes
