// Compiles one request by an open NVRTC, which anyone may hold.
#pragma once

#include "jit/compiler.h"
#include "jit/nvrtc.h"

namespace cugrt::jit {

/// The file that messages name: the request's, else the kernel's name.
std::string source_label(const CompileRequest &request);

/// The architecture in NVRTC's form: PTX is for a virtual one, a cubin for a real one.
Result<std::string> target_architecture(const CompileRequest &request);

/// Compiles for `target`, as target_architecture gives it. `cancel` may be null.
Result<CompileResult> compile_with_nvrtc(const Nvrtc &nvrtc, const CompileRequest &request,
                                         const std::string &target,
                                         const std::atomic<bool> *cancel);

} // namespace cugrt::jit
