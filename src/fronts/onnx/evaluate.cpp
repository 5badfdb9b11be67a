// Ops on the host: constants fold, arithmetic over dimensions becomes expressions, nothing is
// emitted. Results are as on the device: floats rounded to their dtype after each op, integers
// wrapped.
#include "base/type/element.h"
#include "fronts/onnx/call.h"
#include "fronts/onnx/host_ops.h"

#include <algorithm>
#include <limits>

namespace cugrt::onnx {

namespace {

using host::kMostElements;
using Kind = ir::ExprKind;

bool too_many(const Ints &dims) {
  const auto count = element_count(dims);
  return !count || *count > kMostElements;
}

int64_t wrap(DType dtype, int64_t value) {
  std::string bytes;
  ir::append_integer(dtype, value, bytes);
  return ir::integer_at(dtype, bytes.data());
}

class Evaluation {
public:
  explicit Evaluation(Call &call) : c_(call) {}
  bool run();

private:
  bool binary();
  bool unary();
  bool cast();
  bool where();
  bool shape_of();
  bool constant_of_shape();
  bool range();
  bool move(); // what only chooses elements
  bool reduce();
  E integer(Kind kind, E a, E b) { return c_.w.exprs().make(kind, a, b); }
  std::optional<E> integer_op(std::string_view op, E a, E b);
  std::optional<double> real_op(std::string_view op, double a, double b);
  double rounded(DType dtype, double value) const {
    std::string bytes;
    ir::append_float(dtype, value, bytes);
    return ir::float_at(dtype, bytes.data());
  }

