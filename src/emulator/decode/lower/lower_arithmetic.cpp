// Instructions of one destination and some values: the table gives their functions, type modifiers
// the widths of operands. Also mov with its packing forms, carry chains and cvt.
#include "emulator/decode/lower/lowering.h"

#include <algorithm>

namespace cugrt::emulator {

namespace {

using ptx::Type;

constexpr std::string_view kRounded[] = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"};

bool is_rounded(std::string_view mnemonic) {
  for (std::string_view name : kRounded)
    if (name == mnemonic)
      return true;
  return false;
}

uint16_t rounding_flags(Rounding rounding) {
  return uint16_t(uint16_t(rounding) << kRoundingShift);
}

Type twice(Type type) {
  switch (type) {
  case Type::u16:
    return Type::u32;
  case Type::s16:
    return Type::s32;
  case Type::u32:
    return Type::u64;
  default:
    return Type::s64;
  }
}

/// The type of each value, and of the destination in [4].
std::array<Type, 5> operand_types(const Opcode &opcode, Type first, Type last) {
  std::string_view name = opcode.mnemonic();
  std::array<Type, 5> types{last, last, last, last, first};
  if (name == "shl" || name == "shr") {
    types[1] = Type::u32;
  } else if (name == "shf") {
    types[2] = Type::u32;
  } else if (name == "mul" && opcode.has("wide")) {
    types[4] = twice(last);
  } else if (name == "mad" && opcode.has("wide")) {
    types[4] = types[2] = twice(last);
  } else if (name == "bfe") {
    types[1] = types[2] = Type::u32;
  } else if (name == "bfi") {
    types[2] = types[3] = Type::u32;
  } else if (name == "popc" || name == "clz" || name == "bfind") {
    types[4] = Type::u32;
  } else if (name == "testp") {
    types[4] = Type::pred;
  } else if (name == "selp") {
    types[2] = Type::pred;
  } else if (name == "slct") {
    types = {first, first, last, last, first};
  } else if (name == "dp4a" || name == "dp2a") {
    types = {Type::u32, Type::u32, Type::u32, Type::u32, Type::u32};
  }
  return types;
}

/// Bit i: value i, and bit 4 the destination, is a count, position or mask, whatever the type is.
uint32_t integer_operands(const Opcode &opcode) {
  std::string_view name = opcode.mnemonic();
  constexpr uint32_t kDestination = 1 << 4;
  return name == "shl" || name == "shr" || name == "szext"    ? 1 << 1
         : name == "shf"                                      ? 1 << 2
         : name == "bfe"                                      ? 1 << 1 | 1 << 2
         : name == "bfi"                                      ? 1 << 2 | 1 << 3
         : name == "popc" || name == "clz" || name == "bfind" ? kDestination
         : name == "dp4a" || name == "dp2a"                   ? 1 << 2 | kDestination
         : name == "bmsk"                                     ? 1 << 0 | 1 << 1 | kDestination
                                                              : 0;
}

} // namespace

Status Lowering::lower_arithmetic(Opcode &opcode) {
  if (opcode.has("cc") || opcode.mnemonic() == "addc" || opcode.mnemonic() == "subc" ||
      opcode.mnemonic() == "madc")
    return lower_carry(opcode);
  Type last = opcode.last_type(), first = Type::none;
  if (last == Type::f32x2)
    return lower_float_pair(opcode);
  for (size_t i = 0; i < opcode.size() && first == Type::none; ++i)
    first = ptx::parse_type(opcode[i]);
  uint16_t flags = 0;
  bool directed = false;
  if (is_float(last)) {
    if (is_rounded(opcode.mnemonic())) {
      const Rounding rounding = opcode.take_rounding();
      directed = rounding != Rounding::nearest;
      flags |= rounding_flags(rounding);
    }
    if (last != Type::f64 && opcode.take("ftz"))
      flags |= kFlagFtz;
    if (opcode.take("sat"))
      flags |= kFlagSat;
    if (is_half(last) && opcode.take("relu"))
      flags |= kFlagRelu;
    if ((flags & kFlagSat) && last == Type::f64)
      return refuse();
  }
  // For integers, .relu stands before the type in the ISA, and behind it in the compiler's text.
  const bool clamps = !is_float(last) && opcode.take("relu");
  std::string name = (directed ? "directed." : "") + opcode.name();
  if (clamps)
    name.insert(opcode.mnemonic().size(), ".relu");
  if ((opcode.mnemonic() == "min" || opcode.mnemonic() == "max") && operand_count() == 4)
    name.insert(3, "3"); // the form of three values
  auto id = find_op(name);
  int sources = id ? op_info(*id).sources : -1;
  if (!id || sources < 0)
    return refuse();
  CUGRT_TRY(expect_operands(size_t(sources) + 1, size_t(sources) + 1));
  if (*id == OpId::lop3 && operand(4).kind != Kind::integer)
    return error("expected a constant as the table");
  std::array<Type, 5> types = operand_types(opcode, first, last);
  const uint32_t integers = integer_operands(opcode);
  const bool is_field = opcode.mnemonic() == "bfe" || opcode.mnemonic() == "bfi";
  uint32_t cells[4] = {};
  for (int i = 0; i < sources; ++i) {
    const Operand &value = operand(size_t(i) + 1);
    if (is_field && integers >> i & 1 && value.kind == Kind::integer &&
        (value.value < 0 || value.value > 255))
      return error(std::to_string(value.value) + " is no position or length of 0 to 255");
    CUGRT_ASSIGN(cells[i],
                 source(value, types[size_t(i)], integers >> i & 1 ? Width::integer : Width::same));
  }
  if (opcode.mnemonic() == "slct" && flags & kFlagFtz) {
    const uint32_t flushed = temporary(32);
    emit(OpId::cvt_f32_f32, flushed, cells[2]).flags |= flags;
    cells[2] = flushed;
  }
  const Width d_width = integers >> 4 & 1 ? Width::integer : Width::same;
  CUGRT_ASSIGN(Destination d, *id == OpId::lop3 ? destination_or_sink(operand(0), types[4])
                                                : destination(operand(0), types[4], d_width));
  emit(*id, d.cell, cells[0], cells[1], cells[2], cells[3]).flags |= flags;
  finish(d);
  return {};
}

/// add.cc and its like; mad.lo.cc is a product and an addition with carry.
Status Lowering::lower_carry(Opcode &opcode) {
  Type type = opcode.last_type();
  if (condition_code_ == kNoCell)
    condition_code_ = temporary(32);
  bool product = opcode.mnemonic() == "mad" || opcode.mnemonic() == "madc";
  CUGRT_TRY(expect_operands(product ? 4 : 3, product ? 4 : 3));
  std::string name(opcode.mnemonic());
  CUGRT_ASSIGN(uint32_t a, source(operand(1), type));
  CUGRT_ASSIGN(uint32_t b, source(operand(2), type));
  std::string type_name(opcode[opcode.size() - 1]);
  if (product) {
    auto mul = find_op((opcode.has("hi") ? "mul.hi." : "mul.lo.") + type_name);
    if (!mul || (!opcode.has("hi") && !opcode.has("lo")))
      return refuse();
    uint32_t partial = temporary(lane_bits(type));
    emit(*mul, partial, a, b);
    a = partial;
    CUGRT_ASSIGN(b, source(operand(3), type));
    name = name == "madc" ? "addc" : "add";
  }
  auto id = find_op(name + (opcode.has("cc") ? ".cc." : ".") + type_name);
  if (!id)
    return refuse();
  return emit_result(*id, type, {a, b, 0, condition_code_});
}

Status Lowering::lower_mov(Opcode &opcode) {
  Type type = opcode.last_type();
  if (opcode.size() != 1 || type == Type::none)
    return refuse();
  if (type == Type::b128)
    return lower_wide_mov();
  CUGRT_TRY(expect_operands(2, 2));
  if (operand(0).kind == Kind::vector)
    return lower_unpack(operand(0), operand(1), type);
  if (operand(1).kind == Kind::vector)
    return lower_pack(operand(0), operand(1), type);
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), type));
  return emit_result(id, type, {a});
}

