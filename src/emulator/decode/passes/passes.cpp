// The order of the passes, and functions that they share.
#include "emulator/decode/passes/passes.h"

namespace cugrt::emulator {

void optimize(Draft &draft) {
  draft.removed.assign(draft.code.ops.size(), false);
  propagate_copies(draft);
  fuse_index_arithmetic(draft);
  fuse_compare_branches(draft);
  compact(draft);
  group_addresses(draft);
}

std::vector<bool> block_starts(const Draft &draft) {
  std::vector<bool> starts(draft.code.ops.size() + 1);
  for (uint32_t first : draft.first_op)
    if (first != kNoCell)
      starts[first] = true;
  return starts;
}

void compact(Draft &draft) {
  std::vector<Op> &ops = draft.code.ops;
  std::vector<OpLocation> &locations = draft.code.locations;
  std::vector<uint32_t> moved(ops.size() + 1);
  uint32_t kept = 0, waiting = 0; // instructions of removed operations
  for (size_t i = 0; i < ops.size(); ++i) {
    moved[i] = kept;
    if (draft.removed[i]) {
      waiting += locations[i].instructions;
      continue;
    }
    ops[kept] = ops[i];
    locations[kept] = locations[i];
    locations[kept].instructions += waiting;
    waiting = 0;
    ++kept;
  }
  moved[ops.size()] = kept;
  ops.resize(kept);
  locations.resize(kept);
  for (uint32_t &first : draft.first_op)
    first = first == kNoCell ? kNoCell : moved[first];
  for (BranchFixup &fixup : draft.fixups)
    fixup.op = moved[fixup.op];
  draft.removed.assign(kept, false);
}

} // namespace cugrt::emulator
