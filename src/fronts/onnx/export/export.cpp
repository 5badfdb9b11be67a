// Functions, bindings and the file; see export.h.
#include "fronts/onnx/export/export.h"

#include "fronts/onnx/export/graph_writer.h"
#include "fronts/onnx/file/tensor.h"
#include "ir/text/text.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

// Field numbers of onnx.proto.
enum GraphField { kGraphName = 2, kInitializer = 5, kGraphInput = 11, kGraphOutput };
enum FunctionField {
  kFunctionName = 1,
  kFunctionInput = 4,
  kFunctionOutput,
  kFunctionOpset = 9,
  kFunctionDomain
};
enum ModelField { kIrVersion = 1, kProducer, kModelGraph = 7, kOpsetImport, kModelFunctions = 25 };
enum TensorField { kDims = 1, kDataType, kTensorName = 8, kRawData };

constexpr uint64_t kMostFileBytes = (uint64_t(1) << 31) - 1; // of protobuf
constexpr const char *kFunctions = "cugrt.functions";
/// Domains of nodes, but for ONNX's own.
constexpr const char *kDomains[] = {"cugrt",        kFunctions,      "cugrt.host",
                                    "cugrt.extern", "cugrt.kernels", "com.microsoft"};

Message opset(const std::string &domain, int64_t version) {
  Message out;
  out.text(1, domain);
  out.number(2, static_cast<uint64_t>(version));
  return out;
}

/// Name and type of an input or a result.
Message value_info(const ir::Module &module, const ir::Function &function, const std::string &name,
                   ir::TypeId id) {
  const ir::Type &type = module.types[id];
  const std::vector<std::string> symbols = function.symbol_names();
  Message shape, tensor, outer, value;
  const bool is_list = type.kind == ir::TypeKind::shape;
  auto add = [&](std::optional<int64_t> known, const std::string &text) {
    Message dim;
    if (known)
      dim.number(1, static_cast<uint64_t>(*known));
    else
      dim.text(2, text);
    shape.message(1, dim);
  };
  if (is_list)
    add(static_cast<int64_t>(type.dims.size()), "");
  else if (type.kind == ir::TypeKind::tensor)
    for (const ir::ExprId dim : type.dims)
      add(module.exprs.as_constant(dim), module.exprs.to_string(dim, symbols));
  const ir::DType dtype = type.kind == ir::TypeKind::tensor ? type.dtype : ir::DType::i64;
  tensor.number(1, static_cast<uint64_t>(onnx_dtype(dtype)));
  if (type.known_shape)
    tensor.message(2, shape);
  outer.message(1, tensor);
  value.text(1, name);
  value.message(2, outer);
  return value;
}

/// The same of a scalar.
Message scalar_info(const std::string &name, ir::DType dtype) {
  Message tensor, outer, value;
  tensor.number(1, static_cast<uint64_t>(onnx_dtype(dtype)));
  tensor.message(2, Message());
  outer.message(1, tensor);
  value.text(1, name);
  value.message(2, outer);
  return value;
}

/// Writes the bindings of one function, block by block.
class FunctionWriter {
public:
  FunctionWriter(const ir::Module &module, const ir::Function &function, uint32_t field)
      : module_(module), function_(function), graph_(module, function, field) {}

  GraphWriter &graph() { return graph_; }

  /// Its results' names, those of tuples one after another.
  Names write() {
    for (const ir::Parameter &param : function_.params)
      if (!graph_.names(param.value).empty())
        graph_.define_symbols(param.value);
    return write_block(function_.body());
  }

private:
  Names write_block(const ir::Block &block) {
    for (const ir::Binding &binding : block.bindings)
      if (graph_.status().ok())
        write_binding(binding);
    return names_of(function_.results_of(block));
  }

  Names names_of(std::span<const ir::Operand> operands) {
    Names all;
    for (const ir::Operand &operand : operands)
      for (const std::string &name : names_of(operand))
        all.push_back(name);
    return all;
  }

