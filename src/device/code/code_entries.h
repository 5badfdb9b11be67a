// Reads the kernels of compiled code from the code itself. Packs are checked with it where no
// driver can load the code.
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

/// Reads PTX text or a cubin (an ELF file of CUDA's). Nothing for any other form, which only a
/// driver can judge.
std::optional<std::vector<CodeEntry>> read_code_entries(std::string_view image, bool cubin);

/// Bytes of each argument that a launch passes.
std::vector<size_t> argument_bytes(const FunctionProgram &program, const StepVariant &variant);

/// Checks that every kernel of the plan is in its code and that every launch passes the kernel's
/// parameters. The error names the kernel and the code's own parameters.
Status check_code(const Executable &executable);

} // namespace cugrt::runtime
