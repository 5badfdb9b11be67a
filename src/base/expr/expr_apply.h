// The arithmetic of expressions, shared by building (folding of constants) and evaluation.
#pragma once

#include "base/checked_math.h"
#include "base/expr/expr.h"

#include <algorithm>

namespace cugrt::ir {

/// The value of an operator with two operands; none when it overflows or divides by zero.
inline std::optional<int64_t> apply(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ExprKind::add:
    return checked_add(a, b);
  case ExprKind::sub:
    return checked_sub(a, b);
  case ExprKind::mul:
    return checked_mul(a, b);
  case ExprKind::floordiv:
    return checked_floordiv(a, b);
  case ExprKind::ceildiv:
    return checked_ceildiv(a, b);
  case ExprKind::mod:
    return checked_mod(a, b);
  case ExprKind::min:
    return std::min(a, b);
  case ExprKind::max:
    return std::max(a, b);
  case ExprKind::eq:
    return a == b;
  case ExprKind::ne:
    return a != b;
  case ExprKind::lt:
    return a < b;
  case ExprKind::le:
    return a <= b;
  case ExprKind::constant:
  case ExprKind::symbol:
  case ExprKind::select:
    break;
  }
  return std::nullopt;
}

} // namespace cugrt::ir
