// Opening a model step by step; see model.h.
#include "model.h"

#include "npy.h"
#include "tool.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
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

} // namespace

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void add_model_options(CLI::App &command, ModelOptions &options) {
  command
      .add_option("MODULE", options.module,
                  "The file of a module or a pack; - is a module on standard input")
      ->required();
  command.add_option("--function", options.function,
                     "The function; default: main, or the only one");
  command.add_option("--weights", options.weights,
                     "A .safetensors file; none: weights are drawn at random");
  repeatable(command.add_option(
      "--input", options.inputs,
      "NAME=FILE.npy, NAME=random (the default), or NAME=NUMBER for host scalars"));
  repeatable(command.add_option(
      "--set", options.settings,
      "SYMBOL=N or SYMBOL=N,N,...: values of a symbol; all combinations are taken"));
  add_planning_options(command, options.planning);
  add_import_options(command, options.import);
  command.add_option("--driver", options.driver, "system, emulated, or a driver library's path");
  command
      .add_option("--multiprocessors", options.multiprocessors,
                  "At least so many of the device's, in a green context; default: all")
      ->check(CLI::Range(1u, 1u << 16));
}

std::vector<Symbols> symbol_combinations(const std::vector<std::string> &settings,
                                         const std::string &option, size_t most) {
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
      lists.back().second.push_back(parse_symbol_value(piece, takes.c_str(), setting));
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

std::string symbols_text(const Symbols &symbols) {
  std::string text;
  for (const auto &[name, value] : symbols)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return text;
}

Model::Model(const ModelOptions &options, std::vector<Span> *spans,
             std::shared_ptr<cugrt::Runtime> runtime)
    : options_(options), source_(options.module), runtime_(std::move(runtime)) {
  load(spans);
  {
    SpanScope span(spans, "open driver");
    if (!runtime_)
      runtime_ =
          std::make_shared<cugrt::Runtime>(open_runtime(options.driver, options.multiprocessors));
    cugrt_runtime_info info = runtime_->info();
    emulated_ = info.emulated != 0;
    driver_ = emulated_ ? "EMULATED" : info.device_name;
  }
  if (pack_) {
    SpanScope span(spans, "load code");
    executable_.emplace(*runtime_, *pack_);
  } else {
    SpanScope span(spans, "plan and compile");
    auto compile = cugrt::detail::sized<cugrt_compile_options>();
    options.planning.apply(compile);
    executable_.emplace(*runtime_, *module_, &compile);
  }
  function_.emplace(choose_function(*executable_, options.function));
  if (!weights_)
    draw_weights(symbol_combinations(options.settings).front());
}

void Model::load(std::vector<Span> *spans) {
  if (!is_pack(options_.module)) {
    SpanScope span(spans, "load module");
    LoadedModule loaded =
        load_with_weights(options_.module, options_.weights, options_.import, options_.inputs);
    module_.emplace(std::move(loaded.module));
    weights_ = std::move(loaded.weights);
    onnx_inputs_ = std::move(loaded.inputs);
    return;
  }
  SpanScope span(spans, "load pack");
  options_.planning.require_none();
  options_.import.require_none();
  pack_.emplace(cugrt::Pack::load(options_.module));
  const auto report = nlohmann::json::parse(pack_->report(CUGRT_REPORT_JSON));
  source_ = report["module"];
  if (!options_.weights.empty())
    weights_.emplace(cugrt::Weights::load(options_.weights));
  else if (!report["weights"].is_null())
    weights_.emplace(pack_->weights());
}

/// Of every public function: a session wants them all.
void Model::draw_weights(const Symbols &symbols) {
  weights_.emplace();
  std::mt19937 engine(2);
  std::vector<std::string> drawn;
  for (size_t f = 0; f < executable_->function_count(); ++f) {
    cugrt::Function function = executable_->function(f);
    std::vector<cugrt_symbol_value> values;
    for (const auto &[name, value] : symbols)
      for (size_t s = 0; s < function.symbol_count(); ++s)
        if (function.symbol_name(s) == name)
          values.push_back({name.c_str(), value});
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

cugrt::Session Model::open(cugrt_session_options options) {
  return cugrt::Session(*executable_, *runtime_, *weights_, options);
}

nlohmann::json Model::plan_reports(const Symbols &symbols) const {
  if (pack_)
    return nlohmann::json::parse(pack_->report(CUGRT_REPORT_JSON, symbols))["plans"];
  std::vector<cugrt_symbol_value> values;
  for (const auto &[name, value] : symbols)
    values.push_back({name.c_str(), value});
  auto plan = cugrt::detail::sized<cugrt_plan_options>();
  options_.planning.apply(plan);
  plan.format = CUGRT_REPORT_JSON;
  plan.symbols = values.data();
  plan.symbol_count = values.size();
  return nlohmann::json::array({nlohmann::json::parse(module_->plan_report(plan))});
}

Symbols Model::least_of_missing(const Symbols &given) const {
  Symbols missing;
  if (!options_.inputs.empty())
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

std::vector<Argument> Model::arguments(const Symbols &symbols) {
  std::vector<std::string> given = options_.inputs;
  add_random(*function_, given);
  return make_arguments(*runtime_, *function_, given, symbols);
}

std::vector<cugrt::Value> values_of(const std::vector<Argument> &arguments) {
  std::vector<cugrt::Value> values;
  for (const Argument &argument : arguments)
    values.push_back(argument.value);
  return values;
}

} // namespace tool
