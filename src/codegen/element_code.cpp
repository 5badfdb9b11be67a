// Two walks over a group: the first finds what is read where, the second writes.
#include "codegen/element_code.h"

#include "support/check.h"

#include <algorithm>

namespace cugrt::codegen {

namespace {

constexpr uint32_t kNone = UINT32_MAX;

Status cannot(std::string what) { return Status::error(Code::unsupported, std::move(what)); }

/// The type that elements are computed in (Acc of kernels/floating.cuh).
std::string_view arithmetic_type(ir::DType dtype) {
  return dtype == ir::DType::f64 ? "double" : "float";
}

bool is_short_float(ir::DType dtype) { return dtype == ir::DType::f16 || dtype == ir::DType::bf16; }

} // namespace

std::string_view element_type(ir::DType dtype) {
  switch (dtype) {
  case ir::DType::f16:
    return "__half";
  case ir::DType::bf16:
    return "__nv_bfloat16";
  case ir::DType::f32:
    return "float";
  case ir::DType::f64:
    return "double";
  case ir::DType::boolean:
    return "bool";
  case ir::DType::i8:
    return "signed char";
  case ir::DType::i16:
    return "short";
  case ir::DType::i32:
    return "int";
  case ir::DType::i64:
    return "long long";
  case ir::DType::u8:
    return "unsigned char";
  case ir::DType::u16:
    return "unsigned short";
  case ir::DType::u32:
    return "unsigned int";
  case ir::DType::u64:
    return "unsigned long long";
  default:
    return {};
  }
}

std::string elementwise_function(ir::Op op, std::span<const ir::Attribute> attributes) {
  using enum ir::Op;
  switch (op) {
  case gelu:
    return ir::op_string(op, attributes, "approximate") == "tanh" ? "gelu_tanh" : "gelu";
  case relu:
  case neg:
  case abs:
  case exp:
  case log:
  case sqrt:
  case rsqrt:
  case tanh:
  case sigmoid:
  case silu:
  case add:
  case sub:
  case mul:
  case div:
  case maximum:
  case minimum:
  case erf:
  case sin:
  case cos:
  case tan:
  case asin:
  case acos:
  case atan:
  case sinh:
  case cosh:
  case asinh:
  case acosh:
  case atanh:
  case log1p:
  case floor:
  case ceil:
  case round:
  case reciprocal:
  case softplus:
  case softsign:
  case hard_swish:
  case sign:
  case pow:
  case prelu:
    return std::string(ir::op_info(op).name);
  case floor_mod:
    return "mod";
  case trunc_mod:
    return "fmod";
  default:
    return {};
  }
}

bool is_relabelling(ir::Op op) { return op == ir::Op::reshape || op == ir::Op::transpose; }

ElementCode::ElementCode(ir::Module &module, const FusedGroup &group, std::span<const uint32_t> ops,
                         Names names)
    : module_(module), group_(group), made_by_(group.values.size(), kNone),
      given_(std::move(names)) {
  for (uint32_t op : ops)
    made_by_[group.ops[op].result] = op;
  names_.insert({given_.index, 1});
  names_.insert({given_.leaf_name, 1});
}

void ElementCode::note(ir::DType dtype) {
  parameters_.uses_f16 |= dtype == ir::DType::f16;
  parameters_.uses_bf16 |= dtype == ir::DType::bf16;
}

// --- What is read where --------------------------------------------------------------------------

ElementCode::Access ElementCode::access(uint32_t value, const Index &index, std::string owner) {
  ir::ExprPool &exprs = module_.exprs;
  const Space &space = spaces_[index.space];
  Access access;
  access.owner = std::move(owner);
  access.strides.assign(space.dims.size(), exprs.constant(0));
  const std::vector<ir::ExprId> own = contiguous_strides(exprs, type(value).dims);
  for (size_t axis = 0; axis < own.size(); ++axis)
    if (index.axes[axis] >= 0)
      access.strides[size_t(index.axes[axis])] = own[axis];
  const std::vector<ir::ExprId> linear = contiguous_strides(exprs, space.dims);
  access.whole = true;
  for (size_t d = 0; d < linear.size(); ++d)
    access.whole =
        access.whole && (access.strides[d] == linear[d] || exprs.as_constant(space.dims[d]) == 1);
  return access;
}

uint32_t ElementCode::add_access(uint32_t space, Access access) {
  spaces_[space].accesses.push_back(std::move(access));
  return uint32_t(spaces_[space].accesses.size() - 1);
}

Result<uint32_t> ElementCode::load(uint32_t value, const Index &index) {
  Node node;
  node.value = value;
  node.space = index.space;
  if (value == given_.leaf) {
    if (!is_root(index.space) || !access(value, index, "").whole)
      return cannot("a result is used at other indices than where it is computed");
    node.text = given_.leaf_name;
  } else {
    if (!group_.values[value].given.valid())
      return cannot("a value is neither computed nor given");
    auto [at, is_new] = tensor_of_.try_emplace(value, uint32_t(parameters_.tensors.size()));
    if (is_new) {
      parameters_.tensors.push_back({given_.tensors + std::to_string(at->second), value});
      in_place_.push_back(true);
      note(type(value).dtype);
    }
    node.tensor = at->second;
    Access read = access(value, index, parameters_.tensors[at->second].name);
    in_place_[at->second] = in_place_[at->second] && is_root(index.space) && read.whole;
    node.access = add_access(index.space, std::move(read));
  }
  nodes_.push_back(std::move(node));
  return uint32_t(nodes_.size() - 1);
}

/// Aligned at the last axis; what is 1 is at 0.
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
  Index out{index.space, {}};
  for (size_t axis = 0; axis < dims.size(); ++axis)
    out.axes.push_back(module_.exprs.as_constant(dims[axis]) == 1 ? -1 : int(axis));
  const std::string owner = given_.index + "_r" + std::to_string(spaces_.size());
  Access at = access(op.result, index, owner);
  if (at.whole && spaces_[index.space].dims == dims)
    return out;
  Space space;
  space.dims = dims;
  space.parent = index.space;
  space.linear = at.whole ? spaces_[index.space].linear : owner;
  space.parent_access = at.whole ? kNone : add_access(index.space, std::move(at));
  out.space = uint32_t(spaces_.size());
  spaces_.push_back(std::move(space));
  return out;
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

Result<uint32_t> ElementCode::visit_op(uint32_t number, const Index &index) {
  const FusedOp &op = group_.ops[number];
  if (op.op == ir::Op::reshape || op.op == ir::Op::transpose) {
    const Index under =
        op.op == ir::Op::reshape ? under_reshape(op, index) : under_transpose(op, index);
    CUGRT_ASSIGN(const uint32_t node, visit(op.operands[0], under));
    --nodes_[node].uses; // passed on, not used
    return node;
  }
  if (element_type(type(op.result).dtype).empty())
    return cannot("there are no plain elements of " +
                  std::string(ir::info(type(op.result).dtype).name));
  auto is_float = [&](uint32_t value) {
    return value == FusedGroup::kNoValue ||
           ir::info(type(value).dtype).kind == ir::DTypeKind::floating;
  };
  if (op.op != ir::Op::cast &&
      !(is_float(op.result) && std::all_of(op.operands.begin(), op.operands.end(), is_float)))
    return cannot("arithmetic is on floats here");
  note(type(op.result).dtype);
  Node node;
  node.value = op.result;
  node.op = number;
  for (uint32_t operand : op.operands) {
    if (operand == FusedGroup::kNoValue)
      return cannot("an operand is absent");
    if (element_type(type(operand).dtype).empty())
      return cannot("there are no plain elements of " +
                    std::string(ir::info(type(operand).dtype).name));
    CUGRT_ASSIGN(const uint32_t from, visit(operand, under_broadcast(operand, op.result, index)));
    node.operands.push_back(from);
  }
  nodes_.push_back(std::move(node));
  return uint32_t(nodes_.size() - 1);
}

// --- Writing -------------------------------------------------------------------------------------

std::string ElementCode::unique(const std::string &hint) {
  if (names_.insert({hint, 1}).second)
    return hint;
  for (uint32_t &count = names_[hint];;) {
    std::string name = hint + "_" + std::to_string(++count);
    if (names_.insert({name, 1}).second)
      return name;
  }
}

std::string ElementCode::size(const std::string &hint, ir::ExprId value) {
  parameters_.sizes.push_back({unique(hint), value});
  return parameters_.sizes.back().name;
}

/// Coordinates of the merged dimensions, from the innermost to the outermost that is needed, and
/// the accesses' offsets in them.
void ElementCode::write_coordinates(Space &space) {
  ir::ExprPool &exprs = module_.exprs;
  std::vector<Access *> accesses;
  for (Access &access : space.accesses)
    if (access.whole)
      access.text = space.linear;
    else
      accesses.push_back(&access);
  std::vector<Dimension> walk;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    walk.push_back({space.dims[d], {}});
    for (const Access *access : accesses)
      walk.back().strides.push_back(access->strides[d]);
  }
  walk = merge(exprs, std::move(walk));
  auto is_needed = [&](const Dimension &dimension) {
    for (ir::ExprId stride : dimension.strides)
      if (exprs.as_constant(stride) != 0)
        return true;
    return false;
  };
  size_t first = 0;
  while (first < walk.size() && !is_needed(walk[first]))
    ++first;
  std::string rest = space.linear;
  for (size_t d = walk.size(); d-- > first;) {
    const std::string number = std::to_string(d);
    std::string at = rest;
    if (d > 0) {
      const std::string extent =
          "Index(" + size(space.linear + "_size" + number, walk[d].size) + ")";
      at = unique(space.linear + "_at" + number);
      if (is_needed(walk[d]))
        lines_ += indent_ + "const Index " + at + " = " + rest + " % " + extent + ";\n";
      if (d > first) {
        const std::string outer = unique(space.linear + "_over" + number);
        lines_ += indent_ + "const Index " + outer + " = " + rest + " / " + extent + ";\n";
        rest = outer;
      }
    }
    for (size_t t = 0; t < accesses.size(); ++t) {
      const ir::ExprId stride = walk[d].strides[t];
      const std::optional<int64_t> known = exprs.as_constant(stride);
      if (known == 0)
        continue;
      std::string term = at;
      if (known != 1)
        term += " * Index(" + size(accesses[t]->owner + "_stride" + number, stride) + ")";
      std::string &text = accesses[t]->text;
      text = text.empty() ? term : term + " + " + text;
    }
  }
  for (Access *access : accesses)
    if (access->text.empty())
      access->text = "0";
}

