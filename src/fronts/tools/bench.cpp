// cugrt bench: the user's own model, as graphs and step by step, at each value of its symbols.
//
// One session of each kind serves all values, as an application's would, so the first run at a
// value may build an instance or patch one; the table says which. Both kinds take turns, each run
// begins with the device idle, and waiting is outside of the host's times.
#include "deadline_bench.h"
#include "fronts/tools/trace/device_times.h"
#include "language_model.h"
#include "model.h"
#include "onnxruntime.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>

namespace tool {

namespace {

struct BenchOptions {
  ModelOptions model;
  LanguageOptions language;
  double seconds = 0.5;
  unsigned runs = 0;
  bool json = false;
  DeadlineOptions deadline;
  std::string by; // op, kernel or binding: where a run's time goes; empty: how long runs take
};

constexpr unsigned kLeastRuns = 5, kMostRuns = 2000;

struct Quartiles {
  double q1 = 0, median = 0, q3 = 0;
};

/// By nearest rank.
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t last = values.size() - 1;
  return {values[last / 4], values[last / 2], values[last - last / 4]};
}

/// One way of running the function: its session, and what it took.
struct Way {
  Way(Model &model, bool eager)
      : session([&] {
          auto options = cugrt::detail::sized<cugrt_session_options>();
          options.eager = eager;
          return model.open(options);
        }()) {}
  cugrt::Session session;
  std::vector<cugrt::Value> results; // in the session's own memory
  std::vector<double> host_us, device_us;
};

struct Measured {
  std::string key, first; // what the first run did
  double first_us = 0;
  uint64_t nodes = 0, edges = 0; // of the largest instance so far
  Quartiles graph, eager;
  std::optional<double> graph_device_us, eager_device_us;
  std::optional<OnnxRuntimeAnswer> other; // ONNX Runtime on the same inputs
  size_t runs = 0;
};

class Bench {
public:
  Bench(Model &model, const BenchOptions &options)
      : model_(model), options_(options), graph_(model, false), eager_(model, true),
        stream_(model.runtime()), begin_(model.runtime()), end_(model.runtime()) {}

  Measured measure(const Symbols &symbols) {
    Measured measured;
    measured.key = symbols_text(symbols);
    std::vector<Argument> arguments = model_.arguments(symbols);
    values_ = values_of(arguments);
    for (Way *way : {&graph_, &eager_})
      way->results.assign(model_.function().result_count(), {});
    cugrt_counters before = graph_.session.counters();
    measured.first_us = run(graph_);
    describe_first(before, measured);
    run(eager_); // its memory and code are there, too, from now on
    for (Way *way : {&graph_, &eager_})
      way->host_us.clear(), way->device_us.clear();
    int64_t end = now_ns() + static_cast<int64_t>(options_.seconds * 1e9);
    for (unsigned i = 0; more(i, end); ++i)
      for (Way *way : {&graph_, &eager_}) {
        way->host_us.push_back(run(*way));
        if (!model_.emulated())
          way->device_us.push_back(run_on_device(*way));
      }
    measured.runs = graph_.host_us.size();
    measured.graph = quartiles(graph_.host_us);
    measured.eager = quartiles(eager_.host_us);
    if (!model_.emulated()) {
      measured.graph_device_us = quartiles(graph_.device_us).median;
      measured.eager_device_us = quartiles(eager_.device_us).median;
    }
    if (is_onnx(options_.model.module) && options_.model.import.preprocess.empty() &&
        has_onnxruntime()) {
      OnnxRuntimeRequest request = same_inputs(options_.model.module, options_.model.import,
                                               model_.onnx_inputs(), arguments);
      request.timed_runs = static_cast<unsigned>(measured.runs);
      measured.other = run_onnxruntime(request);
    }
    return measured;
  }

private:
  bool more(unsigned done, int64_t end) const {
    if (options_.runs)
      return done < options_.runs;
    return done < kLeastRuns || (done < kMostRuns && now_ns() < end);
  }

