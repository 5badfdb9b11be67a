// cugrt import, and ONNX files where a command takes a module.
#include "onnx.h"

#include "base/first_bytes.h"

#include <cstdio>
#include <cstring>
#include <filesystem>

namespace tool {

namespace {

/// The input whose name the argument begins with, the longest one; names may hold '='.
struct Named {
  std::string name, parameter, value;
  bool on_host = false, found = false;
};

Named find_input(const cugrt_onnx_model *model, const std::string &argument) {
  Named best;
  const char *name = nullptr, *parameter = nullptr;
  int32_t kind = 0;
  for (size_t i = 0; cugrt_onnx_input(model, i, &name, &parameter, &kind); ++i) {
    const std::string prefix = std::string(name) + "=";
    if (argument.compare(0, prefix.size(), prefix) == 0 && prefix.size() > best.name.size())
      best = {name, parameter ? parameter : "", argument.substr(prefix.size()),
              kind != CUGRT_ONNX_TENSOR, true};
  }
  return best;
}

/// The numbers with commas.
std::string integers_text(const Array &array) {
  auto read = [&](auto example) {
    std::string text;
    for (size_t at = 0; at + sizeof example <= array.bytes.size(); at += sizeof example) {
      std::memcpy(&example, array.bytes.data() + at, sizeof example);
      text += (at ? "," : "") + std::to_string(static_cast<int64_t>(example));
    }
    if (text.empty())
      throw UserError("an input of host integers has no element");
    return text;
  };
  switch (array.dtype) {
  case CUGRT_I64:
  case CUGRT_U64:
    return read(int64_t(0));
  case CUGRT_I32:
    return read(int32_t(0));
  case CUGRT_U32:
    return read(uint32_t(0));
  case CUGRT_I16:
    return read(int16_t(0));
  case CUGRT_U16:
    return read(uint16_t(0));
  case CUGRT_I8:
    return read(int8_t(0));
  default:
    return read(uint8_t(0));
  }
}

bool is_file(const std::string &value) {
  return value.size() > 4 && value.compare(value.size() - 4, 4, ".npy") == 0;
}

} // namespace

bool is_onnx(const std::string &path) {
  if (path.size() > 5 && path.compare(path.size() - 5, 5, ".onnx") == 0)
    return true; // where it is none, that is said
  return path != "-" && cugrt::first_bytes(path).starts_with('\x08');
}

OnnxModel::OnnxModel(const std::string &path, const ImportOptions &options,
                     const std::vector<std::string> &inputs)
    : path_(path) {
  for (const std::string &input : inputs) {
    const size_t equals = input.rfind('=');
    if (equals == std::string::npos || !is_file(input))
      continue;
    given_names_.push_back(input.substr(0, equals));
    given_->push_back(read_npy(input.substr(equals + 1)));
  }
  std::vector<cugrt_tensor> tensors;
  for (const Array &array : *given_) {
    cugrt_tensor tensor{};
    tensor.address = reinterpret_cast<uintptr_t>(array.bytes.data());
    tensor.dtype = static_cast<cugrt_dtype>(array.dtype);
    tensor.rank = static_cast<uint32_t>(array.dims.size());
    std::copy(array.dims.begin(), array.dims.end(), tensor.dims);
    tensors.push_back(tensor);
  }
  const auto dims = cugrt::detail::pointers(options.dims),
             bounds = cugrt::detail::pointers(options.bounds),
             bind = cugrt::detail::pointers(options.bind),
             given = cugrt::detail::pointers(given_names_),
             preprocess = cugrt::detail::pointers(options.preprocess);
  cugrt_onnx_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.dims = dims.data(), wanted.dim_count = dims.size();
  wanted.bounds = bounds.data(), wanted.bound_count = bounds.size();
  wanted.bind = bind.data(), wanted.bind_count = bind.size();
  wanted.given_names = given.data(), wanted.given = tensors.data();
  wanted.given_count = tensors.size();
  wanted.preprocess = preprocess.data(), wanted.preprocess_count = preprocess.size();
  wanted.every_value = options.every_value;
  cugrt_onnx_model *model = nullptr;
  const cugrt_code code = cugrt_onnx_import(path.c_str(), &wanted, &model);
  model_.reset(model, [given = given_](cugrt_onnx_model *one) { cugrt_onnx_free(one); });
  const char *message = cugrt_onnx_message(model);
  if (code != CUGRT_OK)
    throw UserError(message);
  if (*message)
    std::fprintf(stderr, "cugrt: imported for the shapes of these inputs alone: %s\n", message);
  for (const std::string &input : inputs) {
    const Named named = find_input(model, input);
    if (!named.found)
      throw UserError("the model has no input that --input " + input + " names");
    if (!named.parameter.empty())
      renamed_.push_back(named.parameter + "=" +
                         (named.on_host && is_file(named.value)
                              ? integers_text(read_npy(named.value))
                              : named.value));
  }
}

cugrt::Module OnnxModel::module() const {
  return cugrt::Module::adopt(cugrt_onnx_module(model_.get()), path_);
}

cugrt::Weights OnnxModel::weights() const {
  cugrt::Weights weights;
  const char *name = nullptr;
  cugrt_tensor tensor{};
  for (size_t i = 0; cugrt_onnx_weight(model_.get(), i, &name, &tensor); ++i)
    weights.add_shared(name, reinterpret_cast<const void *>(static_cast<uintptr_t>(tensor.address)),
                       static_cast<cugrt_dtype>(tensor.dtype),
                       {tensor.dims, tensor.dims + tensor.rank}, model_);
  return weights;
}

bool OnnxModel::has_weights() const {
  const char *name = nullptr;
  cugrt_tensor tensor{};
  return cugrt_onnx_weight(model_.get(), 0, &name, &tensor) != 0;
}

void OnnxModel::write_text(const std::string &path) const {
  size_t size = 0;
  const char *text = cugrt_onnx_text(model_.get(), &size);
  write_whole(path, {text, size});
}

void OnnxModel::write_weights(const std::string &path) const {
  if (cugrt_onnx_write_weights(model_.get(), path.c_str()) != CUGRT_OK)
    throw UserError(cugrt_onnx_message(model_.get()));
}

void write_onnx(const cugrt::Module &module, const cugrt_onnx_model *model,
                const std::string &path) {
  const std::string text = module.print();
  char *problem = nullptr;
  const cugrt_code code =
      cugrt_onnx_export(text.data(), text.size(), model, path.c_str(), &problem);
  const std::string message = problem ? problem : "out of memory";
  std::free(problem);
  if (code != CUGRT_OK)
    throw UserError(message);
}

void OnnxModel::write_onnx(const cugrt::Module &module, const std::string &path) const {
  tool::write_onnx(module, model_.get(), path);
}

OnnxInputs OnnxModel::inputs() const {
  OnnxInputs all;
  const char *name = nullptr, *parameter = nullptr;
  int32_t kind = 0;
  for (size_t i = 0; cugrt_onnx_input(model_.get(), i, &name, &parameter, &kind); ++i) {
    if (parameter)
      all.parameters.emplace_back(name, parameter);
    for (size_t g = 0; !parameter && g < given_names_.size(); ++g)
      if (given_names_[g] == name)
        all.bound.emplace_back(name, (*given_)[g]);
  }
  const char *value = nullptr, *node = nullptr;
  for (size_t i = 0; cugrt_onnx_value_node(model_.get(), i, &value, &node); ++i)
    all.nodes.emplace(value, node);
  return all;
}

std::vector<OnnxModel::Output> OnnxModel::outputs() const {
  std::vector<Output> all;
  const char *name = nullptr, *node = nullptr, *op = nullptr;
  size_t place = 0;
  for (size_t i = 0; cugrt_onnx_output(model_.get(), i, &name); ++i) {
    cugrt_onnx_output_node(model_.get(), i, &node, &op, &place);
    all.push_back({name, node, op, place});
  }
  return all;
}

std::string OnnxModel::symbols_text() const {
  static constexpr const char *kKinds[] = {"input", "host integer", "shape"};
  std::string text;
  const char *dimension = nullptr, *symbol = nullptr;
  for (size_t i = 0; cugrt_onnx_symbol(model_.get(), i, &dimension, &symbol); ++i)
    text += std::string(symbol) + " is dimension '" + dimension + "'\n";
  const char *name = nullptr, *parameter = nullptr;
  int32_t kind = 0;
  for (size_t i = 0; cugrt_onnx_input(model_.get(), i, &name, &parameter, &kind); ++i)
    if (!parameter)
      text += "input '" + std::string(name) + "' is bound\n";
    else if (std::strcmp(name, parameter) != 0 || kind != CUGRT_ONNX_TENSOR)
      text += std::string("%") + parameter + " is " + kKinds[kind] + " '" + name + "'\n";
  return text;
}

void add_import(CLI::App &app) {
  struct OnnxOptions {
    std::string model, output;
    ImportOptions import;
  };
  auto options = std::make_shared<OnnxOptions>();
  CLI::App *command = app.add_subcommand("import", "Makes a module of an ONNX file; its weights go "
                                                   "to a .safetensors file beside it");
  command->add_option("MODEL", options->model, "The .onnx file")->required();
  command->add_option("-o,--output", options->output, "The module's file, as MODEL.cugrt")
      ->required();
  add_import_options(*command, options->import);
  command->callback([options] {
    const OnnxModel model(options->model, options->import);
    if (model.has_weights())
      model.write_weights(
          std::filesystem::path(options->output).replace_extension(".safetensors").string());
    model.write_text(options->output);
    std::fputs(model.symbols_text().c_str(), stderr);
  });
}

} // namespace tool