void ElementCode::write_space(uint32_t number) {
  if (spaces_[number].written)
    return;
  spaces_[number].written = true;
  if (const uint32_t parent = spaces_[number].parent; parent != kNone) {
    write_space(parent);
    if (const uint32_t at = spaces_[number].parent_access; at != kNone)
      lines_ += indent_ + "const Index " + spaces_[number].linear + " = " +
                spaces_[parent].accesses[at].text + ";\n";
  }
  write_coordinates(spaces_[number]);
}

/// The operation on operands that are written, rounded to its dtype.
std::string ElementCode::operation(const Node &node) {
  const FusedOp &op = group_.ops[node.op];
  const ir::DType to = type(op.result).dtype;
  if (op.op == ir::Op::cast)
    return "convert<" + std::string(element_type(to)) + ">(" + write(node.operands[0]) + ")";
  std::string arguments;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ir::DType from = type(op.operands[i]).dtype;
    const std::string &operand = write(node.operands[i]);
    arguments += i ? ", " : "";
    arguments +=
        is_short_float(from) ? std::string(arithmetic_type(from)) + "(" + operand + ")" : operand;
  }
  const std::string call =
      "op::" + elementwise_function(op.op, op.attributes) + "(" + arguments + ")";
  return is_short_float(to) ? std::string(element_type(to)) + "(" + call + ")" : call;
}

