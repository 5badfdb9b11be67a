// Options that commands share; see options.h.
#include "options.h"

#include <algorithm>
#include <cerrno>

namespace tool {

CLI::Option *repeatable(CLI::Option *option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

void add_driver_option(CLI::App &command, cugrt::RuntimeOptions &options) {
  const auto choose = [&options](const std::string &driver) {
    const Choices<cugrt_driver_kind> known = {{"", CUGRT_DRIVER_DEFAULT},
                                              {"system", CUGRT_DRIVER_SYSTEM},
                                              {"emulated", CUGRT_DRIVER_EMULATED},
                                              {"none", CUGRT_DRIVER_NONE}};
    options.driver = CUGRT_DRIVER_PATH;
    options.driver_path = driver;
    for (const auto &[name, kind] : known)
      if (name == driver)
        options.driver = kind, options.driver_path.clear();
  };
  command.add_option_function<std::string>("--driver", choose,
                                           "system, emulated, or a driver library's path");
}

std::vector<std::string> split_at_commas(const std::string &text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    pieces.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return pieces;
}

namespace {

/// A whole number; else an error that says what the option takes, and which setting it is not.
int64_t parse_symbol_value(const std::string &text, const std::string &takes,
                           const std::string &setting) {
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno)
    throw UserError(takes + ", not '" + setting + "'");
  return number;
}

Symbols parse_symbols(const std::vector<std::string> &settings) {
  const std::string takes = "--set takes SYMBOL=N, as in --set n=8";
  Symbols symbols;
  for (const std::string &setting : settings)
    for (const std::string &piece : split_at_commas(setting)) {
      size_t equals = piece.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw UserError(takes + ", not '" + setting + "'");
      std::string name = piece.substr(0, equals);
      for (const auto &symbol : symbols)
        if (symbol.first == name)
          throw UserError("--set gives symbol '" + name + "' twice");
      symbols.emplace_back(name, parse_symbol_value(piece.substr(equals + 1), takes, setting));
    }
  return symbols;
}

std::vector<Symbols> parse_combinations(const std::string &option, size_t most,
                                        const std::vector<std::string> &settings) {
  const std::string takes =
      option + " takes SYMBOL=N or SYMBOL=N,N,..., as in " + option + " n=1,8";
  std::vector<std::pair<std::string, std::vector<int64_t>>> lists;
  for (const std::string &setting : settings) {
    bool named = false;
    for (std::string piece : split_at_commas(setting)) {
      if (size_t equals = piece.find('='); equals != std::string::npos) {
        std::string name = piece.substr(0, equals);
        for (const auto &list : lists)
          if (list.first == name)
            throw UserError(option + " gives symbol '" + name +
                            "' twice; its values are one list, " + option + " " + name +
                            "=N,N,...");
        named = !name.empty();
        lists.emplace_back(std::move(name), std::vector<int64_t>());
        piece.erase(0, equals + 1);
      }
      if (!named)
        throw UserError(takes + ", not '" + setting + "'");
      lists.back().second.push_back(parse_symbol_value(piece, takes, setting));
    }
  }
  std::vector<Symbols> all(1);
  for (const auto &[name, values] : lists) {
    std::vector<Symbols> longer;
    for (const Symbols &symbols : all)
      for (int64_t value : values) {
        longer.push_back(symbols);
        longer.back().emplace_back(name, value);
      }
    if (longer.size() > most)
      throw UserError(option + " gives more than " + std::to_string(most) + " combinations");
    all = std::move(longer);
  }
  return all;
}

} // namespace

std::vector<cugrt_symbol_value> symbol_values(const Symbols &symbols) {
  std::vector<cugrt_symbol_value> values;
  for (const auto &[name, value] : symbols)
    values.push_back({name.c_str(), value});
  return values;
}

using Texts = std::vector<std::string>;

void add_symbol_option(CLI::App &command, Symbols &symbols, const std::string &description) {
  repeatable(command.add_option_function<Texts>(
      "--set", [&symbols](const Texts &given) { symbols = parse_symbols(given); }, description));
}

CLI::Option *add_combinations_option(CLI::App &command, const std::string &name, size_t most,
                                     std::vector<Symbols> &combinations,
                                     const std::string &description) {
  return repeatable(command.add_option_function<Texts>(
      name,
      [&combinations, name, most](const Texts &given) {
        combinations = parse_combinations(name, most, given);
      },
      description));
}

void add_planning_options(CLI::App &command, PlanningOptions &options) {
  add_choice(command, "--policy", options.policy,
             {{"patch", CUGRT_POLICY_PATCH}, {"seed", CUGRT_POLICY_SEED}}, "What makes a region");
  command
      .add_option("--max-lanes", options.max_lanes,
                  "Steps of a graph that may run side by side; default: no limit")
      ->check(CLI::Range(1, 32));
  command.add_flag("--host-control", options.host_control,
                   "The host runs every branch and loop, none becomes a node of a graph");
  command.add_flag("--full-edges", options.full_edges,
                   "No kernel of a graph begins before its predecessors have ended");
  command
      .add_option_function<std::string>(
          "--precision",
          [&options](const std::string &dtype) {
            options.pass_options.push_back("mixed.dtype=" + dtype);
          },
          "f16, bf16 or tf32: products of an f32 model are computed in it, as --option mixed.dtype "
          "says")
      ->check(CLI::IsMember({"f16", "bf16", "tf32"}));
  // It stands behind --precision, which sets an option of a pass, too.
  repeatable(command.add_option_function<Texts>(
      "--option",
      [&options](const Texts &given) {
        options.pass_options.insert(options.pass_options.end(), given.begin(), given.end());
      },
      "NAME=VALUE, as mixed.dtype=f16: an option of the default passes"));
}

void add_import_options(CLI::App &command, ImportOptions &options) {
  repeatable(command.add_option(
      "--dim", options.dims,
      "NAME=SYMBOL or NAME=N: what a dimension of an ONNX file is called, or is"));
  repeatable(command.add_option("--bounds", options.bounds,
                                "SYMBOL=A..B: what a symbol of an ONNX file may be"));
  repeatable(command.add_option("--bind", options.bind,
                                "INPUT=VALUE: an input of an ONNX file that is a constant"));
  repeatable(
      command.add_option("--preprocess", options.preprocess,
                         "INPUT=hwc or INPUT=nv12, with commas size=ROWSxCOLUMNS, swap, scale=A, "
                         "mean=A:B:C, std=A:B:C: frames of bytes in the place of an image"));
}

void add_input_option(CLI::App &command, ModelOptions &options) {
  repeatable(command.add_option(
      "--input", options.inputs,
      options.is_measured
          ? "NAME=FILE.npy, NAME=random (the default), or NAME=NUMBER for host scalars"
          : "NAME=FILE.npy, NAME=random, or NAME=NUMBER for host scalars"));
}

void add_model_options(CLI::App &command, ModelOptions &options) {
  command
      .add_option("MODULE", options.module,
                  "The file of a module or a pack; - is a module on standard input")
      ->required();
  command.add_option("--function", options.function,
                     "The function; default: main, or the only one");
  command.add_option("--weights", options.weights,
                     options.is_measured ? "A .safetensors file; none: weights are drawn at random"
                                         : "A .safetensors file; tensors match parameters by name");
  add_input_option(command, options);
  if (options.is_measured) {
    add_combinations_option(
        command, "--set", kMostKeys, options.keys,
        "SYMBOL=N or SYMBOL=N,N,...: values of a symbol; all combinations are taken");
    command
        .add_option("--multiprocessors", options.runtime.multiprocessors,
                    "At least so many of the device's, in a green context; default: all")
        ->check(CLI::Range(1u, 1u << 16));
  } else {
    add_symbol_option(command, options.keys.front(),
                      "SYMBOL=N: a symbol's value, for random input and output buffers");
  }
  add_planning_options(command, options.planning);
  add_import_options(command, options.import);
  add_driver_option(command, options.runtime);
}

} // namespace tool
