// Broadcasting of dimensions of which only a run tells which are 1; see call.h.
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

using Kind = ir::ExprKind;

/// Steps into an expression that joins dimensions.
constexpr size_t kMostParts = 64;

bool may_be_one(Call &c, E e) {
  const ir::Interval range = c.w.range(e);
  return range.lower <= 1 && range.upper >= 1;
}

E is_one(Call &c, E e) { return c.w.exprs().make(Kind::eq, e, c.constant(1)); }

/// Whether `whole` is what broadcast_dim makes of `part` and others: part is 1 or whole then.
bool joins(Call &c, E whole, E part, size_t &left) {
  if (whole == part)
    return true;
  if (left == 0)
    return false;
  --left;
  const ir::ExprNode node = c.w.exprs()[whole];
  if (node.kind == Kind::max)
    return c.w.range(part).lower >= 1 &&
           (joins(c, node.a, part, left) || joins(c, node.b, part, left));
  if (node.kind == Kind::select && node.a == is_one(c, node.c))
    return joins(c, node.b, part, left) || joins(c, node.c, part, left);
  return false;
}

/// The one of both that is not 1, where they differ.
E broadcast_dim(Call &c, E a, E b) {
  if (a == b || c.known(b) == 1)
    return a;
  if (c.known(a) == 1)
    return b;
  size_t left = kMostParts;
  if (joins(c, a, b, left))
    return a;
  if (joins(c, b, a, left))
    return b;
  const bool of_a = may_be_one(c, a), of_b = may_be_one(c, b);
  if (!of_a && !of_b) // both are the same number then, or the run is refused
    return c.known(b) ? b : a;
  if (!of_a || !of_b)
    return of_a ? b : a;
  if (b.index < a.index) // one expression for both orders
    std::swap(a, b);
  if (c.w.range(a).lower >= 1 && c.w.range(b).lower >= 1)
    return c.w.exprs().max(a, b);
  return c.w.exprs().make(Kind::select, is_one(c, a), b, a);
}

} // namespace

Dims Call::broadcast_dims(const Dims &a, const Dims &b) {
  Dims out = a.size() < b.size() ? b : a;
  const size_t both = std::min(a.size(), b.size());
  for (size_t i = 1; i <= both; ++i)
    out[out.size() - i] = broadcast_dim(*this, a[a.size() - i], b[b.size() - i]);
  return out;
}

Dims Call::expanded_dims(const Dims &have, const Dims &wanted) {
  Dims out = have.size() < wanted.size() ? wanted : have;
  for (size_t i = 1; i <= std::min(have.size(), wanted.size()); ++i) {
    const E own = have[have.size() - i], to = wanted[wanted.size() - i];
    E &all = out[out.size() - i];
    all = known(own) == 1 || !may_be_one(*this, to)
              ? to
              : w.exprs().make(Kind::select, is_one(*this, to), own, to);
  }
  return out;
}

V Call::stretch(V x, const Dims &to) {
  Dims wanted = dims(x);
  std::vector<size_t> stretched;
  if (wanted.size() > to.size())
    w.fail(Code::parse_error, "an operand has more dimensions than what it is to stretch to");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const E have = wanted[i], all = to[to.size() - wanted.size() + i];
    if (have == all || known(have) == 1)
      continue;
    wanted[i] = all;
    if (known(all) == 1 || !may_be_one(*this, have))
      continue;
    wanted[i] = w.exprs().make(Kind::select, is_one(*this, have), constant(1), all);
    stretched.push_back(i);
  }
  x = w.match(x, wanted);
  for (size_t axis : stretched) { // positions beyond the last element take that one
    V places = counting(to[to.size() - wanted.size() + axis]);
    x = gather(x, places, axis);
  }
  return x;
}

void Call::spread(std::initializer_list<V *> operands) {
  Dims all;
  for (V *v : operands)
    all = broadcast_dims(all, dims(*v));
  for (V *v : operands)
    *v = stretch(*v, all);
}

V Call::broadcasting(Op which, V a, V b) {
  spread({&a, &b});
  return binary(which, a, b);
}

} // namespace cugrt::onnx
