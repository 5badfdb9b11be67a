// From a plan to an executable: its kernels are compiled, or taken from the code cache.
#pragma once

#include "device/code/executable.h"
#include "jit/compiler.h"

#include <functional>
#include <map>

namespace cugrt::runtime {

/// Code for a kernel in place of what the module names.
struct CodeOverride {
  cugrt_code_kind kind = CUGRT_CODE_SOURCE;
  std::string bytes;
};

struct CompileOptions {
  std::string architecture; // "sm_90", or "compute_90" for PTX; empty: the device's
  unsigned threads = 0;
  std::function<void(const jit::CompileProgress &)> progress;
  const volatile int32_t *cancel = nullptr;
  std::map<std::string, CodeOverride> overrides; // by kernel
  /// The kind of code is the architecture's, even where the device is the emulated one, which runs
  /// only PTX: for code that goes to other machines.
  bool for_other_machines = false;
};

/// Compiles every kernel of the plan: to cubins for a real device, to PTX for the emulated one.
/// `module_name` stands for the module in messages; source paths are relative to `base_folder`.
Result<std::shared_ptr<const Executable>> compile_executable(Device &device, plan::Plan plan,
                                                             std::string module_name,
                                                             const std::string &base_folder,
                                                             const CompileOptions &options);
/// How many compilations that takes, those that the cache answers among them.
Result<size_t> count_compilations(Device &device, plan::Plan plan, std::string module_name,
                                  const std::string &base_folder, const CompileOptions &options);

/// Whether this NVRTC makes machine code of kernels that set conditions of graphs.
bool links_conditions(int nvrtc_major, int nvrtc_minor);

} // namespace cugrt::runtime
