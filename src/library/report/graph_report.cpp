// Formats of the graph report; see module_report.h.
#include "library/report/module_report.h"
#include "library/report/plan_report.h"

#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

/// A node as reports show it.
struct NodeRow {
  uint32_t number = 0; // among the graph's
  std::string name, kind, kernel;
  LaunchDims dims;
  std::vector<uint32_t> after;
  std::vector<bool> programmatic; // of each of `after`
  SourceLocation location;
  std::optional<uint64_t> id;    // of profilers
  std::optional<uint64_t> bytes; // of the tensors that it reads and those that it writes
  std::optional<GraphNodes::Time> time;
};

Json dim3_json(const driver::Dim3 &dim) { return Json{dim.x, dim.y, dim.z}; }

/// Bytes of the tensors that a step reads and of those that it writes, each once, at the instance's
/// key; none if a tensor's shape is unknown.
std::optional<uint64_t> bytes_of(const GraphCache::View &view, const plan::Step &step) {
  const plan::Function &function = view.run->function;
  std::vector<int64_t> symbols = view.run->symbols;
  for (size_t i = 0; i < view.instance->values().key().size(); ++i)
    symbols[view.region->key[i].index] = static_cast<int64_t>(view.instance->values().key()[i]);
  uint64_t bytes = 0;
  std::vector<std::pair<uint32_t, bool>> seen;
  for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
    const plan::BufferAccess &access = function.accesses[a];
    const plan::Buffer &buffer = function.buffers[access.buffer];
    auto size = buffer.bytes.valid() ? view.run->plan.exprs.evaluate(buffer.bytes, symbols)
                                     : Result<int64_t>(0);
    if (!buffer.bytes.valid() || !size.ok())
      return std::nullopt;
    for (bool writes : {false, true})
      if ((writes ? ir::writes(access.access) : ir::reads(access.access)) &&
          std::find(seen.begin(), seen.end(), std::pair(access.buffer, writes)) == seen.end()) {
        seen.emplace_back(access.buffer, writes);
        bytes += static_cast<uint64_t>(*size);
      }
  }
  return bytes;
}

