// Runs opcode cases on a driver; writes their PTX for an assembler.
#pragma once

#include "driver.h"
#include "opcode_case.h"
#include "report.h"

#include <string>
#include <vector>

namespace cugrt::conformance {

/// Cases whose names hold `only` and that need more than the compute capability `above`. A case for
/// a newer device is left out.
std::vector<Outcome> run_opcodes(const Driver &driver, const OpcodeCases &cases,
                                 const std::string &only, int above = 0);

/// Every module of the cases, a file each, named NUMBER.sm_NN.ptx.
bool write_ptx(const OpcodeCases &cases, const std::string &folder, std::string &reason);

} // namespace cugrt::conformance
