// Address arithmetic of array accesses: base + (i << k), base + ((i + j) << k) and base + i * size,
// in two or three instructions whose intermediate results nothing else reads, become one operation.
#include "emulator/decode/passes/passes.h"
#include "emulator/exec/opcodes/operand_roles.h"

#include <unordered_map>

namespace cugrt::emulator {

namespace {

constexpr size_t kNone = SIZE_MAX;

class IndexFusion {
public:
  explicit IndexFusion(Draft &draft) : draft_(draft), ops_(draft.code.ops) {
    for (const Op &op : ops_)
      for_each_cell(op, roles_of(op).reads, [&](uint32_t cell) { ++reads_[cell]; });
  }

  void run() {
    std::vector<bool> starts = block_starts(draft_);
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (starts[i])
        definition_.clear();
      if (draft_.removed[i])
        continue;
      if (!ops_[i].inner)
        fuse(i);
      for_each_cell(ops_[i], roles_of(ops_[i]).writes,
                    [&](uint32_t cell) { definition_[cell] = i; });
    }
  }

private:
  /// The operation of this block that computes `cell`, if only one operation reads it and its
  /// operands are still there.
  size_t source(uint32_t cell) const {
    auto it = definition_.find(cell);
    if (it == definition_.end() || draft_.pinned.count(cell) || reads_.at(cell) != 1)
      return kNone;
    const Op &op = ops_[it->second];
    bool is_intact = !op.inner && !draft_.removed[it->second];
    for_each_cell(op, roles_of(op).reads, [&](uint32_t read) {
      auto written = definition_.find(read);
      is_intact = is_intact && (written == definition_.end() || written->second < it->second);
    });
    return is_intact ? it->second : kNone;
  }

  void replace(size_t i, size_t gone, OpId id, uint32_t a, uint32_t b, uint32_t c, uint32_t e) {
    Op &op = ops_[i];
    op.id = uint16_t(id);
    op.run = handlers()[size_t(id)];
    op.a = a;
    op.b = b;
    op.c = c;
    op.e = e;
    draft_.removed[gone] = true;
  }

  void fuse(size_t i) {
    if (OpId(ops_[i].id) != OpId::add_64)
      return;
    const uint32_t operands[] = {ops_[i].a, ops_[i].b};
    for (int side : {1, 0}) {
      size_t scaled = operands[0] == operands[1] ? kNone : source(operands[side]);
      if (scaled == kNone)
        continue;
      const Op from = ops_[scaled];
      const uint32_t base = operands[1 - side];
      if (OpId(from.id) == OpId::mul_wide_s32)
        return replace(i, scaled, OpId::mad_wide_s32, from.a, from.b, base, 0);
      if (OpId(from.id) == OpId::mul_wide_u32)
        return replace(i, scaled, OpId::mad_wide_u32, from.a, from.b, base, 0);
      if (OpId(from.id) != OpId::shl_64)
        continue;
      size_t sum = source(from.a);
      replace(i, scaled, OpId::shl_add_64, from.a, from.b, base, 0);
      if (sum != kNone && OpId(ops_[sum].id) == OpId::add_64)
        replace(i, sum, OpId::add_shl_add_64, ops_[sum].a, ops_[sum].b, base, from.b);
      return;
    }
  }

  Draft &draft_;
  std::vector<Op> &ops_;
  std::unordered_map<uint32_t, uint32_t> reads_; // of each cell, in the function
  std::unordered_map<uint32_t, size_t>
      definition_; // the last write to each cell, in the block so far
};

} // namespace

void fuse_index_arithmetic(Draft &draft) { IndexFusion(draft).run(); }

} // namespace cugrt::emulator
