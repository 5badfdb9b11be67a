// ToIntegerProducts: products and convolutions of numbers that were dequantised multiply the bytes
// themselves, exactly, and their sums are scaled:
//
//   %x = mul(cast(sub(cast(%p), cast(%pz))), %ps)       %s = conv_integer(%p, %q, %pz)
//   %w = mul(cast(sub(cast(%q), cast(%qz))), %qs)       %f = cast(%s) {dtype = f32}
//   %y = conv2d(%x, %w, %b)                             %m = mul(%f, %scales)    of %ps and %qs
//   %r = relu(%y)                                       %y = add(%m, %b_channels)
//   .. quantised ..                                     %r = relu(%y)
//                                                       .. quantised ..
//
// Later ops join the product's kernel in FuseOps, so that it stores bytes. Weights stay bytes
// in memory. x has one scale and zero point; weights have one, or one a channel or column.
//
// A transposed convolution is one by weights in another order, whose channels are phases: a
// transposition puts them between one another.
//
// Ops that only move elements move the bytes, which are dequantised behind them; so does a maximum
// over windows, since a scale above 0 keeps their order. Values quantised again alike are the
// bytes.
//
// Products stay where the sums of so many bytes may not fit into 32 bits, and convolutions before
// tensor cores multiply bytes. The dequantised values are dead where nothing else reads them:
// EliminateDeadBindings takes them away.
#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/op_appender.h"
#include "compiler/passes/quantized/quantized_values.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace cugrt::passes {

namespace {

using ir::Attribute;

bool is_convolution(Op op) { return ir::op_info(op).images == ir::OpImages::convolves; }

class IntegerProducts : public OpAppender {
public:
  IntegerProducts(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
                  const codegen::Target &device)
      : OpAppender(source, target), device_(device), values_(source_module, source) {}

  size_t products() const { return products_; }
  const std::map<std::string, size_t> &kept() const { return kept_; }

protected:
  Status enter_block(uint32_t block) override {
    known_.clear();
    values_.enter(block);
    blocks_.push_back(block);
    return {};
  }
  Status leave_block(uint32_t) override {
    // Values known before a nested block are not looked for behind it.
    known_.clear();
    blocks_.pop_back();
    if (!blocks_.empty())
      values_.enter(blocks_.back());
    return {};
  }

  Status visit(const Binding &binding) override {
    if (binding.kind != BindingKind::op)
      return copy(binding);
    const Op op = ir::op_of(binding);
    if (const std::optional<Dequantized> found = values_.dequantized(binding)) {
      known_.emplace(binding.first_result,
                     Known{*found, mapped(found->q), mapped(found->scale),
                           found->zero.valid() ? mapped(found->zero) : ValueId()});
      return copy(binding);
    }
    if (const std::optional<Quantized> found = values_.quantized(binding))
      if (const Known *x = known(found->x); x && is_quantised_alike(*x, *found, binding.result())) {
        map(binding.result(), x->q);
        return {};
      }
    bool done = false;
    if (is_convolution(op) || op == Op::matmul)
      done = multiply(binding, op);
    else if (op == Op::conv_transpose)
      done = spread(binding);
    else if (ir::moves_elements(op) || op == Op::max_pool2d)
      done = move(binding, op);
    else if (op == Op::concat)
      done = concatenate(binding);
    CUGRT_TRY(std::move(status_));
    return done ? Status() : copy(binding);
  }

private:
  /// A value of the source that is (q - zero) * scale.
  struct Known {
    Dequantized from;       // of the source: scale and zero point as they were given
    ValueId q, scale, zero; // of the target
  };

  const Known *known(ValueId value) const {
    const auto at = known_.find(value.index);
    return at == known_.end() ? nullptr : &at->second;
  }
  std::optional<int64_t> size(ExprId dim) const { return module().exprs.as_constant(dim); }
  bool is_uniform(const Known &x) const {
    return values_.has_one_element(x.from.scale) &&
           (!x.from.zero.valid() || values_.has_one_element(x.from.zero));
  }
  bool is_quantised_alike(const Known &x, const Quantized &to, ValueId result) {
    return is_uniform(x) && values_.is_reversible(x.from.scale) &&
           values_.are_alike(x.from.scale, to.scale) && values_.are_alike(x.from.zero, to.zero) &&
           made_type(x.q).dtype == type_of(result).dtype;
  }

