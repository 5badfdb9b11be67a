// Sums over a few parts of channels, such as branches that attention weighs:
//
//   %v = reshape(%x) {shape = [n, 2, 64, h, w]}     %a = slice(%x) {axes = [1], ..}  %b = ..
//   %y = reduce_sum(%v) {axes = [1]}                %y = add(%a, %b)
//
// which narrow ops compute, of images with channels last as of others. So are stacks of images:
// concatenations of [n, 1, 64, h, w].
#include "compiler/passes/all_passes.h"

#include "compiler/ir_names.h"
#include "compiler/passes/op_appender.h"
#include "compiler/passes/value_uses.h"
#include "ops/table/ops.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

constexpr int64_t kMostParts = 4;

class SumSlicer : public OpAppender {
public:
  SumSlicer(const ir::Function &source, ir::Module &target)
      : OpAppender(source, target), uses_(source) {
    hint_ = "part";
  }

  bool finds_any() const {
    for (const ir::Block &block : source().blocks)
      for (const Binding &binding : block.bindings)
        if (parts(binding) > 0)
          return true;
    return false;
  }

protected:
  Status visit(const Binding &binding) override {
    const int64_t count = parts(binding);
    const Binding *sum = sum_before(binding);
    if (count == 0 && !sum)
      return copy(binding);
    if (count > 0 && uses_.only_reader(binding.result()) &&
        sum_before(*uses_.only_reader(binding.result())))
      return {};
    location_ = binding.location;
    const ValueId x = source().operands_of(sum ? *sum : binding)[0].value();
    const Dims dims = type_of(x).dims;
    ValueId mean, made;
    if (sum)
      mean = op(Op::reduce_mean, {mapped(image_of(x))},
                {{"axes", std::vector<int64_t>{2, 3}}, {"keep_dims", true}});
    for (int64_t i = 0; i < (sum ? parts(*sum) : count); ++i) {
      const ValueId part = sum ? channels_of(mean, dims[2], i) : part_of(x, dims, i);
      made = i ? op(Op::add, {made, part}, {}) : part;
    }
    map(binding.result(), reshaped(made, type_of(binding.result()).dims));
    return std::move(status_);
  }

private:
  /// The sum of parts of an image whose pixels the binding alone reads, and averages: it is one of
  /// the parts' means.
  const Binding *sum_before(const Binding &binding) const {
    if (!is_op(binding, Op::reduce_mean) ||
        type_of(source().operands_of(binding)[0].value()).dims.size() != 4)
      return nullptr;
    std::vector<int64_t> axes =
        ir::op_integers(Op::reduce_mean, source().attributes_of(binding), "axes");
    for (int64_t &axis : axes)
      axis = int64_t(*ir::normalize_axis(axis, 4));
    std::ranges::sort(axes);
    const ValueId sum = source().operands_of(binding)[0].value();
    const Binding *maker = uses_.maker(sum);
    if (axes != std::vector<int64_t>{2, 3} || !maker || uses_.only_reader(sum) != &binding ||
        parts(*maker) == 0)
      return nullptr;
    const ValueId x = source().operands_of(*maker)[0].value();
    return image_of(x).valid() && module().exprs.as_constant(type_of(x).dims[2]) ? maker : nullptr;
  }

  /// How many parts the binding adds up; 0 where it is no such sum.
  int64_t parts(const Binding &binding) const {
    if (!is_op(binding, Op::reduce_sum))
      return 0;
    const ir::Operand x = source().operands_of(binding)[0];
    const std::vector<int64_t> axes =
        ir::op_integers(Op::reduce_sum, source().attributes_of(binding), "axes");
    if (x.kind != ir::Operand::Kind::value || axes.size() != 1 ||
        type_of(x.value()).dims.size() != 5)
      return 0;
    const ir::Type &type = type_of(x.value());
    const std::optional<int64_t> count = module().exprs.as_constant(type.dims[1]);
    return type.dtype == ir::DType::f32 && type.strides.empty() &&
                   ir::normalize_axis(axes[0], 5) == 1 && count > 1 && count <= kMostParts &&
                   has_parts(x.value(), type.dims)
               ? *count
               : 0;
  }

  static Dims without_second(Dims dims) {
    dims.erase(dims.begin() + 1);
    return dims;
  }
  bool is_one(ExprId dim) const { return module().exprs.as_constant(dim) == 1; }

