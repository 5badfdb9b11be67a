// Indices, the table of references, and dtypes.
#include "support/reference_call.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace cugrt::test {

int64_t product(const Dims &dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < std::min(end, dims.size()); ++i)
    count *= dims[i];
  return count;
}

Dims coordinates(int64_t index, const Dims &dims) {
  Dims at(dims.size());
  for (size_t i = dims.size(); i-- > 0; index /= dims[i])
    at[i] = index % dims[i];
  return at;
}

int64_t index_of(std::span<const int64_t> at, const Dims &dims) {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    index = index * dims[i] + at[i];
  return index;
}

double broadcast_at(const Array &x, std::span<const int64_t> at) {
  const size_t missing = at.size() - x.dims.size();
  int64_t index = 0;
  for (size_t i = 0; i < x.dims.size(); ++i)
    index = index * x.dims[i] + (x.dims[i] == 1 ? 0 : at[missing + i]);
  return x.values[size_t(index)];
}

Dims broadcast_dims(const Dims &a, const Dims &b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t p = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t q = i < b.size() ? b[b.size() - 1 - i] : 1;
    dims[dims.size() - 1 - i] = p == 1 ? q : p;
  }
  return dims;
}

int64_t Array::count() const { return product(dims); }

Array Array::of(Dims dims) {
  const int64_t count = product(dims);
  return {std::move(dims), std::vector<double>(size_t(count))};
}

std::vector<Array> evaluate_op(Op op, std::span<const Array *const> operands,
                               std::span<const ir::Attribute> attributes, ir::DType dtype) {
  const Call call{op, operands, attributes, dtype};
  switch (op) {
#define rule(name) reference_##name(call)
#define CUGRT_OP(name, operands, results, RULE, ...)                                               \
  case Op::name:                                                                                   \
    return RULE;
#include "ops/table/ops.def"
  }
  throw std::logic_error("no such op");
}

// --- Dtypes --------------------------------------------------------------------------------------

namespace {

// To a float with `mantissa` explicit bits, least exponent `least` of a normal number, largest
// `most`.
double round_float(double value, int mantissa, int least, int most) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);                              // value = f * 2^exponent, 0.5 <= f < 1
  const int unit = std::max(exponent - 1, least) - mantissa; // exponent of the last place
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= std::ldexp(1.0, most + 1) ? std::copysign(INFINITY, value) : rounded;
}

} // namespace

double round_to(ir::DType dtype, double value) {
  switch (dtype) {
  case ir::DType::f64:
    return value;
  case ir::DType::f32:
    return double(float(value));
  case ir::DType::f16:
    return round_float(value, 10, -14, 15);
  case ir::DType::bf16:
    return round_float(value, 7, -126, 127);
  case ir::DType::boolean:
    return value != 0; // a NaN is not 0
  default:
    break;
  }
  const bool is_signed = ir::info(dtype).kind == ir::DTypeKind::signed_integer;
  const int bits = int(ir::info(dtype).bytes_per_block) * 8 - is_signed;
  if (std::isnan(value))
    return 0;
  const double most = std::ldexp(1.0, bits), whole = std::trunc(value);
  return std::min(std::max(whole, is_signed ? -most : 0.0), most - 1);
}

double wrap_to(ir::DType dtype, double value) {
  const ir::DTypeInfo &row = ir::info(dtype);
  if (row.kind != ir::DTypeKind::signed_integer && row.kind != ir::DTypeKind::unsigned_integer)
    return round_to(dtype, value);
  if (round_to(dtype, value) == value)
    return value;
  const double span = std::ldexp(1.0, int(row.bytes_per_block) * 8);
  value -= span * std::floor(value / span);
  return row.kind == ir::DTypeKind::signed_integer && value >= span / 2 ? value - span : value;
}

} // namespace cugrt::test
