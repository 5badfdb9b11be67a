// Opening a model step by step; see model.h.
#include "model.h"

#include "arguments.h"
#include "base/first_bytes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <random>

namespace tool {

namespace {

/// Adds a span for as long as it lives.
class SpanScope {
public:
  SpanScope(std::vector<Span> *spans, std::string name) : spans_(spans) {
    span_.name = std::move(name);
    span_.category = "open";
    span_.begin_ns = now_ns();
  }
  SpanScope(const SpanScope &) = delete;
  ~SpanScope() {
    span_.end_ns = now_ns();
    if (spans_)
      spans_->push_back(std::move(span_));
  }

private:
  std::vector<Span> *spans_;
  Span span_;
};

Inputs parse_inputs(const std::vector<std::string> &inputs) {
  Inputs by_name;
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

/// Shows a kernel that was compiled; a run that finds all in the cache is silent. `user` counts
/// kernels that were cached before.
void show_compiled(void *user, size_t done, size_t total, const char *kernel, double milliseconds,
                   size_t cached) {
  if (cached != std::exchange(*static_cast<size_t *>(user), cached))
    return;
  std::fprintf(stderr, "[%zu/%zu] %s %.0f ms, %zu cached\n", done, total, kernel, milliseconds,
               cached);
}

/// The function of that name; without a name main, or the only one.
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

} // namespace

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

std::string symbols_text(const Symbols &symbols) {
  std::string text;
  for (const auto &[name, value] : symbols)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return text;
}

bool is_pack(const std::string &path) {
  return path != "-" && cugrt::first_bytes(path).starts_with(CUGRT_PACK_MAGIC);
}

cugrt::Module load_module(const std::string &path) {
  if (is_pack(path))
    throw UserError("'" + path +
                    "' is a pack, whose module is planned and compiled already: run, bench, trace "
                    "and plan take packs");
  if (path != "-")
    return cugrt::Module::load(path);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  return cugrt::Module::parse(text, "<stdin>", ".");
}

LoadedModule load_any(const std::string &path, const ImportOptions &import,
                      const LanguageOptions *language, const std::vector<std::string> &inputs) {
  auto memory = cugrt::detail::sized<cugrt_llm_memory>();
  if (is_onnx(path)) {
    const OnnxModel onnx(path, import, inputs);
    return {onnx.module(), onnx, onnx.weights(), parse_inputs(onnx.renamed()), memory};
  }
  if (language && is_gguf(path)) {
    cugrt::Module module = plan_language_model(path, *language, memory);
    return {std::move(module), {}, {}, {}, memory};
  }
  import.require_none();
  return {load_module(path), {}, {}, parse_inputs(inputs), memory};
}

Model::Model(const ModelOptions &options, std::vector<Span> *spans,
             std::shared_ptr<cugrt::Runtime> runtime)
    : options_(options), runtime_(std::move(runtime)) {
  load(spans);
  {
    SpanScope span(spans, "open driver");
    if (!runtime_)
      runtime_ = std::make_shared<cugrt::Runtime>(open_runtime(options.runtime));
    cugrt_runtime_info info = runtime_->info();
    emulated_ = info.emulated != 0;
    driver_ = emulated_ ? "EMULATED" : info.device_name;
  }
  if (pack_) {
    SpanScope span(spans, "load code");
    executable_.emplace(*runtime_, *pack_);
  } else {
    SpanScope span(spans, "plan and compile");
    compile();
  }
  function_.emplace(choose_function(*executable_, options.function));
  if (!weights_) {
    weights_.emplace();
    if (options.is_measured)
      draw_weights();
  }
}

void Model::load(std::vector<Span> *spans) {
  SpanScope span(spans, is_pack(options_.module) ? "load pack" : "load module");
  if (is_pack(options_.module)) {
    options_.require_none();
    pack_.emplace(cugrt::Pack::load(options_.module));
    inputs_ = parse_inputs(options_.inputs);
  } else {
    LoadedModule loaded = load_any(options_.module, options_.import, nullptr, options_.inputs);
    module_.emplace(std::move(loaded.module));
    onnx_ = std::move(loaded.onnx);
    weights_ = std::move(loaded.weights);
    inputs_ = std::move(loaded.inputs);
  }
  if (!options_.weights.empty())
    weights_ = cugrt::Weights::load(options_.weights);
  else if (pack_)
    if (cugrt::Weights own = pack_->weights(); own.count() > 0)
      weights_ = std::move(own);
}

void Model::compile() {
  auto compile = cugrt::detail::sized<cugrt_compile_options>();
  options_.planning.apply(compile);
  size_t cached = 0;
  if (!options_.is_measured)
    compile.progress = show_compiled, compile.progress_user = &cached;
  executable_.emplace(*runtime_, *module_, &compile);
}

/// Draws the weights of every public function, since a session wants them all.
void Model::draw_weights() {
  std::mt19937 engine(2);
  std::vector<std::string> drawn;
  for (size_t f = 0; f < executable_->function_count(); ++f) {
    cugrt::Function function = executable_->function(f);
    std::vector<cugrt_symbol_value> values;
    for (const cugrt_symbol_value &value : symbol_values(options_.keys.front()))
      for (size_t s = 0; s < function.symbol_count(); ++s)
        if (function.symbol_name(s) == value.name)
          values.push_back(value);
    for (size_t i = 0; i < function.param_count(); ++i) {
      cugrt_param_info info = function.param(i);
      if (!info.weight || std::find(drawn.begin(), drawn.end(), info.name) != drawn.end())
        continue;
      Array array = random_array(info.dtype, function.dims(i, values), engine);
      weights_->add(info.name, array.bytes.data(), static_cast<cugrt_dtype>(info.dtype),
                    array.dims);
      drawn.emplace_back(info.name);
    }
  }
}

std::string Model::source() const {
  return pack_
             ? nlohmann::json::parse(pack_->report(CUGRT_REPORT_JSON))["module"].get<std::string>()
             : options_.module;
}

cugrt::Session Model::open(cugrt_session_options options) {
  return cugrt::Session(*executable_, *runtime_, *weights_, options);
}

nlohmann::json Model::plan_reports(const Symbols &symbols) const {
  if (pack_)
    return nlohmann::json::parse(pack_->report(CUGRT_REPORT_JSON, symbols))["plans"];
  const std::vector<cugrt_symbol_value> values = symbol_values(symbols);
  auto plan = cugrt::detail::sized<cugrt_plan_options>();
  options_.planning.apply(plan);
  plan.format = CUGRT_REPORT_JSON;
  plan.symbols = values.data();
  plan.symbol_count = values.size();
  return nlohmann::json::array({nlohmann::json::parse(module_->plan_report(plan))});
}

Symbols Model::least_of_missing(const Symbols &given) const {
  Symbols missing;
  if (!inputs_.empty())
    return missing;                                  // their shapes say it
  const nlohmann::json report = plan_reports({})[0]; // symbols are the module's
  for (const auto &function : report["functions"])
    for (const auto &symbol : function["symbols"]) {
      const std::string name = symbol["name"];
      const bool set = std::any_of(given.begin(), given.end(),
                                   [&](const auto &one) { return one.first == name; });
      if (function["name"] == function_->name() && !set && !symbol["device"].get<bool>() &&
          !symbol.contains("bucket"))
        missing.emplace_back(name, std::max<int64_t>(symbol["lower"].get<int64_t>(), 1));
    }
  return missing;
}

} // namespace tool
