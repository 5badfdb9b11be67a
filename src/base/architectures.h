// Architectures that code is made for, by the table src/base/architectures.def.
#pragma once

#include "base/status.h"

#include <span>
#include <string>
#include <string_view>

namespace cugrt::jit {

/// "sm_90a": machine code for one architecture; "compute_75": PTX for it and those after it.
struct Architecture {
  bool real = true; // sm_, not compute_
  int number = 0;   // 75, 90, ...
  char suffix = 0;  // 'a': features of one architecture; 'f': of its family; 0: none
  friend bool operator==(const Architecture &, const Architecture &) = default;
};

/// invalid_argument for text that is no architecture, unsupported for one that the table lacks.
Result<Architecture> parse_architecture(std::string_view text);
/// Inverse of parse_architecture().
std::string architecture_text(const Architecture &architecture);
/// Whether a device of this number can load the code: machine code on its own architecture, PTX
/// also on newer ones, unless a suffix ties it to one architecture or family.
bool runs_on(const Architecture &code, int device);
/// Architecture to compile for, on a device of this number: "sm_90" if table and compiler have it,
/// else PTX of the newest architecture below that both have: "compute_103" for 105. `compiler`: the
/// numbers that the compiler knows; empty: all. unsupported for a device older than all.
Result<std::string> architecture_for(int device, std::span<const int> compiler = {});
/// Whether there may be an NVRTC of CUDA 12 or 13 that does not compile for this device, so that it
/// must be asked.
bool must_ask_compiler(int device);
/// "sm_75, sm_80, ...", for messages.
std::string known_architectures();
/// Whether the table has the text after "sm_" or "compute_", as "90a".
bool is_known_architecture(std::string_view number);

} // namespace cugrt::jit
