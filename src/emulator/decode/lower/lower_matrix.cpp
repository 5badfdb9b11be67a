// mma, ldmatrix, stmatrix, movmatrix.
#include "emulator/decode/lower/lowering.h"
#include "emulator/exec/units/wmma.h"

namespace cugrt::emulator {

/// The registers of {a, b, ...}, which hold elements of the type, into `cells`; how many there are.
Result<uint32_t> Lowering::fragment(const Operand &operand, bool written, Type type,
                                    std::array<uint32_t, 8> &cells) {
  if (operand.kind != Kind::vector)
    return error("expected a vector");
  CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(operand, cells.size()));
  CUGRT_TRY(check_agreement(parts));
  const Width width = type == Type::s32 ? Width::integer : Width::same;
  for (const Operand *part : parts)
    if ((part->kind == Kind::real && !part->is_float) ||
        (part->kind == Kind::integer && type == Type::b32))
      return error("a literal in a fragment");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (written) {
      CUGRT_ASSIGN(Destination d, destination_or_sink(*parts[i], type, width));
      if (d.widen_to != kNoCell)
        return error("a fragment in registers of 64 bits");
      cells[i] = d.cell;
    } else {
      CUGRT_ASSIGN(cells[i], source(*parts[i], type, width));
    }
  }
  return uint32_t(parts.size());
}

/// mma.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C d, a, b, c
Status Lowering::lower_mma(Opcode &opcode) {
  auto site = std::make_unique<MatrixSite>();
  site->saturates = opcode.take("satfinite");
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return refuse();
  if (opcode[1] != "row" || opcode[2] != "col") // what .m8n8k4 has besides is not executed
    return opcode[0] == "m8n8k4" ? refuse() : error("the layouts of this shape are .row.col");
  opcode.take("row");
  opcode.take("col");
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  const std::string_view shape = opcode[0], in = opcode[2], out = opcode[1];
  const uint32_t depth = shape == "m16n8k4"    ? 4
                         : shape == "m16n8k8"  ? 8
                         : shape == "m16n8k16" ? 16
                                               : 32;
  const uint32_t bits = in == "tf32" ? 32 : in == "s8" || in == "u8" ? 8 : 16;
  const uint32_t each = out == "f16" ? 2 : 4;
  if (site->saturates && out != "s32")
    return refuse();
  CUGRT_TRY(expect_operands(4, 4));
  const Type a_type = bits == 8      ? Type::b32
                      : in == "tf32" ? Type::tf32
                      : in == "bf16" ? Type::bf16x2
                                     : Type::f16x2;
  const Type c_type = out == "f16" ? Type::f16x2 : ptx::parse_type(out);
  CUGRT_ASSIGN(site->a_count, fragment(operand(1), false, a_type, site->a));
  CUGRT_ASSIGN(site->b_count, fragment(operand(2), false, a_type, site->b));
  CUGRT_ASSIGN(site->c_count, fragment(operand(3), false, c_type, site->c));
  CUGRT_ASSIGN(site->d_count, fragment(operand(0), true, c_type, site->d));
  if (site->a_count != 16 * depth * bits / 1024 || site->b_count != 8 * depth * bits / 1024 ||
      site->c_count != each || site->d_count != each)
    return error("fragments of other sizes than the shape's");
  for (const auto *cells : {&site->a, &site->b, &site->c, &site->d})
    for (uint32_t cell : *cells)
      pinned_.insert(cell);
  emit(id).extra = site.get();
  out_.matrices.push_back(std::move(site));
  return {};
}

/// ldmatrix.sync.aligned.m8n8.x1{.trans}{.shared}.b16 {d, ...}, [p], and stmatrix with the operands
/// exchanged.
Status Lowering::lower_matrix_access(Opcode &opcode) {
  const bool is_store = opcode.mnemonic() == "stmatrix";
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return refuse();
  Space space = opcode.take("shared") || opcode.take("shared::cta") ? Space::shared : Space::none;
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  const uint32_t count = opcode.has("x1") ? 1 : opcode.has("x2") ? 2 : 4;
  CUGRT_TRY(expect_operands(2, 2));
  CUGRT_ASSIGN(Address from, address(operand(is_store ? 0 : 1), space));
  if (from.is_place || (from.space != Space::shared && from.space != Space::none))
    return refuse();
  std::array<uint32_t, 8> cells{};
  CUGRT_ASSIGN(uint32_t given, fragment(operand(is_store ? 1 : 0), !is_store, Type::b32, cells));
  if (given != count)
    return error("expected " + std::to_string(count) + " registers");
  Op &op = emit(id, cells[0], from.cell, cells[1], cells[2], cells[3]);
  op.imm = from.offset;
  op.flags |= uint16_t(uint16_t(from.space) << kSpaceShift | (from.wide ? kFlagWide : 0));
  return {};
}

/// movmatrix.sync.aligned.m8n8.trans.b16 d, a
Status Lowering::lower_movmatrix(Opcode &opcode) {
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return refuse();
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(2, 2));
  if (operand(1).kind == Kind::integer)
    return error("a literal as a matrix");
  CUGRT_ASSIGN(uint32_t a, source(operand(1), Type::b32));
  return emit_result(id, Type::b32, {a});
}

} // namespace cugrt::emulator
