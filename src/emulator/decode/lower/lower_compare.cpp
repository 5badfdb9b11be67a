// setp, set and lop3 with a boolean: a comparison, combined with a predicate, into predicates or
// values.
#include "emulator/decode/lower/lowering.h"

namespace cugrt::emulator {

/// The boolean operation among the modifiers, taken out; empty when there is none.
static std::string_view take_boolean(Opcode &opcode) {
  for (std::string_view name : {"and", "or", "xor"})
    if (opcode.take(name))
      return name;
  return {};
}

/// d = (compared, or its negation) boolean predicate.
Status Lowering::combine(std::string_view boolean, uint32_t d, uint32_t compared, bool negated,
                         const Operand &predicate) {
  if (negated) {
    uint32_t inverse = boolean.empty() ? d : temporary(32);
    emit(OpId::not_32, inverse, compared);
    compared = inverse;
  }
  if (boolean.empty()) {
    if (!negated)
      emit(OpId::mov_32, d, compared);
    return {};
  }
  CUGRT_ASSIGN(uint32_t c, source(predicate, Type::pred));
  emit(boolean == "and"  ? OpId::and_32
       : boolean == "or" ? OpId::or_32
                         : OpId::xor_32,
       d, compared, c);
  return {};
}

/// setp.CMP{.BOOL}{.ftz}.TYPE p{|q}, a, b {, {!}c}
Status Lowering::lower_setp(Opcode &opcode) {
  std::string_view boolean = take_boolean(opcode);
  uint16_t flags = opcode.take("ftz") ? kFlagFtz : 0;
  Type type = opcode.last_type();
  size_t count = boolean.empty() ? 3 : 4;
  CUGRT_TRY(expect_operands(count, count));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), type));
  CUGRT_ASSIGN(uint32_t b, source(operand(2), type));
  const Operand &d = operand(0);
  if (d.index2 >= 0 && (type == Type::f16 || type == Type::bf16))
    return error("a predicate besides the result");
  const Pair parts = pair(d);
  CUGRT_ASSIGN(uint32_t p, predicate_destination(parts.first));
  CUGRT_ASSIGN(uint32_t q, predicate_destination(parts.second));
  if (type == Type::f16x2 || type == Type::bf16x2) { // p from the low halves, q from the high ones
    if (!boolean.empty())
      return refuse();
    auto id = find_op("setp." + std::string(opcode[0]) + (type == Type::f16x2 ? ".f16" : ".bf16"));
    if (!id || opcode.size() != 2)
      return refuse();
    uint32_t high_a = temporary(32), high_b = temporary(32);
    emit(OpId::high_half, high_a, a);
    emit(OpId::high_half, high_b, b);
    emit(*id, p, a, b).flags |= flags;
    emit(*id, q, high_a, high_b).flags |= flags;
    return {};
  }
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  if (boolean.empty() && d.index2 < 0) {
    emit(id, p, a, b).flags |= flags;
    return {};
  }
  uint32_t compared = temporary(32);
  emit(id, compared, a, b).flags |= flags;
  if (d.index2 >= 0) {
    uint32_t inverse = temporary(32); // c may be p or q: both results before either is written
    CUGRT_TRY(combine(boolean, inverse, compared, true, operand(count - 1)));
    CUGRT_TRY(combine(boolean, p, compared, false, operand(count - 1)));
    emit(OpId::mov_32, q, inverse);
    return {};
  }
  return combine(boolean, p, compared, false, operand(count - 1));
}

/// lop3.b32 d, a, b, c, table; lop3.BOOL.b32 d|p, a, b, c, table, {!}q: p = (d != 0) BOOL q.
Status Lowering::lower_lop3(Opcode &opcode) {
  const std::string_view boolean = take_boolean(opcode);
  if (boolean.empty())
    return lower_arithmetic(opcode);
  if (opcode.name() != "lop3.b32")
    return refuse();
  CUGRT_TRY(expect_operands(6, 6));
  if (operand(0).index2 < 0)
    return error("expected a predicate besides the result");
  if (operand(4).kind != Kind::integer)
    return error("expected a constant as the table");
  uint32_t cells[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    CUGRT_ASSIGN(cells[i], source(operand(i + 1), Type::b32));
  }
  const Pair parts = pair(operand(0));
  CUGRT_ASSIGN(Destination d, destination_or_sink(parts.first, Type::b32));
  CUGRT_ASSIGN(uint32_t p, predicate_destination(parts.second));
  const uint32_t compared = temporary(32);
  emit(OpId::lop3, d.cell, cells[0], cells[1], cells[2], cells[3]);
  emit(OpId::setp_ne_u32, compared, d.cell, constant_cell(0, false));
  return combine(boolean, p, compared, false, operand(5));
}

/// set.CMP{.BOOL}{.ftz}.D.A d, a, b {, {!}c}: all ones or 1.0 where it holds, else 0.
Status Lowering::lower_set(Opcode &opcode) {
  std::string_view boolean = take_boolean(opcode);
  uint16_t flags = opcode.take("ftz") ? kFlagFtz : 0;
  if (opcode.size() != 3)
    return refuse();
  Type to = ptx::parse_type(opcode[1]), from = ptx::parse_type(opcode[2]);
  size_t count = boolean.empty() ? 3 : 4;
  CUGRT_TRY(expect_operands(count, count));
  bool packed = from == Type::f16x2 || from == Type::bf16x2;
  std::string name = "setp." + std::string(opcode[0]) + "." +
                     (packed ? from == Type::f16x2 ? "f16" : "bf16" : std::string(opcode[2]));
  auto id = find_op(name);
  if (!id || lane_bits(to) != 32 || (packed && !boolean.empty()))
    return refuse();
  CUGRT_ASSIGN(uint32_t a, source(operand(1), from));
  CUGRT_ASSIGN(uint32_t b, source(operand(2), from));
  CUGRT_ASSIGN(Destination d, destination(operand(0), to));
  uint32_t yes = to == Type::f32                          ? 0x3f800000u
                 : to == Type::f16 || to == Type::f16x2   ? 0x3c00u
                 : to == Type::bf16 || to == Type::bf16x2 ? 0x3f80u
                 : packed || ptx::type_bytes(to) == 2     ? 0xffffu
                                                          : ~0u;
  uint32_t holds = constant_cell(yes, false), fails = constant_cell(0, false);
  uint32_t compared = temporary(32);
  emit(*id, compared, a, b).flags |= flags;
  if (!boolean.empty())
    CUGRT_TRY(combine(boolean, compared, compared, false, operand(3)));
  if (!packed) {
    emit(OpId::selp_32, d.cell, holds, fails, compared);
    finish(d);
    return {};
  }
  uint32_t high_a = temporary(32), high_b = temporary(32), high = temporary(32),
           low = temporary(32);
  emit(OpId::high_half, high_a, a);
  emit(OpId::high_half, high_b, b);
  emit(OpId::selp_32, low, holds, fails, compared);
  emit(*id, compared, high_a, high_b).flags |= flags;
  emit(OpId::selp_32, high, holds, fails, compared);
  emit(OpId::pack_16, d.cell, low, high);
  finish(d);
  return {};
}

} // namespace cugrt::emulator
