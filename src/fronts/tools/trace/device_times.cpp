// Times of nodes from a session's report of its graphs; see device_times.h.
#include "device_times.h"

#include "base/type/dtype.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

/// Of "fused_matmul_add_f32 %x": what is behind the space.
std::string value_of_step(const std::string &step) {
  const size_t space = step.find(' ');
  return space == std::string::npos ? step : step.substr(space + 1);
}

std::string place_of(const Json &node, const std::string &value, const Model &model) {
  const auto &nodes = model.onnx_inputs().nodes;
  if (value.size() > 1)
    if (const auto found = nodes.find(value.substr(1)); found != nodes.end())
      return found->second;
  return model.source() + ":" +
         (node.contains("line") ? std::to_string(node["line"].get<uint32_t>())
                                : std::string("generated"));
}

} // namespace

std::string op_of_step(const std::string &step, const std::map<std::string, std::string> &ops) {
  const std::string value = value_of_step(step);
  if (step.rfind("fused_", 0) != 0 && value.size() > 1)
    if (const auto found = ops.find(value.substr(1)); found != ops.end())
      return found->second;

  std::string name = step.substr(0, step.find(' '));
  auto drop = [&](auto is_last) {
    const size_t bar = name.rfind('_');
    if (bar != std::string::npos && bar > 0 && is_last(name.substr(bar + 1)))
      name.erase(bar);
  };
  drop([](const std::string &part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
  });
  drop([](const std::string &part) { return cugrt::ir::dtype_from_name(part).has_value(); });
  return name;
}

std::vector<TimedGraph> read_timed_graphs(const cugrt::Session &session, const Model &model) {
  std::vector<TimedGraph> graphs;
  for (const Json &instance : Json::parse(session.graph_report(CUGRT_REPORT_JSON))) {
    TimedGraph graph{instance["function"], instance["region"], instance["key"], {}};
    uint32_t number = 0;
    for (const Json &node : instance["nodes"]) {
      ++number;
      if (!node.contains("end_us"))
        continue; // in a body: part of its conditional's
      const std::string step = node["name"], value = value_of_step(step);
      graph.nodes.push_back({op_of_step(step, model.ops()),
                             node.contains("kernel") ? node["kernel"] : node["kind"], value,
                             place_of(node, value, model), graph.region,
                             node.contains("id") ? std::to_string(node["id"].get<uint64_t>())
                                                 : std::to_string(number - 1),
                             node.value("bytes", uint64_t(0)), node["begin_us"], node["end_us"]});
    }
    std::stable_sort(graph.nodes.begin(), graph.nodes.end(),
                     [](const TimedNode &a, const TimedNode &b) { return a.end_us < b.end_us; });
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

} // namespace tool
