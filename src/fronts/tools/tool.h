// What the tool's commands share: the driver choice, log output, symbol settings, files.
//
// Data goes to stdout, everything else to stderr; whatever the emulated driver computed is marked
// EMULATED.
#pragma once

#include "open_runtime.h"

#include <cugrt/cugrt.hpp>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tool {

/// A wrong command line or file, told to the user as it stands.
class UserError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

using Symbols = std::vector<std::pair<std::string, int64_t>>;

/// Each command adds its options to `app` and a callback that runs it.
void add_run(CLI::App &app);
void add_plan(CLI::App &app);
void add_compile(CLI::App &app);
void add_opt(CLI::App &app);
void add_doctor(CLI::App &app);
void add_bench(CLI::App &app);
void add_trace(CLI::App &app);
void add_attribute(CLI::App &app);
void add_cache(CLI::App &app);
void add_tokenize(CLI::App &app);
void add_generate(CLI::App &app);
void add_chat(CLI::App &app);
void add_import(CLI::App &app);
void add_link(CLI::App &app);
void add_compare(CLI::App &app);

/// `command` is what emulate runs: the rest of the command line, which is the program's own and not
/// to be parsed. It is taken from the end of argv.
std::vector<std::string> take_emulated_command(int &argc, char **argv);
void add_emulate(CLI::App &app, const std::vector<std::string> &command);

/// Makes it an option that is given again for each further value; what follows a value is the next
/// argument. CLI11's own lists would take that too.
CLI::Option *repeatable(CLI::Option *option);

/// A check of an option's value. CLI11's own names the largest double, and its unsigned numbers
/// take negative ones.
inline std::string refuse_negative(const std::string &text) {
  return std::strtod(text.c_str(), nullptr) >= 0 ? std::string()
                                                 : "Value " + text + " is not 0 or more";
}

/// The module in file `path`; "-" is standard input.
cugrt::Module load_module(const std::string &path);

/// The file is written whole, or what was there stays (base/file.h).
void write_whole(const std::string &path, std::string_view bytes);

/// Whether the file begins as a pack does; a file that cannot be read is none.
bool is_pack(const std::string &path);

/// A driver's name as in CUGRT_DRIVER: "" (the environment decides), system, emulated, none, or a
/// path.
cugrt::RuntimeOptions runtime_options(const std::string &driver);

/// A runtime for `driver`, by open_or_emulate().
/// `multiprocessors`: of the device; 0: all of them.
cugrt::Runtime open_runtime(const std::string &driver, uint32_t multiprocessors = 0);

/// What kernels load from global memory from now on: the emulated driver counts it, no other does.
/// `counts`: whether it is wanted.
class LoadCount {
public:
  LoadCount(const cugrt::Runtime &runtime, bool counts);
  /// One line on stderr, where it was counted.
  void print() const;

private:
  void *driver_ = nullptr; // counts
};

/// "n=8" or "n=8,m=3", of --set: each symbol once.
Symbols parse_symbols(const std::vector<std::string> &settings);

cugrt_policy parse_policy(const std::string &name);

/// How a module is planned: what commands that plan or compile share.
struct PlanningOptions {
  std::string policy = "patch";
  unsigned max_lanes = 0;
  bool host_control = false, full_edges = false;
  std::vector<std::string> pass_options; // NAME=VALUE

  /// A pack is planned already: options beside it are an error.
  void require_none() const {
    if (policy != "patch" || max_lanes || host_control || full_edges || !pass_options.empty())
      throw UserError("a pack is planned already; options of planning go with cugrt compile");
  }

  /// Of a cugrt_plan_options, cugrt_compile_options or cugrt_pack_options, which then refers to
  /// what this holds.
  template <class Options> void apply(Options &options) const {
    options.policy = parse_policy(policy);
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

// Lists in options: SYMBOL=N,N,... They are cut here, since CLI11 drops what is empty between two
// commas.

/// Empty pieces are pieces.
std::vector<std::string> split_at_commas(const std::string &text);

/// A whole number; else an error that says what the option takes, and which setting it is not.
int64_t parse_symbol_value(const std::string &text, const char *takes, const std::string &setting);

} // namespace tool