/// A float in a vector: what is written as a float of 32 bits is one; otherwise a register beside
/// it tells the size, and as ptxas has it, the value is the lower half of a double's bits, and 0 in
/// 16 bits.
Result<uint32_t> Lowering::real_element(const Operand &part,
                                        const std::vector<const Operand *> &parts, bool is_half) {
  const bool sized = std::any_of(parts.begin(), parts.end(),
                                 [](const Operand *p) { return p->kind == Kind::reg; });
  if (!sized && (is_half || !part.is_float))
    return error("a literal of another type");
  return constant_cell(is_half ? 0 : uint32_t(part.value), false);
}

Status Lowering::lower_pack(const Operand &d, const Operand &a, Type type) {
  CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(a, 4));
  CUGRT_TRY(check_agreement(parts));
  if (!is_bits(type))
    return error("bits alone are moved from a vector");
  CUGRT_ASSIGN(Destination to, destination(d, type));
  if (type == Type::b16 && parts.size() == 2 && parts[0]->kind != Kind::real &&
      parts[1]->kind != Kind::real) {
    constexpr uint32_t kLowestOfEach = 0x40; // prmt: the second's lowest byte above the first's
    CUGRT_ASSIGN(uint32_t low, source(*parts[0], Type::b8));
    CUGRT_ASSIGN(uint32_t high, source(*parts[1], Type::b8));
    emit(OpId::prmt, to.cell, low, high, constant_cell(kLowestOfEach, false));
    finish(to);
    return {};
  }
  bool halves = (lane_bits(type) == 32 && parts.size() == 2) || parts.size() == 4;
  if (ptx::type_bytes(type) < 4 || (lane_bits(type) == 32 && parts.size() != 2) ||
      parts.size() == 3 || parts.size() == 1)
    return refuse();
  std::vector<uint32_t> cells;
  for (const Operand *part : parts) {
    if (part->kind == Kind::real) {
      CUGRT_ASSIGN(uint32_t cell, real_element(*part, parts, halves));
      cells.push_back(cell);
      continue;
    }
    CUGRT_ASSIGN(uint32_t cell, source(*part, halves ? Type::b16 : Type::b32));
    cells.push_back(cell);
  }
  if (parts.size() == 4) {
    for (size_t i = 0; i < 2; ++i) {
      uint32_t word = temporary(32);
      emit(OpId::pack_16, word, cells[2 * i], cells[2 * i + 1]);
      cells[i] = word;
    }
  }
  emit(lane_bits(type) == 64 ? OpId::pack_32 : OpId::pack_16, to.cell, cells[0], cells[1]);
  finish(to);
  return {};
}

