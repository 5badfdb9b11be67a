// What modifiers an instruction has, by the PTX ISA's syntax of it: forms.def.
#pragma once

#include "emulator/exec/opcodes/opcode.h"

namespace cugrt::emulator {

/// Whether forms.def has a form for the opcode, or no form of its mnemonic.
bool is_well_formed(const Opcode &opcode);
/// Whether PTX may have forms of the mnemonic that forms.def leaves out.
bool has_more_forms(const Opcode &opcode);

} // namespace cugrt::emulator
