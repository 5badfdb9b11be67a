// Shape arithmetic: ops over tensors whose elements are known before a run. Constants fold, and
// arithmetic over dimensions becomes expressions. Results are those of the device: floats are
// rounded to their dtype after each op, integers wrap.
#pragma once

#include "ops/table/ops.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cugrt::ir {

/// A tensor whose elements are known: integers and bools as expressions, floats as numbers.
struct KnownTensor {
  DType dtype = DType::i64;
  std::vector<int64_t> dims{};
  std::vector<ExprId> ints{};
  std::vector<double> reals{};
  size_t size() const { return ints.size() + reals.size(); }
};

/// Floats that depend on dimensions: each is a whole number by `below`, which is at least 1.
struct KnownFractions {
  KnownTensor above; // i64
  int64_t below = 1;
  DType dtype = DType::f32;
};

/// One axis of a slice, as Python writes it: negative places count from the end.
struct KnownSlice {
  size_t axis = 0;
  int64_t start = 0, end = 0, step = 1;
};

/// Whether the result says how the operands compare.
bool compares(Op op);

/// Larger results are the device's work.
inline constexpr int64_t kMostKnownElements = 4096;

inline bool is_real(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
/// None if a dimension is negative, or the count does not fit into 64 bits.
std::optional<int64_t> element_count(std::span<const int64_t> dims);

/// The evaluator. Every function gives none where the result is not known before a run, is too
/// large, or where the op does not take such operands: the op itself then says so, or is computed
/// on the device.
class KnownOps {
public:
  using Tensor = KnownTensor;
  using Fractions = KnownFractions;
  using Ints = std::vector<int64_t>;
  /// `range` bounds an expression over its symbols. Both outlive the evaluator.
  KnownOps(ExprPool &exprs, std::function<Interval(ExprId)> range)
      : exprs_(exprs), range_(std::move(range)) {}

  // --- Arithmetic: arithmetic.cpp ---
  std::optional<Tensor> unary(Op op, const Tensor &x);
  /// Both have one dtype; dimensions stretch.
  std::optional<Tensor> binary(Op op, const Tensor &a, const Tensor &b);
  std::optional<Tensor> where(const Tensor &condition, const Tensor &a, const Tensor &b);
  std::optional<Tensor> cast(const Tensor &x, DType to);
  /// The elements of `x` along an axis, of which there is one at least, by a binary op.
  std::optional<Tensor> combined(Op op, const Tensor &x, size_t axis);
  /// Numbers from `start` on, before `limit`, `step` apart; each operand has one element.
  std::optional<Tensor> range(const Tensor &start, const Tensor &limit, const Tensor &step);
  /// A tensor of `dims` that has the one element of `value` everywhere.
  std::optional<Tensor> full(const Ints &dims, const Tensor &value);

  // --- Elements in another order and shape: choice.cpp ---
  /// The elements of a tensor of i32 or i64, where each is a known number.
  std::optional<Ints> numbers(const Tensor &x) const;
  std::optional<Tensor> gather(const Tensor &x, const Ints &ids, const Ints &id_dims, size_t axis);
  std::optional<Tensor> slice(const Tensor &x, std::span<const KnownSlice> slices);
  /// Along axis 0, which is the only one that shapes have.
  std::optional<Tensor> concat(std::span<const Tensor *const> parts);
  std::optional<Tensor> reshape(const Tensor &x, Ints dims);
  std::optional<Tensor> broadcast(const Tensor &x, const Ints &dims);
  /// Repeated along each axis.
  std::optional<Tensor> tile(Tensor x, const Ints &times);
  /// `axes` need not be axes of `x`.
  std::optional<Tensor> transpose(const Tensor &x, const Ints &axes);
  /// Parts of a vector, one after another, that come to its size.
  std::optional<std::vector<Tensor>> split(const Tensor &x, const Ints &sizes);

  // --- Floats that depend on dimensions: fractions.cpp ---
  /// Numbers with few binary digits behind the point; integers that depend on dimensions as floats
  /// of `to`; such floats as floats of another dtype.
  std::optional<Fractions> fractions(const Tensor &reals);
  std::optional<Fractions> fractions(const Tensor &integers, DType to);
  std::optional<Fractions> fractions(Fractions x, DType to);
  /// Cut to i32 or i64.
  std::optional<Tensor> truncated(const Fractions &x, DType to);
  /// add, sub, mul, div, maximum or minimum.
  std::optional<Fractions> binary(Op op, const Fractions &a, const Fractions &b);
  /// Compares by `op`.
  std::optional<Tensor> compared(Op op, Fractions a, Fractions b);
  /// The elements along an axis by add, maximum or minimum.
  std::optional<Fractions> combined(Op op, const Fractions &x, size_t axis);
  /// floor or ceil.
  Fractions rounded(Op op, Fractions x);
  /// Gives all the largest divisor of theirs; false: it is no multiple of each.
  bool share_divisor(std::span<Fractions> all);

private:
  ExprId constant(int64_t value) { return exprs_.constant(value); }
  std::optional<int64_t> known(ExprId e) const { return exprs_.as_constant(e); }
  /// The expression as the dtype holds it, if it is a number.
  ExprId wrapped(DType dtype, ExprId e);
  std::optional<ExprId> integer_op(Op op, DType dtype, ExprId a, ExprId b);
  std::optional<ExprId> quotient(DType dtype, ExprId a, ExprId b);
  std::optional<Fractions> divided(Fractions a, const Fractions &b);
  ExprId scaled(ExprId e, int64_t by) { return exprs_.mul(e, constant(by)); }
  bool fits(const Fractions &f);

  ExprPool &exprs_;
  std::function<Interval(ExprId)> range_;
};

/// The dimensions that both stretch to: they are equal, or one of them is 1.
std::optional<std::vector<int64_t>> known_broadcast(std::span<const int64_t> a,
                                                    std::span<const int64_t> b);
/// For each element of a tensor of `to`, the element of a tensor of `from` that stretches to it.
std::vector<size_t> known_places(std::span<const int64_t> from, std::span<const int64_t> to);

} // namespace cugrt::ir