  /// Host microseconds of one run.
  double run(Way &way) {
    int64_t begin = now_ns();
    way.session.run_into(model_.function(), values_, way.results);
    int64_t end = now_ns();
    way.session.synchronize();
    return static_cast<double>(end - begin) / 1e3;
  }

  double run_on_device(Way &way) {
    begin_.record(stream_.native());
    way.session.run_into(model_.function(), values_, way.results, stream_.native());
    end_.record(stream_.native());
    end_.synchronize();
    way.session.synchronize();
    return end_.milliseconds_since(begin_) * 1e3;
  }

  /// By what the session counted meanwhile: the heaviest of it names the first run. (Launch records
  /// would tell more, and would be part of what is timed.)
  void describe_first(const cugrt_counters &before, Measured &measured) const {
    cugrt_counters after = graph_.session.counters();
    measured.first = after.eager_steps != before.eager_steps           ? "eager"
                     : after.regions_built != before.regions_built     ? "built"
                     : after.regions_patched != before.regions_patched ? "patched"
                     : after.regions_hit != before.regions_hit         ? "hit"
                                                                       : "nothing";
    measured.nodes = after.largest_nodes;
    measured.edges = after.largest_edges;
  }

  Model &model_;
  const BenchOptions &options_;
  Way graph_, eager_;
  cugrt::Stream stream_;
  cugrt::Event begin_, end_;
  std::vector<cugrt::Value> values_;
};

void print_table(const Model &model, const std::vector<Measured> &all) {
  std::printf("%s%s: host microseconds, medians (quartiles)\n", model.driver().c_str(),
              model.emulated() ? ", nothing about a GPU follows" : "");
  std::printf("%-24s %8s %12s %-8s %26s %26s %12s", "key", "nodes", "first run", "", "graph",
              "eager", "eager/graph");
  if (!model.emulated())
    std::printf(" %14s %14s", "graph, device", "eager, device");
  std::printf("\n");
  for (const Measured &measured : all) {
    auto spread = [](const Quartiles &q) {
      char text[64];
      std::snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", q.median, q.q1, q.q3);
      return std::string(text);
    };
    std::printf("%-24s %8llu %12.2f %-8s %26s %26s %12.2f",
                measured.key.empty() ? "-" : measured.key.c_str(),
                (unsigned long long)measured.nodes, measured.first_us, measured.first.c_str(),
                spread(measured.graph).c_str(), spread(measured.eager).c_str(),
                measured.eager.median / measured.graph.median);
    if (measured.graph_device_us)
      std::printf(" %14.2f %14.2f", *measured.graph_device_us, *measured.eager_device_us);
    std::printf("\n");
    if (measured.other)
      std::printf("  ONNX Runtime %s on %s: %.2f, until results are on the host\n",
                  measured.other->version.c_str(), measured.other->provider.c_str(),
                  measured.other->median_us);
  }
}

void print_json(const Model &model, const std::vector<Measured> &all) {
  using Json = nlohmann::ordered_json;
  auto rows = Json::array();
  for (const Measured &m : all) {
    auto device = [](const std::optional<double> &us) { return us ? Json(*us) : Json(); };
    rows.push_back({{"case", m.key},
                    {"driver", model.driver()},
                    {"first", m.first},
                    {"first_us", m.first_us},
                    {"nodes", m.nodes},
                    {"edges", m.edges},
                    {"runs", m.runs},
                    {"graph_us", m.graph.median},
                    {"graph_us_q1", m.graph.q1},
                    {"graph_us_q3", m.graph.q3},
                    {"eager_us", m.eager.median},
                    {"eager_us_q1", m.eager.q1},
                    {"eager_us_q3", m.eager.q3},
                    {"graph_device_us", device(m.graph_device_us)},
                    {"eager_device_us", device(m.eager_device_us)},
                    {"onnxruntime_us", m.other ? Json(m.other->median_us) : Json()},
                    {"not_measured", m.graph_device_us ? "" : "device times: there is no GPU"}});
  }
  std::cout << rows.dump(1) << "\n";
}

/// What one key's graphs spend their time on.
struct Share {
  double us = 0; // of a run
  size_t nodes = 0;
  uint64_t bytes = 0; // of a run: of tensors that are read and written
};

constexpr const char *kIdle = "(between nodes)";

/// Of "/model/layers.0/mlp/MatMul", as exporters name nodes by the modules that they are in,
/// "/model/layers.0": up to the first part that ends in a number, else all but the last part.
std::string layer_of(const std::string &place) {
  for (size_t end = place.find('/', 1); end != std::string::npos; end = place.find('/', end + 1))
    if (std::isdigit(static_cast<unsigned char>(place[end - 1])))
      return place.substr(0, end);
  const size_t last = place.rfind('/');
  return last == std::string::npos || last == 0 ? place : place.substr(0, last);
}

std::string row_of(const TimedNode &node, const std::string &by) {
  return by == "op"       ? node.op
         : by == "kernel" ? node.kernel
         : by == "layer"  ? layer_of(node.place)
                          : node.binding;
}

/// Rows add up to the time of the graphs: where nodes overlap, time counts for the one that ends
/// first. Of one run after another; what several regions take is added up. `by`: what timed the
/// nodes.
std::map<std::string, Share> measure_shares(Model &model, const BenchOptions &options,
                                            std::span<const cugrt::Value> values, std::string &by) {
  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.record_capacity = 1 << 16;
  NodeTimes times(model, settings, values);
  by = times.by();
  const unsigned runs = options.runs ? options.runs : kLeastRuns;
  std::map<std::string, Share> shares;
  for (unsigned i = 0; i <= runs; ++i) { // the first one is not counted
    times.session().run(model.function(), values);
    times.session().synchronize();
    const std::vector<TimedGraph> graphs = times.read();
    if (i == 0)
      continue;
    for (const TimedGraph &graph : graphs) {
      double last_us = 0; // nodes are in the order of their ends
      for (const TimedNode &node : graph.nodes) {
        if (node.begin_us > last_us)
          shares[kIdle].us += (node.begin_us - last_us) / runs;
        Share &share = shares[row_of(node, options.by)];
        share.us += std::max(0.0, node.end_us - std::max(node.begin_us, last_us)) / runs;
        share.nodes += i == 1;
        share.bytes += i == 1 ? node.bytes : 0;
        last_us = std::max(last_us, node.end_us);
      }
    }
  }
  return shares;
}

void print_shares(const Model &model, const BenchOptions &options, const std::string &key,
                  const std::map<std::string, Share> &shares, const std::string &by) {
  std::vector<std::pair<std::string, Share>> rows(shares.begin(), shares.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto &a, const auto &b) { return a.second.us > b.second.us; });
  double all = 0;
  for (const auto &[name, share] : rows)
    all += share.us;
  std::printf("%s, %s: microseconds of a run on the device, by %s; %.2f in all\n",
              model.driver().c_str(), key.empty() ? "-" : key.c_str(), by.c_str(), all);
  std::printf("%-48s %8s %12s %8s %14s %8s\n", options.by.c_str(), "nodes", "us", "share", "bytes",
              "GB/s");
  for (const auto &[name, share] : rows)
    std::printf("%-48s %8zu %12.2f %7.1f%% %14llu %8.1f\n", name.c_str(), share.nodes, share.us,
                all > 0 ? 100 * share.us / all : 0, (unsigned long long)share.bytes,
                share.us > 0 ? double(share.bytes) / share.us / 1e3 : 0);
}

