// Which ops can be in a generated kernel, and how a group is split into them.
#include "compiler/fused/element_code.h"

#include <algorithm>

namespace cugrt::codegen {

bool computes_what_it_loads(ir::Op op) {
  return is_part(op, ir::OpPart::reduces) || is_part(op, ir::OpPart::searches);
}

bool is_anchor(ir::Op op) {
  const ir::OpPattern pattern = ir::op_info(op).pattern;
  return pattern == ir::OpPattern::reduction || pattern == ir::OpPattern::out_fusable;
}

Places places_of(const FusedGroup &group, std::span<const uint32_t> ops) {
  Places places;
  for (uint32_t op : ops)
    if (is_anchor(group.ops[op].op))
      places.anchor = op;
  std::vector<bool> needed(group.values.size());
  if (places.anchor != FusedGroup::kNoValue)
    for (uint32_t operand : group.ops[places.anchor].operands)
      if (operand != FusedGroup::kNoValue)
        needed[operand] = true;
  for (size_t i = ops.size(); i-- > 0;) {
    const FusedOp &op = group.ops[ops[i]];
    if (ops[i] == places.anchor)
      continue;
    const bool is_before =
        places.anchor != FusedGroup::kNoValue && ops[i] < places.anchor && needed[op.result];
    if (is_before)
      for (uint32_t operand : op.operands)
        if (operand != FusedGroup::kNoValue)
          needed[operand] = true;
    (is_before ? places.before : places.after).push_back(ops[i]);
  }
  std::reverse(places.before.begin(), places.before.end());
  std::reverse(places.after.begin(), places.after.end());
  return places;
}

namespace {

class Splitter {
public:
  Splitter(ir::Module &module, const FusedGroup &group) : module_(module), group_(group) {}

  std::vector<FusedPart> run() {
    std::vector<uint32_t> ops(group_.ops.size());
    for (uint32_t i = 0; i < ops.size(); ++i)
      ops[i] = i;
    const size_t anchors = size_t(std::count_if(
        ops.begin(), ops.end(), [&](uint32_t op) { return is_anchor(group_.ops[op].op); }));
    if (anchors > 1 || !is_tree(ops)) {
      alone(ops);
      return std::move(parts_);
    }
    peel_front(ops);
    const std::vector<uint32_t> behind = peel_back(ops);
    split(ops);
    alone(behind);
    return std::move(parts_);
  }

private:
  void alone(std::span<const uint32_t> ops) {
    for (uint32_t op : ops)
      parts_.push_back({{op}});
  }

  /// Whether each result but the last is used by a later op.
  bool is_tree(std::span<const uint32_t> ops) const {
    std::vector<bool> used(group_.values.size());
    for (uint32_t op : ops)
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != FusedGroup::kNoValue)
          used[operand] = true;
    return std::all_of(ops.begin(), ops.end() - 1,
                       [&](uint32_t op) { return used[group_.ops[op].result]; });
  }

  /// Reshapes and slices of the group's inputs that are views; reshapes of its result.
  void peel_front(std::vector<uint32_t> &ops) {
    std::vector<bool> is_made(group_.values.size());
    std::vector<uint32_t> rest;
    for (uint32_t number : ops) {
      const FusedOp &op = group_.ops[number];
      if (is_view(op) && !is_made[op.operands[0]] && number != ops.back()) {
        alone(std::span(&number, 1));
        continue;
      }
      is_made[op.result] = true;
      rest.push_back(number);
    }
    ops = std::move(rest);
  }

  /// Whether the op can be a view of an input: a reshape, or a slice of a run of elements.
  bool is_view(const FusedOp &op) {
    if (op.op == ir::Op::reshape)
      return true;
    if (op.op != ir::Op::slice)
      return false;
    auto dims = [&](uint32_t value) { return module_.types[group_.values[value].type].dims; };
    const Result<std::vector<ir::SliceDimension>> slice =
        op.operands.size() > 1
            ? slice_of_shapes(dims(op.operands[1]), dims(op.operands[2]))
            : ir::slice_dimensions(module_.exprs, dims(op.operands[0]), op.attributes);
    return slice.ok() && run_begin(module_.exprs, dims(op.operands[0]), *slice).valid();
  }

  std::vector<uint32_t> peel_back(std::vector<uint32_t> &ops) {
    std::vector<uint32_t> behind;
    while (ops.size() > 1 && group_.ops[ops.back()].op == ir::Op::reshape &&
           group_.ops[ops.back()].operands[0] == group_.ops[ops[ops.size() - 2]].result) {
      behind.insert(behind.begin(), ops.back());
      ops.pop_back();
    }
    return behind;
  }

  bool can_generate(const std::vector<uint32_t> &ops) {
    const FusedPart part{ops};
    // Values of other parts are given by the time this one is emitted.
    FusedGroup given = group_;
    for (FusedGroup::Value &value : given.values)
      value.given = {0};
    return generate(module_, given, part).ok();
  }