std::vector<NodeRow> nodes_of(const plan::Plan &plan, const GraphCache::View &view) {
  const TopologyClass &topology = view.instance->topology();
  std::vector<NodeRow> rows;
  std::vector<uint32_t> numbers(topology.node_count()); // those that are left out have none
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    if (topology.left_out[node])
      continue;
    const StepVariant &variant = view.run->program.variants[topology.variants[node]];
    NodeRow row;
    row.number = numbers[node] = uint32_t(rows.size());
    row.name = view.run->function.steps[variant.step].name;
    if (variant.kind == VariantKind::kernel) {
      row.kind = "kernel";
      row.kernel = plan.kernels[variant.kernel].entries[variant.variant];
    } else if (variant.kind == VariantKind::empty || variant.kind == VariantKind::left_out) {
      row.kind = "empty";
    } else if (view.run->function.steps[variant.step].conditional != plan::kNone) {
      row.kind = variant.kind == VariantKind::conditional ? "conditional" : "kernel";
      row.kernel = "control_set";
    } else {
      row.kind = variant.kind == VariantKind::copy ? "copy" : "fill";
      if (!variant.fixed)
        row.kernel = "transfer_" + row.kind;
    }
    row.dims = view.instance->values().dims(node);
    row.location = view.run->function.steps[variant.step].location;
    row.id = view.instance->nodes().tools_id(node);
    row.bytes = bytes_of(view, view.run->function.steps[variant.step]);
    row.time = view.instance->nodes().time(node);
    for (uint32_t i = topology.first_predecessor[node]; i < topology.first_predecessor[node + 1];
         ++i) {
      row.after.push_back(numbers[topology.predecessors[i]]);
      row.programmatic.push_back(view.instance->nodes().is_programmatic(i));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string key_text(const GraphCache::View &view) {
  std::string text;
  std::span<const uint64_t> key = view.instance->values().key();
  for (size_t i = 0; i < key.size(); ++i)
    text += (i ? ", " : "") + view.run->function.symbols[view.region->key[i].index].name + " = " +
            std::to_string(static_cast<int64_t>(key[i]));
  return text.empty() ? "-" : text;
}

std::string title(const GraphCache::View &view) {
  return "@" + view.run->function.name + " region " + view.region->name;
}

std::string to_text(const plan::Plan &plan, const std::vector<GraphCache::View> &views) {
  std::string text;
  for (const GraphCache::View &view : views) {
    const TopologyClass &topology = view.instance->topology();
    text += title(view) + ", key " + key_text(view) + ": " +
            std::to_string(topology.graph_node_count()) + " nodes, " +
            std::to_string(topology.edge_count()) + " edges\n";
    for (const NodeRow &row : nodes_of(plan, view)) {
      text += "  " + std::to_string(row.number) + " " + row.kind + " " + row.name;
      if (!row.kernel.empty())
        text += ": " + row.kernel + " grid " + dim3_text(row.dims.grid) + " block " +
                dim3_text(row.dims.block) + " shared " + std::to_string(row.dims.shared_bytes);
      if (!row.dims.enabled)
        text += " disabled";
      for (size_t i = 0; i < row.after.size(); ++i)
        text += (i ? ", " : " after ") + std::to_string(row.after[i]) +
                (row.programmatic[i] ? " (programmatic)" : "");
      text += "\n";
    }
  }
  return text;
}

std::string to_json(const plan::Plan &plan, const std::vector<GraphCache::View> &views) {
  Json json = Json::array();
  for (const GraphCache::View &view : views) {
    Json instance{{"function", view.run->function.name}, {"region", view.region->name}};
    Json key = Json::object();
    for (size_t i = 0; i < view.instance->values().key().size(); ++i)
      key[view.run->function.symbols[view.region->key[i].index].name] =
          static_cast<int64_t>(view.instance->values().key()[i]);
    instance["key"] = std::move(key);
    instance["launch"] = view.instance->last_launch; // by number, of the session's
    Json nodes = Json::array(), edges = Json::array(), programmatic = Json::array();
    for (const NodeRow &row : nodes_of(plan, view)) {
      Json node{{"name", row.name}, {"kind", row.kind}};
      if (!row.kernel.empty()) {
        node["kernel"] = row.kernel;
        node["grid"] = dim3_json(row.dims.grid);
        node["block"] = dim3_json(row.dims.block);
        node["shared_bytes"] = row.dims.shared_bytes;
      }
      node["enabled"] = row.dims.enabled;
      if (row.location.known())
        node["line"] = row.location.line;
      if (row.id)
        node["id"] = *row.id;
      if (row.bytes)
        node["bytes"] = *row.bytes;
      if (row.time) {
        node["begin_us"] = row.time->begin_us;
        node["end_us"] = row.time->end_us;
      }
      nodes.push_back(std::move(node));
      for (size_t i = 0; i < row.after.size(); ++i) {
        edges.push_back(Json{row.after[i], row.number});
        if (row.programmatic[i])
          programmatic.push_back(Json{row.after[i], row.number});
      }
    }
    instance["nodes"] = std::move(nodes);
    instance["edges"] = std::move(edges);
    instance["programmatic"] = std::move(programmatic);
    json.push_back(std::move(instance));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_dot(const plan::Plan &plan, const std::vector<GraphCache::View> &views) {
  std::string text = "digraph cugrt {\n  node [shape=box];\n";
  for (size_t i = 0; i < views.size(); ++i) {
    std::string prefix = "g" + std::to_string(i) + "n";
    text += "  subgraph cluster_" + std::to_string(i) +
            " {\n    label=" + dot_quoted(title(views[i]) + ", key " + key_text(views[i])) + ";\n";
    for (const NodeRow &row : nodes_of(plan, views[i])) {
      std::string label = row.name;
      if (!row.kernel.empty())
        label +=
            " " + row.kernel + " " + dim3_text(row.dims.grid) + " x " + dim3_text(row.dims.block);
      std::string node = prefix + std::to_string(row.number);
      text += "    " + node + " [label=" + dot_quoted(label) +
              (row.dims.enabled ? "" : ", style=dashed") + "];\n";
      for (uint32_t from : row.after)
        text += "    " + prefix + std::to_string(from) + " -> " + node + ";\n";
    }
    text += "  }\n";
  }
  return text + "}\n";
}

} // namespace

Result<std::string> graph_report(const plan::Plan &plan,
                                 const std::vector<GraphCache::View> &instances,
                                 cugrt_report_format format) {
  switch (format) {
  case CUGRT_REPORT_TEXT:
    return to_text(plan, instances);
  case CUGRT_REPORT_JSON:
    return to_json(plan, instances);
  case CUGRT_REPORT_DOT:
    return to_dot(plan, instances);
  default:
    return Status::error(Code::unsupported, "graphs are reported as text, JSON or DOT");
  }
}

} // namespace cugrt::runtime
