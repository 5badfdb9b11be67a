// Freed, foreign and null handles: a real driver may crash on them, so these are for the emulated
// one.
#include "graph_builder.h"

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

const std::vector<ScriptCase> &handle_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"modules and functions that are gone",
       Kind::emulated_only,
       {{"cuModuleUnload", "CUDA_ERROR_INVALID_VALUE"},
        {"cuLaunchKernel", "CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUfunction f = s.kernel("increment");
         CUdeviceptr a = s.words(1);
         void *params[] = {&a};
         CUmodule module = s.module;
         s.module = nullptr;
         s.expect("unload", s.api.cuModuleUnload(module));
         CUresult result = s.api.cuModuleUnload(module);
         s.expect_true("again", result != CUDA_SUCCESS);
         result = s.api.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
         s.expect("launch", result, CUDA_ERROR_INVALID_HANDLE);
         s.expect("a block's shape", s.api.cuFuncSetBlockShape(f, 1, 1, 1),
                  CUDA_ERROR_INVALID_HANDLE);
         s.expect("an argument", s.api.cuParamSeti(f, 0, 1), CUDA_ERROR_INVALID_VALUE);
         s.expect("an old launch", s.api.cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
       }},
      {"a launch by what cuLaunchKernel has made void",
       Kind::emulated_only,
       {{"cuLaunch", "this state must be re-initialized prior to calling this function"}},
       [](Script &s) {
         CUfunction f = s.kernel("increment");
         CUdeviceptr a = s.words(1);
         void *params[] = {&a};
         s.need(s.api.cuFuncSetBlockShape(f, 1, 1, 1));
         s.need(s.api.cuParamSetv(f, 0, &a, sizeof a));
         s.need(s.api.cuParamSetSize(f, sizeof a));
         // Real drivers crash on these two (580 on an H100).
         s.expect("an argument before the first", s.api.cuParamSeti(f, -4, 0),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("far behind the last", s.api.cuParamSeti(f, 1 << 30, 0),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("set", s.api.cuLaunch(f));
         s.need(s.api.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
         s.expect("no longer set", s.api.cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
         s.expect("two have run", uint64_t(s.word(a)), 2);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
