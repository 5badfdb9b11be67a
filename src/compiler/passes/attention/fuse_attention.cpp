// FuseAttention: products, masks and softmaxes that are attention become the op `attention`
// (attention_patterns.h says which):
//
//   %s = matmul(%q, %kt)                      %y = attention(%q_t, %k_t, %v_t)
//   %p = softmax(%s)                          %o = transpose(%y) {axes = [0, 2, 1, 3]}
//   %o = matmul(%p, %v)
//
// The op reads heads beside each other, [B, length, H, D], as they mostly lie before a transpose
// that is dead then; so is the one behind. Factors of rows of scores go into the queries. Masks
// become one, added in the dtype in which they were added to the scores. Where it may hide a whole
// row by -infinity, whose softmax is NaN, that row of the mask becomes NaN: the op alone would give
// 0. EliminateDeadBindings removes dead bindings.
#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/attention/attention_patterns.h"
#include "compiler/passes/mixed_precision.h"
#include "compiler/passes/op_appender.h"
#include "ir/module/names.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

namespace {

using ir::Attribute;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<int64_t> kExchange = {0, 2, 1, 3}; // length and heads
const std::vector<int64_t> kTurn = {0, 2, 3, 1};     // to [B, H, D, length]

/// The least finite number of a dtype, equal to itself with a score added. f16 has none such.
double lowest(DType dtype) {
  return dtype == DType::bf16  ? -0x1.fep127
         : dtype == DType::f32 ? double(std::numeric_limits<float>::lowest())
                               : std::numeric_limits<double>::lowest();
}

class AttentionFuser : public OpAppender {
public:
  AttentionFuser(const ir::Function &source, ir::Module &target,
                 std::span<const AttentionMatch> matches,
                 std::unordered_map<std::string, uint32_t> &names)
      : OpAppender(source, target), names_(names) {
    for (const AttentionMatch &match : matches) {
      match_of_[match.product] = &match;
      gone_.insert(match.members.begin(), match.members.end());
    }
  }

protected:
  Status enter_block(uint32_t) override { return forget_block(); }
  Status leave_block(uint32_t) override { return forget_block(); }
  Status visit(const Binding &binding) override {
    if (gone_.contains(&binding))
      return {};
    if (const auto at = match_of_.find(&binding); at != match_of_.end())
      return emit(*at->second);
    const auto operands = source().operands_of(binding);
    if (binding.kind == BindingKind::op && binding.result_count == 1 && !operands.empty()) {
      const Operand x = operands[0];
      const auto known =
          x.kind == Operand::Kind::value ? heads_last_.find(x.index) : heads_last_.end();
      if (known != heads_last_.end()) {
        if (ir::op_of(binding) == Op::transpose &&
            type_of(x.value()).dims == exchanged(known->second)) {
          // Axes of a value with heads beside each other.
          std::vector<int64_t> axes =
              ir::op_integers(Op::transpose, source().attributes_of(binding), "axes");
          if (axes.empty())
            axes = {3, 2, 1, 0};
          for (int64_t &axis : axes)
            axis = kExchange[*ir::normalize_axis(axis, axes.size())];
          location_ = binding.location;
          map(binding.result(), std::ranges::is_sorted(axes)
                                    ? known->second
                                    : op(Op::transpose, {known->second}, {{"axes", axes}},
                                         source().value(binding.result()).name));
          return std::move(status_);
        }
        if (ir::op_of(binding) == Op::reshape &&
            type_of(binding.result()).dims == exchanged(known->second))
          heads_last_.emplace(binding.first_result, ValueId(known->second));
      }
    }
    return copy(binding);
  }

private:
  Status forget_block() {
    masks_.clear();
    turned_.clear();
    heads_last_.clear();
    return {};
  }

  Dims exchanged(ValueId value) {
    const Dims &dims = made_type(value).dims;
    return {dims[0], dims[2], dims[1], dims[3]};
  }

