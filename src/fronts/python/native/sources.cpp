#include "model.h"

#include "errors.h"
#include "progress.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

namespace cugrt::python {

namespace {

/// A module with its weights, before it is compiled.
struct Opened {
  std::shared_ptr<const Module> module;
  Weights weights;
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

/// A Python array that holds weights. The thread that frees them may hold a lock that the GIL's
/// owner waits for, so it does not wait for the GIL: it leaves the array to the interpreter.
struct WeightArray {
  GivenArray array;
  WeightArray *next = nullptr;

  static std::atomic<WeightArray *> left; // a stack
  static int drop_left(void *) {
    for (WeightArray *one = left.exchange(nullptr); one;)
      delete std::exchange(one, one->next);
    return 0;
  }
  static void leave(WeightArray *one) {
    one->next = left.load();
    while (!left.compare_exchange_weak(one->next, one)) {
    }
    if (Py_IsInitialized()) // one that finds no place is dropped with the next
      Py_AddPendingCall(drop_left, nullptr);
  }
};
std::atomic<WeightArray *> WeightArray::left;

} // namespace

void add_weights(Weights &weights, nb::object given, Device &device) {
  if (given.is_none())
    return;
  if (nb::isinstance<nb::str>(given)) {
    weights = Weights::load(nb::cast<std::string>(given));
    return;
  }
  for (auto [key, value] : nb::cast<nb::dict>(given)) {
    const std::string name = nb::cast<std::string>(nb::handle(key));
    const Subject what = {"weight", name};
    const std::shared_ptr<WeightArray> kept(new WeightArray, WeightArray::leave);
    GivenArray &array = kept->array;
    array.take(value.ptr(), what, device, nullptr, false);
    if (!array.host())
      fail(CUGRT_INVALID_ARGUMENT,
           std::string(what) + " is on a device; weights are given as arrays of the host");
    const cugrt_tensor &tensor = array.tensor();
    weights.add_shared(name, array.host(), static_cast<cugrt_dtype>(tensor.dtype),
                       {tensor.dims, tensor.rank}, kept);
  }
}

namespace {

Opened import_onnx(nb::dict source) {
  const std::string path = string(source, "path");
  const ImportOptions options{strings(source, "dims"), strings(source, "bounds"),
                              strings(source, "bind"), strings(source, "preprocess")};
  nb::gil_scoped_release released;
  auto module = std::make_shared<const Module>(Module::load(path, options));
  Weights weights = module->weights();
  return {std::move(module), std::move(weights)};
}

/// A module that was linked: cugrt.Module keeps it, since text has neither the weights nor the
/// files' names of inputs.
struct Linked {
  std::shared_ptr<const Module> module;
};

Opened open_source(nb::dict source, Device &device) {
  const std::string kind = string(source, "kind"), name = string(source, "name");
  Opened opened = [&] {
    if (kind == "onnx")
      return import_onnx(source);
    if (kind == "linked") {
      const auto module = nb::cast<const Linked &>(nb::object(source["content"])).module;
      return Opened{module, module->weights()};
    }
    const std::string_view text = content_of(source);
    const std::string folder = string(source, "folder");
    nb::gil_scoped_release released;
    return Opened{std::make_shared<const Module>(Module::parse(text, name, folder)), Weights()};
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

/// Names the extra with the compiler in errors of a missing compiler.
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
    Executable made = without_gil([&] { return Executable(device.runtime(), module, &options); });
    progress.rethrow();
    return made;
  } catch (const Error &error) {
    progress.rethrow();
    rethrow_with_extra(error);
  }
}

/// Writes a pack of the same source as a model's, for named architectures.
void write_pack(nb::dict source, const std::string &path,
                const std::vector<std::string> &architectures, const std::string &weights_path,
                bool weights_inside, bool names) {
  const std::shared_ptr<Device> device = open_device(source);
  const Opened opened = open_source(source, *device);
  const auto settings = strings(source, "options");
  const auto list = detail::pointers(settings), wanted = detail::pointers(architectures);
  Progress progress(source["progress"]);
  auto options = detail::sized<cugrt_pack_options>();
  options.architectures = wanted.data(), options.architecture_count = wanted.size();
  if (!weights_path.empty())
    options.weights_path = weights_path.c_str();
  else if (opened.weights.count() > 0)
    options.weights = opened.weights.get();
  options.weights_inside = weights_inside;
  options.names = names;
  options.pass_options = list.data(), options.pass_option_count = list.size();
  progress.put_into(options);
  try {
    without_gil([&] { cugrt::write_pack(device->runtime(), *opened.module, options, path); });
    progress.rethrow();
  } catch (const Error &error) {
    progress.rethrow();
    rethrow_with_extra(error);
  }
}

/// Modules as one. `parts`: names and sources, as of a model; `connect`: PART.INPUT and
/// PART.RESULT.
Linked link(const std::vector<std::pair<std::string, nb::dict>> &parts,
            const std::vector<std::pair<std::string, std::string>> &connect) {
  std::vector<Opened> opened;
  for (const auto &[name, source] : parts)
    opened.push_back(open_source(source, *open_device(source)));
  std::vector<LinkPart> linked;
  for (size_t i = 0; i < parts.size(); ++i)
    linked.push_back({parts[i].first, *opened[i].module, &opened[i].weights});
  nb::gil_scoped_release released;
  return {std::make_shared<const Module>(Module::link(linked, connect))};
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
  if (content.substr(0, 4) == "PK\x03\x04")
    fail(CUGRT_INVALID_ARGUMENT, name + " is a zip archive, as torch.export saves programs: "
                                        "cugrt.from_exported takes what torch.export.load reads");
  if (rest.substr(0, 1) == "{")
    fail(CUGRT_INVALID_ARGUMENT, name + " is JSON, as TVM saves Relax modules: cugrt.from_relax "
                                        "takes what tvm.ir.load_json reads");
  fail(CUGRT_INVALID_ARGUMENT, name + " is none of a module's text, a pack, ONNX and GGUF");
}

void open_model(Model *self, nb::dict source) {
  Model::Source made;
  made.device = open_device(source);
  if (const nb::object group = source["group"]; !group.is_none()) {
    made.group = nb::cast<std::shared_ptr<SharedDevice>>(group);
    const auto multiprocessors = nb::cast<uint32_t>(nb::object(source["multiprocessors"]));
    nb::gil_scoped_release released;
    made.device = Device::part(made.group->device, multiprocessors);
  }
  if (made.group) {
    made.exclusive = string(source, "exclusive");
    made.priority = nb::cast<int32_t>(nb::object(source["priority"]));
    made.wait = nb::cast<int32_t>(nb::object(source["wait"]));
    made.deadline_us = nb::cast<uint64_t>(nb::object(source["deadline_us"]));
    made.missed = source["missed"];
  }
  if (string(source, "kind") == "pack") {
    const std::string_view content = content_of(source);
    const std::string name = string(source, "name"), folder = string(source, "folder");
    made.pack =
        without_gil([&] { return Pack::parse(std::as_bytes(std::span(content)), name, folder); });
    Weights weights;
    if (nb::object(source["weights"]).is_none())
      weights = without_gil([&] { return made.pack->weights(); });
    else
      add_weights(weights, source["weights"], *made.device);
    made.weights = std::make_shared<const Weights>(std::move(weights));
    Executable executable =
        without_gil([&] { return Executable(made.device->runtime(), *made.pack); });
    new (self) Model(std::move(made), std::move(executable));
    return;
  }
  Opened opened = open_source(source, *made.device);
  made.module = opened.module;
  made.weights = std::make_shared<const Weights>(std::move(opened.weights));
  made.input_names = made.module->input_names();
  made.result_names = made.module->result_names();
  Executable executable = compile(*made.device, *made.module, source);
  new (self) Model(std::move(made), std::move(executable));
}

void bind_sources(nb::module_ &module) {
  module.def("kind_of", [](nb::bytes content, const std::string &name) {
    return kind_of({content.c_str(), content.size()}, name);
  });
  nb::class_<Linked>(module, "Linked").def_prop_ro("text", [](const Linked &linked) {
    return linked.module->print();
  });
  module.def("link", &link);
  module.def("verify", [](const std::string &text) {
    nb::gil_scoped_release released;
    Module::parse(text);
  });
  module.def("run_passes", [](const std::string &text, const std::vector<std::string> &passes,
                              const std::vector<std::string> &options) {
    nb::gil_scoped_release released;
    return Module::parse(text).run_passes(passes, options).print();
  });
  module.def("write_pack", &write_pack);
  module.def("save_weights", [](nb::object given, const std::string &path) {
    const std::shared_ptr<Device> device = Device::open("none", 0, "");
    Weights weights;
    add_weights(weights, given, *device);
    nb::gil_scoped_release released;
    weights.save(path);
  });
  module.def("own_dtype", [](const std::string &name) { return own_name(dtype_from_name(name)); });
  module.def("doctor", [](const std::string &nvrtc) {
    auto options = detail::sized<cugrt_runtime_options>();
    options.nvrtc_path = nvrtc.empty() ? nullptr : nvrtc.c_str();
    cugrt_text *text = nullptr;
    int32_t usable = 0;
    check(api().doctor(&options, CUGRT_REPORT_TEXT, &text, &usable));
    return nb::make_tuple(shown(detail::take_text(text)), usable != 0);
  });
}

} // namespace cugrt::python
