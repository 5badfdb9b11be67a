// cugrt run: one function of a module, on .npy files or random input.
//
// Symbols get their values from --set and from the shapes of given inputs; with all of them known,
// the remaining inputs are drawn at random (a fixed seed) and the caller's output buffers are
// allocated.
#include "dtypes.h"
#include "npy.h"
#include "tool.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace tool {

namespace {

struct Options {
  std::string module, function, weights, output, driver, policy = "patch";
  std::vector<std::string> inputs, settings;
  unsigned repeat = 1;
  bool eager = false, stats = false;
};

// One per-call parameter with what it is bound to.
struct Argument {
  size_t param; // of the function
  cugrt_param_info info;
  std::optional<Array> host; // input data; absent for `out` buffers
  cugrt::Buffer buffer;      // of tensors
  std::vector<int64_t> dims;
  cugrt::Value value;
};

std::map<std::string, std::string> parse_inputs(const std::vector<std::string> &inputs) {
  std::map<std::string, std::string> by_name;
  for (const std::string &input : inputs) {
    size_t equals = input.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == input.size())
      throw UserError("--input takes NAME=FILE.npy, NAME=random or NAME=NUMBER, not '" + input +
                      "'");
    if (!by_name.emplace(input.substr(0, equals), input.substr(equals + 1)).second)
      throw UserError("--input names '" + input.substr(0, equals) + "' twice");
  }
  return by_name;
}

cugrt::Function choose_function(const cugrt::Executable &executable, const std::string &name) {
  if (!name.empty())
    return executable.function(name);
  if (executable.function_count() == 0)
    throw UserError("the module has no public function");
  for (size_t i = 0; i < executable.function_count(); ++i)
    if (executable.function(i).name() == "main")
      return executable.function(i);
  if (executable.function_count() == 1)
    return executable.function(size_t(0));
  throw UserError(
      "the module has several functions and none is named main: say which with --function");
}

cugrt::Value parse_scalar(const Argument &argument, const std::string &text) {
  char *end = nullptr;
  switch (argument.info.kind) {
  case CUGRT_VALUE_INT: {
    long long number = std::strtoll(text.c_str(), &end, 10);
    if (!*end)
      return cugrt::Value(static_cast<int64_t>(number));
    break;
  }
  case CUGRT_VALUE_FLOAT: {
    double number = std::strtod(text.c_str(), &end);
    if (!*end)
      return cugrt::Value(number);
    break;
  }
  case CUGRT_VALUE_BOOL:
    if (text == "true" || text == "false")
      return cugrt::Value(text == "true");
    break;
  default:
    throw UserError("parameter '" + std::string(argument.info.name) +
                    "' cannot be given on the command line");
  }
  throw UserError("--input " + std::string(argument.info.name) + ": '" + text +
                  "' is not a value of its type");
}

// IEEE 754 half precision by arithmetic: not every compiler has a type for it here.
uint16_t half_bits(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (magnitude < 0x1p-14) // subnormal: a multiple of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  int exponent = std::ilogb(magnitude);
  auto fraction =
      static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)) - 1024);
  return static_cast<uint16_t>(sign | (((exponent + 15) << 10) + fraction));
}

double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                     : exponent == 31 ? (fraction ? std::nan("") : HUGE_VAL)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Floats are drawn from [-1, 1), integers from [0, 8), so that ids and counts stay small.
Array random_array(int32_t dtype, const std::vector<int64_t> &dims, std::mt19937 &engine) {
  Array array{dtype, dims, std::vector<std::byte>(tensor_bytes(dtype, dims))};
  std::byte *to = array.bytes.data();
  auto fill = [&](auto sample) {
    for (size_t at = 0; at < array.bytes.size(); at += sizeof(decltype(sample()))) {
      auto element = sample();
      std::memcpy(to + at, &element, sizeof element);
    }
  };
  auto real = [&] { return static_cast<float>(engine() >> 8) / 8388608.0f - 1.0f; };
  auto whole = [&] { return engine() & 7u; };
  switch (dtype) {
  case CUGRT_F32:
    fill([&] { return real(); });
    break;
  case CUGRT_F64:
    fill([&] { return static_cast<double>(real()); });
    break;
  case CUGRT_F16:
    fill([&] { return half_bits(real()); });
    break;
  case CUGRT_BF16:
    fill([&] {
      float value = real();
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return static_cast<uint16_t>(bits >> 16);
    });
    break;
  case CUGRT_BOOL:
    fill([&] { return static_cast<uint8_t>(engine() & 1u); });
    break;
  case CUGRT_I8:
  case CUGRT_U8:
    fill([&] { return static_cast<uint8_t>(whole()); });
    break;
  case CUGRT_I16:
  case CUGRT_U16:
    fill([&] { return static_cast<uint16_t>(whole()); });
    break;
  case CUGRT_I32:
  case CUGRT_U32:
    fill([&] { return static_cast<uint32_t>(whole()); });
    break;
  case CUGRT_I64:
  case CUGRT_U64:
    fill([&] { return static_cast<uint64_t>(whole()); });
    break;
  default:
    throw UserError(std::string("random input of dtype ") + dtype_name(dtype) + " is not defined");
  }
  return array;
}

