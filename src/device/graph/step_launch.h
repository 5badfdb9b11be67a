// One step, evaluated: which variant, launch dimensions, argument values. The eager path launches
// them as they come; graphs are built from the same values, so that both do the same work.
#pragma once

#include "device/context/device.h"
#include "device/driver/kernel_module.h"
#include "device/program/run_binding.h"

namespace cugrt::runtime {

class Executable;
class LoadedCode;

/// What a launch has beside its arguments. A launch without threads (a zero-sized tensor) is not
/// enabled and has dimensions of 1 (a cluster's, where the kernel has one), which drivers accept.
struct LaunchDims {
  driver::Dim3 grid{}, block{};
  uint32_t shared_bytes = 0;
  bool enabled = true;
  friend bool operator==(const LaunchDims &, const LaunchDims &) = default;
};

/// The step's variant whose predicate holds first: an index into FunctionProgram::variants. One
/// that is launched cooperatively gives way to those behind it where not all its blocks are
/// resident at once on the device of `code` (null: not asked). An error names the kernel and the
/// symbols' values when there is none, and has the step's place.
Result<uint32_t> choose_variant(const RunBinding &run, const Executable &executable,
                                const LoadedCode *code, uint32_t step);

/// Evaluated and checked against `limits`.
Result<LaunchDims> launch_dims(const RunBinding &run, const StepVariant &variant,
                               const DeviceLimits &limits);

/// Whether the driver disables a node of the variant; where not, one that is to do nothing is built
/// without the kernel, and an instance that has it otherwise is built anew.
bool can_disable(const RunBinding &run, const StepVariant &variant);

/// "%b" or "q with q = 5": where an argument's value comes from; for messages.
std::string source_text(const RunBinding &run, const ValueSource &source);

/// Argument memory for launches; kept between them, so that a launch allocates nothing.
struct LaunchScratch {
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
};

/// What a condition in device memory says, after waiting for the stream. Context current.
Result<bool> read_condition(const RunBinding &run, const plan::Buffer &buffer,
                            driver::StreamRef stream);

/// Launches one step on the stream; of those of conditionals nothing. What the driver refuses names
/// the step and its symbols. Context current.
Status launch_step(const RunBinding &run, const LoadedCode &code, uint32_t step,
                   driver::StreamRef stream, LaunchScratch &scratch);

} // namespace cugrt::runtime
