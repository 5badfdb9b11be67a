// Modules: loads and unloads them, and finds their parts.
#include "emulator/driver/code/jit_options.h"
#include "emulator/driver/code/module.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

static CUresult load_text(Driver &driver, CUmodule *out, std::string_view ptx,
                          const JitOptions &jit) {
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  Ref<Module> module;
  CUGRT_EMU_TRY(
      load_module(driver, ptx, {.max_registers = jit.max_registers}, context, lock, &module));
  *out = module->handle;
  return CUDA_SUCCESS;
}

static CUresult load(Driver &driver, CUmodule *out, const void *image, unsigned count,
                     CUjit_option *options, void **values) {
  JitOptions jit;
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(read_options(count, options, values, &jit));
  std::string_view ptx;
  CUresult result = image_text(driver, image, &ptx);
  if (result == CUDA_SUCCESS)
    result = load_text(driver, out, ptx, jit);
  write_logs(jit, result == CUDA_SUCCESS ? std::string() : driver.message());
  return result;
}

CALL(cuModuleLoadDataEx, out, image, count, options, values) {
  return load(driver, out, image, count, options, values);
}

CALL(cuModuleLoadFatBinary, out, image) { return load(driver, out, image, 0, nullptr, nullptr); }

CALL(cuModuleLoad, out, path) {
  if (!out || !path)
    return CUDA_ERROR_INVALID_VALUE;
  std::string image;
  CUGRT_EMU_TRY(read_image(path, &image));
  std::string_view ptx;
  CUGRT_EMU_TRY(image_text(driver, image.c_str(), &ptx));
  // A linked image may be wrong about its own length.
  return load_text(driver, out, ptx.substr(0, image.size()), {});
}

LOCKED_CALL(cuModuleUnload, handle) {
  Ref<Module> module = driver.modules.find(handle);
  if (!module || module->of_library)
    return CUDA_ERROR_INVALID_HANDLE;
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  std::vector<TaskPtr> tasks = pending_work(driver, *module->context);
  driver.modules.erase(handle);
  for (auto &[name, function] : module->functions)
    driver.functions.erase(function);
  std::erase(module->context->modules, module);
  lock.unlock();
  wait_all(driver,
           tasks); // "Unloads a module hmod from the current context": its code is not running
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuModuleGetFunction, out, handle, name) {
  if (!out || !name)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_NEED(Module, module, driver.modules.find(handle), CUDA_ERROR_INVALID_HANDLE);
  CUGRT_EMU_FIND(Function, function, find_function, driver, module, name);
  *out = function->handle;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuModuleGetFunctionCount, count, handle) {
  CUGRT_EMU_NEED(Module, module, driver.modules.find(handle), CUDA_ERROR_INVALID_HANDLE);
  return give(count, unsigned(module->program->kernels().size()));
}

LOCKED_CALL(cuModuleEnumerateFunctions, out, count, handle) {
  CUGRT_EMU_NEED(Module, module, driver.modules.find(handle), CUDA_ERROR_INVALID_HANDLE);
  if (!out || !count)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned i = 0;
  for (const KernelInfo *info : module->program->kernels()) {
    if (i == count)
      break;
    CUGRT_EMU_FIND(Function, function, find_function, driver, module, info->name);
    out[i++] = function->handle;
  }
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuModuleGetGlobal_v2, out, bytes, handle, name) {
  CUGRT_EMU_NEED(Module, module, driver.modules.find(handle), CUDA_ERROR_INVALID_HANDLE);
  // "One of dptr or bytes (but not both) can be NULL in which case it is ignored."
  if (!name || (!out && !bytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::optional<GlobalInfo> global = module->program->find_global(name);
  if (!global)
    return CUDA_ERROR_NOT_FOUND;
  if (out)
    *out = global->address;
  if (bytes)
    *bytes = global->bytes;
  return CUDA_SUCCESS;
}

CALL(cuModuleGetLoadingMode, mode) { return give(mode, CU_MODULE_EAGER_LOADING); }

} // namespace cugrt::emulator::api
