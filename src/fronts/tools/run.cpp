// cugrt run: one function of a module or a pack, on .npy files or random input.
//
// arguments.h says where arguments come from.
#include "arguments.h"
#include "npy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>

namespace tool {

namespace {

struct RunOptions {
  ModelOptions model;
  std::string output;
  std::vector<Symbols> prepared;
  unsigned repeat = 1;
  bool eager = false, strict = false, stats = false;
};

// One line: name, dtype and shape, and the range of the values.
void summarize(const std::string &name, const Array &array) {
  std::cout << name << ": " << dtype_name(array.dtype) << "[";
  for (size_t i = 0; i < array.dims.size(); ++i)
    std::cout << (i ? ", " : "") << array.dims[i];
  std::cout << "]";
  size_t count = 1;
  for (int64_t dim : array.dims)
    count *= static_cast<size_t>(dim);
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  size_t numbers = 0;
  for (size_t i = 0; i < count; ++i)
    if (double value = element(array, i); !std::isnan(value)) {
      low = std::min(low, value), high = std::max(high, value), sum += value;
      ++numbers;
    }
  if (numbers)
    std::cout << " min " << low << " max " << high << " mean "
              << sum / static_cast<double>(numbers);
  const bool may_be_nan = array.dtype == CUGRT_F16 || array.dtype == CUGRT_BF16 ||
                          array.dtype == CUGRT_F32 || array.dtype == CUGRT_F64;
  if (may_be_nan && numbers != count)
    std::cout << (numbers ? ", " : " ") << count - numbers << " of " << count << " are NaN";
  std::cout << "\n";
}

void emit(const RunOptions &options, const std::string &name, const Array &array) {
  if (options.output.empty())
    summarize(name, array);
  else
    write_npy(options.output + "/" + name + ".npy", array);
}

// Does not print counts: they are dimensions of the results that they count.
void emit_results(const RunOptions &options, cugrt::Runtime &runtime, cugrt::Session &session,
                  const cugrt::Function &function, const std::vector<Argument> &arguments,
                  const std::vector<cugrt::Value> &results) {
  for (const Argument &argument : arguments)
    if (argument.info.kind == CUGRT_VALUE_TENSOR && argument.info.access != CUGRT_IN)
      emit(options, argument.info.name, fetch(runtime, argument.value.as.tensor));
  for (size_t i = 0; i < results.size(); ++i) {
    const cugrt_param_info info = function.result(i);
    if (info.is_count)
      continue;
    std::string name = info.name;
    name = name.empty() ? "result" + std::to_string(i) : name;
    const cugrt::Value &value = results[i];
    if (value.kind == CUGRT_VALUE_TENSOR)
      emit(options, name, fetch(runtime, session.counted(runtime, function, results, i)));
    else if (value.kind == CUGRT_VALUE_FLOAT)
      std::cout << name << ": " << value.as.floating << "\n";
    else
      std::cout << name << ": " << value.as.integer << "\n";
  }
}

const char *refusal_text(int32_t reason) {
  switch (reason) {
  case CUGRT_EAGER_REQUESTED:
    return "the run is eager";
  case CUGRT_EAGER_TOO_LARGE:
    return "larger than the whole instance budget";
  case CUGRT_EAGER_BUDGET_FULL:
    return "the instance budget is full";
  default:
    return "the device has no memory for it";
  }
}

void prepare(cugrt::Session &session, const cugrt::Function &function, const Symbols &symbols) {
  std::string text;
  for (const auto &[name, value] : symbols)
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  cugrt_prepare_report report = session.prepare(function, symbol_values(symbols));
  std::fprintf(stderr, "prepared %s: of %llu regions %llu built, %llu present, %llu refused\n",
               text.c_str(), (unsigned long long)report.regions, (unsigned long long)report.built,
               (unsigned long long)report.present, (unsigned long long)report.refused);
  if (report.refused)
    std::fprintf(stderr, "  region %s needs %llu bytes, %llu are left: %s\n", report.region,
                 (unsigned long long)report.needed_bytes, (unsigned long long)report.free_bytes,
                 refusal_text(report.reason));
  if (report.unknown)
    std::fprintf(stderr, "  %llu regions depend on symbols that were not given\n",
                 (unsigned long long)report.unknown);
}

void print_counters(const cugrt::Session &session) {
  cugrt_counters c = session.counters();
  std::fprintf(stderr,
               "runs %llu; instances built %llu, hit %llu, patched %llu, eager %llu; nodes %llu, "
               "edges %llu; "
               "storage peak %llu, tensors %llu, bound %llu bytes\n",
               (unsigned long long)c.runs, (unsigned long long)c.regions_built,
               (unsigned long long)c.regions_hit, (unsigned long long)c.regions_patched,
               (unsigned long long)c.regions_eager, (unsigned long long)c.largest_nodes,
               (unsigned long long)c.largest_edges, (unsigned long long)c.arena_bytes,
               (unsigned long long)c.arena_tensor_bytes,
               (unsigned long long)c.arena_lower_bound_bytes);
  if (c.weight_bytes_in_place)
    std::fprintf(stderr, "weights %llu bytes, and %llu read in the pages of their file\n",
                 (unsigned long long)c.weight_bytes, (unsigned long long)c.weight_bytes_in_place);
}

void run(const RunOptions &options) {
  std::error_code error;
  if (!options.output.empty())
    std::filesystem::create_directories(options.output, error);
  if (error)
    throw UserError("cannot make the folder '" + options.output + "': " + error.message());
  Model model(options.model);
  cugrt::Runtime &runtime = model.runtime();
  const cugrt::Function function = model.function();
  std::vector<Argument> arguments = make_arguments(model, options.model.keys.front());
  const std::vector<cugrt::Value> values = values_of(arguments);
  for (Argument &argument : arguments)
    argument.host.reset(); // is in the buffer

  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.eager = options.eager;
  settings.strict = options.strict;
  cugrt::Session session = model.open(settings);
  for (const Symbols &symbols : options.prepared)
    prepare(session, function, symbols);
  std::vector<cugrt::Value> results;
  const LoadCount loads(runtime, options.stats);
  for (unsigned i = 0; i < options.repeat; ++i)
    results = session.run(function, values);
  session.synchronize();
  if (runtime.info().emulated)
    std::fprintf(stderr, "EMULATED results:\n");
  emit_results(options, runtime, session, function, arguments, results);
  if (options.stats)
    print_counters(session);
  loads.print();
}

} // namespace

void add_run(CLI::App &app) {
  auto options = std::make_shared<RunOptions>();
  auto *command = app.add_subcommand("run", "Runs one function of a module or a pack");
  options->model.is_measured = false;
  add_model_options(*command, options->model);
  command->add_option("--output", options->output,
                      "A folder for results as .npy; none: a summary on stdout");
  command->add_option("--repeat", options->repeat, "Runs this many times")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--eager", options->eager, "Launches step by step, without graphs");
  command->add_flag("--strict", options->strict,
                    "What is not launched as part of a graph is an error");
  add_combinations_option(*command, "--prepare", kMostPrepared, options->prepared,
                          "SYMBOL=N,N...: makes graphs for these values before the run");
  command->add_flag("--stats", options->stats, "Prints counters to stderr");
  command->callback([options] { run(*options); });
}

} // namespace tool
