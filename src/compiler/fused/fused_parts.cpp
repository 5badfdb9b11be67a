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
  static constexpr uint32_t kNoOp = UINT32_MAX;

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
    if (places.anchor == FusedGroup::kNoValue)
      return store_results(ops);
    if (!used_after(places) && can_generate(ops)) {
      parts_.push_back({ops});
      return;
    }
    // The anchor with the ops before it, then the others.
    std::vector<uint32_t> first = places.before;
    first.push_back(places.anchor);
    if (!used_after(places) && first.size() > 1 && first.size() < ops.size() &&
        can_generate(first)) {
      parts_.push_back({first});
    } else {
      store_results(places.before);
      alone(std::span(&places.anchor, 1));
    }
    store_results(places.after);
  }

  /// Kernels without an anchor, of `ops`, for each result that others need.
  void store_results(const std::vector<uint32_t> &ops) {
    std::vector<bool> is_needed(group_.values.size());
    is_needed[group_.ops.back().result] = true;
    is_open_.assign(group_.ops.size(), false);
    for (uint32_t op : ops)
      is_open_[op] = true;
    for (uint32_t op = 0; op < group_.ops.size(); ++op)
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != FusedGroup::kNoValue && !is_open_[op])
          is_needed[operand] = true;
    for (uint32_t op : ops)
      if (is_needed[group_.ops[op].result])
        store(op);
  }

  /// A kernel that stores the op's result, and computes what that needs and no other one stores.
  /// Where that is too much for one kernel, others store some of it first. Each that is called
  /// stores a result, so this ends.
  void store(uint32_t op) {
    std::vector<uint32_t> ops = needed_for(op);
    if (ops.size() < 2 || !computes(ops)) {
      std::ranges::sort(ops);
      alone(ops);
      for (uint32_t each : ops)
        is_open_[each] = false;
      return;
    }
    if (!can_generate_last(ops, 0)) {
      for (uint32_t first : stored_before(ops, cut(ops)))
        store(first);
      ops = needed_for(op);
    }
    is_open_[op] = false;
    std::ranges::sort(ops);
    ops.size() > 1 ? parts_.push_back({std::move(ops)}) : alone(ops);
  }

  /// The op and what it needs of what is not stored, each behind its operands. Of these the one
  /// with most ops behind one another comes first, so that few results wait for what needs them.
  std::vector<uint32_t> needed_for(uint32_t op) const {
    std::vector<uint32_t> made_by(group_.values.size(), kNoOp), depth(group_.ops.size());
    auto each_operand = [&](uint32_t of, auto visit) {
      for (uint32_t operand : group_.ops[of].operands)
        if (operand != FusedGroup::kNoValue && made_by[operand] != kNoOp)
          visit(made_by[operand]);
    };
    for (uint32_t o = 0; o <= op; ++o)
      if (is_open_[o]) {
        made_by[group_.ops[o].result] = o;
        each_operand(o, [&](uint32_t of) { depth[o] = std::max(depth[o], depth[of] + 1); });
      }
    std::vector<uint32_t> found, open = {op};
    std::vector<bool> is_seen(group_.ops.size()), is_found(group_.ops.size());
    while (!open.empty()) {
      const uint32_t last = open.back();
      if (is_seen[last]) {
        open.pop_back();
        if (!is_found[last])
          found.push_back(last);
        is_found[last] = true;
        continue;
      }
      is_seen[last] = true;
      const size_t begin = open.size();
      each_operand(last, [&](uint32_t of) {
        if (!is_seen[of])
          open.push_back(of);
      });
      std::stable_sort(open.begin() + ptrdiff_t(begin), open.end(),
                       [&](uint32_t a, uint32_t b) { return depth[a] < depth[b]; });
    }
    return found;
  }

  bool can_generate_last(std::span<const uint32_t> ops, size_t begin) {
    std::vector<uint32_t> last(ops.begin() + ptrdiff_t(begin), ops.end());
    std::ranges::sort(last);
    return last.size() < 2 || can_generate(last);
  }

  /// Where in `ops` the last kernel begins: of the places from which on it is at least half of the
  /// most that one kernel takes, the first with the fewest results to store before.
  size_t cut(std::span<const uint32_t> ops) {
    size_t too_much = 0, best = ops.size() - 1;
    while (best - too_much > 1) {
      const size_t middle = too_much + (best - too_much) / 2;
      (can_generate_last(ops, middle) ? best : too_much) = middle;
    }
    const size_t end = best + (ops.size() - best) / 2;
    size_t fewest = stored_before(ops, best).size();
    for (size_t begin = best + 1; begin < end; ++begin)
      if (const size_t stored = stored_before(ops, begin).size();
          stored < fewest && can_generate_last(ops, begin)) {
        best = begin;
        fewest = stored;
      }
    return best;
  }

  /// The ops before the place that ops from there on read.
  std::vector<uint32_t> stored_before(std::span<const uint32_t> ops, size_t place) const {
    std::vector<bool> is_read(group_.values.size());
    for (uint32_t op : ops.subspan(place))
      for (uint32_t operand : group_.ops[op].operands)
        if (operand != FusedGroup::kNoValue)
          is_read[operand] = true;
    std::vector<uint32_t> found;
    std::ranges::copy_if(ops.first(place), std::back_inserter(found),
                         [&](uint32_t op) { return is_read[group_.ops[op].result]; });
    return found;
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
  std::vector<bool> is_open_; // by op: a kernel may compute it, and none has stored it
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
