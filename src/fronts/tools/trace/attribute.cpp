// cugrt attribute: sums an export of Nsight Systems by op, binding or place of the kernels of
// graphs.
//
// The map is a session's report of its graphs as JSON: session_graph_report, to which `cugrt trace
// --graphs` adds ops and the names of an ONNX file's nodes.
#include "device_times.h"
#include "sqlite.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

struct AttributeOptions {
  std::string report, graphs;
  bool json = false;
};

/// A kernel node of the map.
struct MappedNode {
  std::string function, region, name, kernel, op, place;
  uint32_t line = 0;
  std::optional<uint64_t> id;
};
using MappedGraph = std::vector<MappedNode>;

/// A node of the export: all launches of it together.
struct ProfiledNode {
  uint64_t id = 0;
  std::string kernel;
  int64_t ns = 0, launches = 0;
  const MappedNode *is = nullptr;
  const char *by = "";
};

std::vector<MappedGraph> read_map(const std::string &path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  std::vector<MappedGraph> graphs;
  try {
    for (const auto &instance : json) {
      MappedGraph graph;
      for (const auto &node : instance.at("nodes"))
        if (node.contains("kernel"))
          graph.push_back(
              {instance.at("function"), instance.at("region"), node.at("name"), node.at("kernel"),
               node.value("op", op_of_step(node.at("name"), {})), node.value("place", ""),
               node.value("line", 0u),
               node.contains("id") ? std::optional(node["id"].get<uint64_t>()) : std::nullopt});
      graphs.push_back(std::move(graph));
    }
  } catch (const nlohmann::json::exception &) {
    graphs.clear();
  }
  if (graphs.empty())
    throw UserError("'" + path + "' is no report of a session's graphs as JSON, or of none");
  return graphs;
}

/// In the order of ids, so that a graph's nodes follow each other.
std::vector<ProfiledNode> read_export(const std::string &path) {
  const SqliteFile file(path);
  const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
  for (const char *column : {"start", "end", "shortName", "graphNodeId"})
    if (!file.has_column(table, column))
      throw UserError("'" + path +
                      "' is no export of Nsight Systems with kernels of graphs: it has no " +
                      table + "." + column +
                      "; profile with nsys profile --cuda-graph-trace=node, then nsys export "
                      "--type=sqlite");
  std::vector<ProfiledNode> nodes;
  file.query(
      "SELECT k.graphNodeId, COALESCE(s.value, ''), SUM(k.end - k.start), COUNT(*) FROM " + table +
          " AS k LEFT JOIN StringIds AS s ON s.id = k.shortName WHERE k.graphNodeId IS NOT "
          "NULL AND k.graphNodeId != 0 GROUP BY k.graphNodeId, s.value ORDER BY k.graphNodeId",
      [&](const SqliteRow &row) {
        ProfiledNode node;
        node.id = static_cast<uint64_t>(row.integer(0));
        node.kernel = row.text(1), node.ns = row.integer(2), node.launches = row.integer(3);
        nodes.push_back(std::move(node));
      });
  if (nodes.empty())
    throw UserError("'" + path +
                    "' has no kernel of a graph: profile with nsys profile "
                    "--cuda-graph-trace=node");
  return nodes;
}

void join(std::vector<ProfiledNode> &nodes, const std::vector<MappedGraph> &graphs) {
  std::vector<ToldNode> told;
  for (const ProfiledNode &node : nodes)
    told.push_back({node.id, node.kernel});
  std::vector<std::vector<KnownNode>> known;
  for (const MappedGraph &graph : graphs) {
    known.emplace_back();
    for (const MappedNode &node : graph)
      known.back().push_back({node.id, node.kernel});
  }
  const auto matches = match_nodes(told, known);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (matches[i]) {
      nodes[i].is = &graphs[matches[i]->graph][matches[i]->node];
      nodes[i].by = matches[i]->by_id ? "id" : "order";
    }
}

void attribute(const AttributeOptions &options) {
  const std::vector<MappedGraph> graphs = read_map(options.graphs);
  std::vector<ProfiledNode> nodes = read_export(options.report);
  join(nodes, graphs);
  int64_t all = 0, unknown = 0;
  for (const ProfiledNode &node : nodes) {
    all += node.ns;
    unknown += node.is ? 0 : node.ns;
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const ProfiledNode &a, const ProfiledNode &b) { return a.ns > b.ns; });
  auto rows = Json::array();
  if (!options.json)
    std::printf("%12s %8s %8s  %-24s %-24s %-24s %8s %s %s\n", "us", "share", "launches", "op",
                "binding", "kernel", "line", "region", "place");
  for (const ProfiledNode &node : nodes) {
    const std::string step = node.is ? node.is->name : "";
    const size_t space = step.find(' ');
    const std::string op = node.is ? node.is->op : "?",
                      binding = space == std::string::npos ? "?" : step.substr(space + 1),
                      region = node.is ? node.is->region : "?",
                      place = node.is ? node.is->place : "";
    const uint32_t line = node.is ? node.is->line : 0;
    if (options.json)
      rows.push_back({{"op", op},
                      {"binding", binding},
                      {"kernel", node.kernel},
                      {"line", line},
                      {"region", region},
                      {"place", place},
                      {"function", node.is ? node.is->function : ""},
                      {"launches", node.launches},
                      {"us", static_cast<double>(node.ns) / 1e3},
                      {"node", node.id},
                      {"by", node.by}});
    else
      std::printf(
          "%12.2f %7.1f%% %8lld  %-24s %-24s %-24s %8u %s %s\n", static_cast<double>(node.ns) / 1e3,
          100.0 * static_cast<double>(node.ns) / static_cast<double>(std::max<int64_t>(all, 1)),
          (long long)node.launches, op.c_str(), binding.c_str(), node.kernel.c_str(), line,
          region.c_str(), place.c_str());
  }
  if (options.json)
    std::cout << rows.dump(1) << "\n";
  if (unknown > 0)
    std::fprintf(stderr,
                 "cugrt: kernels of graphs that the map does not have take %.2f of %.2f us\n",
                 static_cast<double>(unknown) / 1e3, static_cast<double>(all) / 1e3);
}

} // namespace

void add_attribute(CLI::App &app) {
  auto options = std::make_shared<AttributeOptions>();
  CLI::App *command = app.add_subcommand(
      "attribute", "An export of Nsight Systems by op, binding and line of the kernels in graphs");
  command
      ->add_option("REPORT", options->report,
                   "The .sqlite file of nsys export, of a profile with --cuda-graph-trace=node")
      ->required();
  command
      ->add_option(
          "--graphs", options->graphs,
          "The graphs of the session that was profiled, as cugrt trace --graphs writes them")
      ->required();
  command->add_flag("--json", options->json, "Rows as JSON in place of the table");
  command->callback([options] { attribute(*options); });
}

} // namespace tool
