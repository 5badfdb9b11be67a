// What passes are told of the device that a module is compiled for, where the rules that choose
// among kernels depend on it.
#pragma once

#include "compiler/passes/pass.h"

#include <string_view>

namespace cugrt::runtime {

class Device;

/// Sets the options target.multiprocessors and target.compute_capability, unless they are set.
/// The capability is that of `architecture`, or of the device where that is empty. How many
/// multiprocessors there are is asked of the device; with none (null, or opened without a driver)
/// it is that of the smallest common device of a machine code's architecture, by the table
/// target_devices.def. PTX is for devices to come: of them nothing is known. What is not known
/// keeps the option's default.
Status set_target(passes::PassContext &context, const Device *device,
                  std::string_view architecture);

} // namespace cugrt::runtime
