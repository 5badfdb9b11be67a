// Times of nodes from a session's report of its graphs; see device_times.h.
#include "device_times.h"

#include "base/type/dtype.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

/// The text behind the space of "fused_matmul_add_f32 %x".
std::string value_of_step(const std::string &step) {
  const size_t space = step.find(' ');
  return space == std::string::npos ? step : step.substr(space + 1);
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

static void sort_by_end(TimedGraph &graph) {
  std::stable_sort(graph.nodes.begin(), graph.nodes.end(),
                   [](const TimedNode &a, const TimedNode &b) { return a.end_us < b.end_us; });
}

static TimedGraph graph_of_instance(const Json &instance) {
  return {instance["function"], instance["region"], instance["key"], {}};
}

/// Nodes are the steps of a region in order, but for those that are left out. Returns how many are.
static size_t find_steps(const nlohmann::json &region, const Json &nodes,
                         std::vector<StepOfNode> &all) {
  const std::vector<std::string> steps = region["steps"];
  std::vector<std::string> ops(steps.size()), places(steps.size());
  if (region.contains("places"))
    region["ops"].get_to(ops), region["places"].get_to(places);
  size_t next = 0, number = 0, found = 0;
  for (const Json &node : nodes) {
    const auto step = std::find(steps.begin() + static_cast<ptrdiff_t>(next), steps.end(),
                                node["name"].get<std::string>());
    if (step != steps.end()) {
      next = static_cast<size_t>(step - steps.begin());
      ++found;
      all[number].op = ops[next], all[number].place = places[next];
      if (const auto &said = region["operations"][next++]; !said.is_null()) {
        Operations &operations = all[number].operations.emplace();
        for (size_t kind = 0; kind < kOperationNames.size(); ++kind)
          operations[kind] = said.value(kOperationNames[kind], 0.0);
      }
    }
    ++number;
  }
  return found;
}

/// visit(line, value, op, operands) of each binding of an op in the module's text: "  %x, %y =
/// op(...)"; without a value of a launch of a kernel, and without an op where a function begins.
template <class Visit> static void each_op(const cugrt::Module &module, Visit visit) {
  std::istringstream lines(module.print());
  uint32_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t begin = line.find_first_not_of(' '), equals = line.find(" = ");
    if (line.rfind("func ", 0) == 0)
      visit(number, std::string(), std::string(), line);
    if (begin != std::string::npos && line.compare(begin, 7, "launch ") == 0)
      visit(number, std::string(), "launch", line.substr(begin));
    if (begin == std::string::npos || line[begin] != '%' || equals == std::string::npos)
      continue;
    const size_t op = equals + 3, end = line.find_first_of("( ", op);
    if (end != std::string::npos && line[end] == '(')
      visit(number, line.substr(begin + 1, line.find_first_of(", ", begin) - begin - 1),
            line.substr(op, end - op), line.substr(end));
  }
}

/// The first operand in "(%v1, %blk.0.attn_q.weight, none)" that is a tensor of a file; "" if there
/// is none.
static std::string tensor_in(const std::string &operands) {
  for (size_t at = operands.find('%'); at != std::string::npos; at = operands.find('%', at + 1)) {
    const std::string name = operands.substr(at + 1, operands.find_first_of(",) ", at) - at - 1);
    if (name.ends_with(".weight") || name.ends_with(".bias"))
      return name;
  }
  return "";
}

NodeNames names_of(const Model &model) {
  NodeNames names{model.source(), {}, {}, {}, {}, {}};
  if (model.onnx())
    names.places = model.onnx()->inputs().nodes;
  if (model.module())
    each_op(*model.module(), [&](uint32_t line, const std::string &value, const std::string &op,
                                 const std::string &) {
      if (!value.empty())
        names.ops.emplace(value, op);
      if (const auto found = names.places.find(value); found != names.places.end())
        names.places_of_lines[line] = found->second; // also of what passes made of it
    });
  names.plan_reports = [&model](const Symbols &symbols) { return model.plan_reports(symbols); };
  return names;
}

