// A user's model or pack, opened for measuring: what `cugrt bench` and `cugrt trace` share.
//
// Inputs that are not given are drawn at random, and so are all weights when there is no file of
// them: both commands look at time, not at results.
#pragma once

#include "arguments.h"
#include "onnx.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace tool {

struct ModelOptions {
  std::string module, function, weights, driver;
  PlanningOptions planning;
  ImportOptions import;
  std::vector<std::string> inputs, settings;
  uint32_t multiprocessors = 0; // of the device; 0: all
};
void add_model_options(CLI::App &command, ModelOptions &options);

/// Nanoseconds of the steady clock, which launch records are in, too.
int64_t now_ns();

/// What took how long on the host.
struct Span {
  std::string name, category;
  int64_t begin_ns = 0, end_ns = 0;
};

/// "n=1,8,32" and "m=3,4" are six combinations; one without symbols when nothing is set. `most` at
/// most. A symbol has one list.
inline constexpr size_t kMostKeys = 1024, kMostPrepared = 10000;
std::vector<Symbols> symbol_combinations(const std::vector<std::string> &settings,
                                         const std::string &option = "--set",
                                         size_t most = kMostKeys);
/// "n=8, m=3".
std::string symbols_text(const Symbols &symbols);

class Model {
public:
  /// Steps of opening are added to `spans`, when it is not null. `runtime`: null: one of its own.
  Model(const ModelOptions &options, std::vector<Span> *spans,
        std::shared_ptr<cugrt::Runtime> runtime = nullptr);

  cugrt::Runtime &runtime() { return *runtime_; }
  const std::shared_ptr<cugrt::Runtime> &shared_runtime() const { return runtime_; }
  cugrt::Function function() const { return *function_; }
  /// The device's name, or EMULATED.
  const std::string &driver() const { return driver_; }
  bool emulated() const { return emulated_; }

  /// The module's file; of a pack the one that it was made of.
  const std::string &source() const { return source_; }
  /// The module; null of a pack, in which no ops are left.
  const cugrt::Module *module() const { return module_ ? &*module_ : nullptr; }

  cugrt::Session open(cugrt_session_options options);
  /// A list of reports as JSON: of its plan, or of a pack's plans for some targets each, with
  /// operations at these values of symbols, which must be the plans'.
  nlohmann::json plan_reports(const Symbols &symbols) const;
  /// Of an ONNX file.
  const OnnxInputs &onnx_inputs() const { return onnx_inputs_; }
  /// The symbols of the function that are neither set nor follow from inputs that are given, at the
  /// least that they may be, and at least 1.
  Symbols least_of_missing(const Symbols &given) const;
  /// Arguments of a run with these values of the symbols.
  std::vector<Argument> arguments(const Symbols &symbols);

private:
  void load(std::vector<Span> *spans);
  void draw_weights(const Symbols &symbols);

  ModelOptions options_;
  std::string source_;
  std::optional<cugrt::Module> module_;
  std::optional<cugrt::Pack> pack_; // one of the two
  std::optional<cugrt::Weights> weights_;
  OnnxInputs onnx_inputs_;
  std::shared_ptr<cugrt::Runtime> runtime_;
  std::optional<cugrt::Executable> executable_;
  std::optional<cugrt::Function> function_;
  std::string driver_;
  bool emulated_ = false;
};

/// The values of arguments, as a run takes them.
std::vector<cugrt::Value> values_of(const std::vector<Argument> &arguments);

// `cugrt bench --deadline`: how late a model's runs are, alone and beside another model.

struct DeadlineOptions {
  uint64_t deadline_us = 0; // 0: no such bench
  std::string load;         // the other model's file; empty: none
  std::vector<std::string> load_settings;
  unsigned ahead = 1; // of its graphs that may be on their way
  double seconds = 0.5;
  unsigned runs = 0;
  bool json = false;
};
void add_deadline_options(CLI::App &command, DeadlineOptions &options);

void bench_deadline(const ModelOptions &model, const DeadlineOptions &options);

} // namespace tool
