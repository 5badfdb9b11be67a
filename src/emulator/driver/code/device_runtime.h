// The toolkit's device runtime, libcudadevrt.a: an archive of machine code that programs link with
// for barriers of the whole grid. What is linked here in its place is PTX with the functions for
// those. Those that launch kernels from kernels are not there: a link that names one misses it.
#pragma once

#include <string_view>

namespace cugrt::emulator::api {

bool is_device_runtime(std::string_view archive);
std::string_view device_runtime_ptx();

} // namespace cugrt::emulator::api
