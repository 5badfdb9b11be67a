// Copies by mov. Within a block a read of the copy becomes a read of its source until either is
// written; a copy of what never changes is replaced in the whole function, when it is the only
// write to its register. Lanes need no care: a block is entered at its beginning only, so that
// whoever reads the copy there has executed the mov.
#include "emulator/decode/passes/passes.h"
#include "emulator/exec/opcodes/operand_roles.h"

#include <unordered_map>

namespace cugrt::emulator {

namespace {

using Sources = std::unordered_map<uint32_t, uint32_t>; // copy to source

bool is_copy(const Draft &draft, const Op &op) {
  OpId id = OpId(op.id);
  return (id == OpId::mov_32 || id == OpId::mov_64) && !op.inner && op.d != op.a &&
         !draft.pinned.count(op.d) && !draft.pinned.count(op.a);
}

void replace_constants(Draft &draft) {
  std::unordered_map<uint32_t, uint32_t> writes;
  for (const Op &op : draft.code.ops)
    for_each_cell(op, roles_of(op).writes, [&](uint32_t cell) { ++writes[cell]; });
  Sources constants;
  for (const Op &op : draft.code.ops)
    if (is_copy(draft, op) && draft.read_only.count(op.a) && writes[op.d] == 1)
      constants.emplace(op.d, op.a);
  for (Op &op : draft.code.ops) {
    OperandRoles roles = roles_of(op);
    for_each_cell(op, uint8_t(roles.reads & ~roles.writes), [&](uint32_t &cell) {
      if (auto it = constants.find(cell); it != constants.end())
        cell = it->second;
    });
  }
}

void replace_in_blocks(Draft &draft) {
  std::vector<bool> starts = block_starts(draft);
  Sources sources;
  // A copy holds while its source has the number of writes that it had then.
  std::unordered_map<uint32_t, uint32_t> writes, writes_then;
  for (size_t i = 0; i < draft.code.ops.size(); ++i) {
    if (starts[i])
      sources.clear();
    Op &op = draft.code.ops[i];
    OperandRoles roles = roles_of(op);
    for_each_cell(op, uint8_t(roles.reads & ~roles.writes), [&](uint32_t &cell) {
      auto it = sources.find(cell);
      if (it != sources.end() && writes[it->second] == writes_then[cell])
        cell = it->second;
    });
    for_each_cell(op, roles.writes, [&](uint32_t written) {
      sources.erase(written);
      ++writes[written];
    });
    if (is_copy(draft, op)) {
      sources[op.d] = op.a;
      writes_then[op.d] = writes[op.a];
    }
  }
}

} // namespace

void propagate_copies(Draft &draft) {
  replace_constants(draft);
  replace_in_blocks(draft);
  std::unordered_set<uint32_t> read;
  for (const Op &op : draft.code.ops)
    for_each_cell(op, roles_of(op).reads, [&](uint32_t cell) { read.insert(cell); });
  for (size_t i = 0; i < draft.code.ops.size(); ++i) {
    const Op &op = draft.code.ops[i];
    draft.removed[i] = draft.removed[i] || (is_copy(draft, op) && !read.count(op.d));
  }
}

} // namespace cugrt::emulator
