// The kernels of compiled code, read off the code itself: what a pack is checked with where there
// is no driver to load it.
#pragma once

#include "device/code/executable.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::runtime {

struct CodeEntry {
  std::string name;                                 // as compiled: mangled unless extern "C"
  std::optional<std::vector<uint32_t>> param_bytes; // nothing where the code does not tell
};

/// Of PTX text or of a cubin (an ELF file of CUDA's). Nothing for any other form, which only a
/// driver can judge.
std::optional<std::vector<CodeEntry>> read_code_entries(std::string_view image, bool cubin);

/// Bytes of each argument that a launch passes.
std::vector<size_t> argument_bytes(const FunctionProgram &program, const StepVariant &variant);

/// Every kernel of the plan is in its code, and every launch passes what that is compiled with. The
/// error names the kernel and what its code has.
Status check_code(const Executable &executable);

} // namespace cugrt::runtime
