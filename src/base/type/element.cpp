// Conversion of elements. Bytes are little-endian, as on every device and host that CUDA has.
#include "base/type/element.h"

#include "base/checked_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace cugrt::ir {

namespace {

struct SmallFloat {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};

SmallFloat small_format(DType dtype) {
  return dtype == DType::f16 ? SmallFloat{5, 10} : SmallFloat{8, 7};
}

/// The 16 bits nearest to `value`; finite values that are too large give infinity.
uint16_t to_small(SmallFloat f, double value) {
  uint32_t sign = std::signbit(value) ? 0x8000u : 0;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | f.infinity() | 1u << (f.mantissa_bits - 1));
  if (std::isinf(value))
    return static_cast<uint16_t>(sign | f.infinity());
  if (value == 0)
    return static_cast<uint16_t>(sign);
  int exponent = std::max(std::ilogb(value), 1 - f.bias()); // subnormals share the least one
  // In units of the last place: exact, then rounded to even; a carry moves into the exponent.
  double units = std::nearbyint(std::ldexp(std::fabs(value), f.mantissa_bits - exponent));
  double field = std::ldexp(double(exponent + f.bias() - 1), f.mantissa_bits) + units;
  if (field >= f.infinity())
    return static_cast<uint16_t>(sign | f.infinity());
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(field));
}

double from_small(SmallFloat f, uint16_t bits) {
  uint32_t magnitude = bits & 0x7fffu, mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  double value;
  if (magnitude > f.infinity())
    value = std::numeric_limits<double>::quiet_NaN();
  else if (magnitude == f.infinity())
    value = std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
  else
    value = std::ldexp(mantissa + (1u << f.mantissa_bits), exponent - f.bias() - f.mantissa_bits);
  return bits & 0x8000u ? -value : value;
}

uint32_t single_bits(double value) {
  constexpr double kLimit = 0x1.ffffffp127; // from here on rounding gives infinity
  if (std::isfinite(value) && std::fabs(value) >= kLimit)
    return std::bit_cast<uint32_t>(std::copysign(std::numeric_limits<float>::infinity(),
                                                 static_cast<float>(value > 0 ? 1 : -1)));
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

/// The bits of `value` in any floating dtype, rounded once.
uint64_t floating_bits(DType dtype, double value) {
  if (dtype == DType::f64)
    return std::bit_cast<uint64_t>(value);
  if (dtype == DType::f32)
    return single_bits(value);
  return to_small(small_format(dtype), value);
}

template <class T> T load(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

int bits_of(DType dtype) {
  const DTypeInfo &d = info(dtype);
  return static_cast<int>(8 * d.bytes_per_block / d.elements_per_block);
}

} // namespace

bool has_number_elements(DType dtype) { return info(dtype).kind != DTypeKind::block; }

bool integer_fits(DType dtype, int64_t value, bool above_int64) {
  int bits = bits_of(dtype);
  switch (info(dtype).kind) {
  case DTypeKind::boolean:
    return !above_int64 && (value == 0 || value == 1);
  case DTypeKind::signed_integer:
    return !above_int64 && (bits == 64 || (value >= -(int64_t(1) << (bits - 1)) &&
                                           value < int64_t(1) << (bits - 1)));
  case DTypeKind::unsigned_integer:
    return bits == 64 ? above_int64 || value >= 0
                      : !above_int64 && value >= 0 && value < int64_t(1) << bits;
  case DTypeKind::floating:
  case DTypeKind::block:
    break;
  }
  return false;
}

std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> dims) {
  const DTypeInfo &row = info(dtype);
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }))
    return std::nullopt;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end())
    return 0;
  std::optional<int64_t> bytes = row.bytes_per_block;
  for (size_t i = 0; i < dims.size() && bytes; ++i)
    bytes = checked_mul(
        *bytes, i + 1 == dims.size() ? *checked_ceildiv(dims[i], row.elements_per_block) : dims[i]);
  return bytes ? std::optional(static_cast<uint64_t>(*bytes)) : std::nullopt;
}

uint32_t scalar_bytes(DType dtype) {
  const DTypeInfo &d = info(dtype);
  return d.elements_per_block == 1 ? d.bytes_per_block : 0;
}

Result<uint64_t> scalar_bits(DType dtype, int64_t value) {
  const DTypeInfo &d = info(dtype);
  if (d.kind == DTypeKind::floating)
    return floating_bits(dtype, static_cast<double>(value));
  if (scalar_bytes(dtype) == 0)
    return Status::error(Code::unsupported,
                         "no integer is passed by value as " + std::string(d.name));
  if (!integer_fits(dtype, value))
    return Status::error(Code::out_of_range, "the value " + std::to_string(value) +
                                                 " does not fit a kernel argument of type " +
                                                 std::string(d.name));
  return static_cast<uint64_t>(value) & ~uint64_t(0) >> (64 - 8 * scalar_bytes(dtype));
}

Result<uint64_t> scalar_bits(DType dtype, double value) {
  if (info(dtype).kind != DTypeKind::floating)
    return Status::error(Code::unsupported,
                         "no float is passed by value as " + std::string(info(dtype).name));
  return floating_bits(dtype, value);
}

void append_integer(DType dtype, int64_t value, std::string &bytes) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, info(dtype).bytes_per_block);
}

bool append_float(DType dtype, double value, std::string &bytes) {
  append_integer(dtype, static_cast<int64_t>(floating_bits(dtype, value)), bytes);
  return !std::isfinite(value) ||
         std::isfinite(float_at(dtype, bytes.data() + bytes.size() - info(dtype).bytes_per_block));
}

int64_t integer_at(DType dtype, const char *bytes) {
  uint32_t size = info(dtype).bytes_per_block;
  uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  if (info(dtype).kind == DTypeKind::signed_integer && size < 8 && (value >> (8 * size - 1) & 1))
    value |= ~uint64_t(0) << (8 * size);
  return static_cast<int64_t>(value);
}

double float_at(DType dtype, const char *bytes) {
  if (dtype == DType::f64)
    return load<double>(bytes);
  if (dtype == DType::f32)
    return load<float>(bytes);
  return from_small(small_format(dtype), load<uint16_t>(bytes));
}

} // namespace cugrt::ir
