// Times of nodes from a session's report of its graphs; see device_times.h.
#include "device_times.h"

#include "base/type/dtype.h"
#include "match_nodes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

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

namespace {

/// Without its times.
TimedNode timed_node(const Json &node, size_t number, const std::string &region,
                     const std::optional<Operations> &operations, const Model &model) {
  const std::string step = node["name"], value = value_of_step(step);
  return {op_of_step(step, model.ops()),
          node.contains("kernel") ? node["kernel"] : node["kind"],
          value,
          place_of(node, value, model),
          region,
          node.contains("id") ? std::to_string(node["id"].get<uint64_t>()) : std::to_string(number),
          node.value("bytes", uint64_t(0)),
          operations};
}

void sort_by_end(TimedGraph &graph) {
  std::stable_sort(graph.nodes.begin(), graph.nodes.end(),
                   [](const TimedNode &a, const TimedNode &b) { return a.end_us < b.end_us; });
}

TimedGraph graph_of_instance(const Json &instance) {
  return {instance["function"], instance["region"], instance["key"], {}};
}

/// Nodes are the steps of a region in order, but for those that are left out. Returns how many are.
size_t find_operations(const nlohmann::json &region, const Json &nodes,
                       std::vector<std::optional<Operations>> &all) {
  const std::vector<std::string> steps = region["steps"];
  size_t next = 0, number = 0, found = 0;
  for (const Json &node : nodes) {
    const auto step = std::find(steps.begin() + static_cast<ptrdiff_t>(next), steps.end(),
                                node["name"].get<std::string>());
    if (step != steps.end()) {
      next = static_cast<size_t>(step - steps.begin());
      ++found;
      if (const auto &said = region["operations"][next++]; !said.is_null()) {
        all[number].emplace();
        for (size_t kind = 0; kind < kOperationNames.size(); ++kind)
          (*all[number])[kind] = said.value(kOperationNames[kind], 0.0);
      }
    }
    ++number;
  }
  return found;
}

} // namespace

NodeTimes::NodeTimes(Model &model, cugrt_session_options options,
                     std::span<const cugrt::Value> values)
    : model_(model) {
  std::string reason;
  cupti_ = Cupti::open(model.emulated(), reason);
  if (cupti_) {
    cugrt::Session probe = model.open(cugrt::detail::sized<cugrt_session_options>());
    probe.run(model.function(), values);
    probe.synchronize();
    if (read_activities(probe).empty()) {
      reason = cupti_->name() + " tells of no node of the graphs";
      cupti_.reset();
    }
  }
  options.time_steps = cupti_ ? 1 : 2;
  if (!cupti_)
    std::fprintf(stderr, "cugrt: nodes are timed by events, not by CUPTI: %s\n", reason.c_str());
  session_.emplace(model.open(options));
}

std::vector<TimedGraph> NodeTimes::read() {
  return cupti_ ? read_activities(*session_) : read_events();
}

std::vector<std::optional<Operations>> NodeTimes::operations_of(const Json &instance) {
  const auto [at, fresh] = plans_.try_emplace(instance["key"].dump());
  if (fresh) {
    Symbols key;
    for (const auto &[name, value] : instance["key"].items())
      key.emplace_back(name, value.get<int64_t>());
    at->second = model_.plan_reports(key);
  }
  const std::string function_name = instance["function"], region_name = instance["region"];
  std::vector<std::optional<Operations>> best(instance["nodes"].size());
  size_t most = 0; // of nodes that are steps of a plan: of a pack's plans one has all
  for (const auto &plan : at->second)
    for (const auto &function : plan["functions"])
      for (const auto &region : function["regions"]) {
        if (function["name"].get<std::string>() != function_name ||
            region["name"].get<std::string>() != region_name)
          continue;
        std::vector<std::optional<Operations>> all(best.size());
        const size_t found = find_operations(region, instance["nodes"], all);
        if (found > most) {
          best = std::move(all);
          most = found;
        }
      }
  return best;
}

std::vector<TimedGraph> NodeTimes::read_events() {
  std::vector<TimedGraph> graphs;
  for (const Json &instance : Json::parse(session_->graph_report(CUGRT_REPORT_JSON))) {
    TimedGraph graph = graph_of_instance(instance);
    const std::vector<std::optional<Operations>> operations = operations_of(instance);
    size_t number = 0;
    for (const Json &node : instance["nodes"]) {
      if (node.contains("end_us")) { // else in a body: part of its conditional's
        const bool has_body = node["kind"] == "conditional";
        graph.nodes.push_back(timed_node(node, number, graph.region,
                                         has_body ? std::nullopt : operations[number], model_));
        graph.nodes.back().begin_us = node["begin_us"], graph.nodes.back().end_us = node["end_us"];
      }
      ++number;
    }
    sort_by_end(graph);
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

std::vector<TimedGraph> NodeTimes::read_activities(const cugrt::Session &session) {
  const std::vector<Activity> activities = cupti_->take();
  std::map<uint64_t, std::string> kernels; // of each node
  for (const Activity &activity : activities)
    kernels.emplace(activity.node_id, activity.kernel);
  std::vector<ToldNode> told;
  for (const auto &[id, kernel] : kernels)
    told.push_back({id, kernel});

  const Json instances = Json::parse(session.graph_report(CUGRT_REPORT_JSON));
  std::vector<std::vector<KnownNode>> known;
  std::vector<std::vector<TimedNode>> nodes;
  for (const Json &instance : instances) {
    known.emplace_back(), nodes.emplace_back();
    const std::vector<std::optional<Operations>> operations = operations_of(instance);
    size_t number = 0;
    for (const Json &node : instance["nodes"]) {
      const std::string kind = node["kind"];
      if (node["enabled"] && (kind == "kernel" || kind == "copy" || kind == "fill")) {
        known.back().push_back(
            {node.contains("id") ? std::optional(node["id"].get<uint64_t>()) : std::nullopt,
             node.value("kernel", std::string())});
        nodes.back().push_back(
            timed_node(node, number, instance["region"], operations[number], model_));
      }
      ++number;
    }
  }
  const auto matches = match_nodes(told, known);

  std::vector<TimedGraph> graphs;
  std::vector<int64_t> begins;                              // of each launch
  std::map<std::pair<uint32_t, uint32_t>, size_t> launches; // by graph and launch
  for (const Activity &activity : activities) {
    const auto place = std::distance(kernels.begin(), kernels.find(activity.node_id));
    const auto &match = matches[static_cast<size_t>(place)];
    if (!match)
      continue;
    const auto [at, fresh] = launches.try_emplace({match->graph, activity.launch}, graphs.size());
    if (fresh) {
      graphs.push_back(graph_of_instance(instances[match->graph]));
      begins.push_back(activity.begin_ns);
    }
    TimedNode node = nodes[match->graph][match->node];
    node.begin_us = static_cast<double>(activity.begin_ns - begins[at->second]) / 1e3;
    node.end_us = static_cast<double>(activity.end_ns - begins[at->second]) / 1e3;
    graphs[at->second].nodes.push_back(std::move(node));
  }
  for (TimedGraph &graph : graphs)
    sort_by_end(graph);
  return graphs;
}

} // namespace tool
