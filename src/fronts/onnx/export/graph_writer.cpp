// Nodes, names and arithmetic over symbols; see graph_writer.h.
#include "fronts/onnx/export/graph_writer.h"

#include "base/type/element.h"

namespace cugrt::onnx {

namespace {

// Field numbers of onnx.proto.
enum NodeField { kInput = 1, kOutput, kName, kOpType, kAttribute, kDoc, kDomain };
enum AttributeField { kAttrName = 1, kF, kI, kS, kT, kG, kFloats, kInts, kAttrType = 20 };

Message attribute(const NodeAttribute &from) {
  Message out;
  out.text(kAttrName, from.first);
  uint64_t type = 0;
  if (const auto *integer = std::get_if<int64_t>(&from.second)) {
    out.number(kI, static_cast<uint64_t>(*integer));
    type = 2;
  } else if (const auto *real = std::get_if<float>(&from.second)) {
    out.real(kF, *real);
    type = 1;
  } else if (const auto *text = std::get_if<std::string>(&from.second)) {
    out.text(kS, *text);
    type = 3;
  } else if (const auto *list = std::get_if<std::vector<int64_t>>(&from.second)) {
    for (const int64_t one : *list)
      out.number(kInts, static_cast<uint64_t>(one));
    type = 7;
  } else {
    const bool is_graph = from.first.ends_with("_branch") || from.first == "body";
    out.message(is_graph ? kG : kT, std::get<Message>(from.second));
    type = is_graph ? 5 : 4;
  }
  out.number(kAttrType, type);
  return out;
}

} // namespace

std::string GraphWriter::fresh(const std::string &wanted) {
  if (used_.try_emplace(wanted, 0).second)
    return wanted;
  std::string name;
  do
    name = wanted + "_" + std::to_string(++used_[wanted]);
  while (!used_.try_emplace(name, 0).second);
  return name;
}

const std::string &GraphWriter::name(ir::ValueId value) {
  static const std::string kNone;
  const Names &names = values_[value.index];
  if (names.size() == 1)
    return names[0];
  fail("%" + function_.value(value).name + " of @" + function_.name + " is no tensor");
  return kNone;
}

Names GraphWriter::node_of(const std::string &op, const std::string &domain, const Names &inputs,
                           const NodeAttributes &attributes, const Names &wanted) {
  Message node;
  for (const std::string &input : inputs)
    node.text(kInput, input);
  Names outputs;
  for (const std::string &one : wanted) {
    outputs.push_back(fresh(one));
    node.text(kOutput, outputs.back());
  }
  if (!outputs.empty())
    node.text(kName, outputs[0]);
  node.text(kOpType, op);
  for (const NodeAttribute &one : attributes)
    node.message(kAttribute, attribute(one));
  if (!domain.empty())
    node.text(kDomain, domain);
  nodes_.message(field_, node);
  return outputs;
}

std::string GraphWriter::node(const std::string &op, const Names &inputs,
                              const NodeAttributes &attributes, const std::string &wanted) {
  return node_of(op, "", inputs, attributes, {wanted})[0];
}

void GraphWriter::give(const std::string &value, const std::string &result) {
  Message node;
  node.text(kInput, value);
  node.text(kOutput, result);
  node.text(kOpType, "Identity");
  nodes_.message(field_, node);
}

std::string GraphWriter::tensor(ir::DType dtype, const std::vector<int64_t> &dims,
                                std::string_view bytes, const std::string &wanted) {
  Message tensor;
  for (const int64_t dim : dims)
    tensor.number(1, static_cast<uint64_t>(dim));
  tensor.number(2, static_cast<uint64_t>(onnx_dtype(dtype)));
  tensor.text(9, bytes);
  return node("Constant", {}, {{"value", std::move(tensor)}}, wanted);
}

std::string GraphWriter::constant(ir::DType dtype, const std::vector<double> &values,
                                  const std::vector<int64_t> &dims) {
  std::string bytes;
  for (const double value : values)
    if (ir::info(dtype).kind == ir::DTypeKind::floating)
      ir::append_float(dtype, value, bytes);
    else
      ir::append_integer(dtype, static_cast<int64_t>(value), bytes);
  return tensor(dtype, dims, bytes, "c");
}

std::string GraphWriter::integers(const std::vector<int64_t> &values) {
  std::string bytes;
  for (const int64_t value : values)
    ir::append_integer(ir::DType::i64, value, bytes);
  return tensor(ir::DType::i64, {static_cast<int64_t>(values.size())}, bytes, "c");
}

// --- Symbols -----------------------------------------------------------------------------------

void GraphWriter::define_symbols(ir::ValueId value) {
  const ir::Type &type = this->type(value);
  if (!type.known_shape)
    return;
  std::string dims; // a node for all of them, when one is wanted
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const ir::ExprNode &dim = module_.exprs[type.dims[i]];
    const auto symbol = static_cast<uint32_t>(dim.value);
    if (dim.kind != ir::ExprKind::symbol || symbols_.contains(symbol))
      continue;
    const std::string &name = this->name(value);
    std::string found;
    if (type.kind == ir::TypeKind::scalar) {
      found = node("Reshape", {name, integers({1})}, {}, "n");
    } else {
      if (dims.empty())
        dims = type.kind == ir::TypeKind::tensor ? node("Shape", {name}, {}, "dims") : name;
      found = node("Gather", {dims, integers({static_cast<int64_t>(i)})}, {}, "n");
    }
    symbols_.emplace(symbol, found);
  }
}

