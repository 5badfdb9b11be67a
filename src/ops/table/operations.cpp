// Operations of the tensor-level ops, as their rows count them; see operations.h.
#include "ops/table/operations.h"

#include "base/check.h"

#include <cmath>

namespace cugrt::ir {

namespace {

/// A sum of products of sizes.
struct Count {
  std::vector<OperationTerm> terms;

  Count() = default;     // none
  Count(double number) { // NOLINT(google-explicit-constructor): numbers are counts
    if (number != 0)
      terms.push_back({number});
  }
  explicit Count(std::span<const ExprId> sizes) : terms{{1, {sizes.begin(), sizes.end()}}} {}

  friend Count operator+(Count a, const Count &b) {
    a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
    return a;
  }
  friend Count operator*(const Count &a, const Count &b) {
    Count product;
    for (const OperationTerm &x : a.terms)
      for (const OperationTerm &y : b.terms) {
        product.terms.push_back({x.factor * y.factor, x.sizes});
        product.terms.back().sizes.insert(product.terms.back().sizes.end(), y.sizes.begin(),
                                          y.sizes.end());
      }
    return product;
  }
};

struct Counting {
  Op op;
  std::span<const SizedTensor> operands, results;
  std::span<const Attribute> attributes;

  std::span<const ExprId> dims(size_t operand) const { return operands[operand].dims; }
  Count size(size_t operand, size_t axis) const { return Count(dims(operand).subspan(axis, 1)); }
  Count last(size_t operand) const { return size(operand, dims(operand).size() - 1); }
  Count elements(size_t operand) const { return Count(dims(operand)); }
  Count given() const { return Count(results[0].dims); } // elements of the first result
  bool has(size_t operand) const {
    return operand < operands.size() && operands[operand].is_tensor;
  }

  Count none() const { return {}; }
  Count each() const { return given(); }
  /// Each result a sum of `length` products, and a bias where operand 2 is one.
  Count products(const Count &length) const { return given() * (2 * length + double(has(2))); }
  /// Channels of a group times window: the terms of one output's sum. Excludes axis 0 of the
  /// weights.
  Count of_window() const { return Count(dims(1).subspan(1)); }
  /// Counts gates of this many elements: each is a sum over the state, with the ops that follow.
  Count recurrence() const {
    return elements(0) * (2 * Count(std::span(results[0].dims).last(1)) + 3);
  }
  /// Weights of taps along `axes` dimensions, and their sum.
  Count taps(size_t axes) const {
    static constexpr double kTaps[] = {0, 2, 4}; // nearest, linear, cubic
    const double points = std::pow(kTaps[op_word(op, attributes, "mode")], double(axes));
    return points == 0 ? none() : given() * (2 * points - 1);
  }

  Count of_transposed() const { // w is [in, out / groups, ..]
    return elements(0) * 2 * of_window() + (has(2) ? given() : none());
  }
  Count of_pool() const {
    double window = 1;
    for (const int64_t size : op_integers(op, attributes, "kernel"))
      window *= double(size);
    return given() * window;
  }
  Count of_scatter() const {
    return op_word(op, attributes, "reduction") == 0 ? none() : elements(2);
  }
  Count of_resize() const {
    const size_t listed = op_integers(op, attributes, "axes").size();
    return taps(listed ? listed : operands[0].dims.size());
  }
  /// q [B, Q, H, D], keys [B, P, G, D]: scores and sums of values are 2 D each, between them a
  /// scale and a softmax.
  Count of_attention() const { return Count(dims(0).first(3)) * size(1, 1) * (4 * size(0, 3) + 6); }
  /// A pair takes four products and two sums.
  Count of_rotary() const {
    const int64_t turned = op_integer(op, attributes, "dims");
    return turned ? Count(dims(0).first(dims(0).size() - 1)) * double(3 * turned) : elements(0) * 3;
  }

  /// The count that the op's row states.
  Count run() const {
    switch (op) {
#define counts(rate, operations) operations
#define CUGRT_OP(name, takes, gives, rule, fuse, part, zeros, precision, wide, storage, shapes,    \
                 images, COUNTS, has)                                                              \
  case Op::name:                                                                                   \
    return COUNTS;
#include "ops/table/ops.def"
#undef counts
    }
    return none();
  }
};

/// Whether tensor cores may take the op, and the operand whose dtype decides its rate: the first
/// one where the op is no product.
struct Products {
  bool are = false;
  size_t weights = 0;
};

Products products_of(Op op) {
  switch (op_info(op).rate) {
  case OpRate::vectors:
    return {};
  case OpRate::products:
    return {true, 0};
  case OpRate::gates:
    return {true, 1};
  }
  return {};
}

OperationKind kind_of(Op op, std::span<const SizedTensor> operands,
                      std::span<const SizedTensor> results) {
  const Products products = products_of(op);
  const bool by_operand = products.are || (!operands.empty() && operands[0].is_tensor);
  const DType dtype = by_operand ? operands[products.weights].dtype : results[0].dtype;
  if (dtype == DType::f64)
    return OperationKind::f64;
  if (products.are && is_half(dtype))
    return OperationKind::f16;
  if (products.are && (dtype == DType::i8 || dtype == DType::u8))
    return OperationKind::int8;
  return OperationKind::vector;
}

} // namespace

Operations count_operations(Op op, std::span<const SizedTensor> operands,
                            std::span<const SizedTensor> results,
                            std::span<const Attribute> attributes) {
  CUGRT_CHECK(static_cast<size_t>(op) < op_count());
  const Counting counting{op, operands, results, attributes};
  return {kind_of(op, operands, results), counting.run().terms};
}

} // namespace cugrt::ir
