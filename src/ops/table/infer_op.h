// Infers result types of ops, within the IR's layer: one call and the rules for it.
//
// A rule reads operands' types and attributes that have been checked against the op's table, and
// gives the result types or an error that names what is wrong. An op's row names
// its rule, whose function lies in the file of the rule's ops.
#pragma once

#include "ops/table/ops.h"

namespace cugrt::ir {

using Types = Result<std::vector<TypeId>>;
using Dims = std::vector<ExprId>;

inline Status wrong(std::string message) {
  return Status::error(Code::verify_error, std::move(message));
}

struct Inference {
  Module &m;
  Op op;
  std::span<const TypeId> operands;
  std::span<const Attribute> attributes;
  const Function *function;

  bool has(size_t i) const { return i < operands.size() && operands[i].valid(); }
  const Type &type(size_t i) const { return m.types[operands[i]]; }
  const Dims &dims(size_t i) const { return type(i).dims; }
  size_t rank(size_t i) const { return dims(i).size(); }
  std::string number(size_t i) const { return "operand " + std::to_string(i + 1); }
  ExprId constant(int64_t v) const { return m.exprs.constant(v); }
  std::optional<int64_t> known(ExprId e) const { return m.exprs.as_constant(e); }
  std::string text(ExprId e) const;
  ExprId product(const Dims &dims) const;
  /// The types of an op with one result.
  Types one(DType dtype, Dims dims) const;

  /// The interval of `e` by the function's bounds of symbols; without one, none is negative.
  Interval range_of(ExprId e) const;
  bool never_negative(ExprId e) const;

  // Checks that hold for every op, from its tables.
  Status check_operands() const;
  Status check_attributes() const;

  // Checks that rules share.
  Status check_rank(size_t i, size_t rank_wanted) const;
  Status check_float(size_t i) const;
  /// Floats and integers of whole bytes.
  Status check_number(size_t i) const;
  Status check_dtype(size_t i, DType wanted) const;
  Status check_ids(size_t i) const; // i32 or i64
  Status check_integer(size_t i) const;
  Status check_whole_bytes(size_t i) const;
  Status check_same_dtype(size_t i) const;
  Status check_blocks(size_t i) const; // a matrix of a block format
  Status check_whole_blocks(ExprId dim, DType dtype) const;
  Status check_equal(ExprId a, ExprId b, const std::string &what) const;
  /// Operand i, where present, is a vector as long as `length`, of `dtype` or operand 1's.
  Status check_vector(size_t i, ExprId length, std::optional<DType> dtype = {}) const;
  /// A list of `axes` integers, each at least `least`.
  Result<std::vector<int64_t>> window_list(std::string_view name, size_t axes, int64_t least) const;
  /// Attribute padding, or another one: before and after each of `axes` dimensions, the same where
  /// one is given.
  Result<std::vector<std::array<int64_t, 2>>> paddings(size_t axes,
                                                       std::string_view name = "padding") const;
  static constexpr int64_t kMaxWindow = 1 << 20;
  Result<size_t> axis_of(int64_t axis, size_t i) const;
  Result<ExprId> broadcast_dim(ExprId a, ExprId b) const;
  /// NumPy's rule: aligned at the last dimension; 1 stretches; missing ones are 1.
  Result<Dims> broadcast(std::span<const ExprId> a, std::span<const ExprId> b) const;
  /// floor((size + padding - dilation (window - 1) - 1) / stride) + 1, with both paddings.
  Result<ExprId> windowed(ExprId size, ExprId window, int64_t stride,
                          const std::array<int64_t, 2> &padding, int64_t dilation) const;
  /// Makes of a convolution's result over dimensions from `first` on what `phases` and `cut` say.
  Status spread(Dims &out, size_t first, size_t channels) const;
  /// Types of a convolution over `axes` dimensions behind [batch, channels].
  Types convolution(size_t axes, DType result) const;
  /// Operand i, where present, is a zero point of operand `of`: its dtype, one or one for each of
  /// `length`.
  Status check_zero_point(size_t i, size_t of, ExprId length) const;
  Status check_cache(size_t i, size_t computed) const;
  /// Operand i is i8 or u8.
  Status check_byte(size_t i) const;
  /// Attribute reduction, for operand 1's dtype.
  Status check_reduction() const;
  /// Operand i, where present, has these dimensions and operand 1's dtype.
  Status check_state(size_t i, const Dims &wanted, DType dtype) const;
  /// The dimensions of operand 1 without `axes`, or with 1 there where keep_dims asks for it.
  Types without_axes(DType result, std::vector<int64_t> axes) const;
  /// The dimensions of attribute shape; a single -1 becomes the rest of `total` elements.
  Result<Dims> attribute_shape(ExprId total) const;

  Types broadcasting(DType result, size_t first = 0) const;
  /// Of operand 0, at the places along the axis that operand 1 names.
  Types gathered(size_t axis) const;

  // The rules, by the names in rows.
#define rule(name) Types name() const;
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"

private:
  std::string known_names() const;
};

} // namespace cugrt::ir