/// What stands for the node: a variable, or what it loads where that is used once.
const std::string &ElementCode::write(uint32_t number) {
  if (!nodes_[number].text.empty())
    return nodes_[number].text;
  const Node node = nodes_[number];
  std::string text, name;
  if (node.op == kNone) {
    write_space(node.space);
    name = parameters_.tensors[node.tensor].name;
    text = name + "[" + offset(node) + "]";
    if (node.uses == 1)
      return nodes_[number].text = text;
    name += "_value";
  } else {
    text = operation(node);
    name = std::string(ir::op_info(group_.ops[node.op].op).name);
  }
  name = unique(name);
  lines_ += indent_ + "const " + std::string(element_type(type(node.value).dtype)) + " " + name +
            " = " + text + ";\n";
  return nodes_[number].text = name;
}

Result<std::string> ElementCode::lines(uint32_t value, const std::string &indent,
                                       const std::string &store) {
  CUGRT_CHECK(spaces_.empty());
  indent_ = indent;
  Space root;
  root.dims = type(value).dims;
  root.linear = given_.index;
  Index all{0, {}};
  for (size_t axis = 0; axis < root.dims.size(); ++axis)
    all.axes.push_back(module_.exprs.as_constant(root.dims[axis]) == 1 ? -1 : int(axis));
  spaces_.push_back(std::move(root));
  CUGRT_ASSIGN(const uint32_t node, visit(value, all));
  const Node result = nodes_[node];
  const std::string text = result.op == kNone ? write(node) : operation(result);
  lines_ += indent_ + store + text + ";\n";
  return std::move(lines_);
}

} // namespace cugrt::codegen