  Names names_of(const ir::Operand &operand) {
    switch (operand.kind) {
    case ir::Operand::Kind::value:
      return graph_.names(operand.value());
    case ir::Operand::Kind::expr:
      return {graph_.expr(operand.expr())};
    case ir::Operand::Kind::none:
      return {""};
    case ir::Operand::Kind::literal:
    case ir::Operand::Kind::function:
      break;
    }
    graph_.fail("an operand in @" + function_.name + " is no value of ONNX's");
    return {""};
  }

  Names wanted(const ir::Binding &binding) const {
    Names names;
    for (uint32_t i = 0; i < binding.result_count; ++i)
      names.push_back(function_.value(binding.result(i)).name);
    return names;
  }

  void bind_each(const ir::Binding &binding, const Names &names) {
    for (uint32_t i = 0; i < binding.result_count; ++i)
      graph_.bind(binding.result(i), {names[i]});
  }

  void refuse(const ir::Binding &binding) {
    graph_.fail("@" + function_.name + " has '" + ir::print_binding(module_, function_, binding) +
                "', for which ONNX has nothing; a module is exported before it is lowered");
  }

  void write_binding(const ir::Binding &binding) {
    const std::span<const ir::Operand> operands = function_.operands_of(binding);
    switch (binding.kind) {
    case ir::BindingKind::op:
      return graph_.write_op(binding);
    case ir::BindingKind::alias:
      return graph_.bind(binding.result(), names_of(operands[0]));
    case ir::BindingKind::match_shape:
      graph_.bind(binding.result(), names_of(operands[0]));
      return graph_.define_symbols(binding.result());
    case ir::BindingKind::constant:
      return write_constant(binding);
    case ir::BindingKind::shape:
      return graph_.bind(binding.result(), {graph_.shape(function_.exprs_of(binding))});
    case ir::BindingKind::tuple:
      return graph_.bind(binding.result(), names_of(operands));
    case ir::BindingKind::tuple_element:
      return write_element(binding);
    case ir::BindingKind::literal:
      if (operands[0].kind == ir::Operand::Kind::expr)
        graph_.bind(binding.result(), {graph_.scalar(operands[0].expr())});
      return; // of another kind: whoever takes it is refused
    case ir::BindingKind::read_symbol:
      return read_symbol(binding);
    case ir::BindingKind::call:
      return bind_each(binding, graph_.node_of(module_.functions[binding.callee].name, kFunctions,
                                               names_of(operands), {}, wanted(binding)));
    case ir::BindingKind::host_call:
    case ir::BindingKind::extern_call:
      return bind_each(
          binding,
          graph_.node_of(module_.callee_names[binding.callee],
                         binding.kind == ir::BindingKind::host_call ? "cugrt.host" : "cugrt.extern",
                         names_of(operands), {}, wanted(binding)));
    case ir::BindingKind::alloc:
    case ir::BindingKind::kill:
      return; // a launch gives what is written there its name
    case ir::BindingKind::launch:
      return write_launch(binding);
    case ir::BindingKind::if_:
      return write_if(binding);
    case ir::BindingKind::while_:
      return write_while(binding);
    case ir::BindingKind::alloc_storage:
    case ir::BindingKind::alloc_tensor:
    case ir::BindingKind::view:
      return refuse(binding);
    }
  }

  void write_constant(const ir::Binding &binding) {
    const ir::Constant &constant = module_.constants[binding.callee];
    const ir::Type &type = module_.types[constant.type];
    std::vector<int64_t> dims;
    for (const ir::ExprId dim : type.dims)
      dims.push_back(module_.exprs.as_constant(dim).value_or(0));
    const std::string &name = function_.value(binding.result()).name;
    graph_.bind(binding.result(), {graph_.tensor(type.dtype, dims, constant.bytes, name)});
  }