  Call &c_;
  std::vector<const Host *> in_; // null: absent
};

std::optional<E> Evaluation::integer_op(std::string_view op, E a, E b) {
  ir::ExprPool &exprs = c_.w.exprs();
  const auto x = exprs.as_constant(a), y = exprs.as_constant(b);
  const DType dtype = in_[0]->dtype;
  int64_t number = 0;
  if (op == "Add")
    return x && y ? (__builtin_add_overflow(*x, *y, &number), exprs.constant(number))
                  : exprs.add(a, b);
  if (op == "Sub")
    return x && y ? (__builtin_sub_overflow(*x, *y, &number), exprs.constant(number))
                  : exprs.sub(a, b);
  if (op == "Mul")
    return x && y ? (__builtin_mul_overflow(*x, *y, &number), exprs.constant(number))
                  : exprs.mul(a, b);
  if (op == "Div") {
    if (dtype == DType::u64 || (y && *y == 0) || (x && y && *y == -1))
      return std::nullopt;
    if (x && y)
      return exprs.constant(*x / *y);
    if (c_.w.range(b).lower <= 0)
      return std::nullopt;
    if (c_.w.range(a).lower >= 0)
      return exprs.floordiv(a, b); // of what is not negative, truncation is the floor
    return exprs.make(Kind::select, integer(Kind::lt, a, exprs.constant(0)), exprs.ceildiv(a, b),
                      exprs.floordiv(a, b));
  }
  if (op == "Mod" && !c_.integer("fmod", 0) && dtype != DType::u64)
    return (y && *y != 0) ? std::optional(integer(Kind::mod, a, b)) : std::nullopt;
  if (dtype == DType::u64)
    return std::nullopt;
  const ir::Interval of_a = c_.w.range(a), of_b = c_.w.range(b);
  const bool below = of_a.upper < of_b.lower;
  const bool above = of_a.lower > of_b.upper;
  if (op == "Equal" && (below || above))
    return exprs.constant(0);
  if ((op == "Less" || op == "LessOrEqual") && (below || above))
    return exprs.constant(below);
  if ((op == "Greater" || op == "GreaterOrEqual") && (below || above))
    return exprs.constant(above);
  if (op == "Min")
    return exprs.min(a, b);
  if (op == "Max")
    return exprs.max(a, b);
  if (op == "Equal")
    return integer(Kind::eq, a, b);
  if (op == "Less")
    return integer(Kind::lt, a, b);
  if (op == "LessOrEqual")
    return integer(Kind::le, a, b);
  if (op == "Greater")
    return integer(Kind::lt, b, a);
  if (op == "GreaterOrEqual")
    return integer(Kind::le, b, a);
  if (op == "And")
    return exprs.mul(a, b);
  if (op == "Or")
    return exprs.max(a, b);
  if (op == "Xor")
    return integer(Kind::ne, a, b);
  return std::nullopt;
}

std::optional<double> Evaluation::real_op(std::string_view op, double a, double b) {
  if (op == "Add")
    return a + b;
  if (op == "Sub")
    return a - b;
  if (op == "Mul")
    return a * b;
  if (op == "Div")
    return a / b;
  if (op == "Pow")
    return std::pow(a, b);
  if (std::isnan(a) || std::isnan(b))
    return std::nullopt;
  if (op == "Min")
    return std::min(a, b);
  if (op == "Max")
    return std::max(a, b);
  if (op == "Equal")
    return a == b;
  if (op == "Less")
    return a < b;
  if (op == "LessOrEqual")
    return a <= b;
  if (op == "Greater")
    return a > b;
  if (op == "GreaterOrEqual")
    return a >= b;
  return std::nullopt;
}

bool Evaluation::binary() {
  const Host &a = *in_[0], &b = *in_[1];
  if (a.dtype != b.dtype)
    return false;
  const auto dims = host::broadcast(a.dims, b.dims);
  if (!dims || too_many(*dims))
    return false;
  const std::string_view op = c_.node.op;
  const bool compares = op == "Equal" || op == "Less" || op == "Greater" || op == "LessOrEqual" ||
                        op == "GreaterOrEqual";
  Host out{compares ? DType::boolean : a.dtype, *dims, {}, {}};
  const std::vector<size_t> from_a = host::stretched(a.dims, *dims),
                            from_b = host::stretched(b.dims, *dims);
  for (size_t i = 0; i < from_a.size(); ++i)
    if (is_real(a.dtype)) {
      const auto value = real_op(op, a.reals[from_a[i]], b.reals[from_b[i]]);
      if (!value)
        return false;
      if (compares)
        out.ints.push_back(c_.constant(*value != 0));
      else
        out.reals.push_back(rounded(a.dtype, *value));
    } else {
      auto value = integer_op(op, a.ints[from_a[i]], b.ints[from_b[i]]);
      if (!value)
        return false;
      if (const auto number = c_.known(*value); number && !compares)
        value = c_.constant(wrap(a.dtype, *number));
      out.ints.push_back(*value);
    }
  c_.result(std::move(out));
  return true;
}

bool Evaluation::unary() {
  const std::string_view op = c_.node.op;
  Host out = *in_[0];
  for (E &e : out.ints) {
    const E zero = c_.constant(0);
    if (op == "Neg")
      e = c_.w.exprs().sub(zero, e);
    else if (op == "Not")
      e = integer(Kind::eq, e, zero);
    else if (op == "Abs")
      e = c_.w.exprs().max(e, c_.w.exprs().sub(zero, e));
    else
      return false;
    if (const auto number = c_.known(e))
      e = c_.constant(wrap(out.dtype, *number));
  }
  for (double &x : out.reals) {
    if (op == "Neg")
      x = -x;
    else if (op == "Abs")
      x = std::fabs(x);
    else if (op == "Sqrt")
      x = rounded(out.dtype, std::sqrt(x));
    else if (op == "Floor")
      x = std::floor(x);
    else if (op == "Ceil")
      x = std::ceil(x);
    else if (op == "Round")
      x = std::nearbyint(x);
    else if (op == "Reciprocal")
      x = rounded(out.dtype, 1 / x);
    else if (op == "Exp")
      x = rounded(out.dtype, std::exp(x));
    else if (op == "Log")
      x = rounded(out.dtype, std::log(x));
    else
      return false;
  }
  c_.result(std::move(out));
  return true;
}

bool Evaluation::cast() {
  if (c_.node.op == "CastLike" && c_.entry(1)->narrow != Narrow::none)
    return false;
  const std::optional<DType> wanted = c_.node.op == "CastLike"
                                          ? std::optional(in_[1]->dtype)
                                          : dtype_of(static_cast<int32_t>(c_.integer("to", 0)));
  if (!wanted || !host::has_elements(*wanted))
    return false;
  const Host &x = *in_[0];
  const DType to = *wanted;
  ignore_rounding(c_, to);
  Host out{to, x.dims, {}, {}};
  for (E e : x.ints) {
    const auto number = c_.known(e);
    if (is_real(to)) {
      if (!number || x.dtype == DType::u64)
        return false;
      out.reals.push_back(rounded(to, static_cast<double>(*number)));
    } else if (to == DType::boolean) {
      out.ints.push_back(integer(Kind::ne, e, c_.constant(0)));
    } else if (const ir::Interval range = c_.w.range(e);
               !number && to != DType::i64 && to != DType::i32 &&
               !(ir::integer_fits(to, range.lower) && ir::integer_fits(to, range.upper))) {
      return false; // it would be cut
    } else {
      out.ints.push_back(number ? c_.constant(wrap(to, *number)) : e);
    }
  }
  for (double value : x.reals)
    if (is_real(to))
      out.reals.push_back(rounded(to, value));
    else if (!(std::fabs(value) < 9e15) ||
             (to != DType::i64 && to != DType::i32 && to != DType::boolean))
      return false;
    else
      out.ints.push_back(
          c_.constant(to == DType::boolean ? value != 0 : wrap(to, static_cast<int64_t>(value))));
  c_.result(std::move(out));
  return true;
}

bool Evaluation::where() {
  const Host &condition = *in_[0], &a = *in_[1], &b = *in_[2];
  const auto both = host::broadcast(a.dims, b.dims);
  const auto dims = both ? host::broadcast(condition.dims, *both) : std::nullopt;
  if (!dims || too_many(*dims) || a.dtype != b.dtype)
    return false;
  const auto from_c = host::stretched(condition.dims, *dims),
             from_a = host::stretched(a.dims, *dims), from_b = host::stretched(b.dims, *dims);
  Host out{a.dtype, *dims, {}, {}};
  for (size_t i = 0; i < from_c.size(); ++i) {
    const E choice = condition.ints[from_c[i]];
    const auto number = c_.known(choice);
    if (!is_real(a.dtype))
      out.ints.push_back(
          number ? (*number ? a.ints[from_a[i]] : b.ints[from_b[i]])
                 : c_.w.exprs().make(Kind::select, choice, a.ints[from_a[i]], b.ints[from_b[i]]));
    else if (number)
      out.reals.push_back(*number ? a.reals[from_a[i]] : b.reals[from_b[i]]);
    else
      return false;
  }
  c_.result(std::move(out));
  return true;
}

bool Evaluation::shape_of() {
  const EntryPtr x = c_.entry(0);
  if (!x)
    return false;
  Dims dims;
  if (x->device.valid())
    dims = c_.dims(x->device);
  else
    for (int64_t dim : x->host        ? x->host->dims
                       : x->constant  ? x->constant->dims
                       : x->fractions ? x->fractions->above.dims
                                      : Ints())
      dims.push_back(c_.constant(dim));
  Host out;
  if (c_.node.op == "Size") {
    out.ints = {c_.product(dims)};
  } else {
    const auto rank = static_cast<int64_t>(dims.size());
    auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t(0), rank); };
    const int64_t begin = clamp(c_.integer("start", 0)), end = clamp(c_.integer("end", rank));
    if (begin < end)
      out.ints.assign(dims.begin() + begin, dims.begin() + end);
    out.dims = {static_cast<int64_t>(out.ints.size())};
  }
  c_.result(std::move(out));
  return true;
}

