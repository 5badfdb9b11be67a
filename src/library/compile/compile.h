// Makes an executable or a pack from a module or a plan: compiles kernels, or takes them from the
// code cache.
#pragma once

#include "device/code/executable.h"
#include "device/context/doctor.h"
#include "device/pack/pack.h"
#include "jit/compiler.h"
#include "library/compile/module_plan.h"

#include <functional>
#include <map>

namespace cugrt::runtime {

/// Code that replaces the code that the module names for a kernel.
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

/// A module that was parsed and verified.
struct ModuleSource {
  const ir::Module &module;
  const std::string &name;        // of its file, in messages
  const std::string &base_folder; // of the sources that it names
};

/// Passes, compilation and the executable.
Result<std::shared_ptr<const Executable>> compile_module(Device &device, const ModuleSource &source,
                                                         PlanningOptions planning,
                                                         const CompileOptions &compile);

/// The compiler's and cache's part of DeviceOptions, for a driver of that version; 0: any.
jit::CompilerConfig compiler_config(const std::string &nvrtc_path, const std::string &cache_folder,
                                    int driver_version = 0);
/// The device's compiler; it is made when it is first asked for. Any thread.
jit::Compiler &compiler_of(Device &device);

/// Examines driver, compiler and cache for the doctor; opens the compiler if its version and
/// architectures are not remembered.
DoctorReport examine(const DeviceOptions &options);

struct PackOptions {
  PlanningOptions planning;
  std::vector<std::string> architectures; // "sm_87": cubins; "compute_75": PTX
  std::string weights_path;               // a safetensors file; empty: `weights`, or none
  const WeightSet *weights = nullptr;     // they go inside
  bool weights_inside = false;            // else the pack names the file, and its digest
  unsigned threads = 0;
  bool names = false;                             // of steps, in the notes (step_operations.h)
  std::map<uint32_t, std::string> names_of_lines; // what the module's file calls them
  /// As for one compilation; counts go through all architectures.
  std::function<void(const jit::CompileProgress &)> progress;
  const volatile int32_t *cancel = nullptr;
};

/// Plans and compiles for every architecture named, and writes the pack to `path`, whole or not at
/// all. `name` and `base_folder` are the module's. Checks that the weights fit the module's
/// functions. Weights are read in their file's pages.
Status build_pack(Device &device, const ir::Module &module, const std::string &name,
                  const std::string &base_folder, const PackOptions &options,
                  const std::string &path);

} // namespace cugrt::runtime
