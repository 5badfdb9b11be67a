// Results of the model, and the readers of its values; see importer.h.
#include "fronts/onnx/importer.h"

#include "fronts/onnx/file/tensor.h"
#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::onnx {

// --- Readers

void Importer::count_readers(const Graph &graph) {
  const bool top = &graph == &model_.graph;
  auto reads = [&](std::string_view name, const Node *node) {
    Readers &readers = readers_[name];
    readers.node = readers.count++ == 0 && top ? node : nullptr;
  };
  for (const Node &node : graph.nodes) {
    for (std::string_view name : node.inputs)
      reads(name, &node);
    for (const AttributeView &attribute : node.attributes)
      if (attribute.graph)
        count_readers(*attribute.graph);
  }
  for (const ValueInfo &info : graph.outputs)
    reads(info.name, nullptr);
}

const Node *Importer::only_reader(std::string_view name) {
  if (depth > 0 || name.empty() || options_.every_value)
    return nullptr; // a result that is asked for by name must exist
  if (readers_.empty())
    count_readers(model_.graph);
  auto found = readers_.find(name);
  return found == readers_.end() ? nullptr : found->second.node;
}

EntryPtr Importer::constant_of(std::string_view name) {
  auto found = scopes_.front().find(name);
  const bool there = depth == 0 && found != scopes_.front().end() && found->second &&
                     (found->second->constant || found->second->host);
  return there ? found->second : nullptr;
}

// --- Results

/// The type of a result: dimensions that a match defines are not known before the body.
ir::TypeId Importer::declared_type(ir::TypeId id) {
  ir::Type type = result_.module.types[id];
  std::vector<ir::SymbolId> symbols;
  for (E dim : type.dims)
    exprs().collect_symbols(dim, symbols);
  for (ir::SymbolId s : symbols)
    if (builder_.function().symbols[s.index].source == ir::SymbolSource::match)
      type.known_shape = false;
  if (type.known_shape)
    return id;
  type.dims.clear();
  return result_.module.types.intern(type);
}

Status Importer::result(std::string_view name, std::set<uint32_t> &returned) try {
  hint = "result";
  EntryPtr entry = find(name);
  takes_counted_ = true;
  V value = device(*entry);
  takes_counted_ = false;
  if (entry->narrow != Narrow::none)
    fail(Code::unsupported, "a result of dtype " + dtype_name(entry->narrow));
  if (entry->counted) {
    value = dense(value, *entry->counted);
    counted_results_.emplace_back(uint32_t(result_operands_.size()), *entry->counted);
  }
  const bool own =
      !entry->is_input && !entry->constant && !entry->host && returned.insert(value.index).second;
  if (!own)
    value = emit(Op::cast, {value}, {{"dtype", ir::DTypeLiteral(type(value).dtype)}})[0];
  result_operands_.push_back(ir::Operand::of(value));
  builder_.function().result_types.push_back(declared_type(builder_.function().value(value).type));
  Imported::Output output{std::string(name), {}, {}, 0};
  if (auto maker = makers_.find(name); maker != makers_.end()) {
    const Node &node = model_.graph.nodes[output.place = maker->second];
    output.node = node.name, output.op = node.op;
  }
  result_.outputs.push_back(std::move(output));
  return {};
} catch (const Failed &) {
  return take_error().in("result '" + std::string(name) + "'");
}

Status Importer::every_value(std::set<uint32_t> &returned) {
  for (const Node &node : model_.graph.nodes)
    for (std::string_view name : node.outputs) {
      auto found = scopes_.front().find(name);
      const EntryPtr entry = found == scopes_.front().end() ? nullptr : found->second;
      if (entry && entry->device.valid() && entry->narrow == Narrow::none && !entry->constant &&
          !entry->host && !entry->is_input && is_real(type(entry->device).dtype) &&
          !returned.count(entry->device.index))
        CUGRT_TRY(result(name, returned));
    }
  return {};
}

/// The values that were made since there were `first`: of a node within this one, they are that
/// one's.
void Importer::note_node(const Node &node, size_t first) {
  const std::string_view name =
      node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name;
  node_of_value_.resize(builder_.function().values.size());
  for (size_t value = first; value < node_of_value_.size(); ++value)
    if (node_of_value_[value].empty())
      node_of_value_[value] = name.substr(0, ir::kMaxNameBytes);
}

Status Importer::results() {
  for (size_t i = 0; i < model_.graph.nodes.size(); ++i)
    for (std::string_view name : model_.graph.nodes[i].outputs)
      makers_[name] = i;
  std::set<uint32_t> returned;
  for (const ValueInfo &info : model_.graph.outputs) {
    CUGRT_TRY(result(info.name, returned));
    const DType made = type(result_operands_.back().value()).dtype;
    const std::optional<DType> declared = dtype_of(info.data_type);
    if (info.is_tensor && declared && *declared != made)
      return Status::error(Code::parse_error, "result '" + std::string(info.name) +
                                                  "' is declared with dtype " +
                                                  std::string(ir::info(*declared).name) +
                                                  " and has " + std::string(ir::info(made).name));
  }
  if (options_.every_value)
    CUGRT_TRY(every_value(returned));
  count_results();
  result_.module.functions.push_back(builder_.finish(result_operands_));
  const std::vector<ir::Value> &values = result_.module.functions.back().values;
  for (size_t i = 0; i < std::min(values.size(), node_of_value_.size()); ++i)
    if (!node_of_value_[i].empty())
      result_.nodes.emplace_back(values[i].name, std::move(node_of_value_[i]));
  return {};
}

} // namespace cugrt::onnx
