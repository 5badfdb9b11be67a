// The x86-64 level of the processor that this runs on: the driver chooses its inner loops by it,
// and a build for this machine alone is made for it.
#pragma once

namespace cugrt::emulator {

/// 2, 3 or 4.
inline int machine_level() {
  __builtin_cpu_init();
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
            __builtin_cpu_supports("f16c");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return v4 ? 4 : v3 ? 3 : 2;
}

} // namespace cugrt::emulator
