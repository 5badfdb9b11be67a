// Modules, kernels, single launches.
#include "device/driver/kernel_module.h"

#include "device/driver/driver_error.h"

namespace cugrt::driver {

namespace {

constexpr size_t kLoadLogBytes = 8192;
// More parameters than 32764 bytes (the largest parameter space) can hold.
constexpr size_t kMaxParams = 32768;

/// Reads a kernel's parameters; empty if the driver cannot tell.
Result<std::optional<std::vector<KernelParam>>>
read_params(const DriverApi &api, CUfunction function, const std::string &name) {
  std::optional<std::vector<KernelParam>> params;
  if (!api.FuncGetParamInfo)
    return params;
  params.emplace();
  while (params->size() < kMaxParams) {
    KernelParam param;
    CUresult result =
        api.FuncGetParamInfo(function, params->size(), &param.offset_bytes, &param.size_bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) // the index after the last parameter
      return params;
    if (classify(result) == ErrorClass::unsupported)
      return std::optional<std::vector<KernelParam>>();
    if (result != CUDA_SUCCESS)
      return driver_error(api, result, "cuFuncGetParamInfo", "kernel '" + name + "'");
    params->push_back(param);
  }
  return Status::error(Code::driver_error, "kernel '" + name + "' has too many parameters");
}

} // namespace

Status launch(StreamRef stream, const LaunchParams &params, std::string_view kernel_name) {
  CUlaunchConfig config{};
  set_shape(config, params.grid, params.block, params.dynamic_shared_bytes);
  config.hStream = stream.get();
  config.attrs = const_cast<CUlaunchAttribute *>(params.attributes.data());
  config.numAttrs = static_cast<unsigned>(params.attributes.size());
  CUGRT_DRIVER(stream.api(), LaunchKernelEx, (&config, params.function, params.arguments, nullptr),
               kernel_name);
  return {};
}

Status Kernel::check_params(std::span<const size_t> argument_bytes) const {
  if (!params_)
    return {};
  std::string prefix = "kernel '" + name_ + "': ";
  if (argument_bytes.size() != params_->size())
    return Status::error(Code::invalid_argument,
                         prefix + "declared with " + std::to_string(argument_bytes.size()) +
                             " parameters, compiled with " + std::to_string(params_->size()) +
                             "; correct the declaration");
  for (size_t i = 0; i < argument_bytes.size(); ++i)
    if (argument_bytes[i] != (*params_)[i].size_bytes)
      return Status::error(Code::invalid_argument,
                           prefix + "parameter " + std::to_string(i) + " is declared with " +
                               std::to_string(argument_bytes[i]) + " bytes, compiled with " +
                               std::to_string((*params_)[i].size_bytes) +
                               "; correct the declaration");
  return {};
}

Result<int> Kernel::attribute(CUfunction_attribute attribute) const {
  int value = 0;
  CUGRT_DRIVER(*api_, FuncGetAttribute, (&value, attribute, function_), name_);
  return value;
}

Result<int> Kernel::resident_blocks(int threads, size_t dynamic_shared_bytes) const {
  int blocks = 0;
  if (api_->OccupancyMaxActiveBlocksPerMultiprocessor)
    CUGRT_DRIVER(*api_, OccupancyMaxActiveBlocksPerMultiprocessor,
                 (&blocks, function_, threads, dynamic_shared_bytes), name_);
  return blocks;
}

Status Kernel::allow_dynamic_shared(uint32_t bytes) const {
  CUGRT_ASSIGN(int allowed, attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  if (allowed >= 0 && bytes <= static_cast<uint32_t>(allowed))
    return {};
  if (bytes > INT32_MAX)
    return Status::error(Code::out_of_range, "kernel '" + name_ + "' asks for " +
                                                 std::to_string(bytes) + " bytes of shared memory");
  CUGRT_DRIVER(
      *api_, FuncSetAttribute,
      (function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
      "kernel '" + name_ + "', " + std::to_string(bytes) + " bytes of shared memory");
  return {};
}

Status Kernel::allow_large_clusters() const {
  CUGRT_DRIVER(*api_, FuncSetAttribute,
               (function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
               "kernel '" + name_ + "', clusters of more than " +
                   std::to_string(kPortableClusterBlocks) + " blocks");
  return {};
}

Result<KernelModule> KernelModule::load(const Context &context, const std::string &image,
                                        std::string_view name) {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  std::vector<char> log(kLoadLogBytes, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log.data(), reinterpret_cast<void *>(kLoadLogBytes)};
  KernelModule loaded;
  loaded.api_ = &api;
  loaded.context_ = context.get();
  loaded.name_ = name;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  const CUresult result =
      context.is_green()
          ? api.LibraryLoadData(&library, image.c_str(), options, values, 2, nullptr, nullptr, 0)
          : api.ModuleLoadDataEx(&module, image.c_str(), 2, options, values);
  if (result != CUDA_SUCCESS) {
    std::string object = "code of '" + loaded.name_ + "'";
    log.back() = '\0';
    if (log.front())
      object += ", log: " + std::string(log.data());
    return driver_error(api, result,
                        context.is_green() ? "cuLibraryLoadData" : "cuModuleLoadDataEx", object);
  }
  if (module)
    loaded.module_ = {&api, context.get(), module};
  else
    loaded.library_ = {&api, context.get(), library};
  return loaded;
}

Result<Kernel> KernelModule::kernel(const std::string &entry) const {
  const DriverApi &api = *api_;
  CUGRT_ASSIGN(ContextGuard guard, ContextGuard::enter(api, context_));
  Kernel kernel;
  kernel.api_ = &api;
  kernel.name_ = entry;
  CUkernel in_library = nullptr;
  const CUresult result =
      library_ ? api.LibraryGetKernel(&in_library, library_.get(), entry.c_str())
               : api.ModuleGetFunction(&kernel.function_, module_.get(), entry.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return Status::error(Code::not_found, "the code of '" + name_ + "' has no kernel '" + entry +
                                              "'; declare it extern \"C\" __global__")
        .with_cuda_error(error_name(api, result));
  if (result != CUDA_SUCCESS)
    return driver_error(api, result, library_ ? "cuLibraryGetKernel" : "cuModuleGetFunction",
                        "kernel '" + entry + "'");
  if (library_)
    CUGRT_DRIVER(api, KernelGetFunction, (&kernel.function_, in_library), "kernel '" + entry + "'");
  kernel.launched_ = library_ ? reinterpret_cast<CUfunction>(in_library) : kernel.function_;
  CUGRT_ASSIGN(kernel.params_, read_params(api, kernel.function_, entry));
  return kernel;
}

Result<KernelModule::Global> KernelModule::global(const std::string &name) const {
  const DriverApi &api = *api_;
  CUGRT_ASSIGN(ContextGuard guard, ContextGuard::enter(api, context_));
  CUdeviceptr address = 0;
  size_t size_bytes = 0;
  const CUresult result =
      library_ ? api.LibraryGetGlobal(&address, &size_bytes, library_.get(), name.c_str())
               : api.ModuleGetGlobal(&address, &size_bytes, module_.get(), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return Status::error(Code::not_found,
                         "the code of '" + name_ + "' has no global variable '" + name + "'")
        .with_cuda_error(error_name(api, result));
  if (result != CUDA_SUCCESS)
    return driver_error(api, result, library_ ? "cuLibraryGetGlobal" : "cuModuleGetGlobal",
                        "variable '" + name + "'");
  return Global{address, size_bytes};
}

} // namespace cugrt::driver
