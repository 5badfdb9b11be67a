// Libraries and kernels: code that belongs to no context until it is used in one.
#include "base/on_throw.h"
#include "emulator/driver/code/jit_options.h"
#include "emulator/driver/code/launch.h"
#include "emulator/driver/code/module.h"

namespace cugrt::emulator::api {

// The kernels' names are found by loading the text once, for no context.
static CUresult list_kernels(Driver &driver, const Ref<Library> &library) {
  std::unique_ptr<Program> program;
  CUGRT_EMU_TRY(parse_program(driver, library->ptx, {}, &program));
  for (const KernelInfo *info : program->kernels()) {
    auto kernel = std::make_shared<Kernel>();
    kernel->library = library.get();
    kernel->name = info->name;
    CUkernel &handle = library->kernels[info->name];
    handle = driver.kernels.insert(kernel);
  }
  return CUDA_SUCCESS;
}

static void forget_kernels(Driver &driver, const Library &library) {
  for (auto &[name, kernel] : library.kernels)
    driver.kernels.erase(kernel);
}

// `bytes`: at most so many of the image are there to read.
static CUresult load(Driver &driver, CUlibrary *out, const void *code, size_t bytes,
                     const JitOptions &jit) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  std::string_view ptx;
  CUGRT_EMU_TRY(image_text(driver, code, &ptx));
  auto library = std::make_shared<Library>();
  library->ptx = ptx.substr(0, bytes); // the caller may free its copy
  library->max_registers = jit.max_registers;
  Lock lock(driver.mutex);
  const OnThrow undo([&] { forget_kernels(driver, *library); });
  CUGRT_EMU_TRY(list_kernels(driver, library));
  *out = driver.libraries.insert(library);
  return CUDA_SUCCESS;
}

static CUresult load(Driver &driver, CUlibrary *out, const void *code, size_t bytes, unsigned count,
                     CUjit_option *options, void **values) {
  JitOptions jit;
  CUGRT_EMU_TRY(read_options(count, options, values, &jit));
  CUresult result = load(driver, out, code, bytes, jit);
  write_logs(jit, result == CUDA_SUCCESS ? std::string() : driver.message());
  return result;
}

// Body gets the driver and the kernel's function in the current context, with the lock held.
template <class Body> static CUresult kernel_call(CUkernel handle, CUdevice device, Body &&body) {
  return device_call(device, [&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    CUGRT_EMU_NEED(Kernel, kernel, driver.kernels.find(handle), CUDA_ERROR_INVALID_HANDLE);
    CUGRT_EMU_FIND(Context, context, current_context, driver);
    CUGRT_EMU_FIND(Function, function, load_kernel, driver, *kernel, context);
    return body(driver, function);
  });
}
constexpr CUdevice device = 0; // of calls that name none
#define KERNEL_CALL(...)                                                                           \
  GUARDED(kernel_call(handle, device, body), (Driver & driver, const Ref<Function> &function),     \
          __VA_ARGS__)

CALL(cuLibraryLoadData, out, code, jit_options, jit_values, jit_count, options, values, count) {
  if (count && !options)
    return CUDA_ERROR_INVALID_VALUE;
  return load(driver, out, code, SIZE_MAX, jit_count, jit_options, jit_values);
}

CALL(cuLibraryLoadFromFile, out, path, jit_options, jit_values, jit_count, options, values, count) {
  if (!out || !path || (count && !options))
    return CUDA_ERROR_INVALID_VALUE;
  std::string image;
  CUGRT_EMU_TRY(read_image(path, &image));
  return load(driver, out, image.c_str(), image.size(), jit_count, jit_options, jit_values);
}

