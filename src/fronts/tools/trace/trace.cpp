// cugrt trace: runs a function and writes what happened when, as Chrome's trace format
// (chrome://tracing, Perfetto, speedscope).
//
//   process cugrt
//     thread 1 "host"    opening, each run and its wait, and inside of a run the launches of
//                        regions and steps with their parts: build, patch, launch
//     thread 2 "device"  steps launched one by one, as long as events on the device say. Only their
//                        lengths are known; they are drawn one after another, none before its
//                        launch
//     thread of an op    with --device: its nodes in graphs, as CUPTI or events between them say
//                        when they ran, by their names, places and bindings
//
// A session waits after each run, so that the records of its launches are complete.
#include "arguments.h"
#include "device_times.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

struct TraceOptions {
  ModelOptions model;
  std::string output, graphs;
  unsigned repeat = 3;
  bool eager = false, device = false;
};

constexpr uint32_t kRecords = 1 << 16; // of one run
constexpr int kHost = 1, kDevice = 2, kFirstLane = 16;

const char *kind_name(int32_t kind) {
  static constexpr const char *kNames[] = {"hit", "patched", "built", "eager", "step"};
  return kind >= 0 && kind < static_cast<int32_t>(std::size(kNames)) ? kNames[kind] : "launch";
}

const char *reason_name(int32_t reason) {
  static constexpr const char *kNames[] = {"",
                                           "the session is eager",
                                           "an instance is larger than the budget",
                                           "the budget is full",
                                           "the device is full",
                                           "the plan has the step outside of regions"};
  return reason >= 0 && reason < static_cast<int32_t>(std::size(kNames)) ? kNames[reason]
                                                                         : "unknown";
}

/// All of them together; null where they are not known.
Json operations_json(const std::optional<Operations> &operations) {
  return operations ? Json(std::accumulate(operations->begin(), operations->end(), 0.0)) : Json();
}

/// Events in the order in which they are added; viewers sort by time.
class Trace {
public:
  void add(const std::string &name, const char *category, int thread, int64_t begin_ns,
           int64_t end_ns, Json arguments = Json::object()) {
    if (origin_ns_ < 0)
      origin_ns_ = begin_ns;
    events_.push_back({{"name", name},
                       {"cat", category},
                       {"ph", "X"},
                       {"pid", 1},
                       {"tid", thread},
                       {"ts", microseconds(begin_ns - origin_ns_)},
                       {"dur", microseconds(std::max<int64_t>(end_ns - begin_ns, 0))},
                       {"args", std::move(arguments)}});
  }

  void add_launch(const cugrt_launch_record &record) {
    expected_ = std::max(expected_, record.sequence + 1);
    ++seen_;
    int64_t begin = record.begin_ns, end = begin + record.host_ns;
    Json arguments = {{"kind", kind_name(record.kind)}, {"run", record.run}};
    std::string key;
    for (uint32_t i = 0; i < std::min<uint32_t>(record.key_size, CUGRT_MAX_KEY); ++i)
      key += (key.empty() ? "" : ", ") + std::string(record.key_names[i]) + "=" +
             std::to_string(record.key_values[i]) +
             (record.padded_from[i] == record.key_values[i]
                  ? ""
                  : " (padded from " + std::to_string(record.padded_from[i]) + ")");
    if (!key.empty())
      arguments["key"] = key;
    if (record.kind != CUGRT_LAUNCH_STEP) {
      arguments["nodes"] = record.nodes;
      arguments["fields_patched"] = record.fields_patched;
    }
    if (record.reason != CUGRT_EAGER_NOT)
      arguments["reason"] = reason_name(record.reason);
    add(record.name, record.kind == CUGRT_LAUNCH_STEP ? "step" : "region", kHost, begin, end,
        std::move(arguments));
    // Their lengths are recorded; setting and building come first, the launch last.
    if (record.build_ns > 0)
      add("build", "part", kHost, begin, begin + record.build_ns);
    if (record.patch_ns > 0)
      add("patch", "part", kHost, begin, begin + record.patch_ns);
    if (record.launch_ns > 0 && record.kind != CUGRT_LAUNCH_STEP)
      add("launch", "part", kHost, end - record.launch_ns, end);
    if (record.kind == CUGRT_LAUNCH_STEP && record.device_us >= 0) {
      int64_t from = std::max(device_end_ns_, begin);
      device_end_ns_ = from + static_cast<int64_t>(record.device_us * 1e3);
      add(record.name, "device", kDevice, from, device_end_ns_, {{"run", record.run}});
    }
  }

