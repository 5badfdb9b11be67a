// From a module to a pack: planned and compiled for every architecture named.
#pragma once

#include "device/pack/pack.h"
#include "library/compile/compile.h"
#include "library/compile/module_plan.h"

namespace cugrt::runtime {

struct PackOptions {
  PlanningOptions planning;
  std::vector<std::string> architectures; // "sm_87": cubins; "compute_75": PTX
  std::string weights_path;               // a safetensors file; empty: none
  bool weights_inside = false;            // else the pack names the file, and its digest
  unsigned threads = 0;
  bool names = false;                             // of steps, in the notes (step_names.h)
  std::map<uint32_t, std::string> names_of_lines; // what the module's file calls them
  /// As that of one compilation: counts go through all architectures.
  std::function<void(const jit::CompileProgress &)> progress;
  const volatile int32_t *cancel = nullptr;
};

/// Writes the pack to `path`, whole or not at all. `name` and `base_folder` are the module's.
/// Checks that the weights have what the module's functions want. Weights are read in their file's
/// pages.
Status build_pack(Device &device, const ir::Module &module, const std::string &name,
                  const std::string &base_folder, const PackOptions &options,
                  const std::string &path);

} // namespace cugrt::runtime
