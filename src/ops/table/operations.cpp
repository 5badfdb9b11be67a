// Operations of the tensor-level ops, a rule for each family; see operations.h.
#include "ops/table/operations.h"

#include "base/check.h"

#include <cmath>

namespace cugrt::ir {

namespace {

double product(std::span<const int64_t> dims) {
  double elements = 1;
  for (const int64_t dim : dims)
    elements *= double(dim);
  return elements;
}

struct Counting {
  Op op;
  std::span<const SizedTensor> operands, results;
  std::span<const Attribute> attributes;

  double elements(size_t operand) const { return product(operands[operand].dims); }
  double given() const { return product(results[0].dims); } // elements of the first result
  double last(size_t operand) const { return double(operands[operand].dims.back()); }
  bool has(size_t operand) const {
    return operand < operands.size() && operands[operand].is_tensor;
  }

  double none() const { return 0; }
  double each() const { return given(); }
  /// Each result a sum of `length` products, and a bias where operand 2 is one.
  double products(double length) const { return given() * (2 * length + has(2)); }
  /// Channels of a group times window: what one output sums over.
  double of_window(size_t out_axis = 0) const {
    const double out = double(operands[1].dims[out_axis]);
    return out == 0 ? 0 : elements(1) / out;
  }
  /// Gates of this many elements, each a sum over the state, and what follows of each.
  double recurrence() const { return elements(0) * (2 * double(results[0].dims.back()) + 3); }
  /// Weights of taps along `axes` dimensions, and their sum.
  double taps(size_t axes) const {
    static constexpr double kTaps[] = {0, 2, 4}; // nearest, linear, cubic
    const double points = std::pow(kTaps[op_word(op, attributes, "mode")], double(axes));
    return points == 0 ? 0 : given() * (2 * points - 1);
  }

  // The rules, by the names of families.def.
#define CUGRT_FAMILY(name) double name() const;
#include "ops/table/families.def"
};

double Counting::unary() const { return each(); }
double Counting::binary() const { return each(); }
double Counting::unary_number() const { return each(); }
double Counting::test() const { return each(); }
double Counting::logical_not() const { return each(); }
double Counting::bitwise_not() const { return each(); }
double Counting::binary_float() const { return each(); }
double Counting::compare() const { return each(); }
double Counting::logical() const { return each(); }
double Counting::bitwise() const { return each(); }
double Counting::where() const { return each(); }
double Counting::cast() const { return each(); }
double Counting::range() const { return 2 * each(); }

double Counting::matmul() const { return products(last(0)); }
double Counting::matmul_blocks() const { return products(last(0)); }
double Counting::matmul_integer() const { return given() * 2 * last(0); }
double Counting::repack_blocks() const { return none(); }
double Counting::conv1d() const { return products(of_window()); }
double Counting::conv2d() const { return products(of_window()); }
double Counting::conv3d() const { return products(of_window()); }
double Counting::conv_integer() const { return given() * 2 * of_window(); }
double Counting::conv_transpose() const {
  return elements(0) * 2 * of_window() + (has(2) ? given() : 0); // w is [in, out / groups, ..]
}
double Counting::pool2d() const {
  double window = 1;
  for (const int64_t size : op_integers(op, attributes, "kernel"))
    window *= double(size);
  return given() * window;
}

// The greatest, a difference, a power, a sum, a quotient.
double Counting::softmax() const { return 5 * each(); }
// Layer: mean (1), difference, square and sum (3), product, scale, bias (3). RMS: square and sum,
// product, scale.
double Counting::norm() const { return (op == Op::layer_norm ? 7 : 4) * each(); }

double Counting::group_norm() const { return 5 * each(); }

double Counting::reduce() const { return elements(0); }
double Counting::argmax() const { return elements(0); }
double Counting::top_k() const { return elements(0); }
double Counting::cumsum() const { return each(); }

double Counting::reshape() const { return none(); }
double Counting::transpose() const { return none(); }
double Counting::concat() const { return none(); }
double Counting::split() const { return none(); }
double Counting::embedding() const { return none(); }
double Counting::embedding_blocks() const { return each(); } // a scale
double Counting::gather() const { return none(); }
double Counting::gather_elements() const { return none(); }
double Counting::gather_nd() const { return none(); }
double Counting::scatter_elements() const {
  return op_word(op, attributes, "reduction") == 0 ? 0 : elements(2);
}
double Counting::scatter_nd() const { return scatter_elements(); }
double Counting::one_hot() const { return each(); }
double Counting::slice() const { return none(); }
double Counting::pad() const { return none(); }
double Counting::broadcast_to() const { return none(); }
double Counting::cache_write() const { return none(); }

double Counting::interpolate() const {
  const size_t listed = op_integers(op, attributes, "axes").size();
  return taps(listed ? listed : operands[0].dims.size());
}
double Counting::grid_sample() const { return taps(operands[0].dims.size() - 2); }

// q [B, Q, H, D], keys [B, P, G, D]: scores and sums of values are 2 D each, between them a scale
// and a softmax.
double Counting::attention() const {
  const std::vector<int64_t> &q = operands[0].dims;
  const double scores = double(q[0]) * double(q[1]) * double(q[2]) * double(operands[1].dims[1]);
  return scores * (4 * double(q[3]) + 6);
}
// Of each pair four products and two sums.
double Counting::rotary() const {
  const int64_t dims = op_integer(op, attributes, "dims");
  const double all = last(0);
  return all == 0 ? 0 : elements(0) * (dims ? double(dims) / all : 1) * 3;
}
double Counting::recurrent() const { return recurrence(); }

using CountingRule = double (Counting::*)() const;

CountingRule counting_of(Op op) {
  switch (op) {
#define rule(family) &Counting::family
#define CUGRT_OP(name, operands, results, RULE, ...)                                               \
  case Op::name:                                                                                   \
    return RULE;
#include "ops/table/ops.def"
#undef CUGRT_OP
#undef rule
  }
  return nullptr;
}

/// Whether tensor cores may take the op: rules of products, and the weights' place among operands.
struct Products {
  bool are = false;
  size_t weights = 0; // by whose dtype the rate goes; the first operand of what is no product
};

Products products_of(Op op) {
  const CountingRule rule = counting_of(op);
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
  return {kind_of(op, operands, results), (counting.*counting_of(op))()};
}

} // namespace cugrt::ir