  ValueId scalar(DType dtype, double value) {
    ir::Constant constant{.name = ir::unique_name(names_, "attention_mask", "_"),
                          .type = module().types.tensor(dtype, {}),
                          .bytes = {},
                          .location = location_};
    ir::append_float(dtype, value, constant.bytes);
    const TypeId type = constant.type;
    module().constants.push_back(std::move(constant));
    Binding made{};
    made.kind = BindingKind::constant;
    made.callee = uint32_t(module().constants.size() - 1);
    made.location = location_;
    const std::string name = "fill";
    return builder().bind(made, {}, {}, {}, std::span(&name, 1), std::span(&type, 1));
  }
  /// [B, length, H, D]
  ValueId heads_last(const HeadsOperand &x, std::string_view hint) {
    ValueId y = mapped(x.value);
    if (!x.turn.empty())
      y = turned(x, hint);
    else if (!x.parts.empty())
      y = reshaped(y, x.parts);
    if (!x.begin.empty())
      y = op(Op::slice, {y, shape(x.begin), shape(x.size)}, {}, hint);
    if (!x.reshaped.empty())
      y = reshaped(y, x.reshaped);
    const std::vector<int64_t> axes = {x.axes[0], x.axes[2], x.axes[1], x.axes[3]};
    return axes == std::vector<int64_t>{0, 1, 2, 3}
               ? y
               : op(Op::transpose, {y}, {{"axes", axes}}, hint);
  }

  /// The value's parts, turned once for all operands that are slices of them.
  ValueId turned(const HeadsOperand &x, std::string_view hint) {
    std::vector<int64_t> key = {x.value.index};
    for (ExprId part : x.parts)
      key.push_back(part.index);
    key.insert(key.end(), x.turn.begin(), x.turn.end());
    ValueId &known = turned_[key];
    if (!known.valid())
      known = op(Op::transpose, {reshaped(mapped(x.value), x.parts)}, {{"axes", x.turn}}, hint);
    return known;
  }

  /// Queries [B, Q, H, D] times the factors of their scores.
  ValueId times_factors(const AttentionMatch &match, ValueId q, std::string_view hint) {
    if (!match.factors.valid())
      return q;
    Dims dims = match.factor_dims;
    const ExprId one = module().exprs.constant(1);
    dims.insert(dims.begin(), 4 - dims.size(), one);
    ValueId factors = reshaped(mapped(match.factors), dims);
    if (dims[1] != one && dims[2] != one)
      factors = op(Op::transpose, {factors}, {{"axes", kExchange}});
    else
      factors = reshaped(factors, {dims[0], dims[2], dims[1], one});
    return op(Op::mul, {q, factors}, {}, hint);
  }

  /// x with zeros behind, as wide as values.
  ValueId widened(const AttentionMatch &match, ValueId x) {
    return match.wider ? op(Op::pad, {x},
                            {{"before", std::vector<int64_t>(4, 0)},
                             {"after", std::vector<int64_t>{0, 0, 0, match.wider}}},
                            "wide")
                       : x;
  }

  ValueId mask_of(const AttentionMatch &match) {
    std::vector<int64_t> key = {int64_t(match.mask_dtype), match.hidden_rows_are_nan};
    for (const MaskPart &part : match.mask) {
      key.insert(key.end(), {part.value.index, part.hides_where_true, std::isfinite(part.fill),
                             std::bit_cast<int64_t>(part.scale)});
      for (ExprId dim : part.dims)
        key.push_back(dim.index);
    }
    ValueId &known = masks_[key];
    if (!known.valid())
      known = make_mask(match);
    return known;
  }