  void write_element(const ir::Binding &binding) {
    const ir::Operand &tuple = function_.operands_of(binding)[0];
    const ir::Type &type = graph_.type(tuple.value());
    const auto index =
        static_cast<size_t>(module_.exprs.as_constant(function_.exprs_of(binding)[0]).value_or(0));
    size_t first = 0;
    for (size_t i = 0; i < index; ++i)
      first += module_.types.leaf_count(type.fields[i]);
    const Names all = names_of(tuple);
    const size_t count = module_.types.leaf_count(type.fields[index]);
    graph_.bind(binding.result(), {all.begin() + static_cast<ptrdiff_t>(first),
                                   all.begin() + static_cast<ptrdiff_t>(first + count)});
  }

  void read_symbol(const ir::Binding &binding) {
    const std::string flat = graph_.node(
        "Reshape", {names_of(function_.operands_of(binding)[0])[0], graph_.integers({-1})});
    const std::span<const ir::ExprId> exprs = function_.exprs_of(binding);
    const std::string element = graph_.node("Gather", {flat, graph_.expr(exprs[1])});
    graph_.define_symbol(
        {static_cast<uint32_t>(module_.exprs[exprs[0]].value)},
        graph_.node("Cast", {element}, {{"to", int64_t(onnx_dtype(ir::DType::i64))}}));
  }

  /// Gives a written tensor a new name from there on.
  void write_launch(const ir::Binding &binding) {
    const ir::Kernel &kernel = module_.kernels[binding.callee];
    const std::span<const ir::Operand> operands = function_.operands_of(binding);
    Names inputs, outputs;
    std::vector<ir::ValueId> written;
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool tensor = kernel.params[i].kind == ir::KernelParamKind::tensor &&
                          operands[i].kind == ir::Operand::Kind::value;
      if (!tensor || kernel.params[i].access != ir::Access::out)
        for (const std::string &name : names_of(operands[i]))
          inputs.push_back(name);
      if (tensor && kernel.params[i].access != ir::Access::in) {
        written.push_back(operands[i].value());
        outputs.push_back(function_.value(operands[i].value()).name);
      }
    }
    outputs = graph_.node_of(kernel.name, "cugrt.kernels", inputs, {}, outputs);
    for (size_t i = 0; i < written.size(); ++i)
      graph_.bind(written[i], {outputs[i]});
  }

  /// A nested graph: nodes, descriptions of its inputs, names of its results.
  Message nested(Message nodes, const std::vector<Message> &inputs, const Names &outputs) {
    Message out;
    out.append(nodes);
    out.text(kGraphName, "body");
    for (const Message &input : inputs)
      out.message(kGraphInput, input);
    for (const std::string &name : outputs) {
      Message value;
      value.text(1, name);
      out.message(kGraphOutput, value);
    }
    return out;
  }

  /// Results of a graph are made by its own nodes.
  Names made_here(const Names &names) {
    Names made;
    for (const std::string &name : names)
      made.push_back(graph_.node("Identity", {name}));
    return made;
  }

  void write_if(const ir::Binding &binding) {
    NodeAttributes branches;
    for (uint32_t i = 0; i < binding.blocks.count; ++i) {
      GraphWriter::Nested outer = graph_.enter();
      const Names results = made_here(write_block(function_.blocks[binding.blocks.begin + i]));
      branches.push_back({i == 0 ? "then_branch" : "else_branch",
                          nested(graph_.leave(std::move(outer)), {}, results)});
    }
    bind_each(binding, graph_.node_of("If", "", {names_of(function_.operands_of(binding)[0])[0]},
                                      branches, wanted(binding)));
  }

  /// The condition is computed before the loop, and at the end of each turn.
  void write_while(const ir::Binding &binding) {
    const ir::Block &condition = function_.blocks[binding.blocks.begin],
                    &body = function_.blocks[binding.blocks.begin + 1];
    auto bind_params = [&](const ir::Block &block, const Names &names) {
      for (uint32_t i = 0; i < block.param_count; ++i)
        graph_.bind({block.first_param + i}, {names[i]});
    };
    Names carried = names_of(function_.operands_of(binding).subspan(0, binding.carried_count));
    bind_params(condition, carried);
    const std::string before = write_block(condition)[0];
    GraphWriter::Nested outer = graph_.enter();
    std::vector<Message> inputs = {scalar_info(graph_.fresh("turn"), ir::DType::i64),
                                   scalar_info(graph_.fresh("going_on"), ir::DType::boolean)};
    Names params;
    for (uint32_t i = 0; i < body.param_count; ++i) {
      const ir::Value &value = function_.value({body.first_param + i});
      params.push_back(graph_.fresh(value.name));
      inputs.push_back(value_info(module_, function_, params.back(), value.type));
    }
    bind_params(body, params);
    const Names next = write_block(body);
    bind_params(condition, next);
    Names results = write_block(condition);
    results.insert(results.end(), next.begin(), next.end());
    results = made_here(results);
    Message inner = nested(graph_.leave(std::move(outer)), inputs, results);
    carried.insert(carried.begin(), {"", before});
    bind_each(binding,
              graph_.node_of("Loop", "", carried, {{"body", std::move(inner)}}, wanted(binding)));
  }

  const ir::Module &module_;
  const ir::Function &function_;
  GraphWriter graph_;
};