/// Rounded down, as Mod is, whatever the signs: Div cuts.
std::string GraphWriter::floor_divide(const std::string &a, const std::string &b) {
  return node("Div", {node("Sub", {a, node("Mod", {a, b})}), b});
}

std::string GraphWriter::arithmetic(const ir::ExprNode &e) {
  const std::string a = expr(e.a), b = expr(e.b);
  auto compare = [&](const std::string &op, bool opposite = false) {
    std::string truth = node(op, {a, b});
    if (opposite)
      truth = node("Not", {truth});
    return node("Cast", {truth}, {{"to", int64_t(7)}});
  };
  switch (e.kind) {
  case ir::ExprKind::add:
    return node("Add", {a, b});
  case ir::ExprKind::sub:
    return node("Sub", {a, b});
  case ir::ExprKind::mul:
    return node("Mul", {a, b});
  case ir::ExprKind::floordiv:
    return floor_divide(a, b);
  case ir::ExprKind::ceildiv:
    return node("Neg", {floor_divide(node("Neg", {a}), b)});
  case ir::ExprKind::mod:
    return node("Mod", {a, b});
  case ir::ExprKind::min:
    return node("Min", {a, b});
  case ir::ExprKind::max:
    return node("Max", {a, b});
  case ir::ExprKind::eq:
    return compare("Equal");
  case ir::ExprKind::ne:
    return compare("Equal", true);
  case ir::ExprKind::lt:
    return compare("Less");
  case ir::ExprKind::le:
    return compare("LessOrEqual");
  case ir::ExprKind::select:
    return node("Where", {node("Cast", {a}, {{"to", int64_t(9)}}), b, expr(e.c)});
  case ir::ExprKind::constant:
  case ir::ExprKind::symbol:
    break; // expr() has them
  }
  return a;
}

std::string GraphWriter::expr(ir::ExprId id) {
  if (const auto known = exprs_.find(id.index); known != exprs_.end())
    return known->second;
  const ir::ExprNode node = module_.exprs[id];
  std::string made;
  if (node.kind == ir::ExprKind::constant) {
    made = integers({node.value});
  } else if (node.kind == ir::ExprKind::symbol) {
    const auto symbol = symbols_.find(static_cast<uint32_t>(node.value));
    if (symbol == symbols_.end()) {
      fail("symbol " + function_.symbols[static_cast<size_t>(node.value)].name + " of @" +
           function_.name + " is no dimension of a parameter");
      return "";
    }
    return symbol->second;
  } else {
    made = arithmetic(node);
  }
  exprs_.emplace(id.index, made);
  return made;
}

std::string GraphWriter::shape(std::span<const ir::ExprId> dims) {
  std::vector<int64_t> constants;
  for (const ir::ExprId dim : dims)
    if (const auto value = module_.exprs.as_constant(dim))
      constants.push_back(*value);
  if (constants.size() == dims.size())
    return integers(constants);
  Names parts;
  for (const ir::ExprId dim : dims)
    parts.push_back(expr(dim));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", int64_t(0)}}, "dims");
}

GraphWriter::Nested GraphWriter::enter() {
  Nested outer{std::move(nodes_), field_, exprs_, symbols_};
  nodes_ = {};
  field_ = kNodesOfGraph;
  return outer;
}

Message GraphWriter::leave(Nested outer) {
  Message inner = std::move(nodes_);
  nodes_ = std::move(outer.nodes);
  field_ = outer.field;
  exprs_ = std::move(outer.exprs);
  symbols_ = std::move(outer.symbols);
  return inner;
}

} // namespace cugrt::onnx
