// The library's own host builtin for sizes that are known on the device only.
//
//   %told = host "cugrt.count"(%n) : tensor<?, u8>
//   match %told : tensor<[k, 0], u8>
//
// The run waits for what it has launched and reads the first element of %n, an i64; the result is a
// tensor without elements whose first dimension is that number.
#pragma once

#include <string_view>

namespace cugrt::ir {

inline constexpr std::string_view kCountBuiltin = "cugrt.count";

} // namespace cugrt::ir
