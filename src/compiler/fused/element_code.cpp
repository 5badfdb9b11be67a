// The first of two walks over a group: finds the index of every reading. element_text.cpp has the
// second one, which writes.
#include "compiler/fused/element_code.h"

#include "base/check.h"

#include <algorithm>

namespace cugrt::codegen {

void ElementParameters::add(const ElementParameters &more) {
  tensors.insert(tensors.end(), more.tensors.begin(), more.tensors.end());
  sizes.insert(sizes.end(), more.sizes.begin(), more.sizes.end());
  counts.insert(counts.end(), more.counts.begin(), more.counts.end());
  uses_f16 |= more.uses_f16;
  uses_bf16 |= more.uses_bf16;
  uses_integers |= more.uses_integers;
  uses_positions |= more.uses_positions;
  uses_words |= more.uses_words;
}

/// A value that is read at several indices is computed at each of them, and so are its operands:
/// with every op the number may double. More than this many times an op's share is no gain.
constexpr size_t kRepeats = 4, kFreeRepeats = 16;

static Status cannot(std::string what) { return Status::error(Code::unsupported, std::move(what)); }

ElementCode::ElementCode(ir::Module &module, const FusedGroup &group, std::span<const uint32_t> ops,
                         Names names)
    : module_(module), group_(group), made_by_(group.values.size(), kNone),
      visits_left_(kRepeats * ops.size() + kFreeRepeats), given_(std::move(names)) {
  for (uint32_t op : ops)
    made_by_[group.ops[op].result] = op;
  names_.insert({given_.index, 1});
  for (const auto &[value, name] : given_.leaves)
    names_.insert({name, 1});
}

void ElementCode::note(ir::DType dtype) {
  parameters_.uses_f16 |= dtype == ir::DType::f16;
  parameters_.uses_bf16 |= dtype == ir::DType::bf16;
}

ElementCode::Node ElementCode::node_of(uint32_t number, uint32_t space) {
  Node node;
  node.value = group_.ops[number].result;
  node.op = number;
  node.space = space;
  note(dtype(node.value));
  return node;
}

uint32_t ElementCode::add_node(Node node) {
  nodes_.push_back(std::move(node));
  return uint32_t(nodes_.size() - 1);
}

/// Takes each axis by itself; an axis of 1 is at 0.
std::vector<int> ElementCode::axes_of(std::span<const ir::ExprId> dims) const {
  std::vector<int> axes;
  for (size_t axis = 0; axis < dims.size(); ++axis)
    axes.push_back(module_.exprs.as_constant(dims[axis]) == 1 ? -1 : int(axis));
  return axes;
}

// --- Accesses and spaces -------------------------------------------------------------------------

ElementCode::Access ElementCode::no_access(uint32_t space) const {
  Access access;
  access.strides.assign(spaces_[space].dims.size(), module_.exprs.constant(0));
  return access;
}

void ElementCode::add_stride(Access &access, const Index &index, size_t axis, ir::ExprId stride) {
  if (index.axes[axis] < 0)
    return;
  ir::ExprId &known = access.strides[size_t(index.axes[axis])];
  known = module_.exprs.add(known, stride);
}

/// Decides whether the access is the linear index itself.
void ElementCode::set_whole(uint32_t space, Access &access) {
  ir::ExprPool &exprs = module_.exprs;
  const std::vector<ir::ExprId> &dims = spaces_[space].dims;
  const std::vector<ir::ExprId> linear = contiguous_strides(exprs, dims);
  access.whole = !access.base.valid() || exprs.as_constant(access.base) == 0;
  for (size_t d = 0; d < linear.size(); ++d)
    access.whole =
        access.whole && (access.strides[d] == linear[d] || exprs.as_constant(dims[d]) == 1);
}

ElementCode::Access ElementCode::access(uint32_t value, const Index &index, std::string owner) {
  Access access = no_access(index.space);
  access.owner = std::move(owner);
  const std::vector<ir::ExprId> own = contiguous_strides(module_.exprs, type(value).dims);
  for (size_t axis = 0; axis < own.size(); ++axis)
    add_stride(access, index, axis, own[axis]);
  set_whole(index.space, access);
  return access;
}

uint32_t ElementCode::add_access(uint32_t space, Access access) {
  spaces_[space].accesses.push_back(std::move(access));
  return uint32_t(spaces_[space].accesses.size() - 1);
}

uint32_t ElementCode::add_coordinate(const Index &index, size_t axis) {
  Access access = no_access(index.space);
  add_stride(access, index, axis, module_.exprs.constant(1));
  set_whole(index.space, access);
  return add_access(index.space, std::move(access));
}

/// The dimensions of `value`, whose linear index is read at `at` of the parent.
ElementCode::Index ElementCode::new_space(uint32_t value, uint32_t parent, Access at, Lookup lookup,
                                          std::vector<Edge> edges) {
  const std::vector<ir::ExprId> dims = type(value).dims;
  Index out{uint32_t(spaces_.size()), axes_of(dims)};
  const std::string name = given_.index + "_r" + std::to_string(spaces_.size());
  set_whole(parent, at);
  const bool same = at.whole && lookup.node == kNone && edges.empty();
  Space space;
  space.dims = dims;
  space.parent = parent;
  space.linear = same ? spaces_[parent].linear : name;
  space.lookup = lookup;
  space.edges = std::move(edges);
  at.owner = name;
  if (!same)
    space.parent_access = add_access(parent, std::move(at));
  spaces_.push_back(std::move(space));
  parameters_.counts.push_back(count(value));
  return out;
}

/// Aligns at the last axis; an axis of 1 is at 0.
ElementCode::Index ElementCode::under_broadcast(uint32_t operand, uint32_t result,
                                                const Index &index) const {
  const std::vector<ir::ExprId> &from = type(operand).dims;
  const size_t missing = type(result).dims.size() - from.size();
  Index out{index.space, {}};
  for (size_t axis = 0; axis < from.size(); ++axis)
    out.axes.push_back(module_.exprs.as_constant(from[axis]) == 1 ? -1
                                                                  : index.axes[missing + axis]);
  return out;
}

ElementCode::Index ElementCode::under_transpose(const FusedOp &op, const Index &index) const {
  const size_t rank = index.axes.size();
  std::vector<int64_t> axes = ir::op_integers(op.op, op.attributes, "axes");
  for (size_t i = axes.size(); i < rank; ++i) // none given: all, last first
    axes.push_back(int64_t(rank - 1 - i));
  Index out{index.space, std::vector<int>(rank)};
  for (size_t axis = 0; axis < rank; ++axis)
    out.axes[*ir::normalize_axis(axes[axis], rank)] = index.axes[axis];
  return out;
}

ElementCode::Index ElementCode::under_reshape(const FusedOp &op, const Index &index) {
  const std::vector<ir::ExprId> dims = type(op.operands[0]).dims;
  Access at = access(op.result, index, "");
  if (!at.whole || spaces_[index.space].dims != dims)
    return new_space(op.operands[0], index.space, std::move(at));
  return Index{index.space, axes_of(dims)};
}

Result<ElementCode::Index> ElementCode::under_slice(const FusedOp &op, const Index &index) {
  ir::ExprPool &exprs = module_.exprs;
  const std::vector<ir::ExprId> dims = type(op.operands[0]).dims;
  std::vector<ir::SliceDimension> slice;
  if (op.operands.size() > 1) {
    slice = slice_of_shapes(type(op.operands[1]).dims, type(op.operands[2]).dims);
  } else {
    CUGRT_ASSIGN(slice, ir::slice_dimensions(exprs, dims, op.attributes));
  }
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, dims);
  Access at = no_access(index.space);
  at.base = exprs.constant(0);
  for (size_t d = 0; d < dims.size(); ++d) {
    at.base = exprs.add(at.base, exprs.mul(slice[d].begin, strides[d]));
    add_stride(at, index, d, exprs.mul(strides[d], exprs.constant(slice[d].step)));
  }
  const Index under = new_space(op.operands[0], index.space, std::move(at));
  spaces_[under.space].is_slice = true;
  return under;
}

