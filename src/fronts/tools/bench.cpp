// cugrt bench: the user's own model, as graphs and step by step, at each value of its symbols.
//
// One session of each kind serves all values, as an application's would, so the first run at a
// value may build an instance or patch one; the table says which. Both kinds take turns, each run
// begins with the device idle, and waiting is outside of the host's times.
#include "arguments.h"
#include "fronts/tools/trace/shares.h"
#include "onnxruntime.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
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
  std::string by; // of --by; empty: how long runs take
};

constexpr unsigned kLeastRuns = 5, kMostRuns = 2000;

struct Quartiles {
  double q1 = 0, median = 0, q3 = 0;
};

/// Quartiles by nearest rank.
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t last = values.size() - 1;
  return {values[last / 4], values[last / 2], values[last - last / 4]};
}

/// One way of running the function: its session, and its times.
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
    const std::vector<Argument> arguments = make_arguments(model_, symbols);
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
    if (model_.onnx() && options_.model.import.preprocess.empty() && has_onnxruntime()) {
      OnnxRuntimeRequest request = same_inputs(options_.model.module, options_.model.import,
                                               model_.onnx()->inputs(), arguments);
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

  /// Names the first run by the heaviest event that the session counted meanwhile. (Launch records
  /// would say more, and would be part of the time.)
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

void bench(const BenchOptions &options) {
  if (options.deadline.deadline_us != 0) {
    DeadlineOptions deadline = options.deadline;
    deadline.seconds = options.seconds;
    deadline.runs = options.runs;
    deadline.json = options.json;
    return bench_deadline(options.model, deadline);
  }
  if (!options.by.empty())
    return bench_shares(options.model, {options.by, options.runs, options.json});
  Model model(options.model);
  Bench bench(model, options);
  std::vector<Measured> all;
  for (const Symbols &key : options.model.keys)
    all.push_back(bench.measure(key));
  options.json ? print_json(model, all) : print_table(model, all);
}

/// Options that are for files of the other kind. MODULE, --driver and --by are for both.
void refuse_others(const std::vector<CLI::Option *> &options,
                   const std::vector<CLI::Option *> &of_modules, const std::string &file) {
  const bool gguf = is_gguf(file);
  for (const CLI::Option *option : options) {
    const std::string name = option->get_name();
    const bool is_modules =
        std::find(of_modules.begin(), of_modules.end(), option) != of_modules.end();
    if (option->count() > 0 && is_modules == gguf && name != "MODULE" && name != "--driver" &&
        name != "--by")
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
    if (is_gguf(options->model.module) && !options->by.empty())
      bench_language_shares(options->model.module, options->model.runtime, options->language,
                            {options->by, 0, options->json});
    else if (is_gguf(options->model.module))
      bench_language_model(options->model.module, options->model.runtime, options->language,
                           options->json);
    else
      bench(*options);
  });
}

} // namespace tool
