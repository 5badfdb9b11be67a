// The C interface of libcugrt-onnx; see cugrt/onnx.h.
#include "cugrt/onnx.h"

#include "base/file.h"
#include "base/type/element.h"
#include "fronts/onnx/export/export.h"
#include "fronts/onnx/import.h"
#include "ir/text/built_module.h"
#include "ir/text/text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <new>

namespace onnx = cugrt::onnx;

struct cugrt_onnx_model {
  onnx::Imported imported; // its module is in `built`
  cugrt_built_module built;
  std::string message;
};

namespace {

using cugrt::Code;
using cugrt::Status;

/// Size of the options' first form.
constexpr size_t kLeastOptions = offsetof(cugrt_onnx_options, preprocess);

Status split(const char *text, std::string &name, std::string &value) {
  const std::string whole = text ? text : "";
  const size_t equals = whole.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return Status::error(Code::invalid_argument, "'" + whole + "' is not NAME=VALUE");
  name = whole.substr(0, equals), value = whole.substr(equals + 1);
  return {};
}

Status parse_bounds(const std::string &text, cugrt::ir::Interval &bounds) {
  const size_t dots = text.find("..");
  const char *begin = text.data(), *end = begin + text.size();
  if (dots != std::string::npos) {
    auto low = std::from_chars(begin, begin + dots, bounds.lower);
    auto high = std::from_chars(begin + dots + 2, end, bounds.upper);
    if (low.ec == std::errc() && low.ptr == begin + dots && high.ec == std::errc() &&
        high.ptr == end && bounds.lower <= bounds.upper && bounds.lower >= 0)
      return {};
  }
  return Status::error(Code::invalid_argument,
                       "bounds are A..B, as in --bounds n=1..64, not '" + text + "'");
}

Status read_options(const cugrt_onnx_options &from, onnx::Options &to) {
  std::string name, value;
  for (size_t i = 0; i < from.dim_count; ++i) {
    CUGRT_TRY(split(from.dims[i], name, value));
    to.dims[name] = value;
  }
  for (size_t i = 0; i < from.bound_count; ++i) {
    CUGRT_TRY(split(from.bounds[i], name, value));
    CUGRT_TRY(parse_bounds(value, to.bounds[name]));
  }
  for (size_t i = 0; i < from.bind_count; ++i) {
    CUGRT_TRY(split(from.bind[i], name, value));
    to.bind[name] = value;
  }
  for (size_t i = 0; i < from.given_count; ++i) {
    const cugrt_tensor &tensor = from.given[i];
    onnx::HostTensor host;
    host.dtype = static_cast<cugrt::ir::DType>(tensor.dtype);
    host.dims.assign(tensor.dims, tensor.dims + std::min<uint32_t>(tensor.rank, CUGRT_MAX_RANK));
    const auto bytes = cugrt::ir::tensor_bytes(host.dtype, host.dims);
    if (!bytes)
      return Status::error(Code::invalid_argument, std::string("input '") + from.given_names[i] +
                                                       "' has dimensions that no tensor has");
    host.bytes = {reinterpret_cast<const char *>(static_cast<uintptr_t>(tensor.address)), *bytes};
    to.given[from.given_names[i]] = host;
  }
  to.fix_given = from.fix_given != 0;
  for (size_t i = 0; i < from.preprocess_count; ++i) {
    const std::string whole = from.preprocess[i] ? from.preprocess[i] : "";
    const size_t equals = whole.find('=');
    if (equals == std::string::npos || equals == 0)
      return Status::error(Code::invalid_argument,
                           "'" + whole + "' is not INPUT=hwc or INPUT=nv12");
    CUGRT_ASSIGN(to.frames[whole.substr(0, equals)], onnx::parse_frames(whole.substr(equals + 1)));
  }
  to.every_value = from.every_value != 0;
  return {};
}

Status run(const char *path, const cugrt_onnx_options *options, cugrt_onnx_model &model) {
  onnx::Options read;
  if (options) { // a caller may know fewer fields, or more
    cugrt_onnx_options known{};
    std::memcpy(&known, options, std::min(options->struct_size, sizeof known));
    CUGRT_TRY(read_options(known, read));
  }
  CUGRT_ASSIGN(model.imported, onnx::import_file(path, read));
  CUGRT_ASSIGN(model.built, cugrt::ir::make_built(std::move(model.imported.module)));
  const std::map<std::string, std::string> nodes(model.imported.nodes.begin(),
                                                 model.imported.nodes.end());
  for (const cugrt::ir::Function &function : model.built.module->functions)
    for (const cugrt::ir::Block &block : function.blocks)
      for (const cugrt::ir::Binding &binding : block.bindings)
        for (uint32_t r = 0; r < binding.result_count; ++r)
          if (const auto found = nodes.find(function.value(binding.result(r)).name);
              found != nodes.end())
            model.built.names.try_emplace(binding.location.line, found->second);
  model.message = model.imported.note;
  return {};
}

template <class Work> cugrt_code guarded(cugrt_onnx_model *model, Work work) {
  try {
    const Status status = work();
    if (!status.ok())
      model->message = status.message();
    return static_cast<cugrt_code>(status.code());
  } catch (...) { // memory ran out
    return CUGRT_OUT_OF_HOST_MEMORY;
  }
}

} // namespace

#define CUGRT_ONNX_EXPORT extern "C" __attribute__((visibility("default")))

