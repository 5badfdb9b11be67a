// cugrt run: one function of a module or a pack, on .npy files or random input.
//
// arguments.h says where arguments come from.
#include "arguments.h"
#include "model.h"
#include "npy.h"
#include "onnx.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

namespace tool {

namespace {

struct RunOptions {
  std::string module, function, weights, output, driver;
  PlanningOptions planning;
  ImportOptions import;
  std::vector<std::string> inputs, settings, prepared;
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

// Counts are not printed: they are in the dimensions of what they count.
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
  std::vector<cugrt_symbol_value> values;
  std::string text;
  for (const auto &[name, value] : symbols) {
    values.push_back({name.c_str(), value});
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  }
  cugrt_prepare_report report = session.prepare(function, values);
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

// What was compiled; a run that finds all in the cache is silent. `user` counts what was cached
// before.
void show_compiled(void *user, size_t done, size_t total, const char *kernel, double milliseconds,
                   size_t cached) {
  if (cached != std::exchange(*static_cast<size_t *>(user), cached))
    return;
  std::fprintf(stderr, "[%zu/%zu] %s %.0f ms, %zu cached\n", done, total, kernel, milliseconds,
               cached);
}

struct Opened {
  cugrt::Weights weights;
  cugrt::Runtime runtime;
  cugrt::Executable executable;
};

Opened open_module(const RunOptions &options, std::vector<std::string> &inputs) {
  LoadedModule loaded = load_with_weights(options.module, options.weights, options.import, inputs);
  cugrt::Weights weights = loaded.weights ? std::move(*loaded.weights) : cugrt::Weights();
  cugrt::Runtime runtime = open_runtime(options.driver);
  auto compile = cugrt::detail::sized<cugrt_compile_options>();
  options.planning.apply(compile);
  size_t cached = 0;
  compile.progress = show_compiled;
  compile.progress_user = &cached;
  cugrt::Executable executable(runtime, loaded.module, &compile);
  return {std::move(weights), std::move(runtime), std::move(executable)};
}

// --weights come before those that the pack has or names.
Opened open_pack(const RunOptions &options) {
  options.planning.require_none();
  options.import.require_none();
  cugrt::Pack pack = cugrt::Pack::load(options.module);
  cugrt::Weights weights =
      options.weights.empty() ? pack.weights() : cugrt::Weights::load(options.weights);
  cugrt::Runtime runtime = open_runtime(options.driver);
  cugrt::Executable executable(runtime, pack);
  return {std::move(weights), std::move(runtime), std::move(executable)};
}

void run(const RunOptions &options) {
  std::error_code error;
  if (!options.output.empty())
    std::filesystem::create_directories(options.output, error);
  if (error)
    throw UserError("cannot make the folder '" + options.output + "': " + error.message());
  std::vector<std::string> inputs = options.inputs;
  Opened opened = is_pack(options.module) ? open_pack(options) : open_module(options, inputs);
  cugrt::Runtime &runtime = opened.runtime;
  cugrt::Executable &executable = opened.executable;
  cugrt::Function function = choose_function(executable, options.function);
  std::vector<Argument> arguments =
      make_arguments(runtime, function, inputs, parse_symbols(options.settings));
  std::vector<cugrt::Value> values;
  for (Argument &argument : arguments) {
    values.push_back(argument.value);
    argument.host.reset(); // is in the buffer
  }

  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.eager = options.eager;
  settings.strict = options.strict;
  cugrt::Session session(executable, runtime, opened.weights, settings);
  if (!options.prepared.empty())
    for (const Symbols &symbols : symbol_combinations(options.prepared, "--prepare", kMostPrepared))
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
  command
      ->add_option("MODULE", options->module,
                   "The file of a module or a pack; - is a module on standard input")
      ->required();
  command->add_option("--function", options->function,
                      "The function; default: main, or the only one");
  command->add_option("--weights", options->weights,
                      "A .safetensors file; tensors match parameters by name");
  repeatable(command->add_option("--input", options->inputs,
                                 "NAME=FILE.npy, NAME=random, or NAME=NUMBER for host scalars"));
  repeatable(
      command->add_option("--set", options->settings,
                          "SYMBOL=N: a symbol's value, for random input and output buffers"));
  command->add_option("--output", options->output,
                      "A folder for results as .npy; none: a summary on stdout");
  add_planning_options(*command, options->planning);
  add_import_options(*command, options->import);
  command->add_option("--driver", options->driver, "system, emulated, or a driver library's path");
  command->add_option("--repeat", options->repeat, "Runs this many times")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--eager", options->eager, "Launches step by step, without graphs");
  command->add_flag("--strict", options->strict,
                    "What is not launched as part of a graph is an error");
  repeatable(command->add_option("--prepare", options->prepared,
                                 "SYMBOL=N,N...: makes graphs for these values before the run"));
  command->add_flag("--stats", options->stats, "Prints counters to stderr");
  command->callback([options] { run(*options); });
}

} // namespace tool