// --- The walk ------------------------------------------------------------------------------------

Result<uint32_t> ElementCode::load(uint32_t value, const Index &index) {
  Node node;
  node.value = value;
  node.space = index.space;
  const auto leaf = std::find_if(given_.leaves.begin(), given_.leaves.end(),
                                 [&](const auto &known) { return known.first == value; });
  if (leaf != given_.leaves.end()) {
    if (!is_root(index.space) || !access(value, index, "").whole || count(value) != root_count_)
      return cannot("a result is used at other indices than where it is computed");
    node.text = leaf->second;
  } else {
    if (!group_.values[value].given.valid())
      return cannot("a value is neither computed nor given");
    auto [at, is_new] = tensor_of_.try_emplace(value, uint32_t(parameters_.tensors.size()));
    if (is_new) {
      parameters_.tensors.push_back({given_.tensors + std::to_string(at->second), value});
      parameters_.counts.push_back(count(value));
      in_place_.push_back(count(value) == root_count_);
      note(dtype(value));
    }
    node.tensor = at->second;
    Access read = access(value, index, parameters_.tensors[at->second].name);
    in_place_[at->second] = in_place_[at->second] && is_root(index.space) && read.whole;
    node.access = add_access(index.space, std::move(read));
  }
  return add_node(std::move(node));
}