  // --- Ops of the target -------------------------------------------------------------------------

  ValueId cast(ValueId x, DType to) {
    return !status_.ok() || made_type(x).dtype == to ? x : op(Op::cast, {x}, {{"dtype", to}});
  }
  void begin(const Binding &binding, uint32_t result = 0) {
    location_ = binding.location;
    hint_ = source().value(binding.result(result)).name;
  }

  // --- What moves elements -----------------------------------------------------------------------

  /// The bytes dequantised again, as they were before.
  ValueId dequantized(const Known &x, DType dtype) {
    ValueId number = x.q;
    if (x.zero.valid())
      number = op(Op::sub, {cast(number, DType::i32), cast(x.zero, DType::i32)}, {});
    return op(Op::mul, {cast(number, dtype), x.scale}, {});
  }

  /// The binding with bytes for floats.
  ValueId bind_bytes(const Binding &binding, std::vector<Operand> operands, DType dtype) {
    std::vector<std::string> names;
    std::vector<TypeId> types;
    for (uint32_t i = 0; i < binding.result_count; ++i) {
      names.push_back(source().value(binding.result(i)).name);
      types.push_back(module().types.tensor(dtype, type_of(binding.result(i)).dims));
    }
    const auto attributes = source().attributes_of(binding);
    return builder().bind(binding, operands, source().exprs_of(binding), attributes, names, types);
  }

  bool is_plain(const Binding &binding) const {
    for (uint32_t i = 0; i < binding.result_count; ++i)
      if (!type_of(binding.result(i)).is_plain_tensor())
        return false;
    return true;
  }

  bool keep_moved(const Binding &binding, Known moved) {
    for (uint32_t i = 0; i < binding.result_count; ++i) {
      begin(binding, i);
      const ValueId result = binding.result(i);
      map(result, dequantized(moved, type_of(result).dtype));
      known_.emplace(result.index, moved);
      ++moved.q.index;
    }
    return true;
  }

  bool move(const Binding &binding, Op op) {
    const Known *x = known(source().operand_of(binding, 0));
    if (!x || !is_plain(binding) || (op == Op::max_pool2d && !values_.is_reversible(x->from.scale)))
      return false;
    Known moved = *x;
    if (!is_uniform(*x)) {
      // Scales and zero points are turned with the weights that they stretch over.
      const size_t rank = type_of(binding.result()).dims.size();
      const auto turned = [&](ValueId &value) {
        if (value.valid() && made_type(value).dims.size() == rank)
          value = this->op(Op::transpose, {value}, {source().attributes_of(binding)[0]});
        else if (value.valid() && !is_one(value))
          value = {};
      };
      if (op != Op::transpose || source().attributes_of(binding).size() != 1)
        return false;
      begin(binding);
      turned(moved.scale), turned(moved.zero);
      if (!moved.scale.valid() || moved.zero.valid() != x->zero.valid())
        return false;
    }
    std::vector<Operand> operands = mapped(source().operands_of(binding));
    operands[0] = Operand::of(x->q);
    moved.q = bind_bytes(binding, std::move(operands), made_type(x->q).dtype);
    return keep_moved(binding, moved);
  }

  /// Parts of the same scale and zero point.
  bool concatenate(const Binding &binding) {
    std::vector<Operand> operands;
    const Known *first = known(source().operand_of(binding, 0));
    for (size_t i = 0; i < source().operands_of(binding).size(); ++i) {
      const Known *x = known(source().operand_of(binding, i));
      if (!x || !is_uniform(*x) || !values_.are_alike(x->from.scale, first->from.scale) ||
          !values_.are_alike(x->from.zero, first->from.zero) ||
          made_type(x->q).dtype != made_type(first->q).dtype)
        return false;
      operands.push_back(Operand::of(x->q));
    }
    if (!is_plain(binding))
      return false;
    Known joined = *first;
    joined.q = bind_bytes(binding, std::move(operands), made_type(first->q).dtype);
    return keep_moved(binding, joined);
  }

