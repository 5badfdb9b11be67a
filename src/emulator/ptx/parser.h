// PTX text to ptx::Module. Hostile text gives an error with its line, never a crash: nesting,
// counts and sizes are bounded, and the parser's result is linear in the length of the text.
#pragma once

#include "base/status.h"
#include "emulator/ptx/module.h"

#include <memory>
#include <string_view>

namespace cugrt::emulator::ptx {

inline constexpr size_t kMaxTextBytes = size_t(256) << 20;
inline constexpr int kMaxVersion = 99; // .version up to 9.x
inline constexpr int kMaxScopeDepth = 64;
inline constexpr uint64_t kMaxVariableBytes = uint64_t(1) << 40;
/// Operands of one instruction, elements included: a call may have 4,096 arguments.
inline constexpr uint32_t kMaxOperands = 8192;

/// parse_error with "ptx line N" for malformed text.
Result<std::unique_ptr<Module>> parse(std::string_view text);

} // namespace cugrt::emulator::ptx