Result<uint32_t> ElementCode::visit(uint32_t value, const Index &index) {
  const auto known = known_.find({value, index});
  if (known != known_.end()) {
    ++nodes_[known->second].uses;
    return known->second;
  }
  const uint32_t op = made_by_[value];
  uint32_t node = 0;
  if (op == kNone) {
    CUGRT_ASSIGN(node, load(value, index));
  } else {
    CUGRT_ASSIGN(node, visit_op(op, index));
  }
  ++nodes_[node].uses;
  known_[{value, index}] = node;
  return node;
}

/// The operand stands for the op's result.
Result<uint32_t> ElementCode::pass_on(uint32_t operand, const Index &index) {
  CUGRT_ASSIGN(const uint32_t node, visit(operand, index));
  --nodes_[node].uses; // passed on, not used
  return node;
}

Result<uint32_t> ElementCode::visit_op(uint32_t number, const Index &index) {
  using enum ir::Op;
  const FusedOp &op = group_.ops[number];
  if (visits_left_-- == 0)
    return cannot("too much would be computed at several indices");
  for (uint32_t operand : op.operands)
    if (operand == FusedGroup::kNoValue && op.op != range)
      return cannot("an operand is absent");
  if (element_type(dtype(op.result)).empty())
    return cannot("there are no plain elements of " + std::string(ir::info(dtype(op.result)).name));
  if (is_elementwise_function(op.op) || op.op == where || op.op == cast)
    return visit_function(number, index);
  if (op.op == reshape)
    return pass_on(op.operands[0], under_reshape(op, index));
  if (op.op == transpose)
    return pass_on(op.operands[0], under_transpose(op, index));
  if (op.op == broadcast_to)
    return pass_on(op.operands[0], under_broadcast(op.operands[0], op.result, index));
  if (op.op == slice) {
    CUGRT_ASSIGN(const Index under, under_slice(op, index));
    return pass_on(op.operands[0], under);
  }
  if (op.op == concat)
    return visit_concat(number, index);
  if (op.op == pad)
    return repeats_elements(op.op, op.attributes) ? visit_repeating_pad(number, index)
                                                  : visit_pad(number, index);
  if (op.op == range)
    return visit_range(number, index);
  if (op.op == one_hot)
    return visit_one_hot(number, index);
  if (op.op == gather || op.op == gather_elements || op.op == embedding)
    return visit_rows(number, index);
  return cannot("elements of " + std::string(ir::op_info(op.op).name) + " have no form here");
}

