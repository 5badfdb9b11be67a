// Options that commands share. Each becomes its value where it is added; what is wrong with it is a
// UserError from there.
#pragma once

#include <cugrt/cugrt.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// A wrong command line or file, told to the user as it stands.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Makes it an option that is given again for each further value; what follows a value is the next
/// argument. CLI11's own lists would take that too.
CLI::Option *repeatable(CLI::Option *option);

/// A check of an option's value. CLI11's own names the largest double, and its unsigned numbers
/// take negative ones.
inline std::string refuse_negative(const std::string &text) {
  return std::strtod(text.c_str(), nullptr) >= 0 ? std::string()
                                                 : "Value " + text + " is not 0 or more";
}

/// Words of an option, and what they stand for.
template <class Value> using Choices = std::vector<std::pair<std::string, Value>>;

template <class Value>
CLI::Option *add_choice(CLI::App &command, const std::string &name, Value &value,
                        const Choices<Value> &choices, const std::string &description) {
  const auto choose = [&value, choices](const std::string &word) {
    for (const auto &[known, meaning] : choices)
      if (known == word)
        value = meaning;
  };
  return command.add_option_function<std::string>(name, choose, description)
      ->check(CLI::IsMember(Choices<Value>(choices)));
}

/// --driver: a driver's name as in CUGRT_DRIVER, or its path; "": the environment decides.
void add_driver_option(CLI::App &command, cugrt::RuntimeOptions &options);

using Symbols = std::vector<std::pair<std::string, int64_t>>;

/// They refer to the names in `symbols`.
std::vector<cugrt_symbol_value> symbol_values(const Symbols &symbols);

/// --set: "n=8" or "n=8,m=3", each symbol once.
void add_symbol_option(CLI::App &command, Symbols &symbols, const std::string &description);

/// Lists: "n=1,8,32" and "m=3,4" are six combinations, one without symbols when nothing is set;
/// `most` at most. A symbol has one list.
inline constexpr size_t kMostKeys = 1024, kMostPrepared = 10000;
CLI::Option *add_combinations_option(CLI::App &command, const std::string &name, size_t most,
                                     std::vector<Symbols> &combinations,
                                     const std::string &description);

/// How a module is planned: what commands that plan or compile share.
struct PlanningOptions {
  cugrt_policy policy = CUGRT_POLICY_PATCH;
  unsigned max_lanes = 0;
  bool host_control = false, full_edges = false;
  std::vector<std::string> pass_options; // NAME=VALUE

  /// A pack is planned already: options beside it are an error.
  void require_none() const {
    if (policy != CUGRT_POLICY_PATCH || max_lanes || host_control || full_edges ||
        !pass_options.empty())
      throw UserError("a pack is planned already; options of planning go with cugrt compile");
  }

  /// Fills a cugrt_plan_options, cugrt_compile_options or cugrt_pack_options, which then refers to
  /// strings of this.
  template <class Options> void apply(Options &options) const {
    options.policy = policy;
    options.max_lanes = max_lanes;
    options.host_control = host_control;
    options.full_edges = full_edges;
    pass_option_texts_ = cugrt::detail::pointers(pass_options);
    options.pass_options = pass_option_texts_.data();
    options.pass_option_count = pass_option_texts_.size();
  }

private:
  mutable std::vector<const char *> pass_option_texts_;
};
void add_planning_options(CLI::App &command, PlanningOptions &options);

/// Options of importing an ONNX file.
struct ImportOptions {
  std::vector<std::string> dims, bounds, bind, preprocess;
  bool every_value = false; // floating values on the device are results, too

  /// Refuses these options where the model is no ONNX file.
  void require_none() const {
    if (!dims.empty() || !bounds.empty() || !bind.empty() || !preprocess.empty())
      throw UserError("--dim, --bounds, --bind and --preprocess are of ONNX files");
  }
};
void add_import_options(CLI::App &command, ImportOptions &options);

/// A model or pack that is opened to be run.
struct ModelOptions {
  std::string module, function, weights;
  std::vector<std::string> inputs;                     // as given: where a name ends, its file says
  std::vector<Symbols> keys = std::vector<Symbols>(1); // one for commands that do not measure
  cugrt::RuntimeOptions runtime;
  PlanningOptions planning;
  ImportOptions import;
  /// The command measures a model's time or exactness: inputs and weights that are not given are
  /// drawn at random, and compiling is silent.
  bool is_measured = true;

  /// Refuses them for a pack, which is imported and planned already.
  void require_none() const {
    planning.require_none();
    import.require_none();
  }
};
/// All of them: MODULE, --function, --weights and on. Their texts are those of `is_measured`.
void add_model_options(CLI::App &command, ModelOptions &options);
/// --input alone.
void add_input_option(CLI::App &command, ModelOptions &options);

/// Keeps empty pieces, which CLI11's own lists drop.
std::vector<std::string> split_at_commas(const std::string &text);

} // namespace tool
