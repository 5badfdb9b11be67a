// Conversion of host scalars to argument bytes; see scalar_bits.h.
#include "runtime/scalar_bits.h"

#include <bit>
#include <cmath>

namespace cugrt::runtime {

namespace {

struct IntegerRange {
  int64_t lower, upper;
};

Result<IntegerRange> integer_range(ir::DType dtype) {
  using ir::DType;
  switch (dtype) {
  case DType::boolean:
    return IntegerRange{0, 1};
  case DType::i8:
    return IntegerRange{INT8_MIN, INT8_MAX};
  case DType::i16:
    return IntegerRange{INT16_MIN, INT16_MAX};
  case DType::i32:
    return IntegerRange{INT32_MIN, INT32_MAX};
  case DType::i64:
    return IntegerRange{INT64_MIN, INT64_MAX};
  case DType::u8:
    return IntegerRange{0, UINT8_MAX};
  case DType::u16:
    return IntegerRange{0, UINT16_MAX};
  case DType::u32:
    return IntegerRange{0, UINT32_MAX};
  case DType::u64:
    return IntegerRange{0, INT64_MAX};
  default:
    return Status::error(Code::unsupported,
                         "no integer is passed by value as " + std::string(ir::info(dtype).name));
  }
}

} // namespace

uint32_t scalar_bytes(ir::DType dtype) {
  const ir::DTypeInfo &row = ir::info(dtype);
  return row.elements_per_block == 1 ? row.bytes_per_block : 0;
}

Result<uint64_t> integer_bits(int64_t value, ir::DType dtype) {
  if (ir::info(dtype).kind == ir::DTypeKind::floating)
    return float_bits(static_cast<double>(value), dtype);
  CUGRT_ASSIGN(IntegerRange range, integer_range(dtype));
  if (value < range.lower || value > range.upper)
    return Status::error(Code::out_of_range, "the value " + std::to_string(value) +
                                                 " does not fit a kernel argument of type " +
                                                 std::string(ir::info(dtype).name));
  uint32_t bytes = scalar_bytes(dtype);
  uint64_t mask = bytes == 8 ? UINT64_MAX : (uint64_t(1) << (8 * bytes)) - 1;
  return static_cast<uint64_t>(value) & mask;
}

Result<uint64_t> float_bits(double value, ir::DType dtype) {
  switch (dtype) {
  case ir::DType::f64:
    return std::bit_cast<uint64_t>(value);
  case ir::DType::f32:
    return uint64_t(std::bit_cast<uint32_t>(static_cast<float>(value)));
  case ir::DType::f16:
    return uint64_t(half_bits(value));
  case ir::DType::bf16:
    return uint64_t(bfloat16_bits(static_cast<float>(value)));
  default:
    return Status::error(Code::unsupported,
                         "no float is passed by value as " + std::string(ir::info(dtype).name));
  }
}

uint16_t half_bits(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520) // halfway from the largest finite value to the next power of two
    return sign | 0x7c00;
  // The unit in the last place is 2^-24 below the least normal number, 2^(exponent - 10) above.
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  double scaled = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  // 1024 to 2048 for normal numbers: adding carries into the exponent where rounding reached 2048.
  auto significand = static_cast<uint32_t>(scaled);
  uint32_t bits =
      significand < 1024 ? significand : (static_cast<uint32_t>(exponent + 14) << 10) + significand;
  return static_cast<uint16_t>(sign | bits);
}

uint16_t bfloat16_bits(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

} // namespace cugrt::runtime
