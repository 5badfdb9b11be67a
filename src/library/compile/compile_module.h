// The way in: from a module's text to an executable.
#pragma once

#include "library/compile/compile.h"
#include "library/compile/module_plan.h"

namespace cugrt::runtime {

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

} // namespace cugrt::runtime
