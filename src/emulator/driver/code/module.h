// Modules, libraries and kernels: loads PTX and finds its parts.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

/// Loads PTX text into the context; its handle is live. The message says why not. Needs the lock
/// and gives it up while it parses.
CUresult load_module(Driver &driver, std::string_view ptx, const LoadOptions &options,
                     const Ref<Context> &context, Lock &lock, Ref<Module> *out);
/// The text of an image: PTX, or what cuLinkComplete made; the refusal of anything else. A linked
/// image is believed its length.
CUresult image_text(Driver &driver, const void *image, std::string_view *out);
/// A file's bytes; FILE_NOT_FOUND when they cannot be read. They end with enough NULs to be looked
/// at as an image.
CUresult read_image(const char *path, std::string *out);
/// Loads PTX or a linked image for the device; the message says why not. The lock is not needed.
CUresult parse_program(Driver &driver, std::string_view ptx, const LoadOptions &options,
                       std::unique_ptr<Program> *out);
/// The module's function of that name; made on the first request.
CUresult find_function(Driver &driver, const Ref<Module> &module, const std::string &name,
                       Ref<Function> *out);
/// The function of a library's kernel in a context. Parses under the lock when it is the first use.
CUresult load_kernel(Driver &driver, const Kernel &kernel, const Ref<Context> &context,
                     Ref<Function> *out);
/// The library's module in a context, loaded on first use.
CUresult load_library(Driver &driver, Library &library, const Ref<Context> &context,
                      Ref<Module> *out);

/// register_count.cpp: whether a block's threads have registers, which PTX alone does not tell.
/// False when so many need more than a multiprocessor has. Where it could be, the module is given
/// to ptxas (of PATH, or /usr/local/cuda/bin), once; where there is none, or it does not take the
/// module, the block is taken to fit. Needs the lock.
bool has_registers(Driver &driver, Module &module, const KernelInfo &kernel, uint32_t threads);

/// device_runtime.cpp: the toolkit's device runtime, libcudadevrt.a, an archive of machine code
/// that programs link with for barriers of the whole grid. In its place PTX with the functions for
/// those is linked. Those that launch kernels from kernels are not there: a link that names one
/// misses it.
bool is_device_runtime(std::string_view archive);
std::string_view device_runtime_ptx();

} // namespace cugrt::emulator::api
