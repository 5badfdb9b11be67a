// Deadlines beside a load; see model.h.
//
// Both models are in one group. The one with the deadline has a priority, and runs again as soon as
// its last run has ended; the other one has none, and runs all the time from a thread of its own.
#include "arguments.h"

#include "fronts/tools/trace/device_times.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <iostream>
#include <thread>

namespace tool {

namespace {

struct Beside {
  std::string load; // empty: alone
  cugrt_latency whole{};
  uint64_t missed = 0;
};

/// Makes arguments for `symbols`; a symbol that is not set has its least value.
std::vector<Argument> arguments_of(const Model &model, Symbols symbols) {
  for (const auto &missing : model.least_of_missing(symbols))
    symbols.push_back(missing);
  return make_arguments(model, symbols);
}

/// A model's session in the group, with arguments to run it with.
struct Runs {
  Runs(Model &model, cugrt_session_options options, const Symbols &symbols)
      : function(model.function()), session(model.open(options)),
        arguments(arguments_of(model, symbols)), values(values_of(arguments)) {
    results.assign(function.result_count(), {});
  }
  void queue() { session.run_into(function, values, results); }

  cugrt::Function function;
  cugrt::Session session;
  std::vector<Argument> arguments;
  std::vector<cugrt::Value> values, results;
};

/// Runs it on a thread of its own until it ends.
class LoadThread {
public:
  explicit LoadThread(Runs &runs)
      : thread_([this, &runs] {
          try {
            while (!stop_)
              runs.queue();
            runs.session.synchronize();
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  ~LoadThread() {
    stop_ = true;
    if (thread_.joinable())
      thread_.join();
  }
  void end() {
    stop_ = true;
    thread_.join();
    if (failure_)
      std::rethrow_exception(failure_);
  }

private:
  std::atomic<bool> stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

Beside measure(Model &model, const ModelOptions &given, const DeadlineOptions &options,
               cugrt::Group &group, Runs *load) {
  auto session_options = cugrt::detail::sized<cugrt_session_options>();
  session_options.group = group.get();
  session_options.priority = 1;
  session_options.deadline_us = options.deadline_us;
  {
    // Weights and memory are there from now on.
    Runs first(model, session_options, given.keys.front());
    first.queue();
    first.session.synchronize();
  }
  session_options.wait = CUGRT_WAIT_SPIN;
  Runs runs(model, session_options, given.keys.front());
  std::optional<LoadThread> thread;
  if (load)
    thread.emplace(*load);
  const int64_t end = now_ns() + static_cast<int64_t>(options.seconds * 1e9);
  for (unsigned i = 0; options.runs ? i < options.runs : i < 5 || now_ns() < end; ++i) {
    runs.queue();
    runs.session.synchronize();
  }
  if (thread)
    thread->end();
  return {load ? options.load : std::string(), runs.session.whole_latency(),
          runs.session.missed_deadlines()};
}

/// Measures a run of its own, after one that is not counted.
std::optional<TimedNode> longest_node(Model &model, const Symbols &symbols) {
  const std::vector<Argument> arguments = arguments_of(model, symbols);
  const std::vector<cugrt::Value> values = values_of(arguments);
  auto options = cugrt::detail::sized<cugrt_session_options>();
  options.record_capacity = 1 << 16;
  NodeTimes times(model, options, values);
  std::optional<TimedNode> longest;
  for (int i = 0; i < 2; ++i) {
    times.session().run(model.function(), values);
    times.session().synchronize();
    longest.reset();
    for (const TimedGraph &graph : times.read())
      for (const TimedNode &node : graph.nodes)
        if (!longest || node.end_us - node.begin_us > longest->end_us - longest->begin_us)
          longest = node;
  }
  return longest;
}

double us(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

} // namespace

void add_deadline_options(CLI::App &command, DeadlineOptions &options) {
  auto *deadline = command.add_option(
      "--deadline", options.deadline_us,
      "Microseconds: how long runs take, from their call to their end, and how many are late");
  deadline->check(CLI::Range(uint64_t(1), uint64_t(3600) * 1000000));
  command
      .add_option("--load", options.load,
                  "With --deadline: another model's file, which runs beside at low priority")
      ->needs(deadline);
  add_combinations_option(command, "--load-set", kMostKeys, options.load_keys,
                          "SYMBOL=N of the load; default: the least that symbols may be")
      ->needs("--load");
  command
      .add_option("--ahead", options.ahead,
                  "Graphs of the load that may be on their way to the device at a time; default 1")
      ->check(CLI::Range(1, 1024))
      ->needs("--load");
}

void bench_deadline(const ModelOptions &given, const DeadlineOptions &options) {
  Model model(given);
  std::optional<Model> other;
  std::optional<TimedNode> longest;
  if (!options.load.empty()) {
    ModelOptions load;
    load.module = options.load;
    load.keys = options.load_keys;
    other.emplace(load, nullptr, model.shared_runtime());
    longest = longest_node(*other, load.keys.front());
  }
  cugrt::Group group(model.runtime(), 0, options.ahead);
  std::vector<Beside> rows = {measure(model, given, options, group, nullptr)};
  if (other) {
    auto session_options = cugrt::detail::sized<cugrt_session_options>();
    session_options.group = group.get();
    Runs load(*other, session_options, options.load_keys.front());
    load.queue();
    load.session.synchronize();
    rows.push_back(measure(model, given, options, group, &load));
  }
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const Beside &row : rows)
      all.push_back({{"driver", model.driver()},
                     {"load", row.load},
                     {"ahead", row.load.empty() ? nlohmann::json() : nlohmann::json(options.ahead)},
                     {"deadline_us", options.deadline_us},
                     {"runs", row.whole.count},
                     {"missed", row.missed},
                     {"p50_us", us(row.whole.p50_ns)},
                     {"p99_us", us(row.whole.p99_ns)},
                     {"p999_us", us(row.whole.p999_ns)},
                     {"max_us", us(row.whole.max_ns)},
                     {"longest_node_us", longest && !row.load.empty()
                                             ? nlohmann::json(longest->end_us - longest->begin_us)
                                             : nlohmann::json()}});
    std::cout << all.dump(1) << "\n";
    return;
  }
  std::printf("%s%s: microseconds from a run's call to its end, deadline %llu\n",
              model.driver().c_str(), model.emulated() ? ", nothing about a GPU follows" : "",
              (unsigned long long)options.deadline_us);
  std::printf("%-32s %8s %8s %12s %12s %12s %12s\n", "beside", "runs", "missed", "p50", "p99",
              "p99.9", "max");
  for (const Beside &row : rows)
    std::printf("%-32s %8llu %8llu %12.2f %12.2f %12.2f %12.2f\n",
                row.load.empty() ? "-" : row.load.c_str(), (unsigned long long)row.whole.count,
                (unsigned long long)row.missed, us(row.whole.p50_ns), us(row.whole.p99_ns),
                us(row.whole.p999_ns), us(row.whole.max_ns));
  if (longest)
    std::printf("Longest node of the load: %.2f us, %s of %s; a run may have to wait for it.\n",
                longest->end_us - longest->begin_us, longest->kernel.c_str(),
                longest->binding.c_str());
}

} // namespace tool