  /// The image of n times as many channels that the value is a reshape of; null where it is none.
  ValueId image_of(ValueId value) const {
    const Binding *maker = uses_.maker(value);
    if (!is_op(maker, Op::reshape))
      return {};
    const ValueId x = source().operands_of(*maker)[0].value();
    Dims own = without_second(type_of(value).dims);
    own[1] = module().exprs.mul(own[1], type_of(value).dims[1]);
    return type_of(x).dims == own && type_of(x).strides.empty() ? x : ValueId();
  }
  /// The concatenation that the value is, of an image for each part; null where it is none.
  const Binding *stack_of(ValueId value) const {
    const Binding *maker = uses_.maker(value);
    return is_op(maker, Op::concat) &&
                   ir::normalize_axis(
                       ir::op_integer(Op::concat, source().attributes_of(*maker), "axis"), 5) ==
                       1 &&
                   std::ranges::all_of(source().operands_of(*maker),
                                       [&](const ir::Operand &image) {
                                         const ir::Type &type = type_of(image.value());
                                         return type.known_shape && type.strides.empty() &&
                                                is_one(type.dims[1]);
                                       })
               ? maker
               : nullptr;
  }
  /// The product behind which the value's parts are looked for, which nothing else reads.
  const Binding *product_of(ValueId value) const {
    const Binding *maker = uses_.maker(value);
    return is_op(maker, Op::mul) && uses_.only_reader(value) ? maker : nullptr;
  }
  /// Whether the value, which stands beside others of `dims`, has a number a channel.
  bool is_pixel(ValueId value, const Dims &dims) const {
    const ir::Type &type = type_of(value);
    return type.known_shape && type.strides.empty() && type.dims.size() == 5 &&
           type.dims[1] == dims[1] && is_one(type.dims[3]) && is_one(type.dims[4]);
  }
  bool has_parts(ValueId value, const Dims &dims) const {
    if (type_of(value).dims == dims && (image_of(value).valid() || stack_of(value)))
      return true;
    if (const Binding *product = product_of(value); product && type_of(value).dims == dims)
      return std::ranges::all_of(source().operands_of(*product), [&](const ir::Operand &operand) {
        return operand.kind == ir::Operand::Kind::value &&
               (is_pixel(operand.value(), dims) || has_parts(operand.value(), dims));
      });
    return false;
  }

  /// Part i of a value beside [n, parts, c, h, w] of these dimensions, as [n, c, h, w].
  ValueId part_of(ValueId value, const Dims &dims, int64_t i) {
    using Integers = std::vector<int64_t>;
    const Dims part = without_second(type_of(value).dims);
    const bool pixel = is_pixel(value, dims);
    if (const ValueId x = image_of(value);
        !pixel && x.valid() && module().exprs.as_constant(part[1]))
      return channels_of(mapped(x), part[1], i);
    if (const Binding *stack = pixel ? nullptr : stack_of(value))
      return reshaped(mapped(source().operands_of(*stack)[size_t(i)].value()), part);
    if (const Binding *product = pixel ? nullptr : product_of(value)) {
      const auto operands = source().operands_of(*product);
      return op(Op::mul,
                {part_of(operands[0].value(), dims, i), part_of(operands[1].value(), dims, i)}, {});
    }
    return reshaped(op(Op::slice, {mapped(value)},
                       {{"starts", Integers{i}}, {"ends", Integers{i + 1}}, {"axes", Integers{1}}}),
                    part);
  }

  /// Part i of the channels of x, of the target: `size` each, which is constant.
  ValueId channels_of(ValueId x, ExprId size, int64_t i) {
    using Integers = std::vector<int64_t>;
    const int64_t channels = *module().exprs.as_constant(size);
    return op(Op::slice, {x},
              {{"starts", Integers{i * channels}},
               {"ends", Integers{(i + 1) * channels}},
               {"axes", Integers{1}}});
  }

  const ValueUses uses_;
};

} // namespace

Result<std::optional<ir::Module>> slice_sums(const ir::Module &module) {
  ir::Module target = ir::without_functions(module);
  bool any = false;
  for (const ir::Function &function : module.functions) {
    SumSlicer slicer(function, target);
    if (!slicer.finds_any()) {
      target.functions.push_back(function);
      continue;
    }
    any = true;
    CUGRT_TRY(slicer.add_function());
  }
  return any ? std::optional(std::move(target)) : std::nullopt;
}

} // namespace cugrt::passes