LOCKED_CALL(cuLibraryUnload, handle) {
  CUGRT_EMU_NEED(Library, library, driver.libraries.find(handle), CUDA_ERROR_INVALID_HANDLE);
  std::vector<TaskPtr> tasks;
  for (auto &[context, module] : library->modules)
    for (TaskPtr &task : pending_work(driver, *context))
      tasks.push_back(std::move(task));
  driver.libraries.erase(handle);
  forget_kernels(driver, *library);
  for (auto &[context, module] : library->modules) {
    driver.modules.erase(module->handle);
    for (auto &[name, function] : module->functions)
      driver.functions.erase(function);
    std::erase(context->modules, module);
  }
  library->modules.clear();
  lock.unlock();
  wait_all(driver, tasks);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuLibraryGetKernel, out, handle, name) {
  if (!out || !name)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_NEED(Library, library, driver.libraries.find(handle), CUDA_ERROR_INVALID_HANDLE);
  auto kernel = library->kernels.find(name);
  if (kernel == library->kernels.end())
    return CUDA_ERROR_NOT_FOUND;
  *out = kernel->second;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuLibraryGetKernelCount, count, handle) {
  CUGRT_EMU_NEED(Library, library, driver.libraries.find(handle), CUDA_ERROR_INVALID_HANDLE);
  return give(count, unsigned(library->kernels.size()));
}

LOCKED_CALL(cuLibraryEnumerateKernels, out, count, handle) {
  Ref<Library> library = driver.libraries.find(handle);
  if (!library || !out || !count)
    return library ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  unsigned i = 0;
  for (auto &[name, kernel] : library->kernels)
    if (i < count)
      out[i++] = kernel;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuLibraryGetModule, out, handle) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_NEED(Library, library, driver.libraries.find(handle), CUDA_ERROR_INVALID_HANDLE);
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  CUGRT_EMU_FIND(Module, module, load_library, driver, *library, context);
  *out = module->handle;
  return CUDA_SUCCESS;
}

static CUresult get_global(CUdeviceptr *out, size_t *bytes, CUlibrary handle, const char *name,
                           bool managed_only) {
  return call([&](Driver &driver) -> CUresult {
    if (!name || (!out && !bytes))
      return CUDA_ERROR_INVALID_VALUE;
    Lock lock(driver.mutex);
    CUGRT_EMU_NEED(Library, library, driver.libraries.find(handle), CUDA_ERROR_INVALID_HANDLE);
    CUGRT_EMU_FIND(Context, context, current_context, driver);
    CUGRT_EMU_FIND(Module, module, load_library, driver, *library, context);
    std::optional<GlobalInfo> global = module->program->find_global(name);
    if (!global || (managed_only && !global->managed))
      return CUDA_ERROR_NOT_FOUND;
    if (out)
      *out = global->address;
    if (bytes)
      *bytes = global->bytes;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuLibraryGetGlobal, out, bytes, library, name) {
  return get_global(out, bytes, library, name, false);
}

ENTRY(cuLibraryGetManaged, out, bytes, library, name) {
  return get_global(out, bytes, library, name, true);
}

// PTX that has unified functions is refused.
CALL(cuLibraryGetUnifiedFunction, out, handle, name) {
  if (!name || !out)
    return CUDA_ERROR_INVALID_VALUE;
  return driver.libraries.find(handle) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

KERNEL_CALL(cuKernelGetFunction, out, handle) { return give(out, function->handle); }

LOCKED_CALL(cuKernelGetLibrary, out, handle) {
  CUGRT_EMU_NEED(Kernel, kernel, driver.kernels.find(handle), CUDA_ERROR_INVALID_HANDLE);
  return give(out, kernel->library->handle);
}

LOCKED_CALL(cuKernelGetName, out, handle) {
  CUGRT_EMU_NEED(Kernel, kernel, driver.kernels.find(handle), CUDA_ERROR_INVALID_HANDLE);
  return give(out, kernel->name.c_str()); // lives as long as the library
}

KERNEL_CALL(cuKernelGetAttribute, value, attribute, handle, device) {
  return get_function_attribute(driver, *function, attribute, value);
}

KERNEL_CALL(cuKernelSetAttribute, attribute, value, handle, device) {
  return set_function_attribute(driver, *function, attribute, value);
}

KERNEL_CALL(cuKernelSetCacheConfig, handle, config, device) {
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

KERNEL_CALL(cuKernelGetParamInfo, handle, index, offset, bytes) {
  return get_param_info(*function, index, offset, bytes);
}

KERNEL_CALL(cuKernelGetParamCount, handle, out) { return get_param_count(*function, out); }

} // namespace cugrt::emulator::api
