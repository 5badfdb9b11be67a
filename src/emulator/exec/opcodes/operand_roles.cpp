// Which cells the rows of opcodes.def read and write.
#include "emulator/exec/opcodes/operand_roles.h"

#include "emulator/exec/warps/control.h"

namespace cugrt::emulator {

namespace {

// The fields as opcodes.def names them; the last three depend on the operation.
constexpr uint16_t D = kFieldD, A = kFieldA, B = kFieldB, C = kFieldC, E = kFieldE, X = kFieldCache,
                   G = kFieldGuard, P = 128, W = 256, N = 512;

struct Row {
  uint16_t reads = 0, writes = 0;
  bool leaves = false;
};

constexpr Row roles(uint16_t reads, uint16_t writes) { return {reads, writes}; }
constexpr Row leaves(uint16_t reads, uint16_t writes) { return {reads, writes, true}; }
constexpr Row nothing = leaves(0, 0);

/// Element cells of a vector access, in order.
constexpr uint16_t elements(uint32_t count) {
  return count == 1 ? D : count == 2 ? D | B : count == 3 ? D | B | C : D | B | C | E;
}

constexpr uint16_t values_read(uint32_t count) {
  constexpr uint16_t kFirst[] = {0, A, A | B, A | B | C, A | B | C | E};
  return kFirst[count];
}

constexpr Row kRows[] = {
#define ROW(id, names, cls, sources, values) roles(values_read(values), values ? D : 0),
#define OWN(id, names, cls, cells) cells,
#define LOAD(id, names, space, T, count, cls) roles(A, elements(count)),
#define STORE(id, names, space, T, count, cls) roles(A | elements(count), 0),
#include "emulator/exec/opcodes/opcodes.def"
};

uint8_t fields_of(const Op &op, uint32_t fields) {
  if (fields & P && op.flags & kFlagHasPredicate)
    fields |= X;
  if (fields & W && op.flags & kFlagWide)
    fields |= E;
  if (fields & N)
    fields |= elements(ParamElement::unpack(op.cache).count);
  return uint8_t(fields & (P - 1));
}

} // namespace

OperandRoles roles_of(const Op &op) {
  const Row &row = kRows[op.id];
  const uint32_t guard = op.inner ? G : 0;
  return {fields_of(op, row.reads | guard), fields_of(op, row.writes), row.leaves};
}

} // namespace cugrt::emulator
