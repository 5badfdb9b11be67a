// Modifiers of instructions, by the PTX ISA's syntax: forms.def.
#pragma once

#include "emulator/exec/opcodes/opcode.h"

#include <algorithm>

namespace cugrt::emulator {

// Words of forms.def and requirements.def.

/// Takes the text before `separator` off the front.
inline std::string_view take_front(std::string_view &text, char separator) {
  size_t end = std::min(text.find(separator), text.size());
  std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}
/// "L1::*" stands for any modifier that begins so, another name for itself.
inline bool stands_for(std::string_view name, std::string_view modifier) {
  return name.back() == '*' ? modifier.starts_with(name.substr(0, name.size() - 1))
                            : modifier == name;
}

/// Whether forms.def has a form for the opcode, or no form of its mnemonic.
bool is_well_formed(const Opcode &opcode);
/// Whether PTX may have forms of the mnemonic that forms.def leaves out.
bool has_more_forms(const Opcode &opcode);

} // namespace cugrt::emulator
