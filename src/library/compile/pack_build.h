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