  /// A graph's nodes, each in the lane of its op, after its launch and whatever is on the device.
  void add_graph(const cugrt_launch_record &record, const TimedGraph &graph) {
    const int64_t from = std::max(device_end_ns_, record.begin_ns + record.host_ns);
    auto at = [&](double us) { return from + static_cast<int64_t>(us * 1e3); };
    for (const TimedNode &node : graph.nodes) {
      const auto lane = lanes_.try_emplace(node.op, kFirstLane + static_cast<int>(lanes_.size()));
      add(node.op + " " + node.binding, "kernel", lane.first->second, at(node.begin_us),
          at(node.end_us),
          {{"op", node.op},
           {"binding", node.binding},
           {"place", node.place},
           {"node", node.id},
           {"region", node.region},
           {"kernel", node.kernel},
           {"bytes", node.bytes},
           {"operations", operations_json(node.operations)},
           {"run", record.run}});
    }
    device_end_ns_ = at(graph.total_us());
  }

  /// `timed_by`: what timed the nodes of graphs; empty where nothing did.
  Json finish(const Model &model, const std::string &timed_by) {
    auto named = [&](const char *what, int thread, const std::string &name) {
      events_.push_back(
          {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
    };
    named("process_name", kHost, "cugrt on " + model.driver());
    named("thread_name", kHost, "host");
    named("thread_name", kDevice, model.emulated() ? "device, EMULATED" : "device");
    for (const auto &[op, lane] : lanes_)
      named("thread_name", lane, op);
    Json other = {{"driver", model.driver()}, {"launches_lost", expected_ - seen_}};
    if (!timed_by.empty())
      other["timed_by"] = timed_by;
    return {{"traceEvents", std::move(events_)},
            {"displayTimeUnit", "ns"},
            {"otherData", std::move(other)}};
  }

private:
  static double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

  Json events_ = Json::array();
  int64_t origin_ns_ = -1, device_end_ns_ = 0;
  uint64_t expected_ = 0, seen_ = 0;
  std::map<std::string, int> lanes_; // of each op
};

/// The graph of a record: the first that is left of its region's, with its key.
std::optional<TimedGraph> take_graph(const cugrt_launch_record &record,
                                     std::vector<TimedGraph> &graphs) {
  for (auto at = graphs.begin(); at != graphs.end(); ++at) {
    const TimedGraph &graph = *at;
    bool same = graph.function == record.function && graph.region == record.name;
    for (uint32_t i = 0; same && i < std::min<uint32_t>(record.key_size, CUGRT_MAX_KEY); ++i) {
      const auto found = graph.key.find(record.key_names[i]);
      same = found != graph.key.end() && found->second == record.key_values[i];
    }
    if (same) {
      TimedGraph found = std::move(*at);
      graphs.erase(at);
      return found;
    }
  }
  return std::nullopt;
}

/// `times`: of the session's nodes; may be null. Returns what run and wait took, in ns.
int64_t run_once(Model &model, cugrt::Session &session, const std::string &key,
                 std::span<const cugrt::Value> values, NodeTimes *times, Trace &trace) {
  int64_t begin = now_ns();
  session.run(model.function(), values);
  int64_t queued = now_ns();
  session.synchronize();
  int64_t done = now_ns();
  Json arguments = key.empty() ? Json::object() : Json{{"symbols", key}};
  trace.add("run " + model.function().name(), "run", kHost, begin, queued, std::move(arguments));
  trace.add("wait", "run", kHost, queued, done);
  std::vector<TimedGraph> graphs;
  if (times)
    graphs = times->read();
  for (const cugrt_launch_record &record : session.read_launches()) {
    trace.add_launch(record);
    if (record.reason == CUGRT_EAGER_NOT)
      if (const auto graph = take_graph(record, graphs))
        trace.add_graph(record, *graph);
  }
  return done - begin;
}

/// Time in ns of the same runs without events in the graphs: the least of `repeat`, after one that
/// builds.
int64_t run_untimed(Model &model, std::span<const cugrt::Value> values, unsigned repeat) {
  cugrt::Session session = model.open(cugrt::detail::sized<cugrt_session_options>());
  int64_t least = INT64_MAX;
  for (unsigned i = 0; i <= repeat; ++i) {
    const int64_t begin = now_ns();
    session.run(model.function(), values);
    session.synchronize();
    if (i > 0)
      least = std::min(least, now_ns() - begin);
  }
  return least;
}

void write(const std::string &path, const Json &json) {
  if (path == "-") {
    std::cout << json.dump(1) << "\n";
    return;
  }
  write_whole(path, json.dump(1) + "\n");
}

/// Symbols of a timed run; one without a setting has its least value, and a message says so.
Symbols complete(const Model &model, Symbols symbols) {
  for (const auto &[name, value] : model.least_of_missing(symbols)) {
    std::fprintf(stderr, "cugrt: %s is not set: it is %lld, its least value\n", name.c_str(),
                 (long long)value);
    symbols.emplace_back(name, value);
  }
  return symbols;
}

void trace(const TraceOptions &options) {
  std::vector<Symbols> keys = options.model.keys;
  std::vector<Span> spans;
  Model model(options.model, &spans);
  if (options.device)
    for (Symbols &symbols : keys)
      symbols = complete(model, std::move(symbols));
  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.eager = options.eager;
  settings.record_capacity = kRecords;
  settings.time_steps = 1;
  std::optional<NodeTimes> times;
  std::optional<cugrt::Session> plain;
  int64_t begin = now_ns();
  if (options.device)
    times.emplace(model, settings, values_of(make_arguments(model, keys.front())));
  else
    plain.emplace(model.open(settings));
  cugrt::Session &session = times ? times->session() : *plain;
  spans.push_back({"open session", "open", begin, now_ns()});
  Trace trace;
  for (const Span &span : spans)
    trace.add(span.name, span.category.c_str(), kHost, span.begin_ns, span.end_ns);
  for (const Symbols &symbols : keys) {
    const std::vector<Argument> arguments = make_arguments(model, symbols);
    const std::vector<cugrt::Value> values = values_of(arguments);
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < options.repeat; ++i)
      least = std::min(least, run_once(model, session, symbols_text(symbols), values,
                                       times ? &*times : nullptr, trace));
    if (times && times->by_events())
      std::fprintf(
          stderr,
          "cugrt: nodes are timed by events between them: a run takes %.1f us, and %.1f us "
          "without\n",
          static_cast<double>(least) / 1e3,
          static_cast<double>(run_untimed(model, values, options.repeat)) / 1e3);
  }
  write(options.output, trace.finish(model, times ? times->by() : ""));
  if (!options.graphs.empty())
    write_whole(options.graphs,
                NodeReader(names_of(model), nullptr)
                        .with_names(Json::parse(session.graph_report(CUGRT_REPORT_JSON)))
                        .dump(2) +
                    "\n");
}

} // namespace

void add_trace(CLI::App &app) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App *command = app.add_subcommand(
      "trace", "Runs a module's function and writes what happened when, as Chrome trace JSON");
  add_model_options(*command, options->model);
  command
      ->add_option("-o,--output", options->output,
                   "The file to write, for chrome://tracing or Perfetto; - is standard output")
      ->required();
  command->add_option("--graphs", options->graphs,
                      "Writes this file, too: the graphs alive at the end, for cugrt attribute");
  command->add_option("--repeat", options->repeat, "Runs for each combination of symbols")
      ->check(CLI::Range(1, 100000));
  auto *eager = command->add_flag(
      "--eager", options->eager, "Launches step by step, each timed on the device, without graphs");
  command
      ->add_flag("--device", options->device,
                 "Times every node of graphs on the device, by CUPTI or by events between them: a "
                 "lane for "
                 "each op; symbols that are not set have their least value")
      ->excludes(eager);
  command->callback([options] { trace(*options); });
}

} // namespace tool
