// The compiler and the code cache of a device.
#pragma once

#include "device/context/doctor.h"
#include "jit/compiler.h"

namespace cugrt::runtime {

/// What DeviceOptions say of them, for a driver of that version; 0: any.
jit::CompilerConfig compiler_config(const std::string &nvrtc_path, const std::string &cache_folder,
                                    int driver_version = 0);
/// The device's; it is made when it is first asked for. Any thread.
jit::Compiler &compiler_of(Device &device);

/// What the doctor finds of driver, compiler and cache; opens the compiler where its version and
/// architectures are not remembered.
DoctorReport examine(const DeviceOptions &options);

} // namespace cugrt::runtime
