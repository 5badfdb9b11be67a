// cugrt compare: how far a model's results are from ONNX Runtime's, or from our own in f32.
//
// Where a result leaves the bound, both sides run once more with every floating value of the graph
// as a result, and the first one that leaves it, in the order of the nodes, is named.
#include "arguments.h"
#include "npy.h"
#include "onnxruntime.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

namespace tool {

namespace {

struct CompareOptions {
  ModelOptions model;
  std::string against;
  double bound = 1e-3;
};

/// The largest error, and that by the largest value of the reference (at least 1). Infinite where
/// shapes, or which elements are no numbers, differ.
struct Error {
  double largest = 0, relative = 0;
};

Error error_of(const Array &got, const Array &want) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (got.dims != want.dims)
    return {kInfinite, kInfinite};
  size_t count = 1;
  for (int64_t dim : want.dims)
    count *= static_cast<size_t>(dim);
  Error error;
  double scale = 1;
  for (size_t i = 0; i < count; ++i) {
    const double x = element(got, i), y = element(want, i);
    if (std::isfinite(y))
      scale = std::max(scale, std::fabs(y));
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    const double off = std::fabs(x - y);
    error.largest = std::max(error.largest, std::isnan(off) ? kInfinite : off);
  }
  error.relative = error.largest / scale;
  return error;
}

/// Results of one side, by their names in the file.
struct Side {
  std::string name;
  std::vector<OnnxModel::Output> outputs;
  std::vector<Array> results;
  OnnxRuntimeRequest request; // what another side is given
};

Side run_ours(ModelOptions options, bool every_value) {
  options.import.every_value = every_value;
  Model model(options);
  Side side{"our own in f32", model.onnx()->outputs(), {}, {}};
  const std::vector<Argument> arguments = make_arguments(model, options.keys.front());
  const cugrt::Function function = model.function();
  cugrt::Session session = model.open(cugrt::detail::sized<cugrt_session_options>());
  const auto results = session.run(function, values_of(arguments));
  session.synchronize();
  for (size_t i = 0; i < results.size(); ++i)
    if (!function.result(i).is_count)
      side.results.push_back(
          fetch(model.runtime(), session.counted(model.runtime(), function, results, i)));
  side.request = same_inputs(options.module, options.import, model.onnx()->inputs(), arguments);
  return side;
}

ModelOptions without_precision(ModelOptions options) {
  std::erase_if(options.planning.pass_options,
                [](const std::string &one) { return one.starts_with("mixed.dtype="); });
  return options;
}

/// The other side, with results of the same names in the same order.
Side run_reference(const CompareOptions &options, const Side &ours, bool every_value) {
  if (options.against == "f32")
    return run_ours(without_precision(options.model), every_value);
  OnnxRuntimeRequest request = ours.request;
  if (every_value)
    for (const OnnxModel::Output &output : ours.outputs)
      request.values.push_back(output.name);
  OnnxRuntimeAnswer answer = run_onnxruntime(request);
  return {"ONNX Runtime " + answer.version, {}, std::move(answer.results), {}};
}

std::string dims_text(const Array &array) {
  std::string text = "[";
  for (int64_t dim : array.dims)
    text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

bool compare_results(const CompareOptions &options) {
  const Side ours = run_ours(options.model, false);
  const Side reference = run_reference(options, ours, false);
  std::printf("errors against %s, bound %g of the largest value:\n", reference.name.c_str(),
              options.bound);
  bool within = ours.results.size() == reference.results.size();
  for (size_t i = 0; i < std::min(ours.results.size(), reference.results.size()); ++i) {
    const Error error = error_of(ours.results[i], reference.results[i]);
    within = within && error.relative <= options.bound;
    std::printf("  %s %s%s: largest error %.3g, of the largest value %.3g%s\n",
                ours.outputs[i].name.c_str(), dtype_name(ours.results[i].dtype),
                dims_text(ours.results[i]).c_str(), error.largest, error.relative,
                error.relative <= options.bound ? "" : ", beyond the bound");
  }
  return within;
}

void name_first_node(const CompareOptions &options) {
  const Side ours = run_ours(options.model, true);
  const Side reference = run_reference(options, ours, true);
  const OnnxModel::Output *first = nullptr;
  Error found, before;
  for (size_t i = 0; i < std::min(ours.results.size(), reference.results.size()); ++i) {
    const Error error = error_of(ours.results[i], reference.results[i]);
    const OnnxModel::Output &output = ours.outputs[i];
    if (error.relative > options.bound && (!first || output.place < first->place))
      first = &output, found = error;
  }
  if (!first) {
    std::printf("no value between leaves the bound when each is a result\n");
    return;
  }
  for (size_t i = 0; i < std::min(ours.results.size(), reference.results.size()); ++i)
    if (ours.outputs[i].place < first->place)
      before.relative =
          std::max(before.relative, error_of(ours.results[i], reference.results[i]).relative);
  std::printf("first beyond it: '%s' of node '%s' (%s), %.3g; before it at most %.3g\n",
              first->name.c_str(), first->node.c_str(), first->op.c_str(), found.relative,
              before.relative);
}

void compare(CompareOptions options) {
  if (!is_onnx(options.model.module))
    throw UserError("compare takes ONNX files");
  if (!options.model.import.preprocess.empty())
    throw UserError("compare gives both sides the file's own inputs; leave --preprocess away");
  if (options.against.empty())
    options.against = has_onnxruntime() ? "onnxruntime" : "f32";
  else if (options.against == "onnxruntime" && !has_onnxruntime())
    throw UserError("the python3 of PATH cannot import onnxruntime: python3 -m pip install "
                    "onnxruntime");
  if (options.against == "f32" &&
      without_precision(options.model).planning.pass_options == options.model.planning.pass_options)
    throw UserError("f32 is compared with itself: give --precision, or install ONNX Runtime "
                    "(python3 -m pip install onnxruntime)");
  if (compare_results(options))
    return;
  name_first_node(options);
  throw CLI::RuntimeError(1);
}

} // namespace

void add_compare(CLI::App &app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App *command = app.add_subcommand(
      "compare", "Compares an ONNX model's results with ONNX Runtime's, or those of f32");
  command->add_option("MODEL", options->model.module, "The .onnx file")->required();
  add_input_option(*command, options->model);
  add_symbol_option(*command, options->model.keys.front(),
                    "SYMBOL=N: a symbol's value, for random inputs");
  command
      ->add_option("--against", options->against,
                   "onnxruntime, of the python3 of PATH (the default where it is there), or f32: "
                   "the same model without --precision")
      ->check(CLI::IsMember({"onnxruntime", "f32"}));
  command
      ->add_option("--bound", options->bound,
                   "The largest error by the largest value, or 1; default 0.001")
      ->check(refuse_negative);
  add_planning_options(*command, options->model.planning);
  add_import_options(*command, options->model.import);
  add_driver_option(*command, options->model.runtime);
  command->callback([options] { compare(*options); });
}

} // namespace tool
