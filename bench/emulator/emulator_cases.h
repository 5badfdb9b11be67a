// The kernels that `bench emulator` runs: the library's own, compiled to PTX, on made-up data whose
// results are checked against double precision. Sizes, entries and blocks follow the rules that
// src/ops/ gives these kernels.
#pragma once

#include "emulator/decode/program.h"
#include "jit/compiler.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cugrt::bench {

/// A kernel with its arguments in device memory, to be launched any number of times.
struct EmulatorCase {
  std::string name;
  std::string ptx;
  std::unique_ptr<emulator::Program> program;
  const emulator::KernelInfo *kernel = nullptr;
  emulator::LaunchConfig config; // without params
  std::vector<std::byte> params;
  double multiply_adds = 0; // of one launch; 0: not a measure of this kernel
  /// What is wrong with the results, or nothing.
  std::function<std::string()> check;

  Status launch(uint32_t max_threads, emulator::ExecutionCounters *counters) const;
  /// On one thread, with what the driver's checks want of a launch: its accesses, and its races and
  /// uses of what was never written, which are errors. Any of them.
  struct Checks {
    bool record = false, races = false, undefined = false;
  };
  Status launch_checked(const Checks &checks) const;
};

/// All cases, compiled and loaded into `memory`, which must outlive them.
Result<std::vector<EmulatorCase>> emulator_cases(jit::Compiler &compiler,
                                                 const emulator::DeviceProfile &profile,
                                                 emulator::AddressSpace &memory);

/// A loop of fma, add and setp on registers: what the machine gives a kernel that does nothing
/// else.
Result<EmulatorCase> calibration_case(const emulator::DeviceProfile &profile,
                                      emulator::AddressSpace &memory);

} // namespace cugrt::bench
