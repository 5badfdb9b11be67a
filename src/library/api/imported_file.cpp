// The importer's library, by its C interface of cugrt/onnx.h; see imported_file.h.
#include "library/api/imported_file.h"

#include "base/file.h"
#include "cugrt/onnx.h"
#include "device/program/symbol_binding.h"

#include <dlfcn.h>

namespace cugrt::runtime::api {

namespace {

constexpr const char *kLibrary = "libcugrt-onnx.so.0";

/// The entries that are used here, as the library exports them.
struct Importer {
  decltype(&cugrt_onnx_import) import = nullptr;
  decltype(&cugrt_onnx_message) message = nullptr;
  decltype(&cugrt_onnx_module) module = nullptr;
  decltype(&cugrt_onnx_weight) weight = nullptr;
  decltype(&cugrt_onnx_input) input = nullptr;
  decltype(&cugrt_onnx_output) output = nullptr;
  decltype(&cugrt_onnx_free) free = nullptr;
  std::string problem; // why there are none
};

/// Stays open as long as the process: its code frees what modules hold.
Importer open_importer() {
  Importer importer;
  void *library = dlopen((own_folder() + kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    importer.problem = std::string("it is an ONNX model, and ") + kLibrary +
                       ", which reads them, cannot be opened: " + (reason ? reason : "no reason");
    return importer;
  }
  auto find = [&](auto &entry, const char *name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (!entry)
      importer.problem =
          std::string(kLibrary) + " has no entry " + name + ": it is older than libcugrt.so";
  };
  find(importer.import, "cugrt_onnx_import");
  find(importer.message, "cugrt_onnx_message");
  find(importer.module, "cugrt_onnx_module");
  find(importer.weight, "cugrt_onnx_weight");
  find(importer.input, "cugrt_onnx_input");
  find(importer.output, "cugrt_onnx_output");
  find(importer.free, "cugrt_onnx_free");
  return importer;
}

Result<HostTensor> view(const cugrt_tensor &tensor,
                        const std::shared_ptr<cugrt_onnx_model> &owner) {
  HostTensor out;
  out.dtype = static_cast<ir::DType>(tensor.dtype);
  out.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  out.storage = {owner, reinterpret_cast<const char *>(static_cast<uintptr_t>(tensor.address))};
  out.is_shared = true;
  CUGRT_ASSIGN(out.size_bytes, tensor_bytes(tensor));
  return out;
}

} // namespace

bool begins_as_importable(std::string_view begin) {
  // An ONNX file is a message whose first field is number 1, a varint. Text has no such byte.
  return !begin.empty() && begin[0] == '\x08';
}

Result<ImportedModule> import_file(const char *path, const cugrt_import_options &options) {
  static const Importer importer = open_importer();
  if (!importer.problem.empty())
    return Status::error(Code::not_found, "'" + std::string(path) + "': " + importer.problem);
  cugrt_onnx_options wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.dims = options.dims, wanted.dim_count = options.dim_count;
  wanted.bounds = options.bounds, wanted.bound_count = options.bound_count;
  wanted.bind = options.bind, wanted.bind_count = options.bind_count;
  wanted.preprocess = options.preprocess, wanted.preprocess_count = options.preprocess_count;
  cugrt_onnx_model *made = nullptr;
  const cugrt_code code = importer.import(path, &wanted, &made);
  const std::shared_ptr<cugrt_onnx_model> model(made, importer.free);
  if (code != CUGRT_OK)
    return Status::error(static_cast<Code>(code), importer.message(made));

  ImportedFile file;
  const char *name = nullptr, *parameter = nullptr;
  cugrt_tensor tensor{};
  for (size_t i = 0; importer.weight(made, i, &name, &tensor); ++i) {
    CUGRT_ASSIGN(HostTensor weight, view(tensor, model));
    CUGRT_TRY(file.weights.add(name, std::move(weight)));
  }
  int32_t kind = 0;
  for (size_t i = 0; importer.input(made, i, &name, &parameter, &kind); ++i)
    if (parameter)
      file.inputs.emplace_back(name);
  for (size_t i = 0; importer.output(made, i, &name); ++i)
    file.results.emplace_back(name);
  return ImportedModule{*importer.module(made), std::move(file)};
}

} // namespace cugrt::runtime::api
