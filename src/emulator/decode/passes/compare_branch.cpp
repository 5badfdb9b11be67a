// setp followed by the branch on its predicate: one operation, which still writes the predicate.
#include "emulator/decode/passes/passes.h"
#include "emulator/exec/opcodes/handlers.h"

#include <unordered_map>

namespace cugrt::emulator {

void fuse_compare_branches(Draft &draft) {
  std::vector<bool> starts = block_starts(draft);
  std::unordered_map<uint32_t, size_t> fixup_of; // branch to its place in fixups
  for (size_t i = 0; i < draft.fixups.size(); ++i)
    fixup_of[draft.fixups[i].op] = i;
  std::vector<Op> &ops = draft.code.ops;
  size_t compare = ops.size(); // the last operation that stays
  for (size_t i = 0; i < ops.size(); ++i) {
    if (draft.removed[i])
      continue;
    size_t before = compare;
    compare = i;
    if (OpId(ops[i].id) != OpId::bra_if || before == ops.size())
      continue;
    bool entered_between = false;
    for (size_t at = before + 1; at <= i; ++at)
      entered_between |= starts[at];
    Op &op = ops[before];
    const HandlerPair &fused = branch_handlers()[op.id];
    if (entered_between || !fused.full || op.inner || op.d != ops[i].guard)
      continue;
    op.run = fused;
    op.flags |= ops[i].flags & kFlagGuardNegated;
    draft.fixups[fixup_of.at(uint32_t(i))].op = uint32_t(before);
    draft.code.locations[before].instructions += draft.code.locations[i].instructions;
    draft.code.locations[i].instructions = 0;
    draft.removed[i] = true;
    compare = before;
  }
}

} // namespace cugrt::emulator
