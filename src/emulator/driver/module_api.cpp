// Modules: loading, unloading, and what is in them. JIT options: the log buffers are filled in.
#include "emulator/driver/module.h"
#include "support/file.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

namespace {

struct JitLogs {
  char *error = nullptr, *info = nullptr;
  size_t error_bytes = 0, info_bytes = 0;
  void **error_bytes_out = nullptr, **info_bytes_out = nullptr;
};

// Buffer sizes are passed in the option's value, cast to a pointer, and come back as bytes filled
// in.
CUresult read_options(unsigned count, CUjit_option *options, void **values, JitLogs *logs) {
  if (count && (!options || !values))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
    case CU_JIT_ERROR_LOG_BUFFER:
      logs->error = static_cast<char *>(values[i]);
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      logs->error_bytes_out = &values[i];
      logs->error_bytes = reinterpret_cast<uintptr_t>(values[i]) & UINT32_MAX;
      break;
    case CU_JIT_INFO_LOG_BUFFER:
      logs->info = static_cast<char *>(values[i]);
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      logs->info_bytes_out = &values[i];
      logs->info_bytes = reinterpret_cast<uintptr_t>(values[i]) & UINT32_MAX;
      break;
    case CU_JIT_WALL_TIME: { // a float, in milliseconds: nothing here predicts a time
      float none = 0;
      std::memcpy(&values[i], &none, sizeof none);
      break;
    }
    default:
      if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

void write_log(char *buffer, size_t bytes, void **bytes_out, const std::string &text) {
  size_t length = buffer && bytes ? std::min(text.size(), bytes - 1) : 0;
  if (buffer && bytes) {
    std::memcpy(buffer, text.data(), length);
    buffer[length] = 0;
  }
  if (bytes_out)
    *bytes_out = reinterpret_cast<void *>(uintptr_t(length));
}

CUresult load_text(Driver &driver, CUmodule *out, std::string_view ptx) {
  Lock lock(driver.mutex);
  Ref<Context> context;
  CUGRT_EMU_TRY(current_context(driver, &context));
  Ref<Module> module;
  CUGRT_EMU_TRY(load_module(driver, ptx, context, lock, &module));
  *out = module->handle;
  return CUDA_SUCCESS;
}

CUresult load(Driver &driver, CUmodule *out, const void *image, unsigned count,
              CUjit_option *options, void **values) {
  JitLogs logs;
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(read_options(count, options, values, &logs));
  std::string_view ptx;
  CUresult result = image_text(driver, image, &ptx);
  if (result == CUDA_SUCCESS)
    result = load_text(driver, out, ptx);
  write_log(logs.error, logs.error_bytes, logs.error_bytes_out,
            result == CUDA_SUCCESS ? std::string() : driver.message());
  write_log(logs.info, logs.info_bytes, logs.info_bytes_out, {});
  return result;
}

} // namespace

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image) {
  return call([&](Driver &driver) { return load(driver, out, image, 0, nullptr, nullptr); });
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                    CUjit_option *options, void **values) {
  return call([&](Driver &driver) { return load(driver, out, image, count, options, values); });
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *out, const void *image) {
  return call([&](Driver &driver) { return load(driver, out, image, 0, nullptr, nullptr); });
}

CUresult CUDAAPI cuModuleLoad(CUmodule *out, const char *path) {
  return call([&](Driver &driver) -> CUresult {
    if (!out || !path)
      return CUDA_ERROR_INVALID_VALUE;
    auto bytes = cugrt::read_file(path, size_t(1) << 30);
    if (!bytes.ok())
      return CUDA_ERROR_FILE_NOT_FOUND;
    std::string text = std::move(bytes).value();
    text.resize(std::max<size_t>(text.size(), 4)); // image_text looks at four bytes
    std::string_view ptx;
    CUGRT_EMU_TRY(image_text(driver, text.c_str(), &ptx));
    return load_text(driver, out, ptx);
  });
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  return call([&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    Ref<Module> module = driver.modules.find(handle);
    if (!module || module->of_library)
      return CUDA_ERROR_INVALID_HANDLE;
    std::vector<TaskPtr> tasks = pending_work(driver, *module->context);
    driver.modules.erase(handle);
    for (auto &[name, function] : module->functions)
      driver.functions.erase(function);
    std::erase(module->context->modules, module);
    lock.unlock();
    wait_all(driver,
             tasks); // "Unloads a module hmod from the current context": its code is not running
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
  return call([&](Driver &driver) -> CUresult {
    if (!out || !name)
      return CUDA_ERROR_INVALID_VALUE;
    Lock lock(driver.mutex);
    Ref<Module> module = driver.modules.find(handle);
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
    Ref<Function> function;
    CUGRT_EMU_TRY(find_function(driver, module, name, &function));
    *out = function->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule handle) {
  return call([&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    Ref<Module> module = driver.modules.find(handle);
    if (!module || !count)
      return module ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *count = unsigned(module->program->kernels().size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *out, unsigned int count, CUmodule handle) {
  return call([&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    Ref<Module> module = driver.modules.find(handle);
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !count)
      return CUDA_ERROR_INVALID_VALUE;
    unsigned i = 0;
    for (const KernelInfo *info : module->program->kernels()) {
      if (i == count)
        break;
      Ref<Function> function;
      CUGRT_EMU_TRY(find_function(driver, module, info->name, &function));
      out[i++] = function->handle;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule handle,
                                      const char *name) {
  return call([&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    Ref<Module> module = driver.modules.find(handle);
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
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
  });
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  return call([&](Driver &) -> CUresult {
    if (!mode)
      return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}