bool is_name(const char *text) {
  return std::isalpha(static_cast<unsigned char>(*text)) || *text == '_';
}

// Symbols that stand alone as a dimension of a given array take that dimension's value.
// Disagreement is left to the runtime's own check, whose message names both places.
void learn_symbols(const cugrt::Function &function, const Argument &argument, Symbols &symbols) {
  const std::vector<int64_t> &dims = argument.host->dims;
  for (uint32_t i = 0; i < argument.info.rank && i < dims.size(); ++i)
    for (size_t s = 0; s < function.symbol_count(); ++s) {
      std::string name = function.symbol_name(s);
      bool known = std::any_of(symbols.begin(), symbols.end(),
                               [&](auto &symbol) { return symbol.first == name; });
      if (!known && is_name(argument.info.dim_names[i]) && name == argument.info.dim_names[i])
        symbols.emplace_back(name, dims[i]);
    }
}

std::vector<Argument> make_arguments(cugrt::Runtime &runtime, const cugrt::Function &function,
                                     const Options &options) {
  std::map<std::string, std::string> inputs = parse_inputs(options.inputs);
  Symbols symbols = parse_symbols(options.settings);
  std::vector<Argument> arguments;
  for (size_t i = 0; i < function.param_count(); ++i)
    if (cugrt_param_info info = function.param(i); !info.weight)
      arguments.push_back({i, info, {}, {}, {}, {}});
  for (auto &[name, source] : inputs) {
    auto found = std::find_if(arguments.begin(), arguments.end(),
                              [&name = name](auto &a) { return name == a.info.name; });
    if (found == arguments.end())
      throw UserError("function '" + function.name() + "' has no input named '" + name + "'");
    if (found->info.kind != CUGRT_VALUE_TENSOR)
      found->value = parse_scalar(*found, source);
    else if (source != "random") {
      found->host = read_npy(source);
      learn_symbols(function, *found, symbols);
    }
  }
  std::vector<cugrt_symbol_value> values;
  for (auto &[name, value] : symbols)
    values.push_back({name.c_str(), value});

  std::mt19937 engine(1);
  for (Argument &argument : arguments) {
    const std::string name = argument.info.name;
    if (argument.info.kind != CUGRT_VALUE_TENSOR) {
      if (argument.value.kind == CUGRT_VALUE_NONE)
        throw UserError("give a value for parameter '" + name + "': --input " + name + "=NUMBER");
      continue;
    }
    if (argument.info.access != CUGRT_OUT && !inputs.count(name))
      throw UserError("no value for input '" + name + "': --input " + name + "=FILE.npy, or " +
                      name + "=random");
    argument.dims = argument.host ? argument.host->dims : function.dims(argument.param, values);
    int32_t dtype = argument.host ? argument.host->dtype : argument.info.dtype;
    if (!argument.host && argument.info.access != CUGRT_OUT)
      argument.host = random_array(dtype, argument.dims, engine);
    argument.buffer =
        cugrt::Buffer(runtime, std::max<uint64_t>(1, tensor_bytes(dtype, argument.dims)));
    argument.value = argument.buffer.tensor(static_cast<cugrt_dtype>(dtype), argument.dims);
    if (argument.host)
      cugrt::copy_to_device(runtime, argument.buffer.address(), argument.host->bytes);
  }
  return arguments;
}

