// Passes over a function's decoded operations. Each keeps every result and every fault as it is,
// and may be left out: tests run programs with and without them.
#pragma once

#include "emulator/exec/warps/warp.h"

#include <unordered_set>
#include <vector>

namespace cugrt::emulator {

/// An operation that goes to the beginning of a block.
struct BranchFixup {
  uint32_t op, block;
};

/// A function after lowering, before its branches have addresses.
struct Draft {
  FunctionCode &code;
  std::vector<uint32_t> &first_op;               // of each block; kNoCell for those left out
  std::vector<BranchFixup> &fixups;              //
  const std::unordered_set<uint32_t> &pinned;    // cells that calls name
  const std::unordered_set<uint32_t> &read_only; // cells of constants and special registers
  std::vector<bool> removed;                     // of each operation; compact() takes them out
};

/// All passes in their order.
void optimize(Draft &draft);

/// mov: later reads in its block take the source instead; everywhere, where the source is a
/// constant. A mov that nothing reads any more is removed.
void propagate_copies(Draft &draft);
/// Makes base + (i << k) and its like one operation, if nothing else reads the values in between.
void fuse_index_arithmetic(Draft &draft);
/// A comparison right before the branch on its result does both.
void fuse_compare_branches(Draft &draft);
/// Takes removed operations out; their instructions count for the next one.
void compact(Draft &draft);
/// Accesses of one size through one register that does not change in between, in one block: the
/// first leaves the shape of the addresses for the others.
void group_addresses(Draft &draft);

/// Marks the first operation of each block.
std::vector<bool> block_starts(const Draft &draft);

} // namespace cugrt::emulator
