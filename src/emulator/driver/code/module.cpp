// Loads PTX text, and resolves its names; see module.h.
#include "emulator/driver/code/module.h"

#include "base/file.h"
#include "base/on_throw.h"
#include "emulator/decode/link.h"
#include "emulator/driver/memory/heap.h"

#include <cstring>

namespace cugrt::emulator::api {

constexpr size_t kMaxImageBytes = size_t(1) << 30;

static CUresult load_error(Code code) {
  switch (code) {
  case Code::out_of_device_memory:
  case Code::out_of_host_memory:
    return CUDA_ERROR_OUT_OF_MEMORY;
  case Code::unsupported:
    return CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_PTX;
  }
}

// PTX is text that ends with a NUL. First bytes distinguish other images.
CUresult image_text(Driver &driver, const void *image, std::string_view *out) {
  if (!image)
    return CUDA_ERROR_INVALID_VALUE;
  const char *text = static_cast<const char *>(image);
  // Text may be shorter than these: strncmp reads no further than to the first difference.
  auto begins = [&](std::string_view magic) {
    return std::strncmp(text, magic.data(), magic.size()) == 0;
  };
  if (begins(kLinkedMagic)) {
    *out = {text, linked_image_bytes({text, 2 * kLinkedMagic.size()})};
    return CUDA_SUCCESS;
  }
  bool elf = begins("\x7f"
                    "ELF");
  bool fat = begins("\x50\xed\x55\xba");
  if (elf || fat) {
    driver.report(Check::refused, std::string(elf ? "a cubin" : "a fat binary") +
                                      " cannot run on the emulated device: pass PTX instead");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  size_t bytes = strnlen(text, kMaxImageBytes);
  if (bytes == kMaxImageBytes)
    return CUDA_ERROR_INVALID_IMAGE;
  *out = std::string_view(text, bytes);
  if (out->find(".version") == std::string_view::npos) {
    driver.set_message("the image is no PTX: it has no .version");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}

CUresult read_image(const char *path, std::string *out) {
  auto bytes = cugrt::read_file(path, kMaxImageBytes);
  if (!bytes.ok())
    return CUDA_ERROR_FILE_NOT_FOUND;
  *out = std::move(bytes).value();
  out->resize(std::max(out->size(), 2 * kLinkedMagic.size())); // image_text reads that far
  return CUDA_SUCCESS;
}

CUresult parse_program(Driver &driver, std::string_view ptx, const LoadOptions &options,
                       std::unique_ptr<Program> *out) {
  auto program = Program::load(ptx, *driver.config.profile, *driver.memory, options);
  if (!program.ok()) {
    driver.report(Check::refused, program.status().to_string());
    return load_error(program.status().code());
  }
  *out = std::move(program).value();
  return CUDA_SUCCESS;
}

static Ref<Module> add_module(Driver &driver, std::unique_ptr<Program> program,
                              const Ref<Context> &context) {
  auto module = std::make_shared<Module>();
  module->program = std::move(program);
  module->context = context;
  driver.modules.insert(module, [&] { context->modules.push_back(module); });
  return module;
}

CUresult load_module(Driver &driver, std::string_view ptx, const LoadOptions &options,
                     const Ref<Context> &context, Lock &lock, Ref<Module> *out) {
  std::unique_ptr<Program> program;
  lock.unlock();
  CUresult result = parse_program(driver, ptx, options, &program);
  lock.lock();
  CUGRT_EMU_TRY(result);
  if (!driver.contexts.find(context->handle)) // destroyed meanwhile
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  CUGRT_EMU_TRY(open_heap_for(driver, *context, *program));
  *out = add_module(driver, std::move(program), context);
  return CUDA_SUCCESS;
}

CUresult find_function(Driver &driver, const Ref<Module> &module, const std::string &name,
                       Ref<Function> *out) {
  auto made = module->functions.find(name);
  if (made != module->functions.end()) {
    *out = driver.functions.find(made->second);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  const KernelInfo *info = module->program->find_kernel(name);
  if (!info)
    return CUDA_ERROR_NOT_FOUND;
  auto function = std::make_shared<Function>();
  function->module = module;
  function->info = info;
  function->context = module->context;
  // Without opting in, static and dynamic shared memory share the ordinary limit.
  int limit = driver.config.profile->max_shared_bytes_per_block;
  function->max_dynamic_shared_bytes = std::max(0, limit - int(info->static_shared_bytes));
  auto entry = module->functions.try_emplace(name, nullptr).first;
  const OnThrow undo([&] { module->functions.erase(entry); });
  entry->second = driver.functions.insert(function);
  *out = function;
  return CUDA_SUCCESS;
}

CUresult load_library(Driver &driver, Library &library, const Ref<Context> &context,
                      Ref<Module> *out) {
  auto loaded = library.modules.find(context.get());
  if (loaded != library.modules.end()) {
    *out = loaded->second;
    return CUDA_SUCCESS;
  }
  std::unique_ptr<Program> program;
  CUGRT_EMU_TRY(
      parse_program(driver, library.ptx, {.max_registers = library.max_registers}, &program));
  CUGRT_EMU_TRY(open_heap_for(driver, *context, *program));
  auto entry = library.modules.try_emplace(context.get()).first;
  const OnThrow undo([&] { library.modules.erase(entry); });
  entry->second = add_module(driver, std::move(program), context);
  *out = entry->second;
  (*out)->of_library = true;
  return CUDA_SUCCESS;
}

CUresult load_kernel(Driver &driver, const Kernel &kernel, const Ref<Context> &context,
                     Ref<Function> *out) {
  CUGRT_EMU_FIND(Module, module, load_library, driver, *kernel.library, context);
  return find_function(driver, module, kernel.name, out);
}

} // namespace cugrt::emulator::api
