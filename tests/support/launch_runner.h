// Runs a kernel-level function on the emulated device's execution core, one launch after the other:
// no planner, no driver, no graphs. What is compared is kernels, their launch rules and their
// arguments.
//
// Every tensor lies in an allocation of exactly its bytes, poisoned, so that a byte not written and
// an access beyond the end both show.
#pragma once

#include "emulator/decode/program.h"
#include "ir/module/module.h"
#include "jit/compiler.h"
#include "support/reference_ops.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cugrt::test {

class LaunchRunner {
public:
  /// `profile` is a row of the emulated devices, such as "sm_90".
  explicit LaunchRunner(std::string_view profile = "sm_90");
  ~LaunchRunner();

  /// `inputs` are the function's tensor parameters, in order. The body may hold allocations, views,
  /// aliases, constants and launches. Symbols get their values from the inputs' dimensions. Values
  /// are rounded to the parameters' dtypes (plain ones).
  Result<std::vector<Array>> run(const ir::Module &module, const ir::Function &function,
                                 std::span<const Array> inputs);

  struct Counters {
    uint32_t launches = 0, empty_grids = 0, compilations = 0;
    std::vector<std::string> entries; // launched, in order
    uint64_t lane_operations = 0;     // of all launches
  };
  const Counters &counters() const { return counters_; }

private:
  struct Run;
  Result<const emulator::KernelInfo *> load(const ir::Kernel &kernel, const std::string &entry,
                                            const emulator::Program *&program);

  emulator::DeviceProfile profile_;
  std::unique_ptr<emulator::AddressSpace> memory_;
  jit::Compiler compiler_;
  std::map<std::string, std::unique_ptr<emulator::Program>> programs_; // by source and options
  Counters counters_;
};

/// The bytes of `array` in `dtype` (plain), values rounded, and back. The values of a block format
/// are the bytes themselves.
std::string encode(ir::DType dtype, const Array &array);
std::vector<double> decode(ir::DType dtype, std::string_view bytes);

} // namespace cugrt::test
