// Order of a function's basic blocks.
//
// Reverse post-order of a depth-first walk that enters shallower successors first, so that they
// come last: the blocks of a loop stay together, and a join stands behind all of the region it
// closes. Running the lowest operation first then reconverges at immediate post-dominators.
#pragma once

#include "emulator/ptx/module.h"

#include <cstdint>
#include <vector>

namespace cugrt::emulator {

struct BasicBlock {
  uint32_t first = 0, end = 0;      // instructions
  std::vector<uint32_t> successors; // branch targets, then the block that follows
  bool falls_through = false;       // the last successor is the block that follows
};

/// Blocks in the order of the text.
std::vector<BasicBlock> split_blocks(const ptx::Function &function);
/// Indices of the reachable blocks in the order to lay them out; the entry is first.
std::vector<uint32_t> lay_out(const std::vector<BasicBlock> &blocks);

/// True for an instruction after which no lane goes on to the next one.
bool ends_path(const ptx::Instruction &instruction);
bool is_branch(const ptx::Instruction &instruction);

} // namespace cugrt::emulator