  bool computes(std::span<const uint32_t> ops) const {
    return std::any_of(ops.begin(), ops.end(), [&](uint32_t op) {
      return !is_part(group_.ops[op].op, ir::OpPart::relabels);
    });
  }

  void split(const std::vector<uint32_t> &ops) {
    if (ops.size() < 2 || !computes(ops))
      return alone(ops);
    const Places places = places_of(group_, ops);
    if (places.anchor == FusedGroup::kNoValue || !used_after(places)) {
      if (can_generate(ops)) {
        parts_.push_back({ops});
        return;
      }
    }
    if (places.anchor == FusedGroup::kNoValue)
      return cut(ops);
    // The anchor with the ops before it, then the others.
    std::vector<uint32_t> first = places.before;
    first.push_back(places.anchor);
    if (!used_after(places) && first.size() > 1 && first.size() < ops.size() &&
        can_generate(first)) {
      parts_.push_back({first});
    } else {
      split_before(places.before);
      alone(std::span(&places.anchor, 1));
    }
    split_before(places.after);
  }

  void split_before(const std::vector<uint32_t> &ops) {
    if (ops.size() > 1 && computes(ops) && has_one_result(ops) && can_generate(ops))
      parts_.push_back({ops});
    else
      cut(ops);
  }

  /// Ops that are too much for one kernel: a kernel of the most that there may be behind a value
  /// that it reads several times, and what gives that; where there is no such value, each op alone.
  void cut(const std::vector<uint32_t> &ops) {
    for (size_t i = 0; i + 1 < ops.size(); ++i) {
      const std::vector<uint32_t> first = all_before(ops, i);
      std::vector<uint32_t> rest;
      std::ranges::set_difference(ops, first, std::back_inserter(rest));
      const auto reads = std::ranges::count_if(rest, [&](uint32_t op) {
        return std::ranges::count(group_.ops[op].operands, group_.ops[first.back()].result) > 0;
      });
      if (reads < 2 || !has_one_result(first) || !computes(rest) || !can_generate(rest))
        continue;
      first.size() > 1 ? split(first) : alone(first);
      parts_.push_back({rest});
      return;
    }
    alone(ops);
  }

  /// The ops that the op at a place reads, directly and indirectly, and itself, in order.
  std::vector<uint32_t> all_before(const std::vector<uint32_t> &ops, size_t place) const {
    std::vector<bool> needed(group_.values.size());
    needed[group_.ops[ops[place]].result] = true;
    std::vector<uint32_t> found;
    for (size_t i = place + 1; i-- > 0;) {
      const FusedOp &op = group_.ops[ops[i]];
      if (!needed[op.result])
        continue;
      found.push_back(ops[i]);
      for (uint32_t operand : op.operands)
        if (operand != FusedGroup::kNoValue)
          needed[operand] = true;
    }
    std::ranges::reverse(found);
    return found;
  }

  /// Whether only the last of `ops` has a result that others use.
  bool has_one_result(std::span<const uint32_t> ops) const {
    std::vector<bool> hidden(group_.values.size());
    for (uint32_t op : ops.first(ops.size() - 1))
      hidden[group_.ops[op].result] = true;
    for (uint32_t number = 0; number < group_.ops.size(); ++number)
      if (std::find(ops.begin(), ops.end(), number) == ops.end())
        for (uint32_t operand : group_.ops[number].operands)
          if (operand != FusedGroup::kNoValue && hidden[operand])
            return false;
    return true;
  }

  /// Whether ops behind the anchor also need values that it loads.
  bool used_after(const Places &places) const {
    std::vector<bool> before(group_.values.size());
    for (uint32_t op : places.before)
      before[group_.ops[op].result] = true;
    for (uint32_t op : places.after)
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != FusedGroup::kNoValue && before[operand])
          return true;
    return false;
  }

  ir::Module &module_;
  const FusedGroup &group_;
  std::vector<FusedPart> parts_;
};

} // namespace

bool can_fuse(const ir::Module &module, ir::Op op, std::span<const ir::TypeId> operands,
              ir::TypeId result) {
  auto each_is = [&](auto suits) {
    auto is = [&](ir::TypeId type) {
      return !type.valid() || module.types[type].kind != ir::TypeKind::tensor ||
             suits(module.types[type].dtype);
    };
    return is(result) && std::all_of(operands.begin(), operands.end(), is);
  };
  if (is_anchor(op) && !computes_what_it_loads(op) && !is_part(op, ir::OpPart::multiplies_bytes))
    return each_is([&](ir::DType dtype) {
      return ir::info(dtype).kind == ir::DTypeKind::floating ||
             (op == ir::Op::matmul_blocks && ir::info(dtype).kind == ir::DTypeKind::block);
    });
  return each_is([](ir::DType dtype) { return !element_type(dtype).empty(); }) &&
         !is_part(op, ir::OpPart::alone);
}

std::vector<FusedPart> split_group(ir::Module &module, const FusedGroup &group) {
  return Splitter(module, group).run();
}

} // namespace cugrt::codegen