/// Arithmetic, a cast, a choice: from elements of the same index.
Result<uint32_t> ElementCode::visit_function(uint32_t number, const Index &index) {
  const FusedOp &op = group_.ops[number];
  Node node = node_of(number);
  for (uint32_t operand : op.operands) {
    if (element_type(dtype(operand)).empty())
      return cannot("there are no plain elements of " + std::string(ir::info(dtype(operand)).name));
    CUGRT_ASSIGN(const uint32_t from, visit(operand, under_broadcast(operand, op.result, index)));
    node.operands.push_back(from);
  }
  return add_node(std::move(node));
}

/// Each part in a space of its own, shifted along the axis.
Result<uint32_t> ElementCode::visit_concat(uint32_t number, const Index &index) {
  ir::ExprPool &exprs = module_.exprs;
  const FusedOp &op = group_.ops[number];
  const size_t axis = *ir::normalize_axis(ir::op_integer(op.op, op.attributes, "axis"),
                                          type(op.result).dims.size());
  Node node = node_of(number, index.space);
  const uint32_t along = add_coordinate(index, axis);
  ir::ExprId begin = exprs.constant(0);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const uint32_t operand = op.operands[i];
    Access at = access(operand, index, "");
    const std::vector<ir::ExprId> strides = contiguous_strides(exprs, type(operand).dims);
    at.base = exprs.sub(exprs.constant(0), exprs.mul(begin, strides[axis]));
    const Index under = new_space(operand, index.space, std::move(at));
    CUGRT_ASSIGN(const uint32_t from, visit(operand, under));
    begin = exprs.add(begin, type(operand).dims[axis]);
    Branch branch;
    branch.operand = from;
    if (i + 1 < op.operands.size())
      branch.bounds.push_back({along, {}, begin});
    node.branches.push_back(std::move(branch));
  }
  return add_node(std::move(node));
}

/// The operand in a space of its own, and a number around it.
Result<uint32_t> ElementCode::visit_pad(uint32_t number, const Index &index) {
  ir::ExprPool &exprs = module_.exprs;
  const FusedOp &op = group_.ops[number];
  const std::vector<int64_t> before = ir::op_integers(op.op, op.attributes, "before");
  const std::vector<int64_t> after = ir::op_integers(op.op, op.attributes, "after");
  const uint32_t operand = op.operands[0];
  const std::vector<ir::ExprId> dims = type(operand).dims;
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, dims);
  Node node = node_of(number, index.space);
  Branch inside;
  Access at = no_access(index.space);
  at.base = exprs.constant(0);
  for (size_t d = 0; d < dims.size(); ++d) {
    add_stride(at, index, d, strides[d]);
    if (before[d] == 0 && after[d] == 0)
      continue;
    const ir::ExprId from = exprs.constant(before[d]);
    at.base = exprs.sub(at.base, exprs.mul(from, strides[d]));
    inside.bounds.push_back({add_coordinate(index, d), before[d] ? from : ir::ExprId(),
                             after[d] ? exprs.add(from, dims[d]) : ir::ExprId()});
  }
  const Index under = new_space(operand, index.space, std::move(at));
  if (inside.bounds.empty())
    return pass_on(operand, under);
  CUGRT_ASSIGN(inside.operand, visit(operand, under));
  node.branches = {std::move(inside), {}};
  node.fill = element_literal(dtype(op.result), ir::op_float(op.op, op.attributes, "value"));
  return add_node(std::move(node));
}

/// The operand in a space of its own, whose linear index has each padded coordinate brought inside;
/// inference has shown that there is an element.
Result<uint32_t> ElementCode::visit_repeating_pad(uint32_t number, const Index &index) {
  ir::ExprPool &exprs = module_.exprs;
  const FusedOp &op = group_.ops[number];
  const std::vector<int64_t> before = ir::op_integers(op.op, op.attributes, "before");
  const std::vector<int64_t> after = ir::op_integers(op.op, op.attributes, "after");
  const bool mirrored = ir::op_string(op.op, op.attributes, "mode") == "reflect";
  const uint32_t operand = op.operands[0];
  const std::vector<ir::ExprId> dims = type(operand).dims;
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, dims);
  Access at = no_access(index.space);
  std::vector<Edge> edges;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (before[d] == 0 && after[d] == 0) {
      add_stride(at, index, d, strides[d]);
      continue;
    }
    edges.push_back({add_coordinate(index, d), before[d], dims[d], strides[d], mirrored});
  }
  return pass_on(operand, new_space(operand, index.space, std::move(at), {}, std::move(edges)));
}

