// Names and sizes of PTX types.
#include "emulator/ptx/types.h"

#include <array>

namespace cugrt::emulator::ptx {

namespace {

struct Row {
  std::string_view name;
  Type type;
  uint32_t bytes;
};

constexpr Row kRows[] = {
    {"pred", Type::pred, 0},     {"b8", Type::b8, 1},         {"b16", Type::b16, 2},
    {"b32", Type::b32, 4},       {"b64", Type::b64, 8},       {"b128", Type::b128, 16},
    {"u8", Type::u8, 1},         {"u16", Type::u16, 2},       {"u32", Type::u32, 4},
    {"u64", Type::u64, 8},       {"s8", Type::s8, 1},         {"s16", Type::s16, 2},
    {"s32", Type::s32, 4},       {"s64", Type::s64, 8},       {"f16", Type::f16, 2},
    {"f16x2", Type::f16x2, 4},   {"bf16", Type::bf16, 2},     {"bf16x2", Type::bf16x2, 4},
    {"tf32", Type::tf32, 4},     {"f32", Type::f32, 4},       {"f64", Type::f64, 8},
    {"f32x2", Type::f32x2, 8},   {"e4m3", Type::e4m3, 1},     {"e5m2", Type::e5m2, 1},
    {"e4m3x2", Type::e4m3x2, 2}, {"e5m2x2", Type::e5m2x2, 2}, {"u16x2", Type::u16x2, 4},
    {"s16x2", Type::s16x2, 4},
};

} // namespace

Type parse_type(std::string_view name) {
  for (const Row &row : kRows)
    if (row.name == name)
      return row.type;
  return Type::none;
}

bool is_declarable(Type type) {
  return type != Type::none && type != Type::bf16 && type != Type::bf16x2 && type != Type::tf32 &&
         type < Type::f32x2;
}

uint32_t type_bytes(Type type) {
  static constexpr std::array<uint8_t, size_t(Type::s16x2) + 1> kBytes = [] {
    std::array<uint8_t, size_t(Type::s16x2) + 1> bytes{};
    for (const Row &row : kRows)
      bytes[size_t(row.type)] = uint8_t(row.bytes);
    return bytes;
  }();
  return kBytes[size_t(type)];
}

std::string_view space_name(Space space) {
  constexpr std::string_view kNames[] = {"generic", "param", "shared", "global", "local", "const"};
  return kNames[size_t(space)];
}

} // namespace cugrt::emulator::ptx