void bench_shares(const BenchOptions &options) {
  std::vector<Symbols> keys = symbol_combinations(options.model.settings);
  Model model(options.model, nullptr);
  if (options.by == "layer" && model.onnx_inputs().nodes.empty())
    throw UserError("--by layer goes by the names of nodes of an ONNX file; '" +
                    options.model.module + "' has none");
  auto rows = nlohmann::ordered_json::array();
  for (Symbols key : keys) {
    for (const auto &missing : model.least_of_missing(key))
      key.push_back(missing);
    std::vector<Argument> arguments = model.arguments(key);
    std::string by;
    const auto shares = measure_shares(model, options, values_of(arguments), by);
    if (!options.json)
      print_shares(model, options, symbols_text(key), shares, by);
    for (const auto &[name, share] : shares)
      rows.push_back({{"case", symbols_text(key)},
                      {"driver", model.driver()},
                      {options.by, name},
                      {"nodes", share.nodes},
                      {"us", share.us},
                      {"bytes", share.bytes},
                      {"timed_by", by}});
  }
  if (options.json)
    std::cout << rows.dump(1) << "\n";
}

void bench(const BenchOptions &options) {
  if (options.deadline.deadline_us != 0) {
    DeadlineOptions deadline = options.deadline;
    deadline.seconds = options.seconds;
    deadline.runs = options.runs;
    deadline.json = options.json;
    return bench_deadline(options.model, deadline);
  }
  if (!options.by.empty())
    return bench_shares(options);
  std::vector<Symbols> keys = symbol_combinations(options.model.settings);
  Model model(options.model, nullptr);
  Bench bench(model, options);
  std::vector<Measured> all;
  for (const Symbols &key : keys)
    all.push_back(bench.measure(key));
  options.json ? print_json(model, all) : print_table(model, all);
}

