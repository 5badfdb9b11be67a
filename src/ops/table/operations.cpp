// Operations of the tensor-level ops, a function for each rule of rules.def; see operations.h.
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
  /// Channels of a group times window: what one output sums over. Axis 0 of the weights is not
  /// among them.
  Count of_window() const { return Count(dims(1).subspan(1)); }
  /// Gates of this many elements, each a sum over the state, and what follows of each.
  Count recurrence() const {
    return elements(0) * (2 * Count(std::span(results[0].dims).last(1)) + 3);
  }
  /// Weights of taps along `axes` dimensions, and their sum.
  Count taps(size_t axes) const {
    static constexpr double kTaps[] = {0, 2, 4}; // nearest, linear, cubic
    const double points = std::pow(kTaps[op_word(op, attributes, "mode")], double(axes));
    return points == 0 ? none() : given() * (2 * points - 1);
  }

  // The rules, by the names of rules.def.
#define CUGRT_RULE(name) Count name() const;
#include "ops/table/rules.def"
};

Count Counting::unary() const { return each(); }
Count Counting::binary() const { return each(); }
Count Counting::unary_number() const { return each(); }
Count Counting::test() const { return each(); }
Count Counting::logical_not() const { return each(); }
Count Counting::bitwise_not() const { return each(); }
Count Counting::binary_float() const { return each(); }
Count Counting::compare() const { return each(); }
Count Counting::logical() const { return each(); }
Count Counting::bitwise() const { return each(); }
Count Counting::where() const { return each(); }
Count Counting::cast() const { return each(); }
Count Counting::range() const { return 2 * each(); }

Count Counting::matmul() const { return products(last(0)); }
Count Counting::matmul_blocks() const { return products(last(0)); }
Count Counting::matmul_integer() const { return given() * 2 * last(0); }
Count Counting::repack_blocks() const { return none(); }
Count Counting::conv1d() const { return products(of_window()); }
Count Counting::conv2d() const { return products(of_window()); }
Count Counting::conv3d() const { return products(of_window()); }
Count Counting::conv_integer() const { return given() * 2 * of_window(); }
Count Counting::conv_transpose() const {
  return elements(0) * 2 * of_window() + (has(2) ? given() : none()); // w is [in, out / groups, ..]
}
Count Counting::pool2d() const {
  double window = 1;
  for (const int64_t size : op_integers(op, attributes, "kernel"))
    window *= double(size);
  return given() * window;
}

// The greatest, a difference, a power, a sum, a quotient.
Count Counting::softmax() const { return 5 * each(); }
// Layer: mean (1), difference, square and sum (3), product, scale, bias (3). RMS: square and sum,
// product, scale.
Count Counting::norm() const { return Count(op == Op::layer_norm ? 7 : 4) * each(); }

Count Counting::group_norm() const { return 5 * each(); }

Count Counting::reduce() const { return elements(0); }
Count Counting::argmax() const { return elements(0); }
Count Counting::top_k() const { return elements(0); }
Count Counting::cumsum() const { return each(); }

Count Counting::reshape() const { return none(); }
Count Counting::transpose() const { return none(); }
Count Counting::concat() const { return none(); }
Count Counting::split() const { return none(); }
Count Counting::embedding() const { return none(); }
Count Counting::embedding_blocks() const { return each(); } // a scale
Count Counting::gather() const { return none(); }
Count Counting::gather_elements() const { return none(); }
Count Counting::gather_nd() const { return none(); }
Count Counting::scatter_elements() const {
  return op_word(op, attributes, "reduction") == 0 ? none() : elements(2);
}
Count Counting::scatter_nd() const { return scatter_elements(); }
Count Counting::one_hot() const { return each(); }
Count Counting::slice() const { return none(); }
Count Counting::pad() const { return none(); }
Count Counting::broadcast_to() const { return none(); }
Count Counting::cache_write() const { return none(); }

Count Counting::interpolate() const {
  const size_t listed = op_integers(op, attributes, "axes").size();
  return taps(listed ? listed : operands[0].dims.size());
}
Count Counting::grid_sample() const { return taps(operands[0].dims.size() - 2); }

// q [B, Q, H, D], keys [B, P, G, D]: scores and sums of values are 2 D each, between them a scale
// and a softmax.
Count Counting::attention() const {
  return Count(dims(0).first(3)) * size(1, 1) * (4 * size(0, 3) + 6);
}
// Of each pair four products and two sums.
Count Counting::rotary() const {
  const int64_t turned = op_integer(op, attributes, "dims");
  return turned ? Count(dims(0).first(dims(0).size() - 1)) * double(3 * turned) : elements(0) * 3;
}
Count Counting::recurrent() const { return recurrence(); }

using CountingRule = Count (Counting::*)() const;

/// By op.
constexpr CountingRule kCountingRules[] = {
#define rule(name) &Counting::name
#define CUGRT_OP(name, operands, results, RULE, ...) RULE,
#include "ops/table/ops.def"
#undef CUGRT_OP
#undef rule
};

/// Whether tensor cores may take the op: rules of products, and the weights' place among operands.
struct Products {
  bool are = false;
  size_t weights = 0; // by whose dtype the rate goes; the first operand of what is no product
};

Products products_of(Op op) {
  const CountingRule rule = kCountingRules[static_cast<size_t>(op)];
  const CountingRule by_first[] = {
      &Counting::matmul,       &Counting::matmul_blocks,  &Counting::matmul_integer,
      &Counting::conv1d,       &Counting::conv2d,         &Counting::conv3d,
      &Counting::conv_integer, &Counting::conv_transpose, &Counting::attention};
  for (const CountingRule product : by_first)
    if (rule == product)
      return {true, 0};
  return rule == &Counting::recurrent ? Products{true, 1} : Products{};
}

OperationKind kind_of(Op op, std::span<const SizedTensor> operands,
                      std::span<const SizedTensor> results) {
  const Products products = products_of(op);
  const bool by_operand = products.are || (!operands.empty() && operands[0].is_tensor);
  const DType dtype = by_operand ? operands[products.weights].dtype : results[0].dtype;
  if (dtype == DType::f64)
    return OperationKind::f64;
  if (products.are && (dtype == DType::f16 || dtype == DType::bf16))
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
  return {kind_of(op, operands, results),
          (counting.*kCountingRules[static_cast<size_t>(op)])().terms};
}

} // namespace cugrt::ir
