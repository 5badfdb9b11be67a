// The second of two walks over a group (element_code.h): the text.
#include "compiler/fused/element_code.h"

#include "base/check.h"

namespace cugrt::codegen {

/// The type that elements are computed in (Acc of kernels/shared/floating.cuh).
static ir::DType arithmetic_type(ir::DType dtype) {
  return ir::info(dtype).kind == ir::DTypeKind::floating && dtype != ir::DType::f64 ? ir::DType::f32
                                                                                    : dtype;
}

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

// --- Indices -------------------------------------------------------------------------------------

/// The rest or the quotient of an index by an extent, which has one name however often it is asked
/// for.
std::string ElementCode::coordinate(const std::string &index, const std::string &name,
                                    ir::ExprId extent, bool quotient) {
  if (given_.by_value && !module_.exprs.as_constant(extent))
    return name + (quotient ? ".quotient(" : ".rest(") + index + ")";
  return index + (quotient ? " / " : " % ") + "Index(" + name + ")";
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
      const std::string extent = size(space.linear + "_size" + number, walk[d].size);
      parameters_.sizes.back().divides =
          given_.by_value && !exprs.as_constant(walk[d].size).has_value();
      at = unique(space.linear + "_at" + number);
      if (is_needed(walk[d]))
        lines_ += indent_ + "const Index " + at + " = " +
                  coordinate(rest, extent, walk[d].size, false) + ";\n";
      if (d > first) {
        const std::string outer = unique(space.linear + "_over" + number);
        lines_ += indent_ + "const Index " + outer + " = " +
                  coordinate(rest, extent, walk[d].size, true) + ";\n";
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
  for (Access *access : accesses) {
    if (access->base.valid() && exprs.as_constant(access->base) != 0) {
      const std::string base = "Index(" + size(access->owner + "_base", access->base) + ")";
      access->text = access->text.empty() ? base : access->text + " + " + base;
    }
    if (access->text.empty())
      access->text = "0";
  }
}

/// Whether the space is that of what the result, or something at its indices, is a slice of.
bool ElementCode::is_part_of_root(const Space &space) const {
  return space.is_slice && space.parent == 0 && space.parent_access != kNone;
}

/// The access of an input that is read at one index of the result only, perhaps by a slice.
const ElementCode::Access *ElementCode::only_access(uint32_t tensor) const {
  const Access *read = nullptr;
  for (const Node &node : nodes_) {
    if (node.op != kNone || node.access == kNone || node.tensor != tensor)
      continue;
    const Space &space = spaces_[node.space];
    const Access *access = &space.accesses[node.access];
    if (node.space != 0 && access->whole && is_part_of_root(space))
      access = &spaces_[0].accesses[space.parent_access];
    else if (node.space != 0)
      return nullptr;
    if (read && (read->strides != access->strides || read->base != access->base))
      return nullptr;
    read = access;
  }
  return in_place_[tensor] ? nullptr : read;
}

/// No coordinates are needed for row reads.
void ElementCode::drop_coordinates() {
  std::vector<bool> reads_more(spaces_.size()); // by space
  for (size_t s = 1; s < spaces_.size(); ++s)
    if (spaces_[s].parent != kNone)
      reads_more[spaces_[s].parent] = true;
  for (const Node &node : nodes_)
    if (node.access != kNone || !node.branches.empty())
      if (node.op != kNone || !row_reads_.count(node.tensor))
        reads_more[node.space] = true;
  for (const Node &node : nodes_)
    if (node.op == kNone && node.access != kNone && row_reads_.count(node.tensor)) {
      const Space &space = spaces_[node.space];
      if (node.space == 0)
        spaces_[0].accesses[node.access].whole = true;
      else if (!reads_more[node.space])
        spaces_[0].accesses[space.parent_access].whole = true;
    }
}

/// The inputs that are read along the result's rows, whose coordinates the element's code then does
/// without.
void ElementCode::find_row_reads() {
  // Each has parameters of its own, of which a kernel takes a bounded number.
  constexpr size_t kMostTensors = 16;
  if (parameters_.tensors.size() > kMostTensors)
    return;
  for (uint32_t t = 0; t < parameters_.tensors.size(); ++t)
    if (const Access *read = only_access(t))
      write_row_read(t, Access(*read));
  drop_coordinates();
}

/// The inputs that move along the result's innermost dimension as it does.
void ElementCode::find_column_reads() {
  ir::ExprPool &exprs = module_.exprs;
  for (uint32_t t = 0; t < parameters_.tensors.size(); ++t) {
    const Access *read = only_access(t);
    const Space &root = spaces_[0];
    if (!read || root.dims.empty() || exprs.as_constant(read->strides.back()) != 1)
      continue;
    if ((read->base.valid() && exprs.as_constant(read->base) != 0) ||
        !std::all_of(read->strides.begin(), read->strides.end() - 1,
                     [&](ir::ExprId stride) { return exprs.as_constant(stride) == 0; })) {
      write_row_read(t, Access(*read));
      continue;
    }
    RowRead column;
    column.moves = true;
    const std::string hint = parameters_.tensors[t].name + "_columns";
    column.body =
        indent_ + "return " + root.linear + " % Index(" + size(hint, root.dims.back()) + ");\n";
    row_reads_.emplace(t, std::move(column));
  }
  drop_coordinates();
}

void ElementCode::write_row_read(uint32_t tensor, Access access) {
  ir::ExprPool &exprs = module_.exprs;
  access.owner = parameters_.tensors[tensor].name;
  Space space;
  space.dims = spaces_[0].dims;
  space.linear = spaces_[0].linear;
  std::vector<Dimension> walk;
  for (size_t d = 0; d < space.dims.size(); ++d)
    walk.push_back({space.dims[d], {access.strides[d]}});
  walk = merge(exprs, std::move(walk));
  if (walk.empty())
    return;
  const std::optional<int64_t> along = exprs.as_constant(walk.back().strides[0]);
  if (along != 0 && along != 1)
    return;
  RowRead read;
  read.moves = along == 1;
  auto need_multiple = [&](ir::ExprId value, const std::string &hint) {
    if (exprs.as_constant(value) != 0)
      read.multiples.push_back(size(access.owner + hint, value));
  };
  if (walk.size() > 1)
    need_multiple(walk.back().size, "_row");
  for (size_t d = 0; read.moves && d + 1 < walk.size(); ++d)
    need_multiple(walk[d].strides[0], "_step" + std::to_string(d));
  if (read.moves && access.base.valid())
    need_multiple(access.base, "_begin");
  space.accesses.push_back(access);
  std::string outside;
  std::swap(outside, lines_);
  write_coordinates(space);
  read.body = lines_ + indent_ + "return " + space.accesses[0].text + ";\n";
  lines_ = std::move(outside);
  row_reads_.emplace(tensor, std::move(read));
}

/// The linear index, where it is not that of the parent.
void ElementCode::write_linear(uint32_t number) {
  const uint32_t at = spaces_[number].parent_access;
  if (at == kNone)
    return;
  std::string text = spaces_[spaces_[number].parent].accesses[at].text;
  const Lookup lookup = spaces_[number].lookup;
  const std::string linear = spaces_[number].linear;
  if (lookup.node != kNone) {
    parameters_.uses_positions = true;
    const std::string position = write(lookup.node);
    std::string row = "Index(" +
                      std::string(lookup.from_either_end ? "from_either_end" : "nearest") + "(" +
                      position + ", " + size(linear + "_rows", lookup.size) + "))";
    if (module_.exprs.as_constant(lookup.stride) != 1)
      row += " * Index(" + size(linear + "_row_stride", lookup.stride) + ")";
    text = text == "0" ? row : text + " + " + row;
  }
  for (const Edge &edge : spaces_[number].edges) {
    parameters_.uses_positions = true;
    std::string coordinate = spaces_[spaces_[number].parent].accesses[edge.access].text;
    coordinate = "(long long)(" + coordinate + ") - " +
                 size(linear + "_before", module_.exprs.constant(edge.before));
    std::string term = "Index(" + std::string(edge.mirrored ? "mirrored" : "nearest") + "(" +
                       coordinate + ", " + size(linear + "_extent", edge.size) + "))";
    if (module_.exprs.as_constant(edge.stride) != 1)
      term += " * Index(" + size(linear + "_stride", edge.stride) + ")";
    text = text == "0" ? term : text + " + " + term;
  }
  lines_ += indent_ + "const Index " + linear + " = " + text + ";\n";
}

void ElementCode::write_space(uint32_t number) {
  if (spaces_[number].written)
    return;
  spaces_[number].written = true;
  if (spaces_[number].parent != kNone) {
    write_space(spaces_[number].parent);
    write_linear(number);
  }
  write_coordinates(spaces_[number]);
}

// --- Values --------------------------------------------------------------------------------------

/// Operand `i` as its function takes it.
std::string ElementCode::argument(const Node &node, size_t i) {
  const ir::DType from = dtype(group_.ops[node.op].operands[i]);
  const std::string &text = write(node.operands[i]);
  return ir::is_half(from) ? "float(" + text + ")" : text;
}

/// The operation on operands that are written, rounded to its dtype.
std::string ElementCode::operation(const Node &node) {
  const FusedOp &op = group_.ops[node.op];
  if (is_part(op.op, ir::OpPart::of_index))
    return operation_of_index(node);
  const ir::DType from = dtype(op.operands[0]), to = dtype(op.result);
  if (op.op == ir::Op::cast)
    return "convert<" + std::string(element_type(to)) + ">(" + write(node.operands[0]) + ")";
  if (op.op == ir::Op::where) {
    const std::string condition = write(node.operands[0]), a = write(node.operands[1]);
    return condition + " ? " + a + " : " + write(node.operands[2]);
  }
  std::string arguments = argument(node, 0);
  for (size_t i = 1; i < node.operands.size(); ++i)
    arguments += ", " + argument(node, i);
  for (std::string_view name : elementwise_parameters(op.op))
    arguments +=
        ", " + element_literal(arithmetic_type(from), ir::op_float(op.op, op.attributes, name));
  const bool is_float = ir::info(from).kind == ir::DTypeKind::floating;
  parameters_.uses_integers |= !is_float;
  const std::string call = (is_float ? "op::" : "integer::") +
                           elementwise_function(op.op, op.attributes) + "(" + arguments + ")";
  return ir::is_half(to) ? std::string(element_type(to)) + "(" + call + ")" : call;
}

/// The text of an op that depends on the element's index: range, one_hot.
std::string ElementCode::operation_of_index(const Node &node) {
  const FusedOp &op = group_.ops[node.op];
  const ir::DType to = dtype(op.result);
  auto number = [&](ir::DType as, std::string_view name) {
    return element_literal(as, ir::op_float(op.op, op.attributes, name));
  };
  write_space(node.space);
  if (op.op == ir::Op::one_hot) {
    parameters_.uses_positions = true;
    const std::string id = write(node.operands[0]);
    const int64_t depth = ir::op_integer(op.op, op.attributes, "depth");
    return "is_at(" + id + ", " + offset(node) + ", " +
           size("one_hot_depth", module_.exprs.constant(depth)) + ") ? " + number(to, "on") +
           " : " + number(to, "off");
  }
  const ir::DType computed = arithmetic_type(to);
  const bool is_float = ir::info(to).kind == ir::DTypeKind::floating;
  parameters_.uses_integers |= !is_float;
  const std::string call = std::string(is_float ? "op" : "integer") + "::range<" +
                           std::string(element_type(computed)) + ">(" + offset(node) + ", " +
                           number(computed, "start") + ", " + number(computed, "step") + ")";
  return ir::is_half(to) ? std::string(element_type(to)) + "(" + call + ")" : call;
}

/// When a branch is taken, if those before it are not.
std::string ElementCode::condition(const Node &node, const Branch &branch) {
  const std::string name(ir::op_info(group_.ops[node.op].op).name);
  std::vector<std::string> terms;
  if (branch.unless_empty.valid())
    terms.push_back(size(name + "_rows", branch.unless_empty) + " > 0");
  for (const Bound &bound : branch.bounds) {
    const std::string at = spaces_[node.space].accesses[bound.access].text;
    if (bound.from.valid())
      terms.push_back(at + " >= Index(" + size(name + "_begin", bound.from) + ")");
    if (bound.to.valid())
      terms.push_back(at + " < Index(" + size(name + "_end", bound.to) + ")");
  }
  std::string text;
  for (const std::string &term : terms)
    text += (text.empty() ? "" : " && ") + term;
  return text;
}

/// Computes only the branch that is taken: elements of others may lie outside of their tensors.
void ElementCode::write_branches(const Node &node, const std::string &name) {
  write_space(node.space);
  for (uint32_t operand : node.operands) // positions: they are outside's
    write(operand);
  lines_ += indent_ + std::string(element_type(dtype(node.value))) + " " + name + ";\n";
  const std::string outer = indent_;
  for (size_t i = 0; i < node.branches.size(); ++i) {
    const Branch &branch = node.branches[i];
    const std::string when = condition(node, branch);
    lines_ += (i ? " else " : outer) + (when.empty() ? "" : "if (" + when + ") ") + "{\n";
    indent_ = outer + "  ";
    const std::string text = branch.operand == kNone ? node.fill : write(branch.operand);
    lines_ += indent_ + name + " = " + text + ";\n" + outer + "}";
    indent_ = outer;
  }
  lines_ += "\n";
}

/// Returns the text for the node: a variable, or its load if it is used once.
const std::string &ElementCode::write(uint32_t number) {
  if (nodes_[number].text.empty()) {
    std::string text = write_node(nodes_[number]);
    nodes_[number].text = std::move(text);
  }
  return nodes_[number].text;
}

std::string ElementCode::write_node(const Node &node) {
  const bool is_loaded = node.op == kNone;
  std::string name, text;
  if (is_loaded) {
    name = parameters_.tensors[node.tensor].name;
    parameters_.uses_words = parameters_.uses_words || is_read_by_word(node.tensor);
    if ((in_place_[node.tensor] && (given_.by_value || given_.in_place_by_value)) ||
        row_read(node.tensor))
      return name;
    write_space(node.space);
    const bool by_word = is_read_by_word(node.tensor);
    text = by_word ? "read_by_word(" + name + " + " + offset(node) + ")"
                   : name + "[" + offset(node) + "]";
    if (node.uses == 1)
      return text;
  } else if (node.branches.empty()) {
    text = operation(node);
  }
  name =
      unique(is_loaded ? name + "_value" : std::string(ir::op_info(group_.ops[node.op].op).name));
  if (!node.branches.empty()) {
    write_branches(node, name);
    return name;
  }
  lines_ += indent_ + "const " + std::string(element_type(dtype(node.value))) + " " + name + " = " +
            text + ";\n";
  return name;
}

} // namespace cugrt::codegen
