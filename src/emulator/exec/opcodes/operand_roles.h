// Tells which fields of a decoded operation are register cells that it reads or writes, for the
// passes over decoded code.
#pragma once

#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator {

/// Fields of Op that can hold cells.
enum CellField : uint8_t {
  kFieldD = 1,
  kFieldA = 2,
  kFieldB = 4,
  kFieldC = 8,
  kFieldE = 16,
  kFieldCache = 32,
  kFieldGuard = 64,
};

struct OperandRoles {
  uint8_t reads = 0, writes = 0; // of CellField
  /// The path may stop here and go on later, after others: nothing is known of the warp's own state
  /// behind it.
  bool leaves = false;
};

/// A call's arguments and results, and the fragments of mma, are not among them: such cells are
/// pinned (decode/passes/passes.h).
OperandRoles roles_of(const Op &op);

/// The cell in a field; for each bit of `fields`, visit(cell&).
template <class AnyOp, class Visit> void for_each_cell(AnyOp &op, uint8_t fields, Visit visit) {
  if (fields & kFieldD)
    visit(op.d);
  if (fields & kFieldA)
    visit(op.a);
  if (fields & kFieldB)
    visit(op.b);
  if (fields & kFieldC)
    visit(op.c);
  if (fields & kFieldE)
    visit(op.e);
  if (fields & kFieldCache)
    visit(op.cache);
  if (fields & kFieldGuard)
    visit(op.guard);
}

} // namespace cugrt::emulator
