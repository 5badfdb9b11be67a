// Runs a kernel-level function on a LaunchDevice, one launch after the other: no planner, no
// graphs. What is compared is kernels, their launch rules and their arguments.
//
// Every tensor lies in an allocation of its bytes, poisoned.
#pragma once

#include "ir/module/module.h"
#include "jit/compiler.h"
#include "support/launch_device.h"
#include "support/reference_ops.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cugrt::test {

class LaunchRunner {
public:
  /// `profile`: see open_launch_device.
  explicit LaunchRunner(std::string_view profile = "sm_90");
  ~LaunchRunner();

  /// `inputs` are the function's tensor parameters, in order. The body may hold allocations, views,
  /// aliases, constants, reads and launches. Symbols get their values from the inputs' dimensions.
  /// Values are rounded to the parameters' dtypes (plain ones).
  Result<std::vector<Array>> run(const ir::Module &module, const ir::Function &function,
                                 std::span<const Array> inputs);

  struct Counters {
    uint32_t launches = 0, empty_grids = 0, compilations = 0;
    std::vector<std::string> entries; // launched, in order
    std::string out_of_bounds;        // the checked symbol that a kernel told of last
    uint64_t lane_operations = 0;     // of all launches, where the device counts them
    uint64_t state_bytes = 0;         // that were made zeros
  };
  const Counters &counters() const { return counters_; }

private:
  struct Run;
  /// The number of the kernel's code on the device.
  Result<size_t> load(const ir::Kernel &kernel);

  std::unique_ptr<LaunchDevice> device_;
  jit::Compiler compiler_;
  std::map<std::string, size_t> codes_; // by source and options
  Counters counters_;
};

/// The bytes of `array` in `dtype` (plain), values rounded, and back. The values of a block format
/// are the bytes themselves.
std::string encode(ir::DType dtype, const Array &array);
std::vector<double> decode(ir::DType dtype, std::string_view bytes);

} // namespace cugrt::test
