// The steps from text to executable; a run's are in Session::run().
//
// Steps 1 and 2 come before, in ir::parse_and_verify(): a module is parsed once and may be compiled
// for several targets. What holds after each step stands behind it.

#include "library/compile/compile.h"
#include "library/compile/module_plan.h"

namespace cugrt::runtime {

Result<std::shared_ptr<const Executable>> compile_module(Device &device, const ModuleSource &source,
                                                         PlanningOptions planning,
                                                         const CompileOptions &compile) {
  // 1. Parse: every error of the text is reported with its place.
  // 2. Verify: each value and each symbol has one definition, types agree, symbols have bounds.

  // 3. Passes: ops have become launches of kernels, all tensors with known bounds lie in storages.
  //    The planner makes the plan from that: regions with their edges, offsets in the arenas, what
  //    each node depends on.
  CUGRT_TRY(set_target(planning.passes, &device, compile.architecture));
  CUGRT_ASSIGN(plan::Plan plan, plan_module(source.module, source.name, planning, nullptr));

  // Beyond this point there is no IR: only the plan is needed, as a pack holds it.

  // 4. Compile: each kernel has code for the architecture, from the cache or the compiler.
  // 5. Executable: plan, code and the program of each function; nothing changes it any more, and
  //    threads share it.
  return compile_executable(device, std::move(plan), source.name, source.base_folder, compile);
}

} // namespace cugrt::runtime