  // --- Products ----------------------------------------------------------------------------------

  bool is_one(ValueId value) {
    return std::ranges::all_of(made_type(value).dims,
                               [&](ExprId dim) { return size(dim) == int64_t(1); });
  }
  /// Whether a scale or zero point of weights differs along `axis` at most.
  bool is_along(ValueId value, size_t rank, size_t axis) {
    if (!value.valid())
      return true;
    const Dims &dims = made_type(value).dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (size(dims[d]) != int64_t(1) && d + rank - dims.size() != axis)
        return false;
    return true;
  }
  /// Largest number that is left of a byte without its zero point.
  static int64_t most(DType dtype, bool has_zero) {
    return dtype == DType::u8 || has_zero ? 255 : 128;
  }

  /// A zero point as products of bytes take it: one, or one a channel.
  ValueId point(ValueId zero) {
    if (!zero.valid())
      return {};
    const Dims dims = made_type(zero).dims;
    for (ExprId dim : dims)
      if (size(dim) != int64_t(1))
        return reshaped(zero, {dim});
    return reshaped(zero, {});
  }

  bool keep(const std::string &why) {
    ++kept_[why];
    return false;
  }

  bool multiply(const Binding &binding, Op of) {
    const Known *x = known(source().operand_of(binding, 0)),
                *w = known(source().operand_of(binding, 1));
    if (!x || !w || !is_plain(binding) || binding.result_count != 1)
      return false;
    const Dims left = made_type(x->q).dims, right = made_type(w->q).dims;
    const bool convolves = of != Op::matmul;
    const bool turned =
        !convolves && ir::op_bool(Op::matmul, source().attributes_of(binding), "transpose_b");
    const size_t rank = right.size(),
                 axis = convolves ? 0 : rank - (turned ? 2 : 1); // of channels or columns
    if (convolves && device_.compute_capability < codegen::kTensorCoresSince)
      return keep("a convolution stays in floats: there are no tensor cores for bytes");
    if (of == Op::conv3d && ir::op_bool(of, source().attributes_of(binding), "channels_last"))
      return keep("a convolution stays in floats: volumes of bytes have channels second");
    const bool is_shared = !convolves && rank > 2 && left.size() >= rank && // by all rows of x
                           std::all_of(right.begin(), right.end() - 2,
                                       [&](ExprId dim) { return size(dim) == int64_t(1); });
    if (!convolves && rank > 2 && !is_shared &&
        (left.size() != rank || !std::equal(left.begin(), left.end() - 2, right.begin())))
      return keep("a product stays in floats: its operands have other outer dimensions");
    if (!is_uniform(*x))
      return keep("a product stays in floats: its first operand has more than one scale");
    if (!is_along(w->scale, rank, axis) || !is_along(w->zero, rank, axis))
      return keep("a product stays in floats: its weights' scales are not one a channel");
    std::optional<int64_t> products = 1;
    for (size_t d = 0; d < rank; ++d)
      if (convolves ? d != 0 : d + 2 >= rank && d != axis) {
        const std::optional<int64_t> factor = size(right[d]);
        products = factor && products && *factor <= kMostProducts
                       ? std::optional(*products * std::max<int64_t>(*factor, 1))
                       : std::nullopt;
        if (products && *products > kMostProducts)
          products.reset();
      }
    const int64_t largest =
        most(made_type(x->q).dtype, x->zero.valid()) * most(made_type(w->q).dtype, w->zero.valid());
    if (!products || *products > INT32_MAX / largest)
      return keep("a product stays in floats: its sums may not fit into 32 bits");

    begin(binding);
    std::vector<Attribute> attributes;
    if (convolves)
      for (const char *name : {"strides", "padding", "dilation"})
        attributes.push_back({name, ir::op_integers(of, source().attributes_of(binding), name)});
    if (convolves)
      attributes.push_back(
          {"groups", ir::op_integer(of, source().attributes_of(binding), "groups")});
    if (turned)
      attributes.push_back({"transpose_b", true});
    const ValueId factor = is_shared ? reshaped(w->q, {right[rank - 2], right[rank - 1]}) : w->q;
    const ValueId sums = op(convolves ? Op::conv_integer : Op::matmul_integer,
                            {x->q, factor, point(x->zero), point(w->zero)}, attributes);
    return scale(binding, *x, *w, sums, convolves);
  }