/// A private function as one of the file's.
Result<Message> local_function(const ir::Module &module, const ir::Function &function) {
  FunctionWriter writer(module, function, GraphWriter::kNodesOfFunction);
  Message head, tail;
  head.text(kFunctionName, function.name);
  for (const ir::Parameter &param : function.params) {
    const std::string name = writer.graph().fresh(function.value(param.value).name);
    writer.graph().bind(param.value, {name});
    head.text(kFunctionInput, name);
  }
  for (const std::string &result : writer.write())
    head.text(kFunctionOutput, writer.graph().node("Identity", {result}, {}, "result"));
  tail.message(kFunctionOpset, opset("", kExportOpset));
  for (const char *domain : kDomains)
    tail.message(kFunctionOpset, opset(domain, 1));
  tail.text(kFunctionDomain, kFunctions);
  CUGRT_TRY(writer.graph().take_status());
  head.append(writer.graph().nodes());
  head.append(tail);
  return head;
}

/// The private functions that a function calls, itself or through others, once each.
std::vector<uint32_t> callees(const ir::Module &module, const ir::Function &function) {
  std::vector<uint32_t> found;
  auto look = [&](const ir::Function &caller) {
    for (const ir::Block &block : caller.blocks)
      for (const ir::Binding &binding : block.bindings)
        if (binding.kind == ir::BindingKind::call &&
            std::find(found.begin(), found.end(), binding.callee) == found.end())
          found.push_back(binding.callee);
  };
  look(function);
  for (size_t i = 0; i < found.size(); ++i)
    look(module.functions[found[i]]);
  return found;
}

Result<const ir::Function *> choose(const ir::Module &module, const std::string &name) {
  const ir::Function *chosen = module.find_function(name.empty() ? "main" : name);
  if (!chosen && name.empty())
    for (const ir::Function &function : module.functions)
      if (!function.is_private) {
        if (chosen)
          return Status::error(Code::invalid_argument, "the module has several functions and no "
                                                       "@main; say which one is exported");
        chosen = &function;
      }
  if (!chosen)
    return Status::error(Code::not_found,
                         "the module has no function @" + (name.empty() ? "main" : name));
  return chosen;
}

/// The file's pieces, in order.
class FileWriter {
public:
  void own(const Message &fields) {
    size_ += fields.bytes().size();
    pieces_.push_back({fields.bytes(), {}});
  }
  void view(std::string_view bytes) {
    size_ += bytes.size();
    pieces_.push_back({{}, bytes});
  }
  uint64_t size() const { return size_; }
  size_t count() const { return pieces_.size(); }
  void append_to(ExportedFile &file) && {
    for (Piece &piece : pieces_)
      file.owned.push_back(std::move(piece.own));
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const std::string &own = file.owned[file.owned.size() - pieces_.size() + i];
      file.parts.push_back(own.empty() ? pieces_[i].view : std::string_view(own));
    }
  }

