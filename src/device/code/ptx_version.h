// The version of the PTX ISA that code is written in, and the driver that it takes.
#pragma once

#include <string>
#include <string_view>

namespace cugrt::runtime {

/// 90 for PTX whose .version is 9.0; 0 where the text names none. NVRTC writes its own version, so
/// a driver that is older than the compiler refuses the PTX.
int ptx_version(std::string_view ptx);
/// The oldest driver that takes PTX of this version, as cuDriverGetVersion counts: 13000 for 90;
/// 0 where that is not known.
int driver_of_ptx(int version);
/// "PTX 9.0, for drivers of CUDA 13.0 and newer".
std::string ptx_version_text(int version);

} // namespace cugrt::runtime
