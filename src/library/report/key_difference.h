// What differs between two keys of a function: for each region the nodes whose fields are not the
// same, which is what an instance that goes from one key to the other is patched by.
#pragma once

#include "cugrt/cugrt.h"
#include "device/code/executable.h"

namespace cugrt::runtime {

/// Text or JSON. Every symbol of the function's keys must be given on both sides. Addresses are
/// left out, but for how far into their storage they are.
Result<std::string> key_difference(const Executable &executable, uint32_t function,
                                   std::span<const cugrt_symbol_value> from,
                                   std::span<const cugrt_symbol_value> to,
                                   cugrt_report_format format);

} // namespace cugrt::runtime
