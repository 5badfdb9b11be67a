// cuGraphDebugDotPrint: the graph in DOT form.
#include "emulator/graph/batch_copy.h"
#include "emulator/graph/graph_call.h"

#include "base/file.h"

namespace cugrt::emulator::api {

static const char *type_name(CUgraphNodeType type) {
  switch (int(type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return "KERNEL";
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return "MEMCPY";
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return "MEMSET";
  case CU_GRAPH_NODE_TYPE_HOST:
    return "HOST";
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return "GRAPH";
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return "EVENT_WAIT";
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return "EVENT_RECORD";
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return "CONDITIONAL";
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    return "BATCH_MEM_OP";
  case int(kBatchCopyNode):
    return "MEMCPY_BATCH";
  default:
    return "EMPTY";
  }
}

static const char *condition_name(CUgraphConditionalNodeType type) {
  return type == CU_GRAPH_COND_TYPE_IF      ? "IF"
         : type == CU_GRAPH_COND_TYPE_WHILE ? "WHILE"
                                            : "SWITCH";
}

static std::string dims(const std::array<uint32_t, 3> &d) {
  return std::to_string(d[0]) + "," + std::to_string(d[1]) + "," + std::to_string(d[2]);
}

static std::string describe(const Work &work, bool verbose) {
  std::string text = type_name(work_type(work));
  if (auto *kernel = std::get_if<KernelWork>(&work)) {
    text += "\\n" + kernel->function->info->name;
    if (verbose)
      text += "\\n<<<" + dims(kernel->grid) + ",(" + dims(kernel->block) + ")," +
              std::to_string(kernel->dynamic_shared_bytes) + ">>>";
  } else if (auto *copy = std::get_if<CopyWork>(&work)) {
    text += "\\n" + std::to_string(copy->copy.WidthInBytes) + "x" +
            std::to_string(copy->copy.Height) + "x" + std::to_string(copy->copy.Depth);
  } else if (auto *batch = std::get_if<BatchCopyWork>(&work)) {
    text += "\\n" + std::to_string(batch->sizes.size()) + " copies";
    if (verbose)
      for (size_t size : batch->sizes)
        text += "\\n" + std::to_string(size);
  } else if (auto *fill = std::get_if<FillWork>(&work)) {
    text += "\\n" + std::to_string(fill->fill.width) + "x" + std::to_string(fill->fill.height) +
            " of " + std::to_string(fill->fill.elementSize) + " bytes";
  } else if (auto *conditional = std::get_if<ConditionalWork>(&work)) {
    text += "\\n" + std::string(condition_name(conditional->type));
    if (verbose)
      text += "\\nhandle " + std::to_string(conditional->conditional->handle) + ", default " +
              (conditional->conditional->flags & CU_GRAPH_COND_ASSIGN_DEFAULT
                   ? std::to_string(conditional->conditional->default_value)
                   : std::string("none"));
  }
  return text;
}

static std::string name(const GraphNode &node) {
  std::string graph = "graph_" + std::to_string(node.graph->id);
  return "\"" + graph + "_node_" + std::to_string(node.local_id) + "\"";
}

static void print(const Graph &graph, bool verbose, std::string &out) {
  out += "subgraph cluster_" + std::to_string(graph.id) + " {\n";
  out += "label=\"graph_" + std::to_string(graph.id) + "\";\n";
  for (const auto &node : graph.nodes) {
    out += name(*node) + " [shape=\"box\" label=\"" + describe(node->work, verbose) + "\"];\n";
    for (const auto &inner : embedded_graphs(node->work))
      print(*inner, verbose, out);
  }
  for (const auto &node : graph.nodes)
    for (const GraphEdge &edge : node->dependents)
      out += name(*node) + " -> " + name(*edge.node) + ";\n";
  out += "}\n";
}

GRAPH_CALL(cuGraphDebugDotPrint, handle, path, flags) {
  if (!path)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned kVerbose = CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE |
                                CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS |
                                CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS |
                                1u << 16; // CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_BATCH_NODE_PARAMS
  std::string text = "digraph dot {\n";
  print(graph, (flags & kVerbose) != 0, text);
  text += "}\n";
  cugrt::Status status = cugrt::write_file(path, text);
  if (!status.ok())
    driver.set_message(status.to_string());
  return status.ok() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

} // namespace cugrt::emulator::api
