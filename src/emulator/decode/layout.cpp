// Blocks, dominators, loop depths, layout. The analyses are bounded: on a hostile graph depths may
// come out too small, which costs convergence and nothing else.
#include "emulator/decode/layout.h"

#include <algorithm>

namespace cugrt::emulator {

constexpr uint32_t kNowhere = UINT32_MAX;
constexpr uint64_t kMaxSteps = 50'000'000;

static std::string_view mnemonic(const ptx::Instruction &instruction) {
  return instruction.opcode.substr(0, instruction.opcode.find('.'));
}

/// Labels that an instruction can branch to.
static void add_targets(const ptx::Function &function, const ptx::Instruction &instruction,
                        std::vector<uint32_t> &labels) {
  for (uint32_t i = 0; i < instruction.operand_count; ++i) {
    const ptx::Operand &operand = function.operands[instruction.first_operand + i];
    if (operand.kind != ptx::Operand::Kind::label)
      continue;
    const ptx::Label &label = function.labels[size_t(operand.index)];
    if (label.targets.empty())
      labels.push_back(uint32_t(operand.index));
    for (int32_t target : label.targets)
      labels.push_back(uint32_t(target));
  }
}

/// Depth-first post-order; successors in the order of `before`.
template <class Order>
static std::vector<uint32_t> reverse_post_order(const std::vector<BasicBlock> &blocks,
                                                Order order) {
  std::vector<uint32_t> result;
  std::vector<bool> seen(blocks.size());
  struct Visit {
    uint32_t block;
    std::vector<uint32_t> successors;
    size_t next;
  };
  std::vector<Visit> stack;
  seen[0] = true;
  stack.push_back({0, order(0), 0});
  while (!stack.empty()) {
    Visit &visit = stack.back();
    if (visit.next == visit.successors.size()) {
      result.push_back(visit.block);
      stack.pop_back();
      continue;
    }
    uint32_t successor = visit.successors[visit.next++];
    if (seen[successor])
      continue;
    seen[successor] = true;
    stack.push_back({successor, order(successor), 0});
  }
  std::reverse(result.begin(), result.end());
  return result;
}

/// Immediate dominators (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm).
static std::vector<uint32_t> dominators(const std::vector<std::vector<uint32_t>> &predecessors,
                                        const std::vector<uint32_t> &order,
                                        const std::vector<uint32_t> &number, uint64_t &steps) {
  std::vector<uint32_t> idom(predecessors.size(), kNowhere);
  idom[0] = 0;
  for (bool changed = true; changed && steps < kMaxSteps;) {
    changed = false;
    for (uint32_t block : order) {
      if (block == 0)
        continue;
      uint32_t best = kNowhere;
      for (uint32_t p : predecessors[block]) {
        if (idom[p] == kNowhere)
          continue;
        uint32_t other = best == kNowhere ? p : best;
        while (p != other && steps < kMaxSteps) {
          ++steps;
          if (number[p] > number[other])
            p = idom[p];
          else
            other = idom[other];
        }
        best = p;
      }
      changed |= idom[block] != best;
      idom[block] = best;
    }
  }
  return idom;
}

static std::vector<uint32_t> loop_depths(const std::vector<BasicBlock> &blocks) {
  auto plain = [&](uint32_t block) { return blocks[block].successors; };
  std::vector<uint32_t> order = reverse_post_order(blocks, plain);
  std::vector<uint32_t> number(blocks.size(), kNowhere);
  for (uint32_t i = 0; i < order.size(); ++i)
    number[order[i]] = i;
  std::vector<std::vector<uint32_t>> predecessors(blocks.size());
  for (uint32_t block : order)
    for (uint32_t successor : blocks[block].successors)
      predecessors[successor].push_back(block);
  uint64_t steps = 0;
  std::vector<uint32_t> idom = dominators(predecessors, order, number, steps);
  std::vector<uint32_t> depth(blocks.size()), mark(blocks.size(), kNowhere), work;
  for (uint32_t header : order) {
    work.clear();
    for (uint32_t p : predecessors[header]) {
      uint32_t up = p; // a back edge comes from a block that the header dominates
      while (number[up] > number[header] && idom[up] != kNowhere && ++steps < kMaxSteps)
        up = idom[up];
      if (up == header)
        work.push_back(p);
    }
    if (work.empty())
      continue;
    mark[header] = header;
    ++depth[header];
    while (!work.empty() && ++steps < kMaxSteps) {
      uint32_t block = work.back();
      work.pop_back();
      if (mark[block] == header)
        continue;
      mark[block] = header;
      ++depth[block];
      for (uint32_t p : predecessors[block])
        work.push_back(p);
    }
  }
  return depth;
}

bool is_branch(const ptx::Instruction &instruction) {
  std::string_view name = mnemonic(instruction);
  return name == "bra" || name == "brx";
}

bool ends_path(const ptx::Instruction &instruction) {
  std::string_view name = mnemonic(instruction);
  return instruction.guard < 0 &&
         (name == "bra" || name == "brx" || name == "ret" || name == "exit" || name == "trap");
}

std::vector<BasicBlock> split_blocks(const ptx::Function &function) {
  uint32_t count = uint32_t(function.instructions.size());
  std::vector<bool> leader(count + 1);
  leader[0] = true;
  for (const ptx::Label &label : function.labels)
    leader[label.instruction] = true;
  for (uint32_t i = 0; i < count; ++i)
    if (is_branch(function.instructions[i]) || ends_path(function.instructions[i]))
      leader[i + 1] = true;
  std::vector<uint32_t> block_of(count + 1);
  std::vector<BasicBlock> blocks;
  for (uint32_t i = 0; i <= count; ++i) {
    // One block beyond the last instruction is a return, for control that falls off the end.
    if (leader[i] || i == count)
      blocks.push_back({i, i, {}, false});
    block_of[i] = uint32_t(blocks.size() - 1);
    blocks.back().end = std::min(i + 1, count);
  }
  std::vector<uint32_t> labels;
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    BasicBlock &block = blocks[b];
    if (block.first == block.end)
      continue;
    const ptx::Instruction &last = function.instructions[block.end - 1];
    labels.clear();
    if (is_branch(last))
      add_targets(function, last, labels);
    for (uint32_t label : labels)
      block.successors.push_back(block_of[function.labels[label].instruction]);
    block.falls_through = !ends_path(last);
    if (block.falls_through)
      block.successors.push_back(b + 1);
  }
  return blocks;
}

std::vector<uint32_t> lay_out(const std::vector<BasicBlock> &blocks) {
  std::vector<uint32_t> depth = loop_depths(blocks);
  return reverse_post_order(blocks, [&](uint32_t block) {
    std::vector<uint32_t> successors = blocks[block].successors;
    std::stable_sort(successors.begin(), successors.end(),
                     [&](uint32_t a, uint32_t b) { return depth[a] < depth[b]; });
    return successors;
  });
}

} // namespace cugrt::emulator
