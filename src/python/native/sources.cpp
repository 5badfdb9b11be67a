#include "sources.h"

#include "errors.h"
#include "progress.h"

#include <cugrt/onnx.h>

#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>

namespace cugrt::python {

namespace {

/// A module with its weights, before it is compiled.
struct Opened {
  Module module;
  Weights weights;
  std::vector<std::pair<std::string, std::string>> names;
};

std::vector<std::string> strings(nb::dict source, const char *key) {
  return nb::cast<std::vector<std::string>>(nb::object(source[key]));
}

std::string string(nb::dict source, const char *key) {
  return nb::cast<std::string>(nb::object(source[key]));
}

std::string_view content_of(nb::dict source) {
  char *data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(nb::object(source["content"]).ptr(), &data, &size))
    throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

/// A path of a safetensors file, a dict of arrays, or none.
void add_weights(Weights &weights, nb::object given, Device &device) {
  if (given.is_none())
    return;
  if (nb::isinstance<nb::str>(given)) {
    weights = Weights::load(nb::cast<std::string>(given));
    return;
  }
  for (auto [key, value] : nb::cast<nb::dict>(given)) {
    const std::string name = nb::cast<std::string>(nb::str(key)), what = "weight '" + name + "'";
    GivenArray array;
    array.take(value.ptr(), what, device, nullptr, false);
    if (!array.host())
      fail(CUGRT_INVALID_ARGUMENT,
           what + " is on a device; weights are given as arrays of the host");
    const cugrt_tensor &tensor = array.tensor();
    weights.add(name, array.host(), static_cast<cugrt_dtype>(tensor.dtype),
                {tensor.dims, tensor.rank});
  }
}

struct OnnxDeleter {
  void operator()(cugrt_onnx_model *model) const { cugrt_onnx_free(model); }
};

Opened import_onnx(const std::string &path, nb::dict source) {
  const auto dims = strings(source, "dims"), bounds = strings(source, "bounds"),
             bind = strings(source, "bind");
  const auto dim_list = detail::pointers(dims), bound_list = detail::pointers(bounds),
             bind_list = detail::pointers(bind);
  nb::gil_scoped_release released;
  auto options = detail::sized<cugrt_onnx_options>();
  options.dims = dim_list.data(), options.dim_count = dim_list.size();
  options.bounds = bound_list.data(), options.bound_count = bound_list.size();
  options.bind = bind_list.data(), options.bind_count = bind_list.size();
  cugrt_onnx_model *made = nullptr;
  const cugrt_code code = cugrt_onnx_import(path.c_str(), &options, &made);
  const std::unique_ptr<cugrt_onnx_model, OnnxDeleter> model(made);
  if (code != CUGRT_OK)
    fail(code, made ? cugrt_onnx_message(made) : "no memory to import '" + path + "'");
  size_t size = 0;
  const char *text = cugrt_onnx_text(made, &size);
  Opened opened{Module::parse({text, size}, path, ""), Weights(), {}};
  const char *name = nullptr, *parameter = nullptr;
  cugrt_tensor tensor{};
  for (size_t i = 0; cugrt_onnx_weight(made, i, &name, &tensor); ++i)
    opened.weights.add(name, reinterpret_cast<const void *>(static_cast<uintptr_t>(tensor.address)),
                       static_cast<cugrt_dtype>(tensor.dtype), {tensor.dims, tensor.rank});
  int32_t is_integer = 0;
  for (size_t i = 0; cugrt_onnx_input(made, i, &name, &parameter, &is_integer); ++i)
    if (parameter)
      opened.names.emplace_back(parameter, name);
  return opened;
}

Opened open_source(nb::dict source, Device &device) {
  const std::string kind = string(source, "kind"), name = string(source, "name");
  Opened opened = [&] {
    if (kind == "onnx")
      return import_onnx(string(source, "path"), source);
    const std::string_view text = content_of(source);
    const std::string folder = string(source, "folder");
    nb::gil_scoped_release released;
    return Opened{Module::parse(text, name, folder), Weights(), {}};
  }();
  add_weights(opened.weights, source["weights"], device);
  return opened;
}

std::shared_ptr<Device> open_device(nb::dict source) {
  const std::string driver = string(source, "driver"), nvrtc = string(source, "nvrtc");
  const int ordinal = nb::cast<int>(nb::object(source["device"]));
  nb::gil_scoped_release released;
  return Device::open(driver, ordinal, nvrtc);
}

/// What failed for want of a compiler names the extra that brings it.
[[noreturn]] void rethrow_with_extra(const Error &error) {
  const std::string message = error.what();
  if (message.find("NVRTC") == std::string::npos || error.code() != CUGRT_NOT_FOUND)
    throw;
  fail(error.code(), message + "; pip install 'cugrt[compile]' brings them, and a pack needs none");
}

Executable compile(Device &device, const Module &module, nb::dict source) {
  const auto settings = strings(source, "options");
  const auto list = detail::pointers(settings);
  Progress progress(source["progress"]);
  auto options = detail::sized<cugrt_compile_options>();
  options.pass_options = list.data(), options.pass_option_count = list.size();
  progress.put_into(options);
  try {
    std::optional<Executable> made;
    {
      nb::gil_scoped_release released;
      made.emplace(device.runtime(), module, &options);
    }
    progress.rethrow();
    return std::move(*made);
  } catch (const Error &error) {
    progress.rethrow();
    rethrow_with_extra(error);
  }
}

/// Of the same source as a model's, for named architectures.
void write_pack(nb::dict source, const std::string &path,
                const std::vector<std::string> &architectures, const std::string &weights_path,
                bool weights_inside) {
  const std::shared_ptr<Device> device = open_device(source);
  const Opened opened = open_source(source, *device);
  const auto settings = strings(source, "options");
  const auto list = detail::pointers(settings), wanted = detail::pointers(architectures);
  Progress progress(source["progress"]);
  auto options = detail::sized<cugrt_pack_options>();
  options.architectures = wanted.data(), options.architecture_count = wanted.size();
  options.weights_path = weights_path.empty() ? nullptr : weights_path.c_str();
  options.weights_inside = weights_inside;
  options.pass_options = list.data(), options.pass_option_count = list.size();
  progress.put_into(options);
  try {
    {
      nb::gil_scoped_release released;
      cugrt::write_pack(device->runtime(), opened.module, options, path);
    }
    progress.rethrow();
  } catch (const Error &error) {
    progress.rethrow();
    rethrow_with_extra(error);
  }
}

} // namespace

const char *kind_of(std::string_view content, const std::string &name) {
  if (content.substr(0, 8) == CUGRT_PACK_MAGIC)
    return "pack";
  if (content.substr(0, 4) == "GGUF")
    return "gguf";
  // Text opens with `cugrt 1`, perhaps behind comments.
  std::string_view rest = content;
  for (;;) {
    while (!rest.empty() && std::strchr(" \t\r\n", rest.front()))
      rest.remove_prefix(1);
    if (rest.substr(0, 2) != "//")
      break;
    const size_t line = rest.find('\n');
    rest = line == std::string_view::npos ? std::string_view() : rest.substr(line);
  }
  if (rest.substr(0, 5) == "cugrt")
    return "text";
  // ONNX is a protobuf message: its first field is the version of the format, a number.
  if (content.size() > 2 && content[0] == 8 && content[1] > 0 && content[1] < 64)
    return "onnx";
  fail(CUGRT_INVALID_ARGUMENT, name + " is none of a module's text, a pack, ONNX and GGUF");
}

void open_model(Model *self, nb::dict source) {
  Model::Source made;
  made.device = open_device(source);
  if (string(source, "kind") == "pack") {
    const std::string_view content = content_of(source);
    const std::string name = string(source, "name"), folder = string(source, "folder");
    {
      nb::gil_scoped_release released;
      made.pack.emplace(Pack::parse(std::as_bytes(std::span(content)), name, folder));
    }
    if (nb::object(source["weights"]).is_none()) {
      nb::gil_scoped_release released;
      made.weights = made.pack->weights();
    } else
      add_weights(made.weights, source["weights"], *made.device);
    Executable executable = [&] {
      nb::gil_scoped_release released;
      return Executable(made.device->runtime(), *made.pack);
    }();
    new (self) Model(std::move(made), std::move(executable));
    return;
  }
  Opened opened = open_source(source, *made.device);
  made.module.emplace(std::move(opened.module));
  made.weights = std::move(opened.weights);
  made.names = std::move(opened.names);
  Executable executable = compile(*made.device, *made.module, source);
  new (self) Model(std::move(made), std::move(executable));
}

void bind_sources(nb::module_ &module) {
  module.def("kind_of", [](nb::bytes content, const std::string &name) {
    return kind_of({content.c_str(), content.size()}, name);
  });
  module.def("write_pack", &write_pack);
  module.def("doctor", [](const std::string &nvrtc) {
    auto options = detail::sized<cugrt_runtime_options>();
    options.nvrtc_path = nvrtc.empty() ? nullptr : nvrtc.c_str();
    cugrt_text *text = nullptr;
    int32_t usable = 0;
    check(api().doctor(&options, CUGRT_REPORT_TEXT, &text, &usable));
    return nb::make_tuple(detail::take_text(text), usable != 0);
  });
}

} // namespace cugrt::python
