// A MODULE: a file that is opened, and what is run of it.
#pragma once

#include "language_model.h"
#include "onnx.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace tool {

/// Whether the file begins as a pack does; a file that cannot be read is none.
bool is_pack(const std::string &path);

/// The module in file `path`, which is no pack; "-" is standard input.
cugrt::Module load_module(const std::string &path);

/// Inputs of a run by parameter: FILE.npy, random, NUMBER, or NUMBER,NUMBER,...
using Inputs = std::map<std::string, std::string>;

/// A module, and the file of another format that it was made of.
struct LoadedModule {
  cugrt::Module module;
  std::optional<OnnxModel> onnx;
  std::optional<cugrt::Weights> weights; // that an ONNX file has
  Inputs inputs;
  cugrt_llm_memory memory; // of a GGUF file; context 0: of none
};
/// `inputs`: of a run, see OnnxModel. `language`: null: GGUF files are refused.
LoadedModule load_any(const std::string &path, const ImportOptions &import,
                      const LanguageOptions *language = nullptr,
                      const std::vector<std::string> &inputs = {});

/// Nanoseconds of the steady clock, which launch records are in, too.
int64_t now_ns();

/// A task and its time on the host.
struct Span {
  std::string name, category;
  int64_t begin_ns = 0, end_ns = 0;
};

/// "n=8, m=3".
std::string symbols_text(const Symbols &symbols);

class Model {
public:
  /// Steps of opening are added to `spans`, when it is not null. `runtime`: null: one of its own.
  explicit Model(const ModelOptions &options, std::vector<Span> *spans = nullptr,
                 std::shared_ptr<cugrt::Runtime> runtime = nullptr);

  cugrt::Runtime &runtime() const { return *runtime_; }
  const std::shared_ptr<cugrt::Runtime> &shared_runtime() const { return runtime_; }
  cugrt::Function function() const { return *function_; }
  /// The device's name, or EMULATED.
  const std::string &driver() const { return driver_; }
  bool emulated() const { return emulated_; }

  /// The module's file; of a pack the one that it was made of.
  std::string source() const;
  /// The module; null of a pack, in which no ops are left.
  const cugrt::Module *module() const { return module_ ? &*module_ : nullptr; }
  /// Null of another file.
  const OnnxModel *onnx() const { return onnx_ ? &*onnx_ : nullptr; }
  const Inputs &inputs() const { return inputs_; }
  /// Whether inputs that are not given are drawn at random.
  bool is_measured() const { return options_.is_measured; }

  cugrt::Session open(cugrt_session_options options);
  /// A list of reports as JSON: of its plan, or of a pack's plans for some targets each, with
  /// operations at these values of symbols, which must be the plans'.
  nlohmann::json plan_reports(const Symbols &symbols) const;
  /// The symbols of the function that are neither set nor follow from inputs that are given, at the
  /// least that they may be, and at least 1.
  Symbols least_of_missing(const Symbols &given) const;

private:
  void load(std::vector<Span> *spans);
  void compile();
  void draw_weights();

  ModelOptions options_;
  std::optional<cugrt::Module> module_;
  std::optional<OnnxModel> onnx_;
  std::optional<cugrt::Pack> pack_; // or a module
  std::optional<cugrt::Weights> weights_;
  Inputs inputs_;
  std::shared_ptr<cugrt::Runtime> runtime_;
  std::optional<cugrt::Executable> executable_;
  std::optional<cugrt::Function> function_;
  std::string driver_;
  bool emulated_ = false;
};

// `cugrt bench --deadline`: how late a model's runs are, alone and beside another model.

struct DeadlineOptions {
  uint64_t deadline_us = 0; // 0: no such bench
  std::string load;         // the other model's file; empty: none
  std::vector<Symbols> load_keys = std::vector<Symbols>(1);
  unsigned ahead = 1; // of its graphs that may be on their way
  double seconds = 0.5;
  unsigned runs = 0;
  bool json = false;
};
void add_deadline_options(CLI::App &command, DeadlineOptions &options);

void bench_deadline(const ModelOptions &model, const DeadlineOptions &options);

} // namespace tool