NodeNames names_of_language_model(const cugrt::Module &module, const std::string &source) {
  NodeNames names{source, {}, {}, {}, {}, {}};
  std::string layer; // of the last tensor that the function has named
  each_op(module, [&](uint32_t line, const std::string &value, const std::string &op,
                      const std::string &operands) {
    const std::string tensor = op.empty() ? "" : tensor_in(operands);
    if (op.empty()) // a function begins
      layer.clear();
    else if (!tensor.empty())
      layer = layer_of(tensor);
    if (!value.empty())
      names.ops_of_lines[line] = op;
    if (!tensor.empty() || !layer.empty())
      names.places_of_lines[line] = tensor.empty() ? layer : tensor;
  });
  names.plan_reports = [&module](const Symbols &symbols) {
    auto plan = cugrt::detail::sized<cugrt_plan_options>();
    std::vector<cugrt_symbol_value> values;
    for (const auto &[name, value] : symbols)
      values.push_back({name.c_str(), value});
    plan.format = CUGRT_REPORT_JSON;
    plan.symbols = values.data();
    plan.symbol_count = values.size();
    return nlohmann::json::array({nlohmann::json::parse(module.plan_report(plan))});
  };
  return names;
}

std::string layer_of(const std::string &place) {
  const size_t line = place.rfind(':');
  if (line != std::string::npos && place.find_first_of("./", line) == std::string::npos)
    return place; // of a file, and no name
  const char part = place.find('/') == std::string::npos ? '.' : '/';
  for (size_t end = place.find(part, 1); end != std::string::npos; end = place.find(part, end + 1))
    if (std::isdigit(static_cast<unsigned char>(place[end - 1])))
      return place.substr(0, end);
  const size_t last = place.rfind(part);
  if (part == '.' && std::isdigit(static_cast<unsigned char>(place.back())))
    return place;
  return last == std::string::npos || last == 0 ? place : place.substr(0, last);
}

NodeTimes::NodeTimes(Model &model, cugrt_session_options options,
                     std::span<const cugrt::Value> values) {
  std::string reason;
  reader_.emplace(names_of(model), Cupti::open(model.emulated(), reason));
  if (!reader_->by_events()) {
    cugrt::Session probe = model.open(cugrt::detail::sized<cugrt_session_options>());
    probe.run(model.function(), values);
    probe.synchronize();
    reader_->read(probe.get());
    if (!reader_->found_all())
      reason = reader_->use_events();
    reader_->restart();
  }
  options.time_steps = reader_->by_events() ? 2 : 1;
  if (reader_->by_events())
    std::fprintf(stderr, "cugrt: nodes are timed by events, not by CUPTI: %s\n", reason.c_str());
  session_.emplace(model.open(options));
}

std::vector<TimedGraph> NodeReader::read(cugrt_session *session) {
  cugrt_text *text = nullptr;
  cugrt::check(cugrt::api().session_graph_report(session, CUGRT_REPORT_JSON, &text));
  const Json instances = Json::parse(cugrt::detail::take_text(text));
  // Instances that were not launched since the last time have nothing to report.
  Json launched = Json::array();
  uint64_t last = last_launch_;
  for (const Json &instance : instances)
    if (const auto launch = instance["launch"].get<uint64_t>(); launch > last_launch_) {
      last = std::max(last, launch);
      launched.push_back(instance);
    }
  last_launch_ = last;
  std::vector<TimedGraph> graphs = cupti_ ? read_activities(launched) : read_events(launched);
  const auto found = [&](const Json &instance) {
    return std::any_of(graphs.begin(), graphs.end(), [&](const TimedGraph &graph) {
      return graph.region == instance["region"].get<std::string>() &&
             graph.function == instance["function"].get<std::string>();
    });
  };
  found_all_ = std::all_of(launched.begin(), launched.end(), found);
  return graphs;
}

std::string NodeReader::use_events() {
  const std::string reason =
      by() + " tells of no node of some graph, by its id (CUDA 13.1 and newer) or the order of "
             "kernels (graphs without branches and loops)";
  cupti_.reset();
  return reason;
}

