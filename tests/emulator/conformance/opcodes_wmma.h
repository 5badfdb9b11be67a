// Cases of wmma, which all_opcode_cases() takes in.
#pragma once

#include "opcode_case.h"

namespace cugrt::conformance {

void add_wmma_cases(OpcodeCases &cases);

} // namespace cugrt::conformance