bool Evaluation::constant_of_shape() {
  Ints dims;
  for (E e : in_[0]->ints) {
    const auto number = c_.known(e);
    if (!number)
      return false;
    dims.push_back(*number);
  }
  const auto count = element_count(dims);
  if (!count || *count > kMostElements)
    return false;
  Host out{DType::f32, dims, {}, {}};
  E integer = c_.constant(0);
  double real = 0;
  if (const AttributeView *value = c_.attribute("value"); value && value->tensor) {
    auto loaded = c_.w.load(*value->tensor);
    if (!loaded.ok() || loaded->bytes.empty() || loaded->narrow != Narrow::none)
      return false;
    out.dtype = loaded->dtype;
    if (is_real(out.dtype))
      real = ir::float_at(out.dtype, loaded->bytes.data());
    else
      integer = c_.constant(ir::integer_at(out.dtype, loaded->bytes.data()));
  }
  if (is_real(out.dtype))
    out.reals.assign(size_t(*count), real);
  else
    out.ints.assign(size_t(*count), integer);
  c_.result(std::move(out));
  return true;
}

bool Evaluation::range() {
  const Host &start = *in_[0];
  if (in_[1]->dtype != start.dtype || in_[2]->dtype != start.dtype ||
      stash_type_of_range(c_, start.dtype) != 1)
    return false;
  Host out{start.dtype, {0}, {}, {}};
  if (is_real(start.dtype)) {
    const double count = std::ceil((in_[1]->reals.at(0) - start.reals.at(0)) / in_[2]->reals.at(0));
    if (!(count <= double(kMostElements)))
      return false;
    for (double i = 0; i < count; ++i)
      out.reals.push_back(rounded(start.dtype, start.reals[0] + i * in_[2]->reals[0]));
  } else {
    const auto first = c_.known(start.ints.at(0)), limit = c_.known(in_[1]->ints.at(0)),
               step = c_.known(in_[2]->ints.at(0));
    if (!first || !limit || !step || *step == 0 ||
        std::fabs(double(*limit) - double(*first)) / std::fabs(double(*step)) > kMostElements)
      return false;
    int64_t i = *first;
    bool more = true;
    while (more && (*step > 0 ? i < *limit : i > *limit)) {
      out.ints.push_back(c_.constant(i));
      more = !__builtin_add_overflow(i, *step, &i);
    }
  }
  out.dims = {static_cast<int64_t>(out.size())};
  c_.result(std::move(out));
  return true;
}