private:
  struct Piece {
    std::string own;
    std::string_view view;
  };
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

void add_initializer(FileWriter &file, const std::string &name, const ExportedWeight &weight) {
  Message tensor, head;
  for (const int64_t dim : weight.dims)
    tensor.number(kDims, static_cast<uint64_t>(dim));
  tensor.number(kDataType, static_cast<uint64_t>(onnx_dtype(weight.dtype)));
  tensor.text(kTensorName, name);
  tensor.begin(kRawData, weight.bytes.size());
  head.begin(kInitializer, tensor.bytes().size() + weight.bytes.size());
  head.append(tensor);
  file.own(head);
  file.view(weight.bytes);
}

} // namespace

Result<ExportedFile> export_module(const ir::Module &module, const ExportOptions &options) {
  CUGRT_ASSIGN(const ir::Function *function, choose(module, options.function));
  FunctionWriter writer(module, *function, GraphWriter::kNodesOfGraph);
  Message values; // inputs and outputs
  FileWriter weights;
  for (size_t i = 0; i < function->params.size(); ++i) {
    const ir::Value &value = function->value(function->params[i].value);
    const auto called = options.names.find(value.name);
    const std::string name =
        writer.graph().fresh(called == options.names.end() ? value.name : called->second);
    writer.graph().bind(function->params[i].value, {name});
    const auto weight = options.weights.find(value.name);
    if (function->is_weight(i) && weight != options.weights.end())
      add_initializer(weights, name, weight->second);
    else
      values.message(kGraphInput, value_info(module, *function, name, value.type));
  }
  Names wanted;
  for (size_t i = 0; i < function->result_types.size(); ++i)
    wanted.push_back(writer.graph().fresh(
        i < options.results.size() ? options.results[i] : "result" + std::to_string(i)));
  const Names made = writer.write();
  CUGRT_TRY(writer.graph().take_status());
  if (made.size() != wanted.size())
    return Status::error(Code::unsupported, "@" + function->name +
                                                " gives a tuple, and ONNX's graphs "
                                                "give tensors alone");
  for (size_t i = 0; i < made.size(); ++i) {
    writer.graph().give(made[i], wanted[i]);
    values.message(kGraphOutput,
                   value_info(module, *function, wanted[i], function->result_types[i]));
  }
  values.text(kGraphName, function->name);
  Message head, tail;
  head.number(kIrVersion, kExportIr);
  head.text(kProducer, "cugrt");
  FileWriter graph;
  graph.own(writer.graph().nodes());
  head.begin(kModelGraph, graph.size() + weights.size() + values.bytes().size());
  tail.message(kOpsetImport, opset("", kExportOpset));
  for (const char *domain : kDomains)
    tail.message(kOpsetImport, opset(domain, 1));
  for (const uint32_t callee : callees(module, *function)) {
    CUGRT_ASSIGN(const Message local, local_function(module, module.functions[callee]));
    tail.message(kModelFunctions, local);
  }
  FileWriter first, last;
  first.own(head);
  last.own(values);
  last.own(tail);
  if (first.size() + graph.size() + weights.size() + last.size() > kMostFileBytes)
    return Status::error(Code::unsupported, "the model is larger than 2 GB, which is the most that "
                                            "an ONNX file holds");
  ExportedFile file;
  FileWriter *pieces[] = {&first, &graph, &weights, &last};
  size_t count = 0;
  for (const FileWriter *one : pieces)
    count += one->count();
  file.owned.reserve(count); // what parts view stays where it is
  for (FileWriter *one : pieces)
    std::move(*one).append_to(file);
  return file;
}

} // namespace cugrt::onnx
