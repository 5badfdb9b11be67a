// What each op does with padding: products, reductions, attention and elementwise ops, and what the
// rules of all ops share. See padding_effects.h.
#include "compiler/passes/padding_walk.h"

#include <algorithm>

namespace cugrt::passes {

bool PaddingOperand::is_number() const {
  return std::all_of(facts.dims.begin(), facts.dims.end(),
                     [](const Dim &dim) { return passes::is_number(dim.fill); });
}

Fill either(Fill a, Fill b) {
  return a == b ? a : is_number(a) && is_number(b) ? Fill::finite : Fill::any;
}

OpPadding::OpPadding(ModulePadding &all, Op op, std::span<const ir::Attribute> attributes,
                     std::vector<PaddingOperand> operands, std::vector<std::vector<ExprId>> results)
    : all_(all), op_(op), attributes_(attributes), operands_(std::move(operands)) {
  for (const PaddingOperand &operand : operands_)
    covered_.emplace_back(operand.dims.size());
  for (std::vector<ExprId> &dims : results) {
    sources_.emplace_back(dims.size());
    results_.push_back(all_.plain(std::move(dims)));
    for (const PaddingOperand &operand : operands_)
      if (!passes::is_number(operand.facts.all))
        results_.back().all = Fill::any;
  }
}

Result<std::vector<Facts>> OpPadding::run() {
  switch (op_) {
#define rule(family) family()
#define CUGRT_OP(name, operands, results, RULE, ...)                                               \
  case Op::name:                                                                                   \
    CUGRT_TRY(RULE);                                                                               \
    break;
#include "ops/table/ops.def"
#undef CUGRT_OP
#undef rule
  }
  for (size_t i = 0; i < operands_.size(); ++i)
    for (size_t d = 0; d < rank(i); ++d)
      if (is_padded(i, d) && !covered_[i][d] && !ir::is_shape_operand(op_, i))
        return refuse(i, d, "depends on");
  for (Facts &facts : results_)
    for (Dim &dim : facts.dims)
      if (dim.parts.size() == 1 && !all_.is_padded(dim.parts[0]))
        dim.fill = Fill::zero; // nothing is added
  return results_;
}

Status OpPadding::refuse(size_t operand, size_t dim, const char *how, bool may_choose) const {
  const std::string choose =
      may_choose ? "say what added elements are by where, with a condition that is false there, or "
                 : "";
  return Status::error(Code::unsupported,
                       std::string(how) + " what is added to %" + operands_[operand].name +
                           " for the buckets of symbol " +
                           all_.names_of(std::span(&operands_[operand].dims[dim], 1)) +
                           ", and its results would depend on the bucket; " + choose +
                           "take the buckets away, or this op out of the function");
}

Status OpPadding::take(size_t operand, size_t dim, Fill harmless) {
  if (!is_padded(operand, dim))
    return {};
  const Fill fill = operands_[operand].facts.dims[dim].fill;
  if (harmless == Fill::any || fill != harmless)
    return refuse(operand, dim, "runs along", harmless != Fill::any);
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::carry(size_t operand, size_t dim, size_t to, size_t result) {
  if (!is_padded(operand, dim))
    return {};
  const Dim &from = operands_[operand].facts.dims[dim];
  auto &sources = sources_[result][to];
  Dim &target = results_[result].dims[to];
  if (!sources.empty() && target.parts != from.parts)
    return refuse(operand, dim, "would mix with others");
  sources.emplace_back(operand, dim);
  target.parts = from.parts;
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::follow(size_t operand, size_t dim, size_t to, size_t result) {
  if (!is_padded(operand, dim))
    return {};
  if (operands_[operand].facts.dims[dim].parts.size() > 1)
    return refuse(operand, dim, "runs along");
  sources_[result][to].emplace_back(operand, dim);
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::align(size_t operand, size_t without) {
  const size_t behind = results_[0].dims.size() - rank(operand);
  for (size_t d = 0; d + without < rank(operand); ++d)
    CUGRT_TRY(carry(operand, d, behind + d));
  return {};
}

Fill OpPadding::fill(size_t i, size_t to, size_t result) const {
  for (auto [operand, dim] : sources_[result][to])
    if (operand == i)
      return operands_[i].facts.dims[dim].fill;
  return operands_[i].is_number() ? operands_[i].facts.all : Fill::any;
}

/// Of sums of products of all operands' elements: 0 where one of them is 0 and the rest are
/// numbers.
Fill OpPadding::linear(size_t to) const {
  bool zero = false, number = true;
  for (size_t i = 0; i < operands_.size(); ++i)
    if (has(i)) {
      const Fill one = fill(i, to);
      zero = zero || one == Fill::zero;
      number = number && passes::is_number(one);
    }
  return !number ? Fill::any : zero ? Fill::zero : Fill::finite;
}

/// Of what keeps zeros, and makes numbers of numbers.
Fill OpPadding::like_first(size_t to) const {
  const Fill first = fill(0, to);
  return first == Fill::zero ? first : passes::is_number(first) ? Fill::finite : Fill::any;
}

// --- Elementwise ops -----------------------------------------------------------------------------

Fill OpPadding::elementwise_fill(size_t to) const {
  std::vector<Fill> all;
  for (size_t i = 0; i < operands_.size(); ++i)
    all.push_back(fill(i, to));
  auto any = [&](Fill wanted) { return std::find(all.begin(), all.end(), wanted) != all.end(); };
  auto zeros = std::count(all.begin(), all.end(), Fill::zero);
  const bool every = zeros == static_cast<ptrdiff_t>(all.size());
  const bool numbers = std::all_of(all.begin(), all.end(), passes::is_number);
  const Fill number = any(Fill::place) ? Fill::place : numbers ? Fill::finite : Fill::any;
  const bool both_infinite = any(Fill::lowest) && any(Fill::highest);
  switch (ir::op_info(op_).zeros) {
  case ir::OpZeros::zero_stays:
    return every ? Fill::zero : number;
  case ir::OpZeros::zero_only:
    return every ? Fill::zero : any(Fill::place) ? Fill::place : Fill::any;
  case ir::OpZeros::finite_stays:
    return number;
  case ir::OpZeros::unbounded:
  case ir::OpZeros::by_family:
    return any(Fill::place) ? Fill::place : Fill::any;
  case ir::OpZeros::tests:
    return any(Fill::place) ? Fill::place : Fill::finite;
  case ir::OpZeros::unequal:
    return every ? Fill::zero : any(Fill::place) ? Fill::place : Fill::finite;
  case ir::OpZeros::clips:
    return every && ir::op_float(op_, attributes_, "min") <= 0 &&
                   ir::op_float(op_, attributes_, "max") >= 0
               ? Fill::zero
               : number;
  case ir::OpZeros::sums:
    for (Fill infinite : {Fill::lowest, Fill::highest})
      if (any(infinite) && !both_infinite && !any(Fill::any))
        return infinite;
    return every ? Fill::zero : number;
  case ir::OpZeros::all_zero:
    return every ? Fill::zero : number;
  case ir::OpZeros::any_zero:
    return zeros && numbers ? Fill::zero : number;
  case ir::OpZeros::first_zero:
    return all[0] == Fill::zero ? Fill::zero : number;
  case ir::OpZeros::chooses:
    if (all[0] == Fill::zero) // false: the last operand's
      return all[2];
    for (Fill hides : {Fill::lowest, Fill::highest})
      if (all[0] == Fill::place && (all[1] == hides || all[2] == hides))
        return hides; // the author hides what is there by its position
    return either(all[1], all[2]);
  case ir::OpZeros::casts:
    return all[0] == Fill::one ? Fill::finite
           : (all[0] == Fill::lowest || all[0] == Fill::highest) &&
                   ir::info(ir::op_dtype(op_, attributes_, "dtype")).kind != ir::DTypeKind::floating
               ? Fill::any
               : all[0];
  }
  return Fill::any;
}

Status OpPadding::elementwise() {
  for (size_t i = 0; i < operands_.size(); ++i)
    CUGRT_TRY(align(i));
  fills([&](size_t d, size_t) { return elementwise_fill(d); });
  return {};
}

Status OpPadding::unary() { return elementwise(); }
Status OpPadding::unary_number() { return elementwise(); }
Status OpPadding::test() { return elementwise(); }
Status OpPadding::logical_not() { return elementwise(); }
Status OpPadding::bitwise_not() { return elementwise(); }
Status OpPadding::binary() { return elementwise(); }
Status OpPadding::binary_float() { return elementwise(); }
Status OpPadding::compare() { return elementwise(); }
Status OpPadding::logical() { return elementwise(); }
Status OpPadding::bitwise() { return elementwise(); }
Status OpPadding::where() { return elementwise(); }
Status OpPadding::cast() { return elementwise(); }

// --- Products ------------------------------------------------------------------------------------

Status OpPadding::matmul() {
  const bool transposed = op_ == Op::matmul && flag("transpose_b");
  const size_t last = results_[0].dims.size() - 1, a = rank(0), b = rank(1);
  const size_t contracted = transposed ? b - 1 : b - 2, columns = transposed ? b - 2 : b - 1;
  const Fill harmless = op_ == Op::matmul_integer && (has(2) || has(3)) ? Fill::any : Fill::zero;
  CUGRT_TRY(take(0, a - 1, harmless));
  CUGRT_TRY(take(1, contracted, harmless));
  if (is_padded(0, a - 1) &&
      operands_[0].facts.dims[a - 1].parts != operands_[1].facts.dims[contracted].parts)
    return refuse(0, a - 1, "would mix with others");
  CUGRT_TRY(align(0, 1));
  for (size_t d = 0; d + 2 < b; ++d)
    CUGRT_TRY(carry(1, d, last + 1 - b + d));
  CUGRT_TRY(carry(1, columns, last));
  if (op_ == Op::matmul) {
    CUGRT_TRY(carry(2, 0, last));
  } else {
    CUGRT_TRY(carry(2, 0, last - 1));
    CUGRT_TRY(carry(3, 0, last));
  }
  fills([&](size_t d, size_t) {
    const Fill product = linear(d);
    return product == Fill::zero && (has(2) || has(3)) ? Fill::finite : product;
  });
  return {};
}

Status OpPadding::matmul_integer() { return matmul(); }

Status OpPadding::matmul_blocks() {
  CUGRT_TRY(align(0, 1));
  fills([&](size_t d, size_t) { return has(2) ? Fill::any : like_first(d); });
  return {};
}

Status OpPadding::repack_blocks() { return {}; }

/// x is [N, C, ..], or with channels last [N, .., C]; dimension 0 or 1 of w gives the result's
/// channels, w_contracted is summed with C. A window of one element leaves each position to itself.
Status OpPadding::convolution(Fill harmless, size_t w_channels, size_t w_contracted) {
  const bool grouped = integer("groups") != 1;
  const bool last = op_ == Op::conv2d && flag("channels_last");
  const size_t channels = last ? rank(0) - 1 : 1, first = last ? 1 : 2; // first: that windows span
  auto is_spanned = [&](size_t d) { return d >= first && d < first + rank(0) - 2; };
  CUGRT_TRY(carry(0, 0, 0));
  CUGRT_TRY(take(0, channels, grouped ? Fill::any : harmless));
  CUGRT_TRY(take(1, w_contracted, grouped ? Fill::any : harmless));
  if (is_padded(0, channels) &&
      operands_[0].facts.dims[channels].parts != operands_[1].facts.dims[w_contracted].parts)
    return refuse(0, channels, "would mix with others");
  CUGRT_TRY(grouped ? take(1, w_channels, Fill::any) : carry(1, w_channels, channels));
  std::vector<bool> alone(rank(0));
  for (size_t d = first; is_spanned(d); ++d) {
    alone[d] = op_ != Op::conv_transpose && op_ != Op::conv_integer &&
               all_.exprs.as_constant(operands_[1].dims[d]) == 1;
    if (!alone[d])
      CUGRT_TRY(take(0, d, harmless));
    CUGRT_TRY(follow(0, d, d));
  }
  const bool has_bias = op_ != Op::conv_integer && has(2);
  if (has_bias)
    CUGRT_TRY(carry(2, 0, channels));
  else
    CUGRT_TRY(carry(3, 0, channels));
  const bool numbers = operands_[0].is_number() && operands_[1].is_number();
  fills([&](size_t d, size_t) {
    if (is_spanned(d) && !alone[d]) // windows there reach back over what is there
      return numbers && !has(2) ? Fill::finite : Fill::any;
    return has(2) || has(3) ? Fill::any : linear(d);
  });
  return {};
}

Status OpPadding::conv1d() { return convolution(Fill::zero, 0, 1); }
Status OpPadding::conv2d() { return convolution(Fill::zero, 0, flag("channels_last") ? 3 : 1); }
Status OpPadding::conv3d() { return convolution(Fill::zero, 0, 1); }
Status OpPadding::conv_transpose() { return convolution(Fill::zero, 1, 0); }
Status OpPadding::conv_integer() { return convolution(Fill::any, 0, 1); }

Status OpPadding::pool2d() {
  const std::vector<int64_t> kernel = list("kernel");
  const bool is_max = op_ == Op::max_pool2d;
  const Fill harmless = is_max                                            ? Fill::lowest
                        : flag("count_include_pad") && !flag("ceil_mode") ? Fill::zero
                                                                          : Fill::any;
  const size_t first = flag("channels_last") ? 1 : 2; // that windows span
  auto is_spanned = [&](size_t d) { return d == first || d == first + 1; };
  auto is_windowed = [&](size_t d) { return is_spanned(d) && kernel[d - first] != 1; };
  for (size_t d = 0; d < 4; ++d) {
    if (is_windowed(d))
      CUGRT_TRY(take(0, d, harmless));
    CUGRT_TRY(is_spanned(d) ? follow(0, d, d) : carry(0, d, d));
  }
  fills([&](size_t d, size_t) { return is_windowed(d) ? Fill::any : like_first(d); });
  return {};
}

// --- Along an axis -------------------------------------------------------------------------------

Status OpPadding::softmax() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, Fill::lowest));
  CUGRT_TRY(align(0));
  fills([&](size_t d, size_t) {
    return passes::is_number(fill(0, d)) || (d == along && op_ == Op::softmax) ? Fill::finite
                                                                               : Fill::any;
  });
  return {};
}

Status OpPadding::norm() {
  CUGRT_TRY(take(0, rank(0) - 1, Fill::any));
  CUGRT_TRY(align(0));
  const bool defined = ir::op_float(op_, attributes_, "epsilon") > 0; // of rows of equal numbers
  fills([&](size_t d, size_t) {
    const Fill same = defined ? like_first(d) : Fill::any;
    return same == Fill::zero && has(2) ? Fill::finite : same;
  });
  return {};
}

Status OpPadding::reduce() {
  std::vector<bool> along(rank(0), list("axes").empty());
  for (int64_t number : list("axes"))
    along[axis(number)] = true;
  const Fill harmless = op_ == Op::reduce_sum    ? Fill::zero
                        : op_ == Op::reduce_max  ? Fill::lowest
                        : op_ == Op::reduce_min  ? Fill::highest
                        : op_ == Op::reduce_prod ? Fill::one
                                                 : Fill::any;
  bool some = op_ == Op::reduce_sum; // else what is over nothing is no 0
  for (size_t d = 0, to = 0; d < rank(0); ++d) {
    if (!along[d]) {
      CUGRT_TRY(carry(0, d, to++));
      continue;
    }
    CUGRT_TRY(take(0, d, harmless));
    some = some || all_.exprs.as_constant(operands_[0].dims[d]).value_or(0) > 0;
    to += flag("keep_dims");
  }
  fills([&](size_t d, size_t) { return some ? like_first(d) : Fill::any; });
  return {};
}

Status OpPadding::argmax() {
  const size_t along = axis();
  // Of equal elements the first one wins, and is no added one.
  const Fill harmless = flag("last") ? Fill::any : op_ == Op::argmax ? Fill::lowest : Fill::highest;
  CUGRT_TRY(take(0, along, harmless));
  for (size_t d = 0, to = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, to++));
    else
      to += flag("keep_dims");
  fills([](size_t, size_t) { return Fill::finite; });
  return {};
}