  /// A transposed convolution of strides s by w [C, O, k, ..] with j = ceil(k / s):
  ///
  ///   v [s .. O, C, j, ..]               tap j - 1 - a of phase r is w's tap r + s (j - 1 - a)
  ///   sums [N, s .. O, H + j - 1, ..]    of x and v, which is padded by j - 1
  ///   y [N, O, H', ..]                   phases between one another, without the padding
  bool spread(const Binding &binding) {
    constexpr Op of = Op::conv_transpose;
    const Known *x = known(source().operand_of(binding, 0)),
                *w = known(source().operand_of(binding, 1));
    if (!x || !w || !is_plain(binding))
      return false;
    const Dims image = made_type(x->q).dims, filter = made_type(w->q).dims,
               result = type_of(binding.result()).dims;
    const size_t rank = filter.size(), axes = rank - 2;
    const auto given = [&](const char *name, size_t count, int64_t otherwise) {
      std::vector<int64_t> list = ir::op_integers(of, source().attributes_of(binding), name);
      if (list.empty())
        list.assign(count, otherwise);
      return list;
    };
    const std::vector<int64_t> strides = given("strides", axes, 1),
                               padding = given("padding", 2 * axes, 0),
                               dilation = given("dilation", axes, 1),
                               more = given("output_padding", axes, 0);
    const std::optional<int64_t> channels = size(filter[0]), outs = size(filter[1]);
    const ir::Constant *zero = values_.constant(w->from.zero);
    const double beyond =
        zero ? double(ir::integer_at(made_type(w->q).dtype, zero->bytes.data())) : 0;
    if (device_.compute_capability < codegen::kTensorCoresSince || !channels || !outs ||
        !is_uniform(*x) || (w->zero.valid() && (!zero || !is_one(w->zero))) ||
        !is_along(w->scale, rank, 1) ||
        ir::op_integer(of, source().attributes_of(binding), "groups") != 1 ||
        std::ranges::any_of(dilation, [](int64_t by) { return by != 1; }))
      return keep("a transposed convolution stays in floats: there are no tensor cores for bytes, "
                  "or it has groups, dilation, or scales or zero points of other forms");
    std::vector<int64_t> taps, behind = {0, 0}, parts = {*channels, *outs}, reversed, phases;
    int64_t products = *channels, phase_count = 1;
    for (size_t d = 0; d < axes; ++d) {
      const std::optional<int64_t> k = size(filter[d + 2]);
      const int64_t s = strides[d], j = k ? (*k + s - 1) / s : 0;
      products = std::min<int64_t>(products, kMostProducts) * std::clamp<int64_t>(j, 1, 1 << 16);
      phase_count *= s;
      if (!k || *k < 1 || s > kMostStride || j > 1 << 16 ||
          *k + more[d] - padding[axes + d] > s * j)
        return keep("a transposed convolution stays in floats: its sizes are not known, or it has "
                    "results of no tap");
      taps.push_back(j);
      behind.push_back(s * j - *k);
      parts.insert(parts.end(), {j, s});
      reversed.push_back(int64_t(2 + 2 * d));
      phases.push_back(int64_t(3 + 2 * d));
    }
    const int64_t largest =
        most(made_type(x->q).dtype, x->zero.valid()) * most(made_type(w->q).dtype, w->zero.valid());
    if (products > INT32_MAX / largest)
      return keep("a product stays in floats: its sums may not fit into 32 bits");

    begin(binding);
    ValueId v = w->q;
    if (std::ranges::any_of(behind, [](int64_t zeros) { return zeros > 0; }))
      v = op(Op::pad, {v}, // a tap less the zero point is 0 there
             {{"before", std::vector<int64_t>(rank, 0)}, {"after", behind}, {"value", beyond}});
    v = op(Op::reshape, {v}, {{"shape", parts}});
    v = op(Op::slice, {v},
           {{"starts", std::vector<int64_t>(axes, -1)},
            {"ends", std::vector<int64_t>(axes, INT64_MIN)},
            {"axes", reversed},
            {"steps", std::vector<int64_t>(axes, -1)}});
    std::vector<int64_t> order = phases, turned = {phase_count * *outs, *channels};
    order.insert(order.end(), {1, 0});
    order.insert(order.end(), reversed.begin(), reversed.end());
    turned.insert(turned.end(), taps.begin(), taps.end());
    v = op(Op::transpose, {v}, {{"axes", order}});
    v = op(Op::reshape, {v}, {{"shape", turned}});
    std::vector<int64_t> around;
    for (int side = 0; side < 2; ++side)
      for (int64_t j : taps)
        around.push_back(j - 1);
    ValueId y =
        op(Op::conv_integer, {x->q, v, point(x->zero), point(w->zero)}, {{"padding", around}});
    if (!status_.ok())
      return false;
    ir::ExprPool &exprs = module().exprs;
    Dims apart = {image[0]}, joined = {image[0], filter[1]}, first(rank, exprs.constant(0));
    std::vector<int64_t> between = {0, int64_t(1 + axes)};
    for (int64_t s : strides)
      apart.push_back(exprs.constant(s));
    apart.push_back(filter[1]);
    for (size_t d = 0; d < axes; ++d) {
      const ExprId places = made_type(y).dims[d + 2];
      apart.push_back(places);
      between.insert(between.end(), {int64_t(2 + axes + d), int64_t(1 + d)});
      joined.push_back(exprs.mul(places, exprs.constant(strides[d])));
      first[d + 2] = exprs.constant(padding[d]);
    }
    y = reshaped(op(Op::transpose, {reshaped(y, apart)}, {{"axes", between}}), joined);
    y = op(Op::slice, {y, shape(first), shape(result)}, {});
    return scale(binding, *x, *w, y, true);
  }