CUGRT_ONNX_EXPORT cugrt_code cugrt_onnx_import(const char *path, const cugrt_onnx_options *options,
                                               cugrt_onnx_model **model) {
  if (!path || !model)
    return CUGRT_INVALID_ARGUMENT;
  *model = new (std::nothrow) cugrt_onnx_model;
  if (!*model)
    return CUGRT_OUT_OF_HOST_MEMORY;
  if (options && options->struct_size < kLeastOptions) {
    (*model)->message = "the options' struct_size is not set";
    return CUGRT_INVALID_ARGUMENT;
  }
  return guarded(*model, [&] { return run(path, options, **model); });
}

CUGRT_ONNX_EXPORT const char *cugrt_onnx_message(const cugrt_onnx_model *model) {
  return model ? model->message.c_str() : "out of memory";
}

CUGRT_ONNX_EXPORT const char *cugrt_onnx_text(const cugrt_onnx_model *model, size_t *size) {
  const std::string *text = model ? model->built.text.get() : nullptr;
  if (size)
    *size = text ? text->size() : 0;
  return text ? text->c_str() : "";
}

CUGRT_ONNX_EXPORT const cugrt_built_module *cugrt_onnx_module(const cugrt_onnx_model *model) {
  return model && model->built.module ? &model->built : nullptr;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_weight(const cugrt_onnx_model *model, size_t index,
                                            const char **name, cugrt_tensor *tensor) {
  if (!model || index >= model->imported.weights.size())
    return 0;
  const auto &weight = model->imported.weights[index];
  *name = weight.name.c_str();
  *tensor = cugrt_tensor{};
  tensor->address = reinterpret_cast<uintptr_t>(weight.tensor.bytes.data());
  tensor->dtype = static_cast<cugrt_dtype>(weight.tensor.dtype);
  tensor->rank = static_cast<uint32_t>(weight.tensor.dims.size());
  std::copy(weight.tensor.dims.begin(), weight.tensor.dims.end(), tensor->dims);
  return 1;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_input(const cugrt_onnx_model *model, size_t index,
                                           const char **name, const char **parameter,
                                           int32_t *kind) {
  if (!model || index >= model->imported.inputs.size())
    return 0;
  const onnx::Input &input = model->imported.inputs[index];
  *name = input.name.c_str();
  *parameter = input.parameter.empty() ? nullptr : input.parameter.c_str();
  *kind = static_cast<int32_t>(input.kind);
  return 1;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_output(const cugrt_onnx_model *model, size_t index,
                                            const char **name) {
  if (!model || index >= model->imported.outputs.size())
    return 0;
  *name = model->imported.outputs[index].name.c_str();
  return 1;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_output_node(const cugrt_onnx_model *model, size_t index,
                                                 const char **node, const char **op,
                                                 size_t *place) {
  if (!model || index >= model->imported.outputs.size())
    return 0;
  const onnx::Imported::Output &output = model->imported.outputs[index];
  *node = output.node.c_str();
  *op = output.op.c_str();
  *place = output.place;
  return 1;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_symbol(const cugrt_onnx_model *model, size_t index,
                                            const char **dimension, const char **symbol) {
  if (!model || index >= model->imported.symbols.size())
    return 0;
  *dimension = model->imported.symbols[index].first.c_str();
  *symbol = model->imported.symbols[index].second.c_str();
  return 1;
}

CUGRT_ONNX_EXPORT int32_t cugrt_onnx_value_node(const cugrt_onnx_model *model, size_t index,
                                                const char **value, const char **node) {
  if (!model || index >= model->imported.nodes.size())
    return 0;
  *value = model->imported.nodes[index].first.c_str();
  *node = model->imported.nodes[index].second.c_str();
  return 1;
}

CUGRT_ONNX_EXPORT cugrt_code cugrt_onnx_write_weights(cugrt_onnx_model *model, const char *path) {
  if (!model || !path)
    return CUGRT_INVALID_ARGUMENT;
  return guarded(model, [&] { return onnx::write_weights(path, model->imported); });
}

static Status write_export(std::string_view text, const cugrt_onnx_model *imported,
                           const char *path) {
  CUGRT_ASSIGN(const cugrt::ir::Module module, cugrt::ir::parse_and_verify(text, "the module"));
  onnx::ExportOptions options;
  if (imported) {
    for (const auto &weight : imported->imported.weights)
      options.weights[weight.name] = {weight.tensor.dtype, weight.tensor.dims, weight.tensor.bytes};
    for (const onnx::Input &input : imported->imported.inputs)
      if (!input.parameter.empty())
        options.names[input.parameter] = input.name;
    for (const auto &output : imported->imported.outputs)
      options.results.push_back(output.name);
  }
  CUGRT_ASSIGN(const onnx::ExportedFile file, onnx::export_module(module, options));
  return cugrt::write_file(path, file.parts);
}

CUGRT_ONNX_EXPORT cugrt_code cugrt_onnx_export(const char *text, size_t size,
                                               const cugrt_onnx_model *imported, const char *path,
                                               char **problem) {
  if (problem)
    *problem = nullptr;
  if (!text || !path)
    return CUGRT_INVALID_ARGUMENT;
  try {
    const Status status = write_export({text, size}, imported, path);
    if (!status.ok() && problem)
      *problem = strdup(status.message().c_str());
    return static_cast<cugrt_code>(status.code());
  } catch (...) { // memory ran out
    return CUGRT_OUT_OF_HOST_MEMORY;
  }
}

CUGRT_ONNX_EXPORT void cugrt_onnx_free(cugrt_onnx_model *model) { delete model; }
