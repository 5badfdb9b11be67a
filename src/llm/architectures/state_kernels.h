// The kernels that read and write a decoder's state, as text of the module that it is built into.
#pragma once

#include "ir/type/dtype.h"

#include <string>

namespace cugrt::llm {

/// A module with what begins and ends a step, and @embedding_blocks for a table of `table`, where
/// it reads such and gives elements of `dtype`.
std::string state_kernels(ir::DType dtype, ir::DType table);

} // namespace cugrt::llm