Result<uint32_t> ElementCode::visit_range(uint32_t number, const Index &index) {
  Node node = node_of(number, index.space);
  node.access = add_coordinate(index, 0);
  return add_node(std::move(node));
}

/// The id at the other coordinates, and the one along the axis.
Result<uint32_t> ElementCode::visit_one_hot(uint32_t number, const Index &index) {
  const FusedOp &op = group_.ops[number];
  const size_t axis = *ir::normalize_axis(ir::op_integer(op.op, op.attributes, "axis"),
                                          type(op.result).dims.size());
  Index ids = index;
  ids.axes.erase(ids.axes.begin() + ptrdiff_t(axis));
  CUGRT_ASSIGN(const uint32_t id, visit(op.operands[0], ids));
  Node node = node_of(number, index.space);
  node.operands = {id};
  node.access = add_coordinate(index, axis);
  return add_node(std::move(node));
}

/// gather, gather_elements, embedding: along one axis at positions that are read; of an axis
/// without elements, 0.
Result<uint32_t> ElementCode::visit_rows(uint32_t number, const Index &index) {
  ir::ExprPool &exprs = module_.exprs;
  const FusedOp &op = group_.ops[number];
  const uint32_t operand = op.operands[0], positions = op.operands[1];
  const std::vector<ir::ExprId> dims = type(operand).dims;
  const bool elements = op.op == ir::Op::gather_elements;
  const int64_t given =
      op.op == ir::Op::embedding ? 0 : ir::op_integer(op.op, op.attributes, "axis");
  const size_t axis = *ir::normalize_axis(given, dims.size());
  // Axes of the positions stand in the place of the axis, or for all.
  const size_t inserted = elements ? 1 : type(positions).dims.size();
  Index where{index.space, index.axes};
  if (!elements)
    where.axes.assign(index.axes.begin() + ptrdiff_t(axis),
                      index.axes.begin() + ptrdiff_t(axis + inserted));
  note(dtype(op.result));
  CUGRT_ASSIGN(const uint32_t position, visit(positions, where));
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, dims);
  Access at = no_access(index.space);
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != axis)
      add_stride(at, index, d < axis ? d : d + inserted - 1, strides[d]);
  const Index under = new_space(operand, index.space, std::move(at),
                                {position, dims[axis], strides[axis], op.op != ir::Op::embedding});
  const std::optional<int64_t> known = exprs.as_constant(dims[axis]);
  if (known && *known > 0)
    return pass_on(operand, under);
  Node node = node_of(number, index.space);
  node.operands = {position};
  Branch rows;
  rows.unless_empty = dims[axis];
  CUGRT_ASSIGN(rows.operand, visit(operand, under));
  node.branches = {std::move(rows), {}};
  node.fill = element_literal(dtype(op.result), 0);
  return add_node(std::move(node));
}

Result<std::string> ElementCode::lines(uint32_t value, const std::string &indent,
                                       const std::string &store) {
  CUGRT_CHECK(spaces_.empty());
  indent_ = indent;
  Space root;
  root.dims = type(value).dims;
  root.linear = given_.index;
  const Index all{0, axes_of(root.dims)};
  spaces_.push_back(std::move(root));
  root_count_ = count(value);
  parameters_.counts.push_back(root_count_);
  CUGRT_ASSIGN(const uint32_t node, visit(value, all));
  if (given_.by_value)
    find_row_reads();
  if (given_.columns_by_value)
    find_column_reads();
  const Node result = nodes_[node];
  const bool is_operation = result.op != kNone && result.branches.empty();
  const std::string text = is_operation ? operation(result) : write(node);
  lines_ += indent_ + store + text + ";\n";
  return std::move(lines_);
}

} // namespace cugrt::codegen