double element(const Array &array, size_t index) {
  const std::byte *at = array.bytes.data();
  auto read = [&](auto example) {
    std::memcpy(&example, at + index * sizeof example, sizeof example);
    return example;
  };
  switch (array.dtype) {
  case CUGRT_F32:
    return read(0.0f);
  case CUGRT_F64:
    return read(0.0);
  case CUGRT_F16:
    return half_value(read(uint16_t(0)));
  case CUGRT_BF16: {
    uint32_t bits = uint32_t(read(uint16_t(0))) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  case CUGRT_BOOL:
  case CUGRT_U8:
    return read(uint8_t(0));
  case CUGRT_I8:
    return read(int8_t(0));
  case CUGRT_I16:
    return read(int16_t(0));
  case CUGRT_U16:
    return read(uint16_t(0));
  case CUGRT_I32:
    return read(int32_t(0));
  case CUGRT_U32:
    return read(uint32_t(0));
  case CUGRT_I64:
    return static_cast<double>(read(int64_t(0)));
  case CUGRT_U64:
    return static_cast<double>(read(uint64_t(0)));
  default:
    return std::nan("");
  }
}

// One line: name, dtype and shape, and the range of the values.
void summarize(const std::string &name, const Array &array) {
  std::cout << name << ": " << dtype_name(array.dtype) << "[";
  for (size_t i = 0; i < array.dims.size(); ++i)
    std::cout << (i ? ", " : "") << array.dims[i];
  std::cout << "]";
  size_t count = 1;
  for (int64_t dim : array.dims)
    count *= static_cast<size_t>(dim);
  if (count && !std::isnan(element(array, 0))) {
    double low = element(array, 0), high = low, sum = 0;
    for (size_t i = 0; i < count; ++i) {
      double value = element(array, i);
      low = std::min(low, value), high = std::max(high, value), sum += value;
    }
    std::cout << " min " << low << " max " << high << " mean " << sum / static_cast<double>(count);
  }
  std::cout << "\n";
}

void emit(const Options &options, const std::string &name, const Array &array) {
  if (options.output.empty())
    summarize(name, array);
  else
    write_npy(options.output + "/" + name + ".npy", array);
}

Array fetch(cugrt::Runtime &runtime, const cugrt_tensor &tensor) {
  Array array{tensor.dtype, {tensor.dims, tensor.dims + tensor.rank}, {}};
  array.bytes.resize(tensor_bytes(array.dtype, array.dims));
  if (!array.bytes.empty())
    cugrt::copy_to_host(runtime, array.bytes, tensor.address);
  return array;
}

void emit_results(const Options &options, cugrt::Runtime &runtime, const cugrt::Function &function,
                  const std::vector<Argument> &arguments,
                  const std::vector<cugrt::Value> &results) {
  for (const Argument &argument : arguments)
    if (argument.info.kind == CUGRT_VALUE_TENSOR && argument.info.access != CUGRT_IN)
      emit(options, argument.info.name, fetch(runtime, argument.value.as.tensor));
  for (size_t i = 0; i < results.size(); ++i) {
    std::string name = function.result(i).name;
    name = name.empty() ? "result" + std::to_string(i) : name;
    const cugrt::Value &value = results[i];
    if (value.kind == CUGRT_VALUE_TENSOR)
      emit(options, name, fetch(runtime, value.as.tensor));
    else if (value.kind == CUGRT_VALUE_FLOAT)
      std::cout << name << ": " << value.as.floating << "\n";
    else
      std::cout << name << ": " << value.as.integer << "\n";
  }
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
}

// What was compiled; a run that finds all in the cache is silent. `user` counts what was cached
// before.
void show_progress(void *user, size_t done, size_t total, const char *kernel, double milliseconds,
                   size_t cached) {
  if (cached != std::exchange(*static_cast<size_t *>(user), cached))
    return;
  std::fprintf(stderr, "[%zu/%zu] %s %.0f ms, %zu cached\n", done, total, kernel, milliseconds,
               cached);
}

void run(const Options &options) {
  cugrt::Module module = load_module(options.module);
  cugrt::Weights weights =
      options.weights.empty() ? cugrt::Weights() : cugrt::Weights::load(options.weights);
  if (!options.output.empty())
    std::filesystem::create_directories(options.output);
  cugrt::Runtime runtime = open_runtime(options.driver);
  auto compile = cugrt::detail::sized<cugrt_compile_options>();
  compile.policy = parse_policy(options.policy);
  size_t cached = 0;
  compile.progress = show_progress;
  compile.progress_user = &cached;
  cugrt::Executable executable(runtime, module, &compile);
  cugrt::Function function = choose_function(executable, options.function);
  std::vector<Argument> arguments = make_arguments(runtime, function, options);
  std::vector<cugrt::Value> values;
  for (const Argument &argument : arguments)
    values.push_back(argument.value);

  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.eager = options.eager;
  cugrt::Session session(executable, runtime, weights, settings);
  std::vector<cugrt::Value> results;
  for (unsigned i = 0; i < options.repeat; ++i)
    results = session.run(function, values);
  session.synchronize();
  if (runtime.info().emulated)
    std::fprintf(stderr, "EMULATED results:\n");
  emit_results(options, runtime, function, arguments, results);
  if (options.stats)
    print_counters(session);
}

} // namespace

void add_run(CLI::App &app) {
  auto options = std::make_shared<Options>();
  auto *command = app.add_subcommand("run", "Runs one function of a module");
  auto list = CLI::MultiOptionPolicy::TakeAll;
  command->add_option("MODULE", options->module, "The module's file; - is standard input")
      ->required();
  command->add_option("--function", options->function,
                      "The function; default: main, or the only one");
  command->add_option("--weights", options->weights,
                      "A .safetensors file; tensors match parameters by name");
  command
      ->add_option("--input", options->inputs,
                   "NAME=FILE.npy, NAME=random, or NAME=NUMBER for host scalars")
      ->expected(1)
      ->multi_option_policy(list);
  command
      ->add_option("--set", options->settings,
                   "SYMBOL=N: a symbol's value, for random input and output buffers")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(list);
  command->add_option("--output", options->output,
                      "A folder for results as .npy; none: a summary on stdout");
  command->add_option("--policy", options->policy, "What makes a region")
      ->check(CLI::IsMember({"patch", "seed"}));
  command->add_option("--driver", options->driver, "system, emulated, or a driver library's path");
  command->add_option("--repeat", options->repeat, "Runs this many times")
      ->check(CLI::Range(1, 1000000));
  command->add_flag("--eager", options->eager, "Launches step by step, without graphs");
  command->add_flag("--stats", options->stats, "Prints counters to stderr");
  command->callback([options] { run(*options); });
}

} // namespace tool