TimedNode NodeReader::timed_node(const Json &node, size_t number, const std::string &region,
                                 const StepOfNode &of) const {
  const std::string step = node["name"], value = value_of_step(step);
  const uint32_t line = node.value("line", 0u);
  const auto named = names_.ops_of_lines.find(line);
  const bool fused = step.rfind("fused_", 0) == 0;
  const auto place = [&]() -> std::string {
    if (!of.place.empty())
      return of.place;
    if (const auto found = names_.places.find(value.substr(std::min<size_t>(1, value.size())));
        found != names_.places.end())
      return found->second;
    if (const auto found = names_.places_of_lines.find(line); found != names_.places_of_lines.end())
      return found->second;
    return names_.source + ":" + (line ? std::to_string(line) : std::string("generated"));
  };
  return {!of.op.empty()                                 ? of.op
          : !fused && named != names_.ops_of_lines.end() ? named->second
                                                         : op_of_step(step, names_.ops),
          node.contains("kernel") ? node["kernel"] : node["kind"],
          value,
          place(),
          region,
          node.contains("id") ? std::to_string(node["id"].get<uint64_t>()) : std::to_string(number),
          node.value("bytes", uint64_t(0)),
          of.operations};
}

std::vector<StepOfNode> NodeReader::steps_of(const Json &instance) {
  const auto [at, fresh] = plans_.try_emplace(instance["key"].dump());
  if (fresh) {
    Symbols key;
    for (const auto &[name, value] : instance["key"].items())
      key.emplace_back(name, value.get<int64_t>());
    at->second = names_.plan_reports(key);
  }
  const std::string function_name = instance["function"], region_name = instance["region"];
  std::vector<StepOfNode> best(instance["nodes"].size());
  size_t most = 0; // of nodes that are steps of a plan: of a pack's plans one has all
  for (const auto &plan : at->second)
    for (const auto &function : plan["functions"])
      for (const auto &region : function["regions"]) {
        if (function["name"].get<std::string>() != function_name ||
            region["name"].get<std::string>() != region_name)
          continue;
        std::vector<StepOfNode> all(best.size());
        const size_t found = find_steps(region, instance["nodes"], all);
        if (found > most) {
          best = std::move(all);
          most = found;
        }
      }
  return best;
}

Json NodeReader::with_names(Json instances) {
  for (Json &instance : instances) {
    const std::vector<StepOfNode> steps = steps_of(instance);
    size_t number = 0;
    for (Json &node : instance["nodes"]) {
      const TimedNode named = timed_node(node, number, instance["region"], steps[number]);
      node["op"] = named.op, node["place"] = named.place;
      ++number;
    }
  }
  return instances;
}

std::vector<TimedGraph> NodeReader::read_events(const Json &instances) {
  std::vector<TimedGraph> graphs;
  for (const Json &instance : instances) {
    TimedGraph graph = graph_of_instance(instance);
    const std::vector<StepOfNode> steps = steps_of(instance);
    size_t number = 0;
    for (const Json &node : instance["nodes"]) {
      if (node.contains("end_us")) { // else in a body: part of its conditional's
        const bool has_body = node["kind"] == "conditional";
        graph.nodes.push_back(timed_node(node, number, graph.region, steps[number]));
        if (has_body)
          graph.nodes.back().operations.reset();
        graph.nodes.back().begin_us = node["begin_us"], graph.nodes.back().end_us = node["end_us"];
      }
      ++number;
    }
    sort_by_end(graph);
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

std::vector<TimedGraph> NodeReader::read_activities(const Json &instances) {
  const std::vector<Activity> activities = cupti_->take();
  std::map<uint64_t, std::string> kernels; // of each node
  for (const Activity &activity : activities)
    kernels.emplace(activity.node_id, activity.kernel);
  std::vector<ToldNode> told;
  for (const auto &[id, kernel] : kernels)
    told.push_back({id, kernel});

  std::vector<std::vector<KnownNode>> known;
  std::vector<std::vector<TimedNode>> nodes;
  for (const Json &instance : instances) {
    known.emplace_back(), nodes.emplace_back();
    const std::vector<StepOfNode> steps = steps_of(instance);
    size_t number = 0;
    for (const Json &node : instance["nodes"]) {
      const std::string kind = node["kind"];
      const bool sets = kind == "conditional"; // by a kernel before it, whose id is not known
      if (node["enabled"] && (kind == "kernel" || kind == "copy" || kind == "fill" || sets)) {
        known.back().push_back({node.contains("id") && !sets
                                    ? std::optional(node["id"].get<uint64_t>())
                                    : std::nullopt,
                                node.value("kernel", std::string())});
        nodes.back().push_back(timed_node(node, number, instance["region"], steps[number]));
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