  /// Sums as the numbers that they stand for, with the bias, in the place of the binding's result.
  bool scale(const Binding &binding, const Known &x, const Known &w, ValueId sums, bool convolves) {
    const size_t rank = type_of(binding.result()).dims.size();
    // Behind it, a channel's numbers lie along dimension 1 of images, the last one of rows.
    const auto of_result = [&](ValueId value, ExprId channels) {
      Dims dims(convolves ? rank : 1, module().exprs.constant(1));
      dims[convolves ? 1 : 0] = channels;
      return value.valid() && status_.ok() && !is_one(value) ? reshaped(value, dims) : value;
    };
    const ExprId channels =
        type_of(binding.result()).dims[convolves ? 1 : type_of(binding.result()).dims.size() - 1];
    const ValueId one = status_.ok() ? reshaped(x.scale, {}) : ValueId();
    ValueId y = op(
        Op::mul,
        {cast(sums, DType::f32),
         op(Op::mul, {cast(of_result(w.scale, channels), DType::f32), cast(one, DType::f32)}, {})},
        {});
    if (const ValueId bias = source().operand_of(binding, 2); bias.valid() && status_.ok())
      y = op(Op::add, {y, cast(of_result(mapped(bias), channels), DType::f32)}, {});
    y = cast(y, type_of(binding.result()).dtype);
    if (!status_.ok())
      return false;
    map(binding.result(), y);
    ++products_;
    return true;
  }

  static constexpr int64_t kMostProducts = INT32_MAX; // so that they can be counted
  static constexpr int64_t kMostStride = 64;

  const codegen::Target device_;
  QuantizedValues values_;
  std::unordered_map<uint32_t, Known> known_; // by value of the source, of the block
  std::vector<uint32_t> blocks_;              // that are open
  std::map<std::string, size_t> kept_;
  size_t products_ = 0;
};

} // namespace

Result<ir::Module> to_integer_products(const ir::Module &module, const PassContext &context) {
  codegen::Target device;
  device.compute_capability = context.number("target.compute_capability");
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    IntegerProducts products(module, function, target, device);
    CUGRT_TRY(products.add_function());
    if (products.products() > 0)
      context.note("@" + function.name + ": " + std::to_string(products.products()) +
                   " products of bytes");
    for (const auto &[text, times] : products.kept())
      context.note("@" + function.name, text, times);
  }
  return target;
}

} // namespace cugrt::passes
