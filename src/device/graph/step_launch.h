// Evaluates one step: its variant, launch dimensions and argument values. Eager launches and graphs
// use the same values, so both do the same work.
#pragma once

#include "device/context/device.h"
#include "device/driver/kernel_module.h"
#include "device/program/run_binding.h"

namespace cugrt::runtime {

class Executable;
class LoadedCode;

/// A launch's dimensions. A launch without threads (a zero-sized tensor) is not enabled and has
/// dimensions of 1 (its cluster's, if the kernel has one), which drivers accept.
struct LaunchDims {
  driver::Dim3 grid{}, block{};
  uint32_t shared_bytes = 0;
  bool enabled = true;
  friend bool operator==(const LaunchDims &, const LaunchDims &) = default;
};

/// Returns the index in FunctionProgram::variants of the step's first variant whose predicate
/// holds. Skips a cooperative launch whose blocks are not all resident at once on the device of
/// `code` (null: not checked). If none is left, the error names the kernel and the symbols' values,
/// at the step's place.
Result<uint32_t> choose_variant(const RunBinding &run, const Executable &executable,
                                const LoadedCode *code, uint32_t step);

/// Evaluates a launch's dimensions and checks them against `limits`.
Result<LaunchDims> launch_dims(const RunBinding &run, const StepVariant &variant,
                               const DeviceLimits &limits);

/// Whether the driver can disable a node of the variant. If not, a node that is to do nothing is
/// built without the kernel, and an instance with the other state is built anew.
bool can_disable(const RunBinding &run, const StepVariant &variant);

/// Names the source of an argument's value for messages: "%b" or "q with q = 5".
std::string source_text(const RunBinding &run, const ValueSource &source);

/// Argument memory for launches, kept so that a launch allocates nothing.
struct LaunchScratch {
  std::vector<uint64_t> values;
  std::vector<void *> pointers;
};

/// Reads a condition from device memory after waiting for the stream. Context current.
Result<bool> read_condition(const RunBinding &run, const plan::Buffer &buffer,
                            driver::StreamRef stream);

/// Launches one step on the stream; does nothing for conditionals. Errors of the driver name the
/// step and its symbols. Context current.
Status launch_step(const RunBinding &run, const LoadedCode &code, uint32_t step,
                   driver::StreamRef stream, LaunchScratch &scratch);

} // namespace cugrt::runtime
