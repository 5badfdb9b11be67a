// Groups of accesses through one register, by basic block. A group ends where the register is
// written, where the path may stop and others run, and where its place in the warp is taken.
#include "emulator/decode/passes/passes.h"
#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/opcodes/operand_roles.h"

#include <algorithm>
#include <array>

namespace cugrt::emulator {

namespace {

constexpr uint32_t kGroups = kShapeMask; // place 0 is everybody's

struct Groups {
  struct Group {
    uint32_t cell = kNoCell, bytes = 0, used = 0;
  };
  std::array<Group, kGroups> groups;
  uint32_t time = 0;

  void forget() { groups = {}; }
  void forget(uint32_t cell) {
    for (Group &group : groups)
      if (group.cell == cell)
        group = {};
  }
  /// The flags of an access.
  uint16_t join(uint32_t cell, uint32_t bytes) {
    auto known = std::find_if(groups.begin(), groups.end(), [&](const Group &group) {
      return group.cell == cell && group.bytes == bytes;
    });
    bool is_known = known != groups.end();
    if (!is_known)
      known = std::min_element(groups.begin(), groups.end(),
                               [](const Group &a, const Group &b) { return a.used < b.used; });
    *known = {cell, bytes, ++time};
    return uint16_t(uint16_t(known - groups.begin() + 1) | (is_known ? kFlagKnownShape : 0));
  }
};

} // namespace

void group_addresses(Draft &draft) {
  std::vector<bool> starts = block_starts(draft);
  Groups groups;
  for (size_t i = 0; i < draft.code.ops.size(); ++i) {
    Op &op = draft.code.ops[i];
    OperandRoles roles = roles_of(op);
    if (starts[i] || roles.leaves)
      groups.forget();
    const AccessRow &row = access_row(&op);
    bool has_shape = row.space == ptx::Space::global || row.space == ptx::Space::shared;
    if (row.is_plain() && has_shape && !op.inner && !(op.flags & kFlagVolatile))
      op.flags |= groups.join(op.a, row.total_bytes());
    for_each_cell(op, roles.writes, [&](uint32_t cell) { groups.forget(cell); });
  }
}

} // namespace cugrt::emulator