bool Evaluation::reduce() {
  const std::string_view op = c_.node.op;
  const Host &x = *in_[0];
  if (is_real(x.dtype) || x.dims.size() > 1 || x.ints.empty())
    return false;
  const Ints axes = c_.attribute("axes")       ? c_.integers("axes", {})
                    : in_.size() > 1 && in_[1] ? c_.constants(1)
                                               : Ints();
  const bool keep = c_.integer("keepdims", 1) != 0;
  if (const bool noop = c_.integer("noop_with_empty_axes", 0) != 0; noop && axes.empty()) {
    c_.result(x);
    return true;
  }
  for (int64_t axis : axes)
    c_.axis(axis, x.dims.size());
  const std::string_view combine = op == "ReduceProd"  ? "Mul"
                                   : op == "ReduceSum" ? "Add"
                                   : op == "ReduceMax" ? "Max"
                                                       : "Min";
  E all = x.ints[0];
  for (size_t i = 1; i < x.ints.size(); ++i) {
    const auto next = integer_op(combine, all, x.ints[i]);
    if (!next)
      return false;
    const auto number = c_.known(*next);
    all = number ? c_.constant(wrap(x.dtype, *number)) : *next;
  }
  Host out{x.dtype, {}, {all}, {}};
  if (keep)
    out.dims.assign(x.dims.size(), 1);
  c_.result(std::move(out));
  return true;
}

bool Evaluation::move() {
  auto moved = host::moved(c_, in_);
  if (!moved)
    return false;
  for (size_t i = 0; i < moved->size(); ++i)
    c_.result(std::move((*moved)[i]), i);
  return true;
}

bool Evaluation::run() {
  if (!c_.node.domain.empty())
    return false;
  if (c_.node.op == "Shape" || c_.node.op == "Size")
    return shape_of();
  const std::optional<host::Fold> fold = host::foldable(c_, in_);
  if (!fold)
    return false;
  switch (*fold) {
  case host::Fold::unary:
    return unary();
  case host::Fold::binary:
    return binary();
  case host::Fold::cast:
    return cast();
  case host::Fold::where:
    return where();
  case host::Fold::constant_of_shape:
    return constant_of_shape();
  case host::Fold::range:
    return range();
  case host::Fold::reduce:
    return reduce();
  case host::Fold::move:
    return move();
  }
  return false;
}

} // namespace

bool evaluate(Call &call) { return Evaluation(call).run() || evaluate_fractions(call); }

} // namespace cugrt::onnx