Status Lowering::lower_unpack(const Operand &d, const Operand &a, Type type) {
  CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(d, 4));
  CUGRT_TRY(check_agreement(parts));
  if (!is_bits(type))
    return error("bits alone are moved to a vector");
  CUGRT_ASSIGN(uint32_t from, source(a, type));
  bool wide = lane_bits(type) == 64;
  if (ptx::type_bytes(type) < 4 || !(parts.size() == 2 || (wide && parts.size() == 4)))
    return refuse();
  Type part_type = wide && parts.size() == 2 ? Type::b32 : Type::b16;
  std::vector<Destination> to;
  for (const Operand *part : parts) {
    CUGRT_ASSIGN(Destination destination_of_part, destination_or_sink(*part, part_type));
    to.push_back(destination_of_part);
  }
  uint32_t words[2] = {from, from};
  if (wide) {
    for (size_t i = 0; i < 2; ++i) {
      words[i] = parts.size() == 2 ? to[i].cell : temporary(32);
      emit(i ? OpId::high_word : OpId::narrow, words[i], from);
    }
  }
  if (part_type == Type::b16) {
    // The last part first would do as well: no part is the source, which is wider.
    for (size_t i = 0; i < parts.size(); ++i)
      emit(i % 2 ? OpId::high_half : OpId::zext16, to[i].cell, words[i / 2]);
  }
  for (const Destination &part : to)
    finish(part);
  return {};
}