Status OpPadding::top_k() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, flag("largest") ? Fill::lowest : Fill::highest));
  for (size_t result : {0, 1})
    for (size_t d = 0; d < rank(0); ++d)
      if (d != along)
        CUGRT_TRY(carry(0, d, d, result));
  fills([&](size_t d, size_t r) { return r == 1 ? Fill::finite : fill(0, d); });
  return {};
}

Status OpPadding::cumsum() {
  const size_t along = axis();
  if (flag("reverse")) // forwards, what is added comes last
    CUGRT_TRY(take(0, along, Fill::zero));
  CUGRT_TRY(follow(0, along, along));
  for (size_t d = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, d));
  fills([&](size_t d, size_t) {
    const Fill same = like_first(d);
    return d == along && !flag("reverse") && same == Fill::zero ? Fill::finite : same;
  });
  return {};
}

// --- Sequences -----------------------------------------------------------------------------------

/// Queries [B, Q, H, D] stand at the last positions, and see all of them but those that the mask,
/// or their own place, keeps from them. Lengths keep nothing: one beyond the end is limited to it,
/// which would be the bucket's, and causal queries count from there.
Status OpPadding::attention() {
  const bool places = has(5);
  const bool aligned = !has(3) && operands_[0].dims[1] == operands_[1].dims[1];
  const bool causal = flag("causal");
  for (size_t i : {0, 1, 2})
    if (has(i) && (i == 0 || !places))
      CUGRT_TRY(carry(i, 0, 0));
  CUGRT_TRY(carry(3, 0, 0));
  CUGRT_TRY(carry(5, 0, 0));
  if (causal && !aligned && is_padded(0, 1))
    return refuse(0, 1, "counts");
  if (causal && !aligned && is_padded(1, 1))
    return refuse(1, 1, "counts");
  CUGRT_TRY(follow(0, 1, 1));
  const size_t mask = rank(4);
  constexpr size_t kTo[] = {0, 2, 1}; // of the mask's [B, H, Q, P]
  for (size_t d = 0; d + 1 < mask; ++d)
    CUGRT_TRY(carry(4, d, kTo[d + 4 - mask]));
  const bool hidden = causal && aligned;
  for (size_t i : {1, 2}) {
    if (!is_padded(i, 1))
      continue;
    if (operands_[i].facts.dims[1].parts.size() > 1)
      return refuse(i, 1, "sees");
    if (!hidden && (mask == 0 || !is_padded(4, mask - 1)))
      return refuse(i, 1, "sees", true);
    if (!hidden && !passes::is_number(operands_[i].facts.dims[1].fill))
      return refuse(i, 1, "sees");
    covered_[i][1] = true;
  }
  if (mask && !hidden)
    CUGRT_TRY(take(4, mask - 1, Fill::lowest));
  if (mask && is_padded(4, mask - 1)) {
    if (operands_[4].facts.dims[mask - 1].parts.size() > 1)
      return refuse(4, mask - 1, "sees");
    covered_[4][mask - 1] = true;
  }
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

/// What is added would be written too.
Status OpPadding::cache_write() { return {}; }

Status OpPadding::rotary() {
  CUGRT_TRY(align(0, 1));
  for (size_t d = 0; d < rank(1); ++d)
    CUGRT_TRY(carry(1, d, d));
  fills([&](size_t d, size_t) {
    const bool numbers = operands_[1].is_number() && (!has(2) || operands_[2].is_number());
    return numbers ? like_first(d) : Fill::any;
  });
  return {};
}

/// Gates are [L, B, D, ..], states [D, B, H], lengths [B].
Status OpPadding::recurrent() {
  const size_t batch_of_first = 2;
  for (size_t r = 0; r < results_.size(); ++r) {
    const size_t to = r == 0 ? batch_of_first : 1;
    CUGRT_TRY(carry(0, 1, to, r));
    for (size_t i = 2; i < operands_.size(); ++i)
      if (rank(i) == 1 && has(0) && operands_[i].dims[0] == operands_[0].dims[1])
        CUGRT_TRY(carry(i, 0, to, r));
      else if (rank(i) == 3 && operands_[i].dims[1] == operands_[0].dims[1])
        CUGRT_TRY(carry(i, 1, to, r));
  }
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

} // namespace cugrt::passes