/// Options that are for files of the other kind. MODULE and --driver are for both.
void refuse_others(const std::vector<CLI::Option *> &options,
                   const std::vector<CLI::Option *> &of_modules, const std::string &file) {
  const bool gguf = is_gguf(file);
  for (const CLI::Option *option : options) {
    const std::string name = option->get_name();
    const bool is_modules =
        std::find(of_modules.begin(), of_modules.end(), option) != of_modules.end();
    if (option->count() > 0 && is_modules == gguf && name != "MODULE" && name != "--driver")
      throw UserError(name + " is " + (gguf ? "not" : "only") + " for GGUF files; '" + file +
                      "' is " + (gguf ? "one" : "none"));
  }
}

} // namespace

void add_bench(CLI::App &app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App *command =
      app.add_subcommand("bench", "Times a module's function: as graphs, and step by step");
  add_model_options(*command, options->model);
  command->add_option("--seconds", options->seconds, "Time for each key; default 0.5")
      ->check(CLI::Range(0.001, 3600.0))
      ->check([](const std::string &text) { // which takes what compares with nothing
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is no time"
                                                              : std::string();
      });
  command->add_option("--runs", options->runs, "Timed runs of each key, in place of --seconds")
      ->check(CLI::Range(1, 1000000));
  command
      ->add_option(
          "--by", options->by,
          "op, kernel, binding or layer: where the time of a run goes, by CUPTI or events between "
          "nodes")
      ->check(CLI::IsMember({"op", "kernel", "binding", "layer"}));
  add_deadline_options(*command, options->deadline);
  const std::vector<CLI::Option *> of_modules = command->get_options();
  command
      ->add_option("--prompt", options->language.prompt,
                   "Of a GGUF file: tokens that are taken in; default 512")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--generate", options->language.generate,
                   "Of a GGUF file: tokens that are given; default 128")
      ->check(CLI::Range(2, 1 << 20));
  add_language_options(*command, options->language);
  const std::vector<CLI::Option *> of_both = command->get_options();
  command->add_flag("--json", options->json, "Rows as JSON in place of the table");
  command->callback([=] {
    refuse_others(of_both, of_modules, options->model.module);
    if (is_gguf(options->model.module))
      bench_language_model(options->model.module, options->model.driver, options->language,
                           options->json);
    else
      bench(*options);
  });
}

} // namespace tool