  ValueId make_mask(const AttentionMatch &match) {
    const MaskPart &first = match.mask.front();
    // Alone, whatever number hides leaves equal weights where nothing is seen.
    const bool alone = match.mask.size() == 1 && first.is_condition && std::isfinite(first.fill);
    const DType dtype = alone && match.mask_dtype == DType::f16 ? DType::f32 : match.mask_dtype;
    ValueId mask;
    for (const MaskPart &part : match.mask) {
      ValueId value = mapped(part.value);
      if (!part.repeated.empty())
        value = op(Op::broadcast_to, {value, shape(part.repeated)}, {}, "mask");
      value = reshaped(value, part.dims);
      if (part.scale != 1)
        value = op(Op::mul, {value, scalar(match.mask_dtype, part.scale)}, {}, "mask");
      if (!part.is_condition) {
        mask = mask.valid() ? op(Op::add, {mask, value}, {}, "mask") : value;
        continue;
      }
      const double fill = alone ? lowest(dtype) : part.fill;
      const ValueId seen = mask.valid() ? mask : scalar(dtype, 0), hidden = scalar(dtype, fill);
      mask = part.hides_where_true ? op(Op::where, {value, hidden, seen}, {}, "mask")
                                   : op(Op::where, {value, seen, hidden}, {}, "mask");
    }
    if (!match.hidden_rows_are_nan)
      return mask;
    const ValueId largest =
        op(Op::reduce_max, {mask}, {{"axes", std::vector<int64_t>{-1}}, {"keep_dims", true}},
           "largest");
    const ValueId hidden = op(Op::equal, {largest, scalar(dtype, -kInfinity)}, {}, "hidden");
    return op(Op::where, {hidden, scalar(dtype, std::nan("")), mask}, {}, "mask");
  }

  Status emit(const AttentionMatch &match) {
    const ValueId result = match.product->result();
    const std::string &name = source().value(result).name;
    location_ = match.product->location;
    const ValueId q = widened(match,
                              times_factors(match, heads_last(match.q, name + "_q"), name + "_q")),
                  k = widened(match, heads_last(match.k, name + "_k")),
                  v = heads_last(match.v, name + "_v"),
                  mask = match.mask.empty() ? ValueId() : mask_of(match);
    std::vector<Attribute> attributes = {{"scale", match.scale}};
    if (match.causal)
      attributes.push_back({"causal", true});
    const ValueId y = op(Op::attention, {q, k, v, ValueId(), mask}, attributes, name);
    if (!status_.ok())
      return std::move(status_);
    if (!match.is_turned)
      heads_last_.emplace(result.index, y);
    const ValueId first = op(Op::transpose, {y}, {{"axes", match.is_turned ? kTurn : kExchange}});
    map(result, reshaped(first, type_of(result).dims));
    return std::move(status_);
  }

  std::unordered_map<std::string, uint32_t> &names_; // of constants
  std::unordered_map<const Binding *, const AttentionMatch *> match_of_;
  std::unordered_set<const Binding *> gone_;
  std::map<std::vector<int64_t>, ValueId> masks_, turned_; // that were made in the block
  std::unordered_map<uint32_t, ValueId> heads_last_;       // by [B, H, Q, D] of the source
};

} // namespace

Result<ir::Module> fuse_attention(const ir::Module &module, const PassContext &context) {
  if (!context.flag("fuse.patterns"))
    return module;
  ir::Module target = ir::without_functions(module);
  const std::vector<Op> denied = context.ops("mixed.deny");
  codegen::Target device;
  device.compute_capability = context.number("target.compute_capability");
  const AttentionTarget costs{codegen::has_tensor_cores(DType::f16, device),
                              ir::dtype_from_name(context.choice("mixed.dtype")) &&
                                  std::ranges::find(denied, Op::attention) == denied.end()};
  std::unordered_map<std::string, uint32_t> names;
  for (const ir::Constant &constant : module.constants)
    names.try_emplace(constant.name, 1);
  for (const ir::Function &function : module.functions) {
    const AttentionMatches found =
        match_attention(target, function, costs, find_written_values(module, function));
    std::map<std::string, size_t> made;
    for (const AttentionMatch &match : found.matches)
      ++made[std::string("softmax between products became attention") + (match.causal ? ", causal"
                                                                         : match.mask.empty()
                                                                             ? ""
                                                                             : ", with a mask")];
    for (const auto &[text, times] : made)
      context.note("@" + function.name, text, times);
    for (const auto &[text, times] : found.notes)
      context.note("@" + function.name, text, size_t(times));
    if (found.matches.empty())
      target.functions.push_back(function);
    else
      CUGRT_TRY(AttentionFuser(function, target, found.matches, names).add_function());
  }
  return target;
}

} // namespace cugrt::passes
