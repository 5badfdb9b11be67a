// mma and ldmatrix.
#include "emulator/decode/lowering.h"
#include "emulator/exec/matrix.h"

namespace cugrt::emulator {

/// The registers of {a, b, ...}, or of a single one, into `slots`; how many there are.
Result<uint32_t> Lowering::fragment(const Operand &operand, bool written,
                                    std::array<uint32_t, 8> &slots) {
  CUGRT_ASSIGN(std::vector<const Operand *> parts, elements(operand, slots.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (written) {
      CUGRT_ASSIGN(Destination d, destination(*parts[i], Type::b32));
      if (d.widen_to != kNoSlot)
        return error("a fragment in registers of 64 bits");
      slots[i] = d.slot;
    } else {
      CUGRT_ASSIGN(slots[i], source(*parts[i], Type::b32));
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
  auto id = find_op(opcode.name());
  if (!id)
    return refuse();
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
  CUGRT_ASSIGN(site->a_count, fragment(operand(1), false, site->a));
  CUGRT_ASSIGN(site->b_count, fragment(operand(2), false, site->b));
  CUGRT_ASSIGN(site->c_count, fragment(operand(3), false, site->c));
  CUGRT_ASSIGN(site->d_count, fragment(operand(0), true, site->d));
  if (site->a_count != 16 * depth * bits / 1024 || site->b_count != 8 * depth * bits / 1024 ||
      site->c_count != each || site->d_count != each)
    return error("fragments of other sizes than the shape's");
  for (const auto *slots : {&site->a, &site->b, &site->c, &site->d})
    for (uint32_t slot : *slots)
      pinned_.insert(slot);
  emit(*id).extra = site.get();
  out_.matrices.push_back(std::move(site));
  return {};
}

/// ldmatrix.sync.aligned.m8n8.x1{.trans}{.shared}.b16 {d, ...}, [p]
Status Lowering::lower_ldmatrix(Opcode &opcode) {
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return refuse();
  Space space = opcode.take("shared") || opcode.take("shared::cta") ? Space::shared : Space::none;
  auto id = find_op(opcode.name());
  if (!id)
    return refuse();
  const uint32_t count = opcode.has("x1") ? 1 : opcode.has("x2") ? 2 : 4;
  CUGRT_TRY(expect_operands(2, 2));
  CUGRT_ASSIGN(Address from, address(operand(1), space));
  if (from.is_place || (from.space != Space::shared && from.space != Space::none))
    return refuse();
  std::array<uint32_t, 8> slots{};
  CUGRT_ASSIGN(uint32_t given, fragment(operand(0), true, slots));
  if (given != count)
    return error("expected " + std::to_string(count) + " registers");
  Op &op = emit(*id, slots[0], from.slot, slots[1], slots[2], slots[3]);
  op.imm = from.offset;
  op.flags |= uint16_t(uint16_t(from.space) << kSpaceShift | (from.wide ? kFlagWide : 0));
  return {};
}

} // namespace cugrt::emulator
