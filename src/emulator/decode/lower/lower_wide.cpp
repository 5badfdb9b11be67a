// Operands of more than a lane: registers of 128 bits (two cells of 64), and pairs of f32.
#include "emulator/decode/lower/lowering.h"

namespace cugrt::emulator {

using ptx::Type;

/// The lower and the upper half of a register of 128 bits.
Result<std::array<uint32_t, 2>> Lowering::wide_cells(const Operand &operand) {
  constexpr uint32_t kHalf = kLanes * 8;
  if (operand.kind != Kind::reg || operand.is_address || operand.is_negated ||
      function_.registers[size_t(operand.index)].type != Type::b128)
    return error("expected a register of 128 bits");
  const uint32_t cell = register_cell(uint32_t(operand.index));
  return std::array{cell, cell + kHalf};
}

/// mov.b128 d, a; with one of them in two halves: {low, high}
Status Lowering::lower_wide_mov() {
  CUGRT_TRY(expect_operands(2, 2));
  const Operand &d = operand(0), &a = operand(1);
  if (d.kind == Kind::vector && a.kind == Kind::vector)
    return error("a vector from a vector");
  std::array<uint32_t, 2> to, from;
  if (a.kind == Kind::vector) {
    CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(a, 2));
    if (parts.size() != 2)
      return error("expected 2 elements");
    for (size_t i = 0; i < 2; ++i) {
      CUGRT_ASSIGN(from[i], source(*parts[i], Type::b64));
    }
  } else {
    CUGRT_ASSIGN(from, wide_cells(a));
  }
  if (d.kind == Kind::vector) {
    CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(d, 2));
    if (parts.size() != 2)
      return error("expected 2 elements");
    for (size_t i = 0; i < 2; ++i) {
      CUGRT_ASSIGN(Destination half, destination_or_sink(*parts[i], Type::b64));
      to[i] = half.cell;
    }
  } else {
    CUGRT_ASSIGN(to, wide_cells(d));
  }
  for (size_t i = 0; i < 2; ++i)
    emit(OpId::mov_64, to[i], from[i]);
  return {};
}

/// atom.exch.b128 d, [a], b; atom.cas.b128 d, [a], b, c
Status Lowering::lower_wide_atom(OpId id, const Address &where, size_t operands) {
  CUGRT_ASSIGN(auto d, wide_cells(operand(0)));
  CUGRT_ASSIGN(auto b, wide_cells(operand(2)));
  auto c = b;
  if (operands == 4) {
    CUGRT_ASSIGN(c, wide_cells(operand(3)));
  }
  for (const auto &cells : {d, b, c}) // the handler goes from one half to the other
    pinned_.insert(cells.begin(), cells.end());
  Op &op = emit(id, d[0], where.cell, b[0], c[0]);
  set_address(op, where);
  op.cache = next_cache();
  return {};
}

/// add, sub, mul and fma of two f32 in 64 bits: each half by itself.
Status Lowering::lower_float_pair(Opcode &opcode) {
  const size_t sources = opcode.mnemonic() == "fma" ? 3 : 2;
  CUGRT_TRY(expect_operands(sources + 1, sources + 1));
  const Rounding rounding = opcode.take_rounding();
  uint16_t flags = uint16_t(uint16_t(rounding) << kRoundingShift);
  flags |= opcode.take("ftz") ? kFlagFtz : 0;
  const std::string directed = rounding == Rounding::nearest ? "" : "directed.";
  auto id = find_op(directed + std::string(opcode.mnemonic()) + ".f32");
  if (!id || opcode.size() != 1)
    return refuse();
  uint32_t halves[2][3] = {};
  for (size_t i = 0; i < sources; ++i) {
    CUGRT_ASSIGN(uint32_t pair, source(operand(i + 1), Type::b64));
    for (size_t half = 0; half < 2; ++half) {
      halves[half][i] = temporary(32);
      emit(half ? OpId::high_word : OpId::narrow, halves[half][i], pair);
    }
  }
  CUGRT_ASSIGN(Destination d, destination(operand(0), Type::b64));
  uint32_t results[2];
  for (size_t half = 0; half < 2; ++half) {
    results[half] = temporary(32);
    emit(*id, results[half], halves[half][0], halves[half][1], halves[half][2]).flags |= flags;
  }
  emit(OpId::pack_32, d.cell, results[0], results[1]);
  return {};
}

/// alloca.T address, bytes {, alignment}; stacksave.T d; stackrestore.T a
Status Lowering::lower_stack(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  const Type type = opcode.last_type();
  code_.allocates = out_.allocates = true;
  if (opcode.mnemonic() == "stackrestore") {
    CUGRT_TRY(expect_operands(1, 1));
    CUGRT_ASSIGN(uint32_t a, source(operand(0), type));
    emit(id, 0, a);
    return {};
  }
  const bool allocates = opcode.mnemonic() == "alloca";
  CUGRT_TRY(expect_operands(allocates ? 2 : 1, allocates ? 3 : 1));
  uint32_t bytes = 0, align = 8;
  if (allocates) {
    CUGRT_ASSIGN(bytes, source(operand(1), type));
  }
  if (operand_count() == 3) {
    CUGRT_ASSIGN(align, integer_constant(operand(2)));
    if (align == 0 || (align & (align - 1)))
      return error(std::to_string(align) + " is no alignment");
  }
  CUGRT_ASSIGN(Destination d, destination(operand(0), type));
  emit(id, d.cell, bytes).imm = align;
  return {};
}

} // namespace cugrt::emulator