/// cvt.rn.satfinite{.relu}.e4m3x2.f32 d, a, b; to and from f16x2 with one source.
Status Lowering::lower_cvt_fp8(Opcode &opcode) {
  opcode.take("rn");
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  const bool pair = opcode.has("f32"),
             widens = opcode[opcode.size() - 1] != "f32" && opcode[opcode.size() - 1] != "f16x2";
  CUGRT_TRY(expect_operands(pair ? 3 : 2, pair ? 3 : 2));
  const Type from = pair ? Type::f32 : widens ? Type::e4m3x2 : Type::f16x2;
  CUGRT_ASSIGN(uint32_t a, source(operand(1), from));
  uint32_t b = 0;
  if (pair) {
    CUGRT_ASSIGN(b, source(operand(2), from));
  }
  return emit_result(id, widens ? Type::f16x2 : Type::e4m3x2, {a, b});
}

/// cvt{.rounding}{.ftz}{.sat}{.relu}.D.A
Status Lowering::lower_cvt(Opcode &opcode) {
  if (opcode.has("e4m3x2") || opcode.has("e5m2x2"))
    return lower_cvt_fp8(opcode);
  if (opcode.has("rna") || opcode.has("tf32")) {
    CUGRT_ASSIGN(const OpId id, known_op(opcode));
    CUGRT_TRY(expect_operands(2, 2));
    CUGRT_ASSIGN(uint32_t a, source(operand(1), Type::f32));
    return emit_result(id, Type::tf32, {a});
  }
  struct Mode {
    std::string_view name;
    Rounding rounding;
    bool integral;
  };
  constexpr Mode kModes[] = {
      {"rn", Rounding::nearest, false}, {"rz", Rounding::zero, false},
      {"rm", Rounding::down, false},    {"rp", Rounding::up, false},
      {"rni", Rounding::nearest, true}, {"rzi", Rounding::zero, true},
      {"rmi", Rounding::down, true},    {"rpi", Rounding::up, true},
  };
  Mode mode = kModes[0];
  for (const Mode &row : kModes)
    if (opcode.take(row.name))
      mode = row;
  uint16_t flags = rounding_flags(mode.rounding);
  flags |= mode.integral ? kFlagIntegral : 0;
  flags |= opcode.take("ftz") ? kFlagFtz : 0;
  flags |= opcode.take("sat") ? kFlagSat : 0;
  flags |= opcode.take("relu") ? kFlagRelu : 0;
  Type to = ptx::parse_type(opcode[0]), from = ptx::parse_type(opcode[1]);
  const bool packed = to == Type::f16x2 || to == Type::bf16x2;
  const bool directed = !mode.integral && mode.rounding != Rounding::nearest;
  const bool bound = directed && mode.rounding != Rounding::zero;
  if (opcode.size() != 2 || (directed && (flags & (kFlagFtz | kFlagSat))) ||
      (directed && !is_half(to) && flags & kFlagRelu) || (bound && packed))
    return refuse();
  // One row converts to halves in every direction of rounding.
  auto id = find_op((directed && !is_half(to) ? "directed." : "") + opcode.name());
  if (!id)
    return refuse();
  CUGRT_TRY(expect_operands(packed ? 3 : 2, packed ? 3 : 2));
  // From and to bf16, registers must be as wide as the type.
  const bool exact = from == Type::bf16 || to == Type::bf16 || to == Type::bf16x2;
  const Width width = exact ? Width::same : Width::any_above;
  if (operand(1).kind == Kind::special && is_float(to))
    return error("a special register is converted to integers alone");
  CUGRT_ASSIGN(uint32_t a, source(operand(1), from, width));
  uint32_t b = 0;
  if (packed) {
    CUGRT_ASSIGN(b, source(operand(2), from, width));
  }
  return emit_result(*id, to, {a, b}, width, flags);
}

} // namespace cugrt::emulator
