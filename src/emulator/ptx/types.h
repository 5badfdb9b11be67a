// Scalar types and state spaces of PTX, as named by the modifiers of declarations and instructions.
#pragma once

#include <cstdint>
#include <string_view>

namespace cugrt::emulator::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  f32x2,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  u16x2,
  s16x2,
};

enum class Space : uint8_t { none, param, shared, global, local, constant };

/// Type::none when `name` (without its dot) is no type.
Type parse_type(std::string_view name);
/// Whether registers and variables may have it; the others are types of instructions alone.
bool is_declarable(Type type);
/// Bytes in memory; predicates have none.
uint32_t type_bytes(Type type);
std::string_view space_name(Space space);

} // namespace cugrt::emulator::ptx
