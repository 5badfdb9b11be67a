// The least .target and .version for a module's instructions: requirements.def.
#pragma once

#include "emulator/exec/opcodes/opcode.h"

#include <string>
#include <string_view>

namespace cugrt::emulator {

/// One way to meet a requirement: target 80 is sm_80, version 70 is 7.0; 0: any.
struct Requirement {
  int target = 0, version = 0;
  bool is_met(int module_target, int module_version) const {
    return module_target >= target && module_version >= version;
  }
};

/// The missing requirement of the instruction, in words, for a module for sm_`target` of `version`;
/// empty if there is none.
std::string lacking(const Opcode &opcode, size_t operands, int target, int version);
/// The same for a special register.
std::string lacking_for_register(std::string_view name, int target, int version);

} // namespace cugrt::emulator
